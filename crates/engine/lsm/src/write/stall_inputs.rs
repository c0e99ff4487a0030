//! The backlog of flush and compaction, as [`WriteController`](super::write_controller) and the limit
//! of background writes see it.

/// So many runs in level 0 beyond those at which it is merged cost reads little: their filters answer.
pub(super) const L0_SLOWDOWN_FREE_RUNS: f64 = 8.0;
/// Up to this part of what it may take, the index of immutable MemTables slows no writer.
pub(super) const INDEX_FREE: f64 = 0.5;
/// Bytes awaiting compaction, in segments, up to which writers run free.
pub(super) const DEBT_FREE_SEGMENTS: f64 = 64.0;

/// What writers' debts are made of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StallInputs {
    /// Immutable MemTables waiting for their flush, and how many are tolerable.
    pub(crate) sealed: usize,
    pub(crate) sealed_limit: usize,
    /// So many of them cost no writer anything: a pool of persistent memory is there to be filled.
    pub(crate) sealed_free: usize,
    /// The index of immutable MemTables, as a part of what it may take of the memory.
    pub(crate) index_share: f64,
    /// The most runs in level 0 of any keyspace, beyond those at which it is merged; of those that are being merged,
    /// the part that is left to do (`l0_progress`).
    pub(crate) level_0_excess_runs: f64,
    /// Bytes that compaction has yet to rewrite.
    pub(crate) compaction_bytes: u64,
    /// Whether compactions are at work.
    pub(crate) is_compacting: bool,
    pub(crate) segment_bytes: usize,
    /// The most bytes per second that background work writes, if that is limited.
    pub(crate) write_rate_max: Option<u64>,
}

impl StallInputs {
    /// The backlog as a fraction of one that throttles writers. With one immutable MemTable it is a half: writers
    /// that fill another before it is flushed would be throttled soon.
    pub(crate) fn backlog(&self) -> f64 {
        let sealed = self.sealed.saturating_sub(self.sealed_free) as f64 / 2.0;
        let index = self.index_share / INDEX_FREE;
        let runs = self.level_0_excess_runs / L0_SLOWDOWN_FREE_RUNS;
        let segments = self.compaction_bytes as f64 / self.segment_bytes.max(1) as f64;
        sealed.max(index).max(runs).max(segments / DEBT_FREE_SEGMENTS).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backlog_is_full_before_writers_are_throttled() {
        let debts = |x: f64| {
            let segment_bytes = 64 << 20;
            let base = StallInputs { segment_bytes, ..StallInputs::default() };
            [
                StallInputs { index_share: x * INDEX_FREE, ..base },
                StallInputs { level_0_excess_runs: x * L0_SLOWDOWN_FREE_RUNS, ..base },
                StallInputs {
                    compaction_bytes: (x * DEBT_FREE_SEGMENTS * segment_bytes as f64) as u64,
                    ..base
                },
            ]
        };
        for (nearly, full) in debts(0.5).into_iter().zip(debts(1.0)) {
            assert!((nearly.backlog() - 0.5).abs() < 1e-6 && full.backlog() == 1.0, "{full:?}");
        }
        debts(1.1).into_iter().for_each(|beyond| assert_eq!(beyond.backlog(), 1.0));
        let sealed = |sealed| StallInputs { sealed, ..StallInputs::default() }.backlog();
        assert_eq!([0, 1, 2, 3].map(sealed), [0.0, 0.5, 1.0, 1.0]);
    }
}
