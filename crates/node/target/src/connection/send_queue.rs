//! Bytes to be sent: PDUs are built into one text, and data is put between without a copy. What a socket takes at once is
//! [shown](Output::unsent) to it where it is; only what it did not take is [given away](Output::take_unsent), to be sent as the socket has
//! space. Meanwhile nothing else is sent, and what comes goes out together in the next send.

use crate::limits::{OUTPUT_BYTES, SEND_BYTES, SEND_PARTS};
use esker_uring::{Buffer, Slice};
use std::collections::VecDeque;
use std::io::IoSlice;

/// What a part takes in addition to its bytes, about.
const PART_BYTES: usize = 128;

/// The memory for text that is kept when there is none.
const TEXT_BYTES: usize = 64 << 10;

#[derive(Default)]
pub(super) struct Output {
    /// All text that is not sent, behind some that is.
    text: Vec<u8>,
    /// Where in `text` that begins, and how much of it belongs to parts.
    text_start: usize,
    text_bytes: usize,
    /// In order; behind them is the rest of the text.
    parts: VecDeque<Part>,
    /// Bytes of the first part that were sent.
    begun: usize,
    /// The memory of what is to be sent and of what is in progress.
    held: usize,
    /// Of that, the memory for which none was reserved.
    unreserved: usize,
    /// Bytes sent so far.
    sent: usize,
    under_way: Option<UnderWay>,
}

enum Part {
    /// The next so many bytes of the text.
    Text(usize),
    /// Data, and the reserved memory that it is counted in.
    Data(Slice, usize),
}

/// What was given away, to be freed when it was sent.
#[derive(Default)]
struct UnderWay {
    held: usize,
    unreserved: usize,
    bytes: usize,
    reserved: usize,
}

impl Part {
    fn bytes(&self) -> usize {
        match self {
            Part::Text(bytes) => *bytes,
            Part::Data(data, _) => data.len(),
        }
    }

    fn held(&self) -> usize {
        PART_BYTES
            + match self {
                Part::Text(bytes) => *bytes,
                // A little of a large buffer holds all of it.
                Part::Data(data, _) => data.buffer_bytes(),
            }
    }

    fn unreserved(&self) -> usize {
        if self.reserved() == 0 { self.held() } else { 0 }
    }

    fn reserved(&self) -> usize {
        match self {
            Part::Text(_) => 0,
            Part::Data(_, reserved) => *reserved,
        }
    }
}

impl Output {
    /// Where to build PDUs.
    pub(super) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Puts data behind what was built so far; `reserved` is given back when it was sent.
    pub(super) fn data(&mut self, data: Slice, reserved: usize) {
        self.end_text();
        self.push(Part::Data(data, reserved));
    }

    fn end_text(&mut self) {
        let bytes = self.text.len() - self.text_start - self.text_bytes;
        if bytes > 0 {
            self.text_bytes += bytes;
            self.push(Part::Text(bytes));
        }
    }

    fn push(&mut self, part: Part) {
        self.held += part.held();
        self.unreserved += part.unreserved();
        self.parts.push_back(part);
    }

