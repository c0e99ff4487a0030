//! Bytes received, and the buffer for them. It starts small, so that a connection that says nothing costs little, and
//! grows to twice the longest PDU met.

use esker_nvme::pdu::{Limits, Scanner, Sender};
use esker_uring::{Buffer, Slice};

/// Enough for the first exchange.
const BYTES_MIN: usize = 256;

/// Enough for a queue full of small commands in one read.
const BYTES_OPEN: usize = 16 << 10;

pub(super) struct Input {
    pub(super) scanner: Scanner,
    /// Away while it is received into or looked at.
    bytes: Option<Bytes>,
    /// The unread part of a buffer that is received into.
    away: (usize, usize),
}

/// A buffer, and the part of it that was received and not yet looked at.
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

    /// Makes room for at least `missing` bytes, in a buffer of at least `least`.
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
        } else {
            let mut larger = Buffer::zeroed(least.max(2 * (kept + missing)));
            larger[..kept].copy_from_slice(self.unread());
            self.buffer = larger;
        }
        (self.start, self.end) = (0, kept);
    }
}

impl Input {
    pub(super) fn new(sender: Sender, limits: Limits) -> Self {
        let bytes = Bytes { buffer: Buffer::zeroed(BYTES_MIN), start: 0, end: 0 };
        Input { scanner: Scanner::new(sender, limits), bytes: Some(bytes), away: (0, 0) }
    }

    /// Room to receive into; none while it is away.
    pub(super) fn room(&mut self) -> Option<Slice> {
        let mut bytes = self.bytes.take()?;
        let unread = bytes.end - bytes.start;
        let missing = self.scanner.pdu_bytes().unwrap_or(0).saturating_sub(unread).max(1);
        bytes.reserve(missing, if self.scanner.is_open() { BYTES_OPEN } else { BYTES_MIN });
        let (start, end, length) = (bytes.start, bytes.end, bytes.buffer.len());
        self.away = (start, end);
        Some(bytes.buffer.slice(end..length))
    }

    /// The room comes back with `received` bytes in it.
    pub(super) fn give_back(&mut self, room: Slice, received: usize) {
        let (start, end) = self.away;
        self.bytes = Some(Bytes { buffer: room.into_buffer(), start, end: end + received });
    }

    /// Whether it is not away.
    pub(super) fn is_here(&self) -> bool {
        self.bytes.is_some()
    }

    /// All that is there, to be looked at; then [`put`](Self::put) it back.
    pub(super) fn take(&mut self) -> Bytes {
        self.bytes.take().expect("the buffer is not away")
    }

    pub(super) fn put(&mut self, bytes: Bytes) {
        self.bytes = Some(bytes);
    }

    /// Forgets what was received.
    pub(super) fn discard(&mut self) {
        if let Some(bytes) = &mut self.bytes {
            (bytes.start, bytes.end) = (0, 0);
        }
    }
}
