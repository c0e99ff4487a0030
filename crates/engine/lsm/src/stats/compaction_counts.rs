//! Counts installed compactions by reason and by what they did.

use std::fmt;
use std::ops::AddAssign;

/// The reason for a compaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompactionReason {
    /// Level 0 has too many runs.
    Level0Runs,
    /// Level 0 has too many runs, but compacting them into the next level does not pay yet.
    Level0Small,
    /// A level exceeds its target size.
    LevelSize,
    /// A tiered level has the maximum number of runs.
    RunsFull,
    /// A level has too many versions per distinct key.
    Duplicates,
    /// Reads visit too many overlapping runs.
    OverlappingRuns,
    /// Obsolete data uses too much space.
    ObsoleteData,
    /// The last level holds too small a part of the keyspace.
    SmallLastLevel,
    /// A table overlaps more of the last level than a compaction should read.
    Narrowing,
    /// Deletes have reached their maximum age.
    OldDeletes,
    /// Deletes would free enough space, and compaction threads are idle.
    Deletes,
    /// A newer range tombstone covers the tables completely.
    Deleted,
    /// The caller requested it.
    Manual,
}

impl CompactionReason {
    /// All reasons, in the order of declaration.
    pub const ALL: [CompactionReason; 13] = [
        CompactionReason::Level0Runs,
        CompactionReason::Level0Small,
        CompactionReason::LevelSize,
        CompactionReason::RunsFull,
        CompactionReason::Duplicates,
        CompactionReason::OverlappingRuns,
        CompactionReason::ObsoleteData,
        CompactionReason::SmallLastLevel,
        CompactionReason::Narrowing,
        CompactionReason::OldDeletes,
        CompactionReason::Deletes,
        CompactionReason::Deleted,
        CompactionReason::Manual,
    ];
}

impl fmt::Display for CompactionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompactionReason::Level0Runs => "level 0 runs",
            CompactionReason::Level0Small => "level 0 small",
            CompactionReason::LevelSize => "level size",
            CompactionReason::RunsFull => "runs full",
            CompactionReason::Duplicates => "duplicates",
            CompactionReason::OverlappingRuns => "overlapping runs",
            CompactionReason::ObsoleteData => "obsolete data",
            CompactionReason::SmallLastLevel => "small last level",
            CompactionReason::Narrowing => "narrowing",
            CompactionReason::OldDeletes => "old deletes",
            CompactionReason::Deletes => "deletes",
            CompactionReason::Deleted => "deleted",
            CompactionReason::Manual => "manual",
        })
    }
}

/// The compactions that were installed for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ReasonCount {
    /// Compactions into a deeper level than that of their newest input.
    pub down: u64,
    /// Compactions that stayed in the level of their newest input.
    pub in_place: u64,
    /// Trivial moves.
    pub moved: u64,
    /// Drops of tables that no reader needs.
    pub dropped: u64,
}

impl AddAssign for ReasonCount {
    fn add_assign(&mut self, more: ReasonCount) {
        self.down += more.down;
        self.in_place += more.in_place;
        self.moved += more.moved;
        self.dropped += more.dropped;
    }
}

/// The compactions that were installed, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CompactionCounts([ReasonCount; CompactionReason::ALL.len()]);

/// Serializes as a map from reasons to counts.
#[cfg(feature = "serde")]
impl serde::Serialize for CompactionCounts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(reason, done)| (reason.to_string(), done)))
    }
}

impl CompactionCounts {
    /// Returns the compactions installed for `reason`.
    pub fn of(&self, reason: CompactionReason) -> ReasonCount {
        self.0[reason as usize]
    }

    /// Iterates over all reasons with their compactions.
    pub fn iter(&self) -> impl Iterator<Item = (CompactionReason, ReasonCount)> {
        CompactionReason::ALL.into_iter().map(|reason| (reason, self.of(reason)))
    }

    /// Counts one more.
    pub(crate) fn count(&mut self, one: CompactionEvent) {
        self.0[one.reason as usize] += one.figures;
    }
}

/// What one compaction does, and why.
#[derive(Clone, Copy)]
pub(crate) struct CompactionEvent {
    reason: CompactionReason,
    figures: ReasonCount,
}

impl CompactionEvent {
    /// A compaction into a deeper level than that of its newest input.
    pub(crate) fn down(reason: CompactionReason) -> Self {
        CompactionEvent { reason, figures: ReasonCount { down: 1, ..ReasonCount::default() } }
    }

    /// A compaction that stays in the level of its newest input.
    pub(crate) fn in_place(reason: CompactionReason) -> Self {
        CompactionEvent { reason, figures: ReasonCount { in_place: 1, ..ReasonCount::default() } }
    }

    /// A trivial move.
    pub(crate) fn moved(reason: CompactionReason) -> Self {
        CompactionEvent { reason, figures: ReasonCount { moved: 1, ..ReasonCount::default() } }
    }

    /// A drop of tables.
    pub(crate) fn dropped(reason: CompactionReason) -> Self {
        CompactionEvent { reason, figures: ReasonCount { dropped: 1, ..ReasonCount::default() } }
    }
}

impl AddAssign for CompactionCounts {
    fn add_assign(&mut self, more: CompactionCounts) {
        self.0.iter_mut().zip(more.0).for_each(|(sum, more)| *sum += more);
    }
}

impl fmt::Debug for CompactionCounts {
    /// As a map of what was done at all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().filter(|(_, done)| *done != ReasonCount::default()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_place_of_its_own() {
        for (at, reason) in CompactionReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at, "{reason}");
        }
    }
}
