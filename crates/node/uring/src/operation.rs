//! What a reactor is asked to do, and what it says when that is done.

use crate::{Buffer, Descriptor, Slice};
use std::io;
use std::time::Duration;

/// Something to do. It owns its buffers; its descriptors stay open until it is done.
///
/// Operations in progress at the same time are done in any order, and so a socket has at most one
/// [`Send`](Operation::Send) and one [`Receive`](Operation::Receive) at a time.
#[derive(Debug)]
pub enum Operation {
    /// Fills `into` from `offset` of a file. The result is smaller than asked for only at the file's
    /// end.
    ReadAt {
        /// Where to read.
        file: Descriptor,
        /// In bytes.
        offset: u64,
        /// What to fill.
        into: Slice,
    },
    /// Writes all of `from` at `offset` of a file.
    WriteAt {
        /// Where to write.
        file: Descriptor,
        /// In bytes.
        offset: u64,
        /// What to write.
        from: Slice,
    },
    /// Writes all of some slices, one behind the other, at `offset` of a file.
    WriteGatheredAt {
        /// Where to write.
        file: Descriptor,
        /// In bytes.
        offset: u64,
        /// What to write.
        from: Vec<Slice>,
    },
    /// As [`WriteAt`](Operation::WriteAt), and when it is done, these bytes survive power loss: as a write and a [`SyncData`](Operation::SyncData) behind
    /// it, with a wait less.
    WriteDurablyAt {
        /// Where to write.
        file: Descriptor,
        /// In bytes.
        offset: u64,
        /// What to write.
        from: Slice,
    },
    /// Makes every write to a file that was done before this was submitted survive power loss
    /// (`fdatasync`).
    SyncData {
        /// What to sync.
        file: Descriptor,
    },
    /// Frees a range of a file or device, which reads as zeros from then on. The length stays.
    /// Where that is not possible, the error is [`Unsupported`](std::io::ErrorKind::Unsupported).
    Deallocate {
        /// Where to free.
        file: Descriptor,
        /// In bytes.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// Waits for a connection, which comes as [`Completion::accepted`].
    Accept {
        /// A listening socket.
        listener: Descriptor,
    },
    /// Takes bytes from a socket. The result is 0, or with `all` less than asked for, once the peer
    /// has closed.
    Receive {
        /// A connected socket.
        socket: Descriptor,
        /// What to fill.
        into: Slice,
        /// Whether to wait until `into` is full, rather than for any bytes.
        all: bool,
    },
    /// Sends all of some slices, in their order. A peer that has closed is an error, never a signal.
    Send {
        /// A connected socket.
        socket: Descriptor,
        /// What to send.
        from: Vec<Slice>,
    },
    /// Waits.
    Timeout {
        /// For how long.
        after: Duration,
    },
}

impl Operation {
    /// The bytes that it is to move.
    pub(crate) fn wanted(&self) -> usize {
        match self {
            Operation::ReadAt { into, .. } | Operation::Receive { into, .. } => into.len(),
            Operation::WriteAt { from, .. } | Operation::WriteDurablyAt { from, .. } => from.len(),
            Operation::Send { from, .. } | Operation::WriteGatheredAt { from, .. } => {
                from.iter().map(|slice| slice.len()).sum()
            }
            _ => 0,
        }
    }

    /// Its first buffer, to use again.
    pub fn into_buffer(self) -> Option<Buffer> {
        match self {
            Operation::ReadAt { into: slice, .. }
            | Operation::WriteAt { from: slice, .. }
            | Operation::WriteDurablyAt { from: slice, .. }
            | Operation::Receive { into: slice, .. } => Some(slice.into_buffer()),
            Operation::Send { from, .. } | Operation::WriteGatheredAt { from, .. } => {
                from.into_iter().next().map(Slice::into_buffer)
            }
            _ => None,
        }
    }
}

/// An operation that is done, one way or another.
#[derive(Debug)]
pub struct Completion {
    /// What was given with the operation.
    pub token: u64,
    /// The bytes moved; 0 for what moves none. A cancelled operation has the error `ECANCELED`.
    /// With an error, some of the bytes may have been moved.
    pub result: io::Result<usize>,
    /// The operation as it was given, with its buffers.
    pub operation: Operation,
    /// The connection that an [`Operation::Accept`] got.
    pub accepted: Option<Descriptor>,
}

/// The result of an operation that was cancelled.
pub(crate) fn cancelled() -> io::Error {
    io::Error::from_raw_os_error(libc::ECANCELED)
}
