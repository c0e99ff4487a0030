//! Bytes to be sent: PDUs are built into one text, and data is put between without a copy. One send is under way at a
//! time; what comes meanwhile goes out together in the next.

use crate::limits::SEND_SLICES;
use esker_uring::{Buffer, Slice};
use std::collections::VecDeque;

/// Buffers for text are of this length, to be used again; longer text gets a buffer of its own.
const TEXT_BYTES: usize = 4096;

/// Buffers for text that are kept.
const SPARE_BUFFERS: usize = 4;

#[derive(Default)]
pub(super) struct Output {
    /// Built, and not yet in `queue`.
    text: Vec<u8>,
    queue: VecDeque<Part>,
    under_way: bool,
    /// Reserved memory that is freed when the send under way is done.
    released_when_sent: usize,
    spare: Vec<Buffer>,
}

struct Part {
    slice: Slice,
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
        self.queue.push_back(Part { slice: data, reserved });
    }

    fn queue_text(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let length = self.text.len();
        let mut buffer = match self.spare.pop() {
            Some(buffer) if length <= buffer.len() => buffer,
            _ => Buffer::zeroed(length.max(TEXT_BYTES)),
        };
        buffer[..length].copy_from_slice(&self.text);
        self.text.clear();
        self.queue.push_back(Part { slice: buffer.slice(0..length), reserved: 0 });
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
        let released = &mut self.released_when_sent;
        let slices = parts.map(|part| {
            *released += part.reserved;
            part.slice
        });
        Some(slices.collect())
    }

    /// A send is done. Says how much reserved memory that frees.
    pub(super) fn sent(&mut self, slices: Vec<Slice>) -> usize {
        self.under_way = false;
        for slice in slices {
            let buffer = slice.into_buffer();
            if buffer.len() == TEXT_BYTES && self.spare.len() < SPARE_BUFFERS {
                self.spare.push(buffer);
            }
        }
        std::mem::take(&mut self.released_when_sent)
    }

    /// Whether all was sent.
    pub(super) fn is_empty(&self) -> bool {
        !self.under_way && self.queue.is_empty() && self.text.is_empty()
    }
}
