//! One call's several commands, in progress at a time.

use crate::RemoteError;
use crate::queue_pair::{CommandHandle, QueuePair};
use esker_nvme::{Cqe, Sqe};
use std::collections::VecDeque;
use std::time::Duration;

/// Commands that one call has in progress, at most: enough that neither side waits for the other.
const WINDOW: usize = 16;

/// A command, and its data.
pub(crate) struct SubCommand<'a> {
    pub(crate) sqe: Sqe,
    pub(crate) data: &'a [u8],
    /// The most that it reads, in bytes.
    pub(crate) reads: usize,
}

/// Why not all pieces were carried out, and how many were sent: each of those was carried out or not.
pub(crate) struct PartialResult {
    pub(crate) error: RemoteError,
    pub(crate) begun: usize,
}

impl PartialResult {
    /// What it says of a change: what was not sent was not done, and what was sent is unknown unless the node refused it.
    pub(crate) fn of_change(self, what: &'static str) -> RemoteError {
        match self.error {
            error if self.begun == 0 => error,
            error @ RemoteError::Refused { .. } => error,
            error => error.of_sent(what),
        }
    }
}

impl From<PartialResult> for RemoteError {
    fn from(stopped: PartialResult) -> Self {
        stopped.error
    }
}

/// Has all of `pieces` carried out, several at a time, and hands on the answers in order. Returns the first failure, when
/// nothing is in progress any more.
pub(crate) fn run(
    queue: &QueuePair,
    pieces: &[SubCommand<'_>],
    deadline: Duration,
    mut answer: impl FnMut(Cqe, Vec<u8>) -> Result<(), RemoteError>,
) -> Result<(), PartialResult> {
    let mut under_way: VecDeque<(CommandHandle, &[u8])> = VecDeque::new();
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
            return outcome.map_err(|error| PartialResult { error, begun });
        };
        let finished = queue.finish(ticket, data, deadline);
        let finished = finished.and_then(|(cqe, data)| answer(cqe, data));
        outcome = outcome.and(finished);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_nvme::Status;

    #[test]
    fn a_change_of_which_nothing_was_sent_is_not_unknown() {
        let refused = RemoteError::Refused { action: "write", status: Status::CAPACITY_EXCEEDED };
        let lost = RemoteError::Lost { address: String::new(), why: String::new() };
        for error in [RemoteError::Deadline, lost] {
            let of = |begun| PartialResult { error: error.clone(), begun }.of_change("write");
            assert_eq!(of(0).to_string(), error.to_string());
            assert!(matches!(of(1), RemoteError::Unknown { what: "write", .. }), "{:?}", of(1));
        }
        let refused = PartialResult { error: refused, begun: 1 }.of_change("write");
        assert!(
            matches!(refused, RemoteError::Refused { .. }),
            "the node says that it was not done"
        );
    }
}
