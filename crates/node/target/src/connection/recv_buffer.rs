//! Bytes received, and the buffer for them. It starts small, so that a connection that says nothing costs little, and
//! grows to twice the longest PDU met.
//!
//! **Large capsules are not copied.** Their data is to be in memory where it will be written from: at a certain place in a
//! page, which the namespace knows. So a capsule that has begun with much data goes on in a buffer of its own, placed so that the
//! data falls there; and behind one such capsule another is expected, so that its beginning, too, is received there. A capsule
//! that fills its buffer is given away with it. A wrong prediction costs a copy.

use esker_nvme::pdu::{Header, Limits, PduKind, Scanner, Sender};
use esker_uring::{Buffer, Slice};

/// Enough for the first exchange.
const BYTES_MIN: usize = 256;

/// Enough for a queue full of small commands in one read.
const BYTES_OPEN: usize = 16 << 10;

/// Capsules with at least so much data get buffers of their own: half of a page is lost at each end.
const LARGE_BYTES: usize = 16 << 10;

const PAGE_BYTES: usize = 4096;

pub(super) struct Input {
    pub(super) scanner: Scanner,
    /// Away while it is received into or inspected.
    bytes: Option<Bytes>,
    /// The unread part of a buffer that is received into.
    away: (usize, usize),
    /// The last capsule, if it was large: another like it may follow.
    expected: Option<Header>,
    /// Where in a page data is to begin.
    place: usize,
    /// The length of the buffer, away or not.
    buffer_bytes: usize,
    /// PDUs inspected so far.
    pub(super) frames: u64,
}

/// A buffer, and the part of it that was received and not yet inspected.
pub(super) struct Bytes {
    buffer: Buffer,
    start: usize,
    end: usize,
}

impl Bytes {
    pub(super) fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub(super) fn advance(&mut self, bytes: usize) {
        self.start += bytes;
    }

    /// Makes space for at least `missing` bytes, in a buffer of at least `least`.
    fn reserve(&mut self, missing: usize, least: usize) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let kept = self.end - self.start;
        if self.buffer.len() - self.end >= missing && self.buffer.len() >= least {
            return;
        }
        if self.buffer.len() >= least.max(kept + missing) {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, kept);
        } else {
            // Of few lengths, so that they are used again.
            let bytes = least.max((2 * (kept + missing)).next_multiple_of(BYTES_MIN));
            self.move_to(Buffer::stale(bytes), 0);
        }
    }

    /// Makes space for the rest of a large capsule whose data is to begin at `place` in a page.
    fn reserve_in_place(&mut self, header: &Header, place: usize) {
        let start = (PAGE_BYTES + place - header.data_start % PAGE_BYTES) % PAGE_BYTES;
        let bytes = (start + header.pdu_bytes).next_multiple_of(PAGE_BYTES);
        if self.start != start || self.buffer.len() != bytes {
            self.move_to(Buffer::stale(bytes), start);
        }
    }

    fn move_to(&mut self, mut buffer: Buffer, start: usize) {
        let end = start + self.end - self.start;
        buffer[start..end].copy_from_slice(self.unread());
        *self = Bytes { buffer, start, end };
    }

    /// Gives the data of the capsule at the front away with its buffer, if it fills that.
    pub(super) fn detach_buffer(&mut self, header: &Header) -> Option<Slice> {
        let bytes = self.start + header.pdu_bytes;
        let is_full = bytes == self.end && bytes.next_multiple_of(PAGE_BYTES) == self.buffer.len();
        if !is_large(header) || !is_full {
            return None;
        }
        let data = self.start + header.data_start..self.start + header.data_end;
        let buffer = std::mem::replace(&mut self.buffer, Buffer::zeroed(0));
        (self.start, self.end) = (0, 0);
        Some(buffer.slice(data))
    }
}

/// Whether `start` is at `place` in a page.
pub(super) fn is_at(start: usize, place: usize) -> bool {
    start % PAGE_BYTES == place % PAGE_BYTES
}

fn is_large(header: &Header) -> bool {
    header.kind == PduKind::Command && header.data_bytes() >= LARGE_BYTES
}

