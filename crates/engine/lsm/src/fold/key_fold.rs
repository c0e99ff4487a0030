//! The fold of one key's versions.

use super::expiry::{Time, living};
use super::merger::Merger;
use super::operands::{Operands, parts_of};
use super::values::Values;
use super::{Verdict, verdict};
use esker_base::{Kind, Result, Seqno, split_expiry};

/// What operands are folded over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Base {
    /// Older versions decide.
    Open,
    /// No value.
    Absent,
    /// A value.
    Value(Vec<u8>),
}

/// The fold of one key's versions, fed newest first.
#[derive(Debug)]
pub(crate) struct Fold {
    /// Versions older than this are deleted.
    deleted_below: Seqno,
    operands: Operands,
    base: Base,
    /// When the base has no value any more, if that is known to come.
    until: Option<u64>,
}

impl Fold {
    pub(crate) fn new() -> Self {
        Fold { deleted_below: 0, operands: Operands::default(), base: Base::Open, until: None }
    }

    /// Whether older versions do not matter.
    pub(crate) fn is_done(&self) -> bool {
        self.base != Base::Open
    }

    pub(crate) fn operands(&self) -> usize {
        self.operands.len()
    }

    /// When the result is no longer right, if that is known to come.
    pub(crate) fn until(&self) -> Option<u64> {
        self.until
    }

    /// Says that the base, which was added last, has no value from `until` on.
    pub(crate) fn expire_at(&mut self, until: Option<u64>) {
        self.until = until;
    }

    /// Says that a range tombstone deletes all versions older than `seqno`.
    pub(crate) fn delete_below(&mut self, seqno: Seqno) {
        self.deleted_below = self.deleted_below.max(seqno);
    }

    /// Adds the next version, at `time`. `values` reads those of value files.
    ///
    /// # Errors
    /// If the version is damaged, or its value cannot be read.
    pub(crate) fn add(
        &mut self,
        seqno: Seqno,
        kind: Kind,
        value: &[u8],
        time: &impl Time,
        values: &impl Values,
    ) -> Result<()> {
        match verdict(kind, || seqno < self.deleted_below) {
            Verdict::Value => self.base = Base::Value(value.to_vec()),
            Verdict::Separated => self.base = Base::Value(values.read(value)?),
            Verdict::Absent => self.base = Base::Absent,
            Verdict::Operand => self.operands.push_older(parts_of(seqno, kind, value)?.1),
            Verdict::Expiring => match living(value, time) {
                Some(living) => {
                    self.base = Base::Value(living.to_vec());
                    self.until = split_expiry(value).map(|(until, _)| until);
                }
                None => self.base = Base::Absent,
            },
        }
        Ok(())
    }

    /// Ends the fold. Without a base there are no older versions.
    pub(crate) fn finish(self, merger: &Merger, stored_key: &[u8]) -> Result<Option<Vec<u8>>> {
        match (self.base, self.operands.len()) {
            (Base::Value(value), 0) => Ok(Some(value)),
            (Base::Open | Base::Absent, 0) => Ok(None),
            (Base::Value(value), _) => {
                merger.merge(stored_key, Some(&value), &self.operands).map(Some)
            }
            (Base::Open | Base::Absent, _) => {
                merger.merge(stored_key, None, &self.operands).map(Some)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::expiry::At;
    use crate::fold::merger::tests::adding;
    use crate::fold::values::NoValueFiles;

    fn of(seqno: Seqno, deleted_below: Seqno, kind: Kind) -> Verdict {
        verdict(kind, || seqno < deleted_below)
    }

    #[test]
    fn a_version_counts_unless_it_is_a_delete_or_older_than_a_range_delete() {
        assert_eq!((of(7, 0, Kind::Put), of(7, 7, Kind::Put)), (Verdict::Value, Verdict::Value));
        assert_eq!(of(7, 8, Kind::Put), Verdict::Absent);
        assert_eq!(of(7, 0, Kind::Delete), Verdict::Absent);
        assert_eq!(of(7, 7, Kind::Merge), Verdict::Operand);
        assert_eq!(of(7, 8, Kind::Merge), Verdict::Absent);
    }

    fn sum(deleted_below: Seqno, versions: &[(Seqno, Kind, i64)]) -> Option<i64> {
        let mut fold = Fold::new();
        fold.delete_below(deleted_below);
        for (seqno, kind, value) in versions {
            if !fold.is_done() {
                fold.add(*seqno, *kind, &value.to_le_bytes(), &At(0), &NoValueFiles).unwrap();
            }
        }
        let value = fold.finish(&adding(), b"k").unwrap()?;
        Some(i64::from_le_bytes(value.try_into().unwrap()))
    }

    #[test]
    fn operands_are_folded_over_the_newest_value_below_them() {
        use Kind::{Delete, Merge, Put};
        assert_eq!(sum(0, &[(9, Merge, 3), (8, Merge, 2), (7, Put, 10), (6, Put, 70)]), Some(15));
        assert_eq!(sum(0, &[(9, Merge, 3), (8, Delete, 0), (7, Put, 10)]), Some(3));
        assert_eq!(sum(0, &[(9, Merge, 3), (8, Merge, 2)]), Some(5));
        assert_eq!(sum(9, &[(9, Merge, 3), (8, Merge, 2), (7, Put, 10)]), Some(3));
        assert_eq!(sum(10, &[(9, Merge, 3), (8, Put, 2)]), None);
        assert_eq!(sum(0, &[(9, Put, 3), (8, Merge, 2)]), Some(3));
        assert_eq!(sum(0, &[]), None);
    }

    #[test]
    fn operands_outlive_the_value_that_they_are_merged_into() {
        let base = [7_u64.to_le_bytes(), 10_i64.to_le_bytes()].concat();
        let at = |now| {
            let mut fold = Fold::new();
            fold.add(9, Kind::Merge, &3_i64.to_le_bytes(), &At(now), &NoValueFiles).unwrap();
            fold.add(8, Kind::ExpiringPut, &base, &At(now), &NoValueFiles).unwrap();
            assert!(fold.is_done());
            let until = fold.until();
            (fold.finish(&adding(), b"k").unwrap().unwrap(), until)
        };
        assert_eq!(at(6), (13_i64.to_le_bytes().to_vec(), Some(7)));
        assert_eq!(at(7), (3_i64.to_le_bytes().to_vec(), None));
    }
}
