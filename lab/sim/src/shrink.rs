//! Makes a failing history smaller, as long as it still fails.

use crate::operations::{History, Operation};

/// Runs spent on one history, at most.
const TRIES: u32 = 600;

/// The smallest history found, by leaving things out of `history`, for which `fails` holds.
pub fn shrink(history: &History, fails: impl FnMut(&History) -> bool) -> History {
    let mut shrinker = Shrinker { smallest: history.clone(), fails, tries: 0 };
    shrinker.accept(History { creation: Vec::new(), ..history.clone() });
    shrinker.leave_out_operations();
    shrinker.leave_out_changes();
    shrinker.leave_out_operations();
    shrinker.smallest
}

struct Shrinker<F> {
    smallest: History,
    fails: F,
    tries: u32,
}

impl<F: FnMut(&History) -> bool> Shrinker<F> {
    fn leave_out_operations(&mut self) {
        let mut chunk = self.smallest.operations.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            while at < self.smallest.operations.len() {
                let mut candidate = self.smallest.clone();
                let end = (at + chunk).min(candidate.operations.len());
                candidate.operations.drain(at..end);
                if !self.accept(candidate) {
                    at += chunk;
                }
            }
            if chunk == 1 {
                return;
            }
            chunk = chunk.div_ceil(2);
        }
    }

    /// Halves batches, keeps their first or last half.
    fn leave_out_changes(&mut self) {
        for at in 0..self.smallest.operations.len() {
            for second in [false, true] {
                loop {
                    let mut candidate = self.smallest.clone();
                    let Operation::Write { changes, .. } = &mut candidate.operations[at] else {
                        break;
                    };
                    let half = changes.len() / 2;
                    if half == 0 {
                        break;
                    }
                    if second {
                        drop(changes.drain(..half))
                    } else {
                        changes.truncate(half)
                    }
                    if !self.accept(candidate) {
                        break;
                    }
                }
            }
        }
    }

    fn accept(&mut self, candidate: History) -> bool {
        if self.tries == TRIES {
            return false;
        }
        self.tries += 1;
        let failed = (self.fails)(&candidate);
        if failed {
            self.smallest = candidate;
        }
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_failure_needs_is_left() {
        let history = History::draw(3);
        let bad = |operation: &Operation| matches!(operation, Operation::Flush);
        assert!(history.operations.iter().any(bad));
        let small = shrink(&history, |candidate| candidate.operations.iter().any(bad));
        assert_eq!(small.operations, [Operation::Flush]);
    }
}
