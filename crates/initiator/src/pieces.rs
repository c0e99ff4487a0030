//! One call's several commands, under way at a time.

use crate::RemoteError;
use crate::queue_pair::{QueuePair, Ticket};
use esker_nvme::{Cqe, Sqe};
use std::collections::VecDeque;
use std::time::Duration;

/// Commands that one call has under way, at most: enough that neither side waits for the other.
const WINDOW: usize = 16;

/// A command, and its data.
pub(crate) struct Piece<'a> {
    pub(crate) sqe: Sqe,
    pub(crate) data: &'a [u8],
    /// The most that it reads, in bytes.
    pub(crate) reads: usize,
}

/// Why not all pieces were carried out, and how many were sent: each of those was carried out or not.
pub(crate) struct Stopped {
    pub(crate) error: RemoteError,
    pub(crate) begun: usize,
}

impl From<Stopped> for RemoteError {
    fn from(stopped: Stopped) -> Self {
        stopped.error
    }
}

/// Has all of `pieces` carried out, several at a time, and hands on the answers in order. Tells the first failure, when
/// nothing is under way any more.
pub(crate) fn run(
    queue: &QueuePair,
    pieces: &[Piece<'_>],
    deadline: Duration,
    mut answer: impl FnMut(Cqe, Vec<u8>) -> Result<(), RemoteError>,
) -> Result<(), Stopped> {
    let mut under_way: VecDeque<(Ticket, &[u8])> = VecDeque::new();
    let (mut outcome, mut begun) = (Ok(()), 0);
    let mut rest = pieces.iter();
    let mut next = rest.next();
    loop {
        while let Some(piece) = next.filter(|_| outcome.is_ok() && under_way.len() < WINDOW) {
            let (sqe, reads) = (piece.sqe, piece.reads as u32);
            let sent = match under_way.is_empty() {
                true => queue.begin(sqe, piece.data, reads, deadline).map(Some),
                false => queue.begin_now(sqe, piece.data, reads, deadline),
            };
            match sent {
                Ok(Some(ticket)) => {
                    begun += 1;
                    under_way.push_back((ticket, piece.data));
                }
                Ok(None) => break,
                Err(error) => outcome = outcome.and(Err(error)),
            }
            if outcome.is_ok() {
                next = rest.next();
            }
        }
        let Some((ticket, data)) = under_way.pop_front() else {
            return outcome.map_err(|error| Stopped { error, begun });
        };
        let finished = queue.finish(ticket, data, deadline);
        let finished = finished.and_then(|(cqe, data)| answer(cqe, data));
        outcome = outcome.and(finished);
    }
}
