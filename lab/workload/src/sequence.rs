//! The numbers of new records: handed out to all threads, readable once all before them are written.
//!
//! Threads that insert finish out of order. A reader may ask only for records that are there, so it
//! asks below [`InsertSequence::limit`], which moves over a number once that number and all before
//! it are acknowledged.
//!
//! A ring of slots holds the acknowledged numbers that wait for an earlier one. The client that acknowledges
//! then moves the limit over the filled slots that follow it. Invariants:
//! 1. limit <= next <= limit + [`WINDOW`], so that each number waiting has a slot of its own;
//! 2. only the thread that empties the slot of number `limit` moves the limit, by one;
//! 3. a number that is acknowledged is either below the limit or in its slot. All steps are
//!    sequentially consistent: a thread that fills a slot after the mover inspected it inspects the
//!    limit after the mover wrote it, and so goes on in the mover's place.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// How far inserts may run ahead of the slowest one: a fifth of a second at half a million a second.
const WINDOW: u64 = 1 << 17;

/// A count on a cache line (and its prefetched neighbour) of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Count(AtomicU64);

/// Numbers for new records.
#[derive(Debug)]
pub(crate) struct InsertSequence {
    next: Count,
    limit: Count,
    /// A number `n` that waits is in slot `n % WINDOW`, as `n + 1`; zero is nothing.
    waiting: Box<[AtomicU64]>,
    failed: AtomicBool,
}

impl InsertSequence {
    /// Numbers from `first` on.
    pub(crate) fn new(first: u64) -> Self {
        Self::with_window(first, WINDOW)
    }

    fn with_window(first: u64, window: u64) -> Self {
        InsertSequence {
            next: Count(AtomicU64::new(first)),
            limit: Count(AtomicU64::new(first)),
            waiting: (0..window).map(|_| AtomicU64::new(0)).collect(),
            failed: AtomicBool::new(false),
        }
    }

    /// The number of a record to insert. Waits if some earlier insert is a whole window behind.
    #[inline]
    pub(crate) fn take(&self) -> Insert<'_> {
        let number = self.next.0.fetch_add(1, SeqCst);
        self.wait(number);
        Insert { sequence: self, number, is_done: false }
    }

    /// The same, or `None` if all numbers below `end` are taken.
    #[inline]
    pub(crate) fn take_below(&self, end: u64) -> Option<Insert<'_>> {
        let more = |next| (next < end).then_some(next + 1);
        let number = self.next.0.fetch_update(SeqCst, SeqCst, more).ok()?;
        self.wait(number);
        Some(Insert { sequence: self, number, is_done: false })
    }

    fn wait(&self, number: u64) {
        while number - self.limit() >= self.waiting.len() as u64 {
            std::thread::yield_now();
        }
    }

    /// Notes that the insert of `number` has ended.
    #[inline]
    fn acknowledge(&self, number: u64) {
        self.slot(number).store(number + 1, SeqCst);
        let mut limit = self.limit();
        while self.slot(limit).compare_exchange(limit + 1, 0, SeqCst, SeqCst).is_ok() {
            limit += 1;
            self.limit.0.store(limit, SeqCst);
        }
    }

    /// Whether some record below the limit may be missing. Look after the limit was taken.
    #[inline]
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(SeqCst)
    }

    /// All records with lower numbers are in the store, unless an insert failed.
    #[inline]
    pub(crate) fn limit(&self) -> u64 {
        self.limit.0.load(SeqCst)
    }

    #[inline]
    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.waiting[(number % self.waiting.len() as u64) as usize]
    }
}

/// An insert that is going on. It is acknowledged when this is dropped, also if it failed or
/// panicked: that ends the run, and until then others may be waiting for the number.
#[derive(Debug)]
pub(crate) struct Insert<'a> {
    sequence: &'a InsertSequence,
    /// The record's number.
    pub(crate) number: u64,
    is_done: bool,
}

impl Insert<'_> {
    /// Notes that the record is in the store, and acknowledges the insert.
    #[inline]
    pub(crate) fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Insert<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_done {
            self.sequence.failed.store(true, SeqCst);
        }
        self.sequence.acknowledge(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_waits_for_the_earliest_unacknowledged_number() {
        let sequence = InsertSequence::new(10);
        let mut inserts: Vec<_> = (0..4).map(|_| sequence.take()).collect();
        assert!(inserts.iter().map(|insert| insert.number).eq(10..14));
        for (acknowledged, limit) in [(11, 10), (13, 10), (10, 12), (12, 14)] {
            inserts.retain(|insert| insert.number != acknowledged);
            assert_eq!(sequence.limit(), limit, "after {acknowledged}");
        }
    }

    #[test]
    fn slots_are_used_again_after_a_lap() {
        let sequence = InsertSequence::with_window(3, 4);
        for number in 3..40 {
            let insert = sequence.take();
            assert_eq!(insert.number, number);
            insert.done();
            assert_eq!(sequence.limit(), number + 1);
        }
        assert!(!sequence.failed());
    }

    #[test]
    fn an_insert_that_panics_keeps_nobody_waiting() {
        let sequence = InsertSequence::with_window(0, 1);
        let insert = || {
            let _insert = sequence.take();
            panic!("a store's fault");
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(insert)).unwrap_err();
        assert!(sequence.failed());
        assert_eq!((sequence.limit(), sequence.take().number), (1, 1));
    }

    #[test]
    fn numbers_below_an_end_run_out_and_are_not_counted_further() {
        let sequence = InsertSequence::new(5);
        assert_eq!(sequence.take_below(7).map(|insert| insert.number), Some(5));
        assert_eq!(sequence.take_below(7).map(|insert| insert.number), Some(6));
        assert!(sequence.take_below(7).is_none() && sequence.take_below(7).is_none());
        assert_eq!((sequence.limit(), sequence.take().number), (7, 7));
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
                            let insert = sequence.take();
                            assert!(sequence.limit() <= insert.number, "not acknowledged yet");
                            sum + insert.number
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
