//! The cost of point reads in tables.

use esker_table::BlockReadStats;
use std::sync::atomic::{AtomicU64, Ordering};

/// Point reads that reached tables, and their cost there.
///
/// A get visits each run that has a table for the key. The table's filter rules out most tables
/// without the key. Otherwise the get reads the table: one block, from the cache or from the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TableReadStats {
    /// Gets that a table answered, with a value or a delete.
    pub hits: u64,
    /// Table reads of these gets: at least one each.
    pub hit_reads: u64,
    /// Gets that no table answered.
    pub misses: u64,
    /// Table reads of these gets.
    pub miss_reads: u64,
    /// Runs visited by all gets.
    pub runs: u64,
    /// Blocks that all gets read from files.
    pub blocks: u64,
    /// Bytes of these blocks as stored.
    pub block_bytes: u64,
}

impl TableReadStats {
    /// Returns the number of gets.
    pub fn gets(&self) -> u64 {
        self.hits + self.misses
    }

    /// Returns the mean number of runs visited per get; 0 before the first.
    pub fn runs_per_get(&self) -> f64 {
        self.per_get(self.runs)
    }

    /// Returns the mean number of blocks read from files per get; 0 before the first.
    pub fn blocks_per_get(&self) -> f64 {
        self.per_get(self.blocks)
    }

    /// Returns the mean number of bytes read from files per get; 0 before the first.
    pub fn block_bytes_per_get(&self) -> f64 {
        self.per_get(self.block_bytes)
    }

    fn per_get(&self, count: u64) -> f64 {
        count as f64 / self.gets().max(1) as f64
    }

    /// Returns the mean number of table reads per get that a table answered; 0 before the first.
    pub fn reads_per_hit(&self) -> f64 {
        self.hit_reads as f64 / self.hits.max(1) as f64
    }

    /// Returns the mean number of table reads per get that no table answered; 0 before the first.
    pub fn reads_per_miss(&self) -> f64 {
        self.miss_reads as f64 / self.misses.max(1) as f64
    }

    /// What was added since `before`.
    pub(crate) fn since(self, before: TableReadStats) -> TableReadStats {
        TableReadStats {
            hits: self.hits.saturating_sub(before.hits),
            hit_reads: self.hit_reads.saturating_sub(before.hit_reads),
            misses: self.misses.saturating_sub(before.misses),
            miss_reads: self.miss_reads.saturating_sub(before.miss_reads),
            runs: self.runs.saturating_sub(before.runs),
            blocks: self.blocks.saturating_sub(before.blocks),
            block_bytes: self.block_bytes.saturating_sub(before.block_bytes),
        }
    }
}

/// More than threads that read at once on most machines.
pub(super) const STRIPES: usize = 16;

/// Counts them, in stripes: readers that share a cache line would wait for each other.
#[derive(Default)]
pub(crate) struct GetCounters {
    stripes: [Stripe; STRIPES],
}

/// Two cache lines, because processors fetch them two at once.
#[derive(Default)]
#[repr(align(128))]
struct Stripe {
    /// Gets that the first run answered, with a block of the cache. They are counted nowhere else.
    first_hits: AtomicU64,
    hits: AtomicU64,
    hit_reads: AtomicU64,
    misses: AtomicU64,
    miss_reads: AtomicU64,
    runs: AtomicU64,
    blocks: AtomicU64,
    block_bytes: AtomicU64,
}

/// What one get has cost so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReadCost {
    /// Runs visited.
    pub(crate) runs: u64,
    /// Filters asked.
    pub(crate) filters: u64,
    /// Tables read.
    pub(crate) reads: u64,
    pub(crate) loaded: BlockReadStats,
}

impl GetCounters {
    /// Counts a get.
    #[inline]
    pub(crate) fn count(&self, was_found: bool, cost: ReadCost) {
        let stripe = &self.stripes[own_stripe()];
        let BlockReadStats { blocks, bytes } = cost.loaded;
        if was_found && (cost.runs, cost.reads, blocks) == (1, 1, 0) {
            stripe.first_hits.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let (gets, all_reads) = match was_found {
            true => (&stripe.hits, &stripe.hit_reads),
            false => (&stripe.misses, &stripe.miss_reads),
        };
        gets.fetch_add(1, Ordering::Relaxed);
        let sums = [
            (all_reads, cost.reads),
            (&stripe.runs, cost.runs),
            (&stripe.blocks, blocks),
            (&stripe.block_bytes, bytes),
        ];
        for (sum, amount) in sums {
            if amount > 0 {
                sum.fetch_add(amount, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn sum(&self) -> TableReadStats {
        let sum = |of: fn(&Stripe) -> &AtomicU64| {
            self.stripes.iter().map(|stripe| of(stripe).load(Ordering::Relaxed)).sum()
        };
        let first_hits: u64 = sum(|stripe| &stripe.first_hits);
        TableReadStats {
            hits: sum(|stripe| &stripe.hits) + first_hits,
            hit_reads: sum(|stripe| &stripe.hit_reads) + first_hits,
            misses: sum(|stripe| &stripe.misses),
            miss_reads: sum(|stripe| &stripe.miss_reads),
            runs: sum(|stripe| &stripe.runs) + first_hits,
            blocks: sum(|stripe| &stripe.blocks),
            block_bytes: sum(|stripe| &stripe.block_bytes),
        }
    }
}

/// A stripe that few other threads have: by where a variable of the thread's own is.
#[inline]
pub(super) fn own_stripe() -> usize {
    thread_local! {
        static OWN: u8 = const { 0 };
    }
    let address = OWN.with(|own| std::ptr::from_ref(own).addr() as u64);
    // The golden ratio: addresses of threads' variables lie at even distances.
    let mixed = address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (u64::BITS - STRIPES.ilog2())) as usize
}
