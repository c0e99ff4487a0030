//! The numbers of new records: handed out to all threads, readable once all before them are written.
//!
//! Threads that insert finish out of order. A reader may ask only for records that are there, so it
//! asks below [`InsertSequence::limit`], which moves over a number once that number and all before
//! it are acknowledged.
//!
//! A ring of slots holds the acknowledged numbers that wait for an earlier one. Whoever acknowledges
//! then moves the limit over the filled slots that follow it. Invariants:
//! 1. limit <= next <= limit + [`WINDOW`], so that each number waiting has a slot of its own;
//! 2. only the thread that empties the slot of number `limit` moves the limit, by one;
//! 3. a number that is acknowledged is either below the limit or in its slot. All steps are
//!    sequentially consistent: a thread that fills a slot after the mover looked at it looks at the
//!    limit after the mover wrote it, and so goes on in the mover's place.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// How far inserts may run ahead of the slowest one: a fifth of a second at half a million a second.
const WINDOW: u64 = 1 << 17;

/// A count on a cache line (and its prefetched neighbour) of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Count(AtomicU64);

/// Numbers for new records.
#[derive(Debug)]
pub(super) struct InsertSequence {
    next: Count,
    limit: Count,
    /// A number `n` that waits is in slot `n % WINDOW`, as `n + 1`; zero is nothing.
    waiting: Box<[AtomicU64]>,
}

impl InsertSequence {
    /// Numbers from `first` on.
    pub(super) fn new(first: u64) -> Self {
        Self::with_window(first, WINDOW)
    }

    fn with_window(first: u64, window: u64) -> Self {
        InsertSequence {
            next: Count(AtomicU64::new(first)),
            limit: Count(AtomicU64::new(first)),
            waiting: (0..window).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The number of a record to insert. Waits if some earlier insert is a whole window behind.
    #[inline]
    pub(super) fn take(&self) -> u64 {
        let number = self.next.0.fetch_add(1, SeqCst);
        while number - self.limit() >= self.waiting.len() as u64 {
            std::thread::yield_now();
        }
        number
    }

    /// Notes that the record of `number` is in the store.
    #[inline]
    pub(super) fn acknowledge(&self, number: u64) {
        self.slot(number).store(number + 1, SeqCst);
        let mut limit = self.limit();
        while self.slot(limit).compare_exchange(limit + 1, 0, SeqCst, SeqCst).is_ok() {
            limit += 1;
            self.limit.0.store(limit, SeqCst);
        }
    }

    /// All records with lower numbers are in the store.
    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.limit.0.load(SeqCst)
    }

    #[inline]
    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.waiting[(number % self.waiting.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_waits_for_the_earliest_unacknowledged_number() {
        let sequence = InsertSequence::new(10);
        let numbers: Vec<_> = (0..4).map(|_| sequence.take()).collect();
        assert_eq!(numbers, [10, 11, 12, 13]);
        for (acknowledged, limit) in [(11, 10), (13, 10), (10, 12), (12, 14)] {
            sequence.acknowledge(acknowledged);
            assert_eq!(sequence.limit(), limit, "after {acknowledged}");
        }
    }

    #[test]
    fn slots_are_used_again_after_a_lap() {
        let sequence = InsertSequence::with_window(3, 4);
        for number in 3..40 {
            assert_eq!(sequence.take(), number);
            sequence.acknowledge(number);
            assert_eq!(sequence.limit(), number + 1);
        }
    }

    #[test]
    fn threads_get_different_numbers_and_leave_no_gap() {
        const EACH: u64 = 20_000;
        // A small window, so that threads meet its end as well.
        let sequence = InsertSequence::with_window(0, 8);
        let sums: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        (0..EACH).fold(0, |sum, _| {
                            let number = sequence.take();
                            assert!(sequence.limit() <= number, "not acknowledged yet");
                            sequence.acknowledge(number);
                            sum + number
                        })
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(sums.iter().sum::<u64>(), (0..4 * EACH).sum());
        assert_eq!(sequence.limit(), 4 * EACH);
    }
}
