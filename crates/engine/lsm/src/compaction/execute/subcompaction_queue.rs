//! The parts of a plan, and the threads that execute them: the plan's own, and idle compaction
//! threads.
//!
//! The plan's own thread takes the next free part until none is left or one has failed, and then
//! waits for the parts of others. Another thread takes one part, and checks for due plans before it
//! takes another. So a plan ends without any help, and a helping thread waits for no other.

use super::subcompaction::{CompactionResult, Failure};
use crate::compaction::plan::SubcompactionRange;
use esker_base::Error;
use parking_lot::{Condvar, Mutex};

/// See the file's head.
pub(crate) struct SubcompactionQueue {
    parts: Vec<SubcompactionRange>,
    progress: Mutex<QueueState>,
    ended: Condvar,
}

struct QueueState {
    /// The next part to take; past the last once one has failed.
    next: usize,
    running: usize,
    /// What came of each part that ended well.
    outcomes: Vec<Option<CompactionResult>>,
    failure: Option<Failure>,
}

/// A part that a thread does. One that is dropped without an outcome has failed.
struct SubcompactionGuard<'a> {
    parts: &'a SubcompactionQueue,
    at: usize,
    outcome: Result<CompactionResult, Failure>,
}

impl SubcompactionQueue {
    pub(crate) fn new(parts: Vec<SubcompactionRange>) -> Self {
        let outcomes = vec![None; parts.len()];
        let progress = QueueState { next: 0, running: 0, outcomes, failure: None };
        SubcompactionQueue { parts, progress: Mutex::new(progress), ended: Condvar::new() }
    }

    /// Whether there is more than one to share.
    pub(crate) fn are_several(&self) -> bool {
        self.parts.len() > 1
    }

    /// Whether a part is left to take.
    pub(crate) fn are_left(&self) -> bool {
        self.progress.lock().next < self.parts.len()
    }

    /// Does a part by `execute`. False if none was left.
    pub(crate) fn take_one(
        &self,
        execute: impl Fn(&SubcompactionRange) -> Result<CompactionResult, Failure>,
    ) -> bool {
        let Some(taken) = self.take() else { return false };
        let outcome = execute(&self.parts[taken.at]);
        taken.end(outcome);
        true
    }

    fn take(&self) -> Option<SubcompactionGuard<'_>> {
        let mut progress = self.progress.lock();
        let at = progress.next;
        if at == self.parts.len() {
            return None;
        }
        progress.next += 1;
        progress.running += 1;
        Some(SubcompactionGuard { parts: self, at, outcome: Err(Error::Closed.into()) })
    }

    /// Waits for what others have in hand, none being left to take. Gives the parts' outcomes, joined;
    /// or the first failure, and the outcomes that there are all the same.
    pub(crate) fn join(&self) -> Result<CompactionResult, (Failure, Vec<CompactionResult>)> {
        let mut progress = self.progress.lock();
        debug_assert_eq!(progress.next, self.parts.len(), "the thread that joins has taken part");
        while progress.running > 0 {
            self.ended.wait(&mut progress);
        }
        let outcomes = std::mem::take(&mut progress.outcomes).into_iter().flatten();
        match progress.failure.take() {
            Some(failure) => Err((failure, outcomes.collect())),
            None => Ok(outcomes
                .reduce(|mut whole, next| {
                    whole.join(next);
                    whole
                })
                .expect("a plan has a part")),
        }
    }
}

impl SubcompactionGuard<'_> {
    fn end(mut self, outcome: Result<CompactionResult, Failure>) {
        self.outcome = outcome;
    }
}

impl Drop for SubcompactionGuard<'_> {
    fn drop(&mut self) {
        let mut progress = self.parts.progress.lock();
        match std::mem::replace(&mut self.outcome, Err(Error::Closed.into())) {
            Ok(outcome) => progress.outcomes[self.at] = Some(outcome),
            Err(failure) => {
                progress.failure.get_or_insert(failure);
                progress.next = self.parts.parts.len();
            }
        }
        progress.running -= 1;
        self.parts.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn parts(count: usize) -> SubcompactionQueue {
        let start = |at: usize| (at > 0).then(|| vec![at as u8]);
        let end = |at: usize| (at + 1 < count).then(|| vec![at as u8 + 1]);
        SubcompactionQueue::new(
            (0..count)
                .map(|at| SubcompactionRange { start: start(at), end: end(at), held_back: false })
                .collect(),
        )
    }

    /// Says which part it is of by how much it read.
    fn outcome_of(part: &SubcompactionRange) -> Result<CompactionResult, Failure> {
        let place = part.start.as_ref().map_or(0, |start| u64::from(start[0]));
        Ok(CompactionResult { read_bytes: 1 << place, ..CompactionResult::default() })
    }

    #[test]
    fn one_alone_does_them_all() {
        let parts = parts(5);
        while parts.take_one(outcome_of) {}
        assert!(!parts.are_left());
        assert_eq!(parts.join().unwrap().read_bytes, 0b11111);
    }

    #[test]
    fn each_is_done_once_however_many_help() {
        let parts = parts(9);
        let both_have_one = Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    parts.take_one(|part| {
                        both_have_one.wait();
                        outcome_of(part)
                    });
                    while parts.take_one(outcome_of) {}
                });
            }
        });
        assert_eq!(parts.join().unwrap().read_bytes, (1 << 9) - 1);
    }

    #[test]
    fn whoever_joins_waits_for_what_others_have_in_hand() {
        let parts = parts(2);
        let others = parts.take().expect("there are two");
        while parts.take_one(outcome_of) {}
        std::thread::scope(|scope| {
            let joined = scope.spawn(|| parts.join());
            // Nothing says that it waits already: if it did not wait at all, its outcome would lack a part.
            std::thread::yield_now();
            others.end(outcome_of(&parts.parts[0]));
            assert_eq!(joined.join().unwrap().unwrap().read_bytes, 0b11);
        });
    }

    #[test]
    fn after_a_failure_no_part_is_begun_and_what_was_written_is_told() {
        let parts = parts(4);
        let fails = parts.take().expect("there are four");
        let ends_well = parts.take().expect("there are three more");
        fails.end(Err(Error::Closed.into()));
        assert!(!parts.take_one(|part| panic!("{part:?} is begun")));
        ends_well.end(outcome_of(&parts.parts[1]));
        let (failure, outcomes) = parts.join().unwrap_err();
        assert!(matches!(failure.error, Error::Closed), "{failure:?}");
        assert_eq!(outcomes.iter().map(|it| it.read_bytes).collect::<Vec<_>>(), [0b10]);
    }

    #[test]
    fn a_panic_is_a_failure() {
        let parts = parts(2);
        let panicked = std::thread::scope(|scope| {
            scope.spawn(|| parts.take_one(|_| panic!("as it should"))).join().is_err()
        });
        assert!(panicked && !parts.are_left());
        assert!(parts.join().is_err());
    }
}
