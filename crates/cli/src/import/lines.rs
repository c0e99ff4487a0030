//! Lines of bounded length.

use std::io::BufRead;

/// The longest line, and the longest CSV record, for values of up to so many bytes: JSON writes a control
/// character as six bytes, and there is space for other columns.
pub fn longest_line(value_bytes: usize) -> usize {
    6 * value_bytes + (1 << 20)
}

/// What came.
#[derive(PartialEq, Eq, Debug)]
pub enum Line {
    /// A line, its newline included if it had one.
    Whole,
    /// A line longer than allowed. It was passed over.
    TooLong,
    /// No more lines.
    End,
}

/// Reads lines and counts them. A byte-order mark at the very beginning is dropped.
pub struct Lines<R> {
    input: R,
    limit: usize,
    number: u64,
    bytes_read: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `input`, none of them longer than `limit` bytes.
    pub fn with_limit(input: R, limit: usize) -> Self {
        Lines { input, limit, number: 0, bytes_read: 0 }
    }

    /// The number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The longest line.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Reads the next line into `line`, replacing what is there. An interrupted read is an error, not
    /// tried again: the caller may have been asked to stop.
    pub fn next(&mut self, line: &mut Vec<u8>) -> std::io::Result<Line> {
        line.clear();
        let mut any = false;
        let mut too_long = false;
        loop {
            let available = self.input.fill_buf()?;
            if available.is_empty() {
                break;
            }
            any = true;
            let newline = available.iter().position(|&byte| byte == b'\n');
            let len = newline.map_or(available.len(), |at| at + 1);
            too_long |= line.len() + len > self.limit;
            if too_long {
                line.clear();
            } else {
                line.extend_from_slice(&available[..len]);
            }
            self.input.consume(len);
            self.bytes_read += len as u64;
            if newline.is_some() {
                break;
            }
        }
        if !any {
            return Ok(Line::End);
        }
        self.number += 1;
        if self.number == 1 && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        Ok(if too_long { Line::TooLong } else { Line::Whole })
    }
}

/// Splits a line from its end: nothing, LF or CR LF.
pub fn split_end(line: &[u8]) -> (&[u8], &[u8]) {
    let text =
        line.strip_suffix(b"\n").map_or(line, |text| text.strip_suffix(b"\r").unwrap_or(text));
    line.split_at(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], limit: usize) -> Vec<(u64, Option<Vec<u8>>)> {
        // A buffer of three bytes, so that lines come in pieces.
        let input = std::io::BufReader::with_capacity(3, text);
        let mut lines = Lines::with_limit(input, limit);
        let mut line = Vec::new();
        let mut out = Vec::new();
        loop {
            match lines.next(&mut line).unwrap() {
                Line::End => return out,
                Line::TooLong => out.push((lines.number(), None)),
                Line::Whole => out.push((lines.number(), Some(split_end(&line).0.to_vec()))),
            }
        }
    }

    #[test]
    fn every_kind_of_line_end_is_taken_off() {
        let expected =
            [(1, Some(b"one".to_vec())), (2, Some(vec![])), (3, Some(b"t\rwo".to_vec()))];
        assert_eq!(read(b"one\r\n\nt\rwo", 100), expected);
    }

    #[test]
    fn a_line_beyond_the_limit_is_passed_over_whole() {
        let expected = [(1, Some(b"ok".to_vec())), (2, None), (3, Some(b"fine".to_vec()))];
        assert_eq!(read(b"ok\nmuch too long\nfine\n", 6), expected);
    }

    #[test]
    fn a_byte_order_mark_is_dropped_only_at_the_beginning() {
        let text = "\u{feff}a\n\u{feff}b";
        let expected = [(1, Some(b"a".to_vec())), (2, Some("\u{feff}b".as_bytes().to_vec()))];
        assert_eq!(read(text.as_bytes(), 100), expected);
    }
}
