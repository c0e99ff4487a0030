//! Compaction debt: the work that is due, for back-pressure.

use crate::version::LEVELS;

/// Compaction work that is due: what back-pressure goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompactionDebt {
    /// Runs in level 0.
    pub level_0_runs: usize,
    /// With this many runs level 0 is due to be merged.
    pub level_0_trigger: usize,
    /// About how many bytes the merges that are due, and those that follow from them, will read.
    pub bytes: u64,
}

/// For each level, the bytes that were merged into the next and are in both, as the edit is still to be made.
pub type PendingMoves = [u64; LEVELS];
