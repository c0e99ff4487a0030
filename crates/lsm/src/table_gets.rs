//! What point reads cost once they come to tables.

use std::sync::atomic::{AtomicU64, Ordering};

/// Point reads that came to tables, since the database was opened. A table's filter that says "not
/// here" costs nothing that is counted; one that says "perhaps" a table read, right or wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableGets {
    /// Gets that a table answered, be it by a delete.
    pub hits: u64,
    /// Tables that these read: at least one each.
    pub hit_reads: u64,
    /// Gets that no table answered.
    pub misses: u64,
    /// Tables that these read.
    pub miss_reads: u64,
}

impl TableGets {
    /// Tables read by a get that a table answered, in the mean; 0 before the first.
    pub fn reads_per_hit(&self) -> f64 {
        self.hit_reads as f64 / self.hits.max(1) as f64
    }

    /// Tables read by a get that no table answered, in the mean; 0 before the first.
    pub fn reads_per_miss(&self) -> f64 {
        self.miss_reads as f64 / self.misses.max(1) as f64
    }

    /// What was added since `before`.
    pub(crate) fn since(self, before: TableGets) -> TableGets {
        TableGets {
            hits: self.hits.saturating_sub(before.hits),
            hit_reads: self.hit_reads.saturating_sub(before.hit_reads),
            misses: self.misses.saturating_sub(before.misses),
            miss_reads: self.miss_reads.saturating_sub(before.miss_reads),
        }
    }
}

/// More than threads that read at once on most machines.
const STRIPES: usize = 16;

/// Counts them, in stripes: readers that share a cache line would wait for each other.
#[derive(Default)]
pub(crate) struct GetCounters {
    stripes: [Stripe; STRIPES],
}

/// Two cache lines, because processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Stripe {
    hits: AtomicU64,
    hit_reads: AtomicU64,
    misses: AtomicU64,
    miss_reads: AtomicU64,
}

impl GetCounters {
    /// Counts a get that read `reads` tables.
    #[inline]
    pub(crate) fn count(&self, was_found: bool, reads: u64) {
        let stripe = &self.stripes[own_stripe()];
        let (gets, all_reads) = match was_found {
            true => (&stripe.hits, &stripe.hit_reads),
            false => (&stripe.misses, &stripe.miss_reads),
        };
        gets.fetch_add(1, Ordering::Relaxed);
        if reads > 0 {
            all_reads.fetch_add(reads, Ordering::Relaxed);
        }
    }

    pub(crate) fn sum(&self) -> TableGets {
        let sum = |of: fn(&Stripe) -> &AtomicU64| {
            self.stripes.iter().map(|stripe| of(stripe).load(Ordering::Relaxed)).sum()
        };
        TableGets {
            hits: sum(|stripe| &stripe.hits),
            hit_reads: sum(|stripe| &stripe.hit_reads),
            misses: sum(|stripe| &stripe.misses),
            miss_reads: sum(|stripe| &stripe.miss_reads),
        }
    }
}

/// A stripe that few other threads have: by where a variable of the thread's own lies.
#[inline]
fn own_stripe() -> usize {
    thread_local! {
        static OWN: u8 = const { 0 };
    }
    let address = OWN.with(|own| std::ptr::from_ref(own).addr() as u64);
    // The golden ratio: addresses of threads' variables lie at even distances.
    let mixed = address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (u64::BITS - STRIPES.ilog2())) as usize
}
