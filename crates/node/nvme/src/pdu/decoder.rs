//! Takes a connection's bytes in any split and yields its PDUs: a [`Scanner`] and a buffer.
//!
//! Bytes are read straight into [`Decoder::space`]; a PDU is yielded, borrowed, when all of it is there. The buffer
//! starts small, grows as long as reads fill it, and never gets longer than the longest PDU allowed, twice.

use super::header::{Digests, Sender};
use super::scanner::{Frame, Limits, Scanner};
use super::termination::FatalError;

/// Where the buffer starts. Enough for the first exchange.
const BUFFER_BYTES_MIN: usize = 256;

/// Where the buffer goes when the connection is open: a queue full of small commands in one read.
const BUFFER_BYTES_OPEN: usize = 16 << 10;

/// Where the buffer goes while reads fill it: a full queue's answers of a page each in one read. With fewer, a host goes on with
/// fewer commands at a time, and both sides wake up the more often.
const BUFFER_BYTES_BUSY: usize = 256 << 10;

/// See the file's head.
#[derive(Debug)]
pub struct Decoder {
    scanner: Scanner,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether the last read left no space: there may have been more.
    was_filled: bool,
    busy_bytes: usize,
}

impl Decoder {
    /// A decoder of what `sender` sends on a new connection.
    pub fn new(sender: Sender, limits: Limits) -> Self {
        let twice = 2 * limits.command_data_bytes.max(limits.data_bytes);
        Decoder {
            scanner: Scanner::new(sender, limits),
            buffer: vec![0; BUFFER_BYTES_MIN],
            start: 0,
            end: 0,
            was_filled: false,
            busy_bytes: twice.clamp(BUFFER_BYTES_OPEN, BUFFER_BYTES_BUSY),
        }
    }

    /// The first exchange has agreed on `digests`. They hold for all PDUs not yet yielded.
    pub fn agreed(&mut self, digests: Digests) {
        self.scanner.agreed(digests);
    }

    /// Space to read into; then say [`filled`](Self::filled). It is not empty, and there is space for the rest of a PDU
    /// that has begun, if [`next_frame`](Self::next_frame) was asked before until it had no more.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let (pdu, unread) = (self.scanner.pdu_bytes().unwrap_or(0), self.end - self.start);
        let (missing, room) = (pdu.saturating_sub(unread).max(1), self.buffer.len() - self.end);
        // A little is moved rather than that reads go into what little is left behind it.
        let is_little = unread < self.buffer.len() / 8;
        if room < missing || (is_little && room < self.buffer.len() / 2) {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, unread);
        }
        let is_open = self.scanner.is_open();
        let mut wanted = if is_open { BUFFER_BYTES_OPEN } else { BUFFER_BYTES_MIN };
        // Asked again without anything read, it does not grow again.
        if std::mem::take(&mut self.was_filled) && is_open {
            wanted = wanted.max(self.busy_bytes.min(2 * self.buffer.len()));
        }
        if self.buffer.len() - self.end < missing {
            // Twice the PDU, so that the one behind it is read with it.
            wanted = wanted.max(2 * pdu);
        }
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// `bytes` more were put into [`space`](Self::space).
    pub fn filled(&mut self, bytes: usize) {
        assert!(bytes <= self.buffer.len() - self.end, "more bytes than there was space for");
        self.end += bytes;
        self.was_filled = self.end == self.buffer.len();
    }

    /// Copies `bytes` in, as much as there is space for, and says how much that was.
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
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FatalError> {
        let frame = self.scanner.scan(&self.buffer[self.start..self.end])?;
        if let Some(frame) = &frame {
            self.start += frame.bytes.len();
        }
        Ok(frame)
    }
}
