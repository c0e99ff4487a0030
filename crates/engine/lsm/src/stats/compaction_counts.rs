//! Counts installed compactions by reason and by what they did.

use crate::compaction::plan::{CompactionPlan, CompactionReason};
use std::fmt;
use std::ops::AddAssign;

/// The compactions that were installed for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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
    /// What `plan` does.
    pub(crate) fn by(plan: &CompactionPlan) -> CompactionEvent {
        let mut figures = ReasonCount::default();
        let figure = match plan.output_level > plan.newest_place().level {
            _ if plan.is_drop() => &mut figures.dropped,
            _ if plan.is_trivial_move() => &mut figures.moved,
            true => &mut figures.down,
            false => &mut figures.in_place,
        };
        *figure = 1;
        CompactionEvent { reason: plan.reason, figures }
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
