//! What the versions of a key add up to.
//!
//! A key has versions, newest first, and range tombstones that cover some of them. [`verdict`] says
//! what one version decides. Gets, cursors in both directions, flush, compaction, the DRAMTable and
//! salvage ask it, each with the versions in the order in which it meets them. No other module
//! compares kinds of entries to decide what a reader sees.

use esker_base::{Kind, Seqno};

/// What the newest version of a key that a reader sees decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The key has the value of this version.
    Value,
    /// The key has no value.
    Absent,
}

/// What a version of kind `kind` decides. `is_covered` returns whether a range tombstone that the
/// reader sees is newer than the version.
#[inline]
pub(crate) fn verdict(kind: Kind, is_covered: impl FnOnce() -> bool) -> Verdict {
    match kind {
        Kind::Put if !is_covered() => Verdict::Value,
        Kind::Put | Kind::Delete | Kind::RangeDelete => Verdict::Absent,
    }
}

/// Whether the key has the value of a version, if all versions before `deleted_below` are deleted.
#[inline]
pub(crate) fn is_value(kind: Kind, seqno: Seqno, deleted_below: Seqno) -> bool {
    verdict(kind, || seqno < deleted_below) == Verdict::Value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_counts_unless_it_is_a_delete_or_older_than_a_range_delete() {
        assert!(is_value(Kind::Put, 7, 0) && is_value(Kind::Put, 7, 7));
        assert!(!is_value(Kind::Put, 7, 8));
        assert!(!is_value(Kind::Delete, 7, 0));
    }
}
