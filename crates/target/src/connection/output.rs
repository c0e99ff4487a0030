//! Bytes to be sent: PDUs are built into one text, and data is put between without a copy. One send is under way at a
//! time; what comes meanwhile goes out together in the next.

use crate::limits::{OUTPUT_BYTES, SEND_SLICES};
use esker_uring::{Buffer, Slice};
use std::collections::VecDeque;

/// Buffers for text have at least this length: their memory is used again.
const TEXT_BYTES: usize = 4096;

#[derive(Default)]
pub(super) struct Output {
    /// Built, and not yet in `queue`.
    text: Vec<u8>,
    queue: VecDeque<Part>,
    under_way: bool,
    /// The memory of what is in `queue` and of what is under way.
    held: usize,
    /// What of it is under way.
    held_until_sent: usize,
    /// Reserved memory that is freed when the send under way is done.
    released_when_sent: usize,
}

struct Part {
    slice: Slice,
    /// The length of the buffer that it lies in, as far as that is known.
    held: usize,
    /// Reserved memory that this slice is counted in.
    reserved: usize,
}

impl Output {
    /// Where to build PDUs.
    pub(super) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Puts data behind what was built so far; `reserved` is given back when it was sent.
    pub(super) fn data(&mut self, data: Slice, reserved: usize) {
        self.queue_text();
        let held = data.len();
        self.push(Part { slice: data, held, reserved });
    }

    fn push(&mut self, part: Part) {
        self.held += part.held;
        self.queue.push_back(part);
    }

    fn queue_text(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let length = self.text.len();
        let mut buffer = Buffer::stale(length.max(TEXT_BYTES));
        buffer[..length].copy_from_slice(&self.text);
        self.text.clear();
        let held = buffer.len();
        self.push(Part { slice: buffer.slice(0..length), held, reserved: 0 });
    }

    /// The next send, if none is under way.
    pub(super) fn next(&mut self) -> Option<Vec<Slice>> {
        if self.under_way {
            return None;
        }
        self.queue_text();
        let count = self.queue.len().min(SEND_SLICES);
        if count == 0 {
            return None;
        }
        self.under_way = true;
        let parts = self.queue.drain(..count);
        let slices = parts.map(|part| {
            self.released_when_sent += part.reserved;
            self.held_until_sent += part.held;
            part.slice
        });
        Some(slices.collect())
    }

    /// A send is done. Says how much reserved memory that frees.
    pub(super) fn sent(&mut self) -> usize {
        self.under_way = false;
        self.held -= std::mem::take(&mut self.held_until_sent);
        std::mem::take(&mut self.released_when_sent)
    }

    /// Whether the peer leaves so much unread that nothing more is to be answered.
    pub(super) fn is_full(&self) -> bool {
        self.held + self.text.len() >= OUTPUT_BYTES
    }

    /// Whether all was sent.
    pub(super) fn is_empty(&self) -> bool {
        !self.under_way && self.queue.is_empty() && self.text.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = 1 << 20;

    #[test]
    fn it_is_full_until_enough_was_sent() {
        let mut output = Output::default();
        let pieces = OUTPUT_BYTES / PIECE;
        for _ in 0..pieces {
            assert!(!output.is_full());
            output.data(Buffer::zeroed(PIECE).whole(), 0);
        }
        assert!(output.is_full());
        let slices = output.next().expect("there is something to send");
        assert!(output.is_full(), "what is under way is still there");
        assert_eq!(slices.len(), pieces);
        output.sent();
        assert!(!output.is_full() && output.is_empty());
    }

    #[test]
    fn text_counts_with_the_buffer_that_it_lies_in() {
        let mut output = Output::default();
        let mut answers = 0;
        while !output.is_full() {
            output.text().push(0);
            output.data(Buffer::zeroed(1).whole(), 0);
            answers += 1;
        }
        assert!(answers * TEXT_BYTES < OUTPUT_BYTES + TEXT_BYTES);
    }
}