impl Input {
    pub(super) fn new(sender: Sender, limits: Limits) -> Self {
        let bytes = Bytes { buffer: Buffer::zeroed(BYTES_MIN), start: 0, end: 0 };
        let scanner = Scanner::new(sender, limits);
        let (away, expected, place, frames) = Default::default();
        let buffer_bytes = BYTES_MIN;
        Input { scanner, bytes: Some(bytes), away, expected, place, buffer_bytes, frames }
    }

    /// Memory of the buffer beyond what every open connection has.
    pub(super) fn extra_bytes(&self) -> usize {
        self.buffer_bytes.saturating_sub(BYTES_OPEN)
    }

    /// How much more memory of that kind the PDU takes that has begun.
    pub(super) fn missing_extra(&self) -> usize {
        let pdu_bytes = self.scanner.pdu_bytes().unwrap_or(0);
        let wanted = if pdu_bytes > BYTES_OPEN { pdu_bytes } else { 0 };
        wanted.saturating_sub(self.buffer_bytes)
    }

    /// The number of the PDU that has begun to come, and how much of it came, while the rest is
    /// waited for.
    pub(super) fn half_received(&self) -> Option<(u64, usize)> {
        let (start, end) = self.away;
        (self.bytes.is_none() && start < end).then_some((self.frames, end - start))
    }

    /// Space to receive into; none while it is away. And whether nothing can be done before it is
    /// full. A long buffer is kept only while `more_comes`.
    pub(super) fn room(&mut self, more_comes: bool) -> Option<(Slice, bool)> {
        let mut bytes = self.bytes.take()?;
        let begun = self.scanner.begun();
        let expected = self.expected.filter(|_| bytes.start == bytes.end);
        let large = begun.or(expected).filter(is_large);
        let is_idle = begun.is_none() && bytes.start == bytes.end && !more_comes;
        if is_idle && bytes.buffer.len() > BYTES_OPEN {
            bytes.move_to(Buffer::stale(BYTES_OPEN), 0);
        }
        if let Some(header) = &large {
            bytes.reserve_in_place(header, self.place);
        } else {
            let unread = bytes.end - bytes.start;
            let missing = begun.map_or(0, |header| header.pdu_bytes).saturating_sub(unread).max(1);
            bytes.reserve(missing, if self.scanner.is_open() { BYTES_OPEN } else { BYTES_MIN });
        }
        let (start, end) = (bytes.start, bytes.end);
        self.away = (start, end);
        self.buffer_bytes = bytes.buffer.len();
        let length = large.map_or(bytes.buffer.len(), |header| start + header.pdu_bytes);
        Some((bytes.buffer.slice(end..length), begun.is_some() && large.is_some()))
    }

    /// A capsule was inspected.
    pub(super) fn expect_another(&mut self, header: Header) {
        self.expected = Some(header).filter(is_large);
    }

    /// Data of the next large capsules is to begin here, in a page.
    pub(super) fn set_place(&mut self, place: usize) {
        self.place = place % PAGE_BYTES;
    }

    /// The space comes back with `received` bytes in it.
    pub(super) fn give_back(&mut self, room: Slice, received: usize) {
        let (start, end) = self.away;
        self.bytes = Some(Bytes { buffer: room.into_buffer(), start, end: end + received });
    }

    /// Whether it is not away.
    pub(super) fn is_here(&self) -> bool {
        self.bytes.is_some()
    }

    /// All that is there, to be inspected; then [`put`](Self::put) it back.
    pub(super) fn take(&mut self) -> Bytes {
        self.bytes.take().expect("the buffer is not away")
    }

    pub(super) fn put(&mut self, bytes: Bytes) {
        self.buffer_bytes = bytes.buffer.len();
        self.bytes = Some(bytes);
    }

    /// Forgets a capsule that was expected: there is no memory for its buffer.
    pub(super) fn expect_nothing(&mut self) {
        self.expected = None;
    }

    /// Forgets what was received.
    pub(super) fn discard(&mut self) {
        if let Some(bytes) = &mut self.bytes {
            (bytes.start, bytes.end) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests;
