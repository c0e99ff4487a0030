//! Counts installed compactions by reason and by what they did.

use crate::compaction::plan::{Plan, Reason};
use std::fmt;
use std::ops::AddAssign;

/// The compactions that were installed for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DoneFor {
    /// Compactions into a deeper level than that of their newest input.
    pub down: u64,
    /// Compactions that stayed in the level of their newest input.
    pub in_place: u64,
    /// Trivial moves.
    pub moved: u64,
    /// Drops of tables that no reader needs.
    pub dropped: u64,
}

impl AddAssign for DoneFor {
    fn add_assign(&mut self, more: DoneFor) {
        self.down += more.down;
        self.in_place += more.in_place;
        self.moved += more.moved;
        self.dropped += more.dropped;
    }
}

/// The compactions that were installed, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactionsDone([DoneFor; Reason::ALL.len()]);

/// Serializes as a map from reasons to counts.
#[cfg(feature = "serde")]
impl serde::Serialize for CompactionsDone {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(reason, done)| (reason.to_string(), done)))
    }
}

impl CompactionsDone {
    /// Returns the compactions installed for `reason`.
    pub fn of(&self, reason: Reason) -> DoneFor {
        self.0[reason as usize]
    }

    /// Iterates over all reasons with their compactions.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, DoneFor)> {
        Reason::ALL.into_iter().map(|reason| (reason, self.of(reason)))
    }

    /// Counts one more.
    pub(crate) fn count(&mut self, one: Done) {
        self.0[one.reason as usize] += one.figures;
    }
}

/// What one compaction does, and why.
#[derive(Clone, Copy)]
pub(crate) struct Done {
    reason: Reason,
    figures: DoneFor,
}

impl Done {
    /// What `plan` does.
    pub(crate) fn by(plan: &Plan) -> Done {
        let mut figures = DoneFor::default();
        let figure = match plan.output_level > plan.newest_place().level {
            _ if plan.is_drop() => &mut figures.dropped,
            _ if plan.is_trivial_move() => &mut figures.moved,
            true => &mut figures.down,
            false => &mut figures.in_place,
        };
        *figure = 1;
        Done { reason: plan.reason, figures }
    }
}

impl AddAssign for CompactionsDone {
    fn add_assign(&mut self, more: CompactionsDone) {
        self.0.iter_mut().zip(more.0).for_each(|(sum, more)| *sum += more);
    }
}

impl fmt::Debug for CompactionsDone {
    /// As a map of what was done at all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().filter(|(_, done)| *done != DoneFor::default())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_place_of_its_own() {
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at, "{reason}");
        }
    }
}
