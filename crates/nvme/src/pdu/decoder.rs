//! Takes a connection's bytes in any split and yields its PDUs: a [`Scanner`] and a buffer.
//!
//! Bytes are read straight into [`Decoder::space`]; a PDU is yielded, borrowed, when all of it is there. The buffer
//! starts small, and never gets longer than the longest PDU allowed, twice.

use super::header::{Digests, Sender};
use super::scanner::{Frame, Limits, Scanner};
use super::term::Fatal;

/// Where the buffer starts. Enough for the first exchange.
const BUFFER_BYTES_MIN: usize = 256;

/// Where the buffer goes when the connection is open: a queue full of small commands in one read.
const BUFFER_BYTES_OPEN: usize = 16 << 10;

/// See the file's head.
#[derive(Debug)]
pub struct Decoder {
    scanner: Scanner,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Decoder {
    /// A decoder of what `sender` sends on a new connection.
    pub fn new(sender: Sender, limits: Limits) -> Self {
        let scanner = Scanner::new(sender, limits);
        Decoder { scanner, buffer: vec![0; BUFFER_BYTES_MIN], start: 0, end: 0 }
    }

    /// The first exchange has agreed on `digests`. They hold for all PDUs not yet yielded.
    pub fn agreed(&mut self, digests: Digests) {
        self.scanner.agreed(digests);
    }

    /// Room to read into; then say [`filled`](Self::filled). It is not empty, and there is room for the rest of a PDU
    /// that has begun, if [`next_frame`](Self::next_frame) was asked before until it had no more.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let pdu = self.scanner.pdu_bytes().unwrap_or(0);
        let missing = pdu.saturating_sub(self.end - self.start).max(1);
        if self.buffer.len() - self.end < missing {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let least = if self.scanner.is_open() { BUFFER_BYTES_OPEN } else { BUFFER_BYTES_MIN };
        // Twice the PDU, so that the one behind it is read with it.
        let wanted = if self.buffer.len() - self.end < missing { 2 * pdu } else { 0 };
        if self.buffer.len() < wanted.max(least) {
            self.buffer.resize(wanted.max(least), 0);
        }
        &mut self.buffer[self.end..]
    }

    /// `bytes` more were put into [`space`](Self::space).
    pub fn filled(&mut self, bytes: usize) {
        assert!(bytes <= self.buffer.len() - self.end, "more bytes than there was room for");
        self.end += bytes;
    }

    /// Copies `bytes` in, as much as there is room for, and says how much that was.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let space = self.space();
        let taken = bytes.len().min(space.len());
        space[..taken].copy_from_slice(&bytes[..taken]);
        self.filled(taken);
        taken
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The next PDU, or `None` until more bytes are there. After an error the connection is of no more use.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, Fatal> {
        let frame = self.scanner.scan(&self.buffer[self.start..self.end])?;
        if let Some(frame) = &frame {
            self.start += frame.bytes.len();
        }
        Ok(frame)
    }
}