    /// What may be sent now: nothing while something is in progress. Then say [`sent`](Self::sent).
    pub(super) fn unsent(&mut self) -> Vec<IoSlice<'_>> {
        if self.under_way.is_some() {
            return Vec::new();
        }
        self.end_text();
        let (mut text, mut begun) = (&self.text[self.text_start..], self.begun);
        let bytes = |part| {
            let bytes = match part {
                &Part::Text(bytes) => text.split_off(..bytes).unwrap_or_default(),
                Part::Data(data, _) => &data[..],
            };
            IoSlice::new(&bytes[std::mem::take(&mut begun)..])
        };
        self.parts.iter().take(SEND_PARTS).map(bytes).collect()
    }

    /// So many bytes of it were sent. Says how much reserved memory that frees.
    pub(super) fn sent(&mut self, bytes: usize) -> usize {
        self.sent += bytes;
        let (mut released, mut bytes) = (0, self.begun + bytes);
        while self.parts.front().is_some_and(|part| part.bytes() <= bytes)
            && let Some(part) = self.parts.pop_front()
        {
            bytes -= part.bytes();
            self.held -= part.held();
            self.unreserved -= part.unreserved();
            released += part.reserved();
            self.forget_text(&part);
        }
        self.begun = bytes;
        released
    }

    /// The text of a part that is not to be sent any more.
    fn forget_text(&mut self, part: &Part) {
        if let Part::Text(bytes) = *part {
            self.text_start += bytes;
            self.text_bytes -= bytes;
        }
        if self.text_start == self.text.len() {
            self.text.clear();
            self.text.shrink_to(TEXT_BYTES);
            self.text_start = 0;
            if self.parts.is_empty() {
                self.parts.shrink_to(SEND_PARTS);
            }
        } else if self.text_start > TEXT_BYTES.max(self.text.len() / 2) {
            self.text.drain(..std::mem::take(&mut self.text_start));
        }
    }

    /// Gives away what [`unsent`](Self::unsent) shows. It is in progress until all of it [was sent](Self::rest_sent).
    pub(super) fn take_unsent(&mut self) -> Vec<Slice> {
        self.end_text();
        let mut under_way = UnderWay::default();
        let mut slices = Vec::new();
        for _ in 0..SEND_PARTS {
            let Some(part) = self.parts.pop_front() else { break };
            under_way.held += part.held();
            under_way.unreserved += part.unreserved();
            under_way.reserved += part.reserved();
            let begun = std::mem::take(&mut self.begun);
            under_way.bytes += part.bytes() - begun;
            slices.push(match part {
                Part::Text(bytes) => {
                    let text = &self.text[self.text_start..][begun..bytes];
                    let slice = Buffer::from_slice(text).whole();
                    self.forget_text(&part);
                    slice
                }
                Part::Data(data, _) => {
                    let range = data.range();
                    data.into_buffer().slice(range.start + begun..range.end)
                }
            });
        }
        self.under_way = Some(under_way);
        slices
    }

    /// All that was given away was sent. Says how much reserved memory that frees.
    pub(super) fn rest_sent(&mut self) -> usize {
        let UnderWay { held, unreserved, bytes, reserved } =
            self.under_way.take().unwrap_or_default();
        self.held -= held;
        self.unreserved -= unreserved;
        self.sent += bytes;
        reserved
    }

    /// Memory of what is to be sent for which none was reserved.
    pub(super) fn unreserved_bytes(&self) -> usize {
        self.unreserved + self.text.len() - self.text_start - self.text_bytes
    }

    /// Bytes sent so far, and how many the system has been given and has not sent, if there is
    /// anything to send.
    pub(super) fn progress(&self) -> Option<(usize, usize)> {
        let given = self.under_way.as_ref().map_or(0, |under_way| under_way.bytes);
        (!self.is_empty()).then_some((self.sent, given))
    }

    /// Memory of what is not sent.
    pub(super) fn held_bytes(&self) -> usize {
        self.held
    }

    /// Whether the peer leaves so much unread that nothing more is to be answered.
    pub(super) fn is_full(&self) -> bool {
        self.held + self.text.len() - self.text_start - self.text_bytes >= OUTPUT_BYTES
    }

    /// Whether there is enough to be sent before more is answered. While something is in progress more may be answered, for it would have to
    /// wait.
    pub(super) fn is_enough(&self) -> bool {
        self.held >= SEND_BYTES && self.under_way.is_none()
    }

    /// Whether all was sent.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_none() && self.parts.is_empty() && self.text.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = 1 << 20;

    /// What would be sent now.
    fn shown(output: &mut Output) -> Vec<u8> {
        output.unsent().iter().flat_map(|part| part.to_vec()).collect()
    }

    #[test]
    fn it_is_full_until_enough_was_sent() {
        let mut output = Output::default();
        for _ in 0..OUTPUT_BYTES / PIECE {
            assert!(!output.is_full());
            output.data(Buffer::zeroed(PIECE).whole(), 7);
        }
        assert!(output.is_full());
        assert_eq!(output.sent(PIECE - 1), 0);
        assert!(output.is_full(), "no part is sent whole");
        assert_eq!(output.sent(1), 7);
        assert!(!output.is_full());
        output.data(Buffer::zeroed(PIECE).whole(), 7);
        assert_eq!(output.progress(), Some((PIECE, 0)));
        assert_eq!(output.take_unsent().len(), OUTPUT_BYTES / PIECE);
        assert_eq!(output.progress(), Some((PIECE, OUTPUT_BYTES)), "the system has it");
        assert!(output.is_full(), "what is under way is still there");
        assert_eq!(output.rest_sent(), 7 * OUTPUT_BYTES / PIECE);
        assert!(!output.is_full() && output.is_empty());
    }

    #[test]
    fn small_parts_count_with_what_they_take_beside_their_bytes() {
        let mut output = Output::default();
        let mut answers = 0;
        while !output.is_full() {
            output.text().push(0);
            output.data(Buffer::zeroed(1).whole(), 0);
            answers += 1;
        }
        assert!(answers * 2 * PART_BYTES < OUTPUT_BYTES + 2 * PART_BYTES);
    }

    #[test]
    fn a_little_of_a_large_buffer_counts_with_all_of_it() {
        let mut output = Output::default();
        for _ in 0..OUTPUT_BYTES / PIECE {
            assert!(!output.is_full());
            output.data(Buffer::zeroed(PIECE).slice(0..1), 0);
        }
        assert!(output.is_full());
    }

    #[test]
    fn however_it_is_sent_it_is_the_same_bytes() {
        for step in 1..20 {
            let mut output = Output::default();
            let (mut expected, mut sent) = (Vec::new(), Vec::new());
            for number in 0..100u8 {
                let text = vec![number; usize::from(number % 3)];
                let data = vec![number; usize::from(number % 5) + 1];
                output.text().extend_from_slice(&text);
                output.data(Buffer::from_slice(&data).slice(1..data.len()), 1);
                expected.extend_from_slice(&text);
                expected.extend_from_slice(&data[1..]);
                // Some is sent at once, and now and then the rest is given away.
                let bytes = shown(&mut output);
                let at_once = bytes.len().min(step);
                sent.extend_from_slice(&bytes[..at_once]);
                output.sent(at_once);
                if usize::from(number) % step == 0 {
                    let rest: Vec<_> =
                        output.take_unsent().iter().flat_map(|part| part.to_vec()).collect();
                    assert_eq!(rest, bytes[at_once..]);
                    output.text().push(number);
                    expected.push(number);
                    assert!(shown(&mut output).is_empty(), "one send at a time");
                    sent.extend_from_slice(&rest);
                    output.rest_sent();
                }
            }
            while !output.is_empty() {
                let bytes = shown(&mut output);
                output.sent(bytes.len());
                sent.extend_from_slice(&bytes);
            }
            assert_eq!(sent, expected);
            assert_eq!((output.held, output.text.len()), (0, 0));
        }
    }
}
