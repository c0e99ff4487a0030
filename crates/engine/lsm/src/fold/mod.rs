//! What the versions of a key add up to.
//!
//! A key has versions, newest first, and range tombstones that cover some of them. [`verdict`] says
//! what one version decides; a [`Fold`](key_fold::Fold) takes versions until one decides, and adds up the operands of
//! merges before it. Gets, cursors in both directions, flush, compaction, the DRAMTable and salvage
//! ask them. No other module compares kinds of entries to decide what a reader sees.
//!
//! ```text
//! versions of a key, newest first:   merge +3   merge +2   put 10   put 7
//! verdicts:                          operand    operand    value    (not asked)
//! fold:                              10 + 2 + 3 = 15
//! ```
//!
//! [`expiry`] says which times have passed. [`merger`] calls operators. [`hot`] remembers values of
//! keys with many operands. [`filtering`] calls compaction filters. [`operands`] reads operands that were [combined](esker_base::combined).
//! [`values`] is what reads values that are in value files.

pub(crate) mod combining;
pub(crate) mod compaction_filters;
pub(crate) mod expiry;
pub(crate) mod filtering;
pub(crate) mod hot;
pub(crate) mod key_fold;
pub(crate) mod merger;
pub(crate) mod operands;
pub(crate) mod operators;
pub(crate) mod values;

use self::hot::HotFolds;
use self::merger::Merger;
use self::operators::{MergeOperators, OperatorName};
use crate::user_keys::KeyFormat;
use esker_api::MergeOperator;
use esker_base::Kind;
use std::sync::Arc;

/// What the newest version of a key that a reader sees decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The key has the value of this version.
    Value,
    /// The key has no value.
    Absent,
    /// The version is an operand on what older versions decide.
    Operand,
    /// The key has the value of this version, which [`values`] read.
    Separated,
    /// The key has a value as long as [`expiry::living`] returns it, and none after.
    Expiring,
}

/// What a version of kind `kind` decides. `is_covered` returns whether a range tombstone that the
/// reader sees is newer than the version.
#[inline]
pub(crate) fn verdict(kind: Kind, is_covered: impl Fn() -> bool) -> Verdict {
    match kind {
        Kind::Delete | Kind::RangeDelete => Verdict::Absent,
        Kind::Put | Kind::Merge | Kind::Combined | Kind::Separated | Kind::ExpiringPut
            if is_covered() =>
        {
            Verdict::Absent
        }
        Kind::Put => Verdict::Value,
        Kind::Separated => Verdict::Separated,
        Kind::Merge | Kind::Combined => Verdict::Operand,
        Kind::ExpiringPut => Verdict::Expiring,
    }
}

/// What an open database needs to fold operands.
pub(crate) struct Merges {
    /// Those of the open, then the built-in ones.
    operators: Vec<Arc<dyn MergeOperator>>,
    keys: KeyFormat,
    pub(crate) hot: HotFolds,
}

impl Merges {
    pub(crate) fn new(operators: MergeOperators, keys: KeyFormat) -> Self {
        Merges { operators: operators.all(), keys, hot: HotFolds::default() }
    }

    /// The operator called `name`, for a keyspace of this name.
    pub(crate) fn merger(&self, keyspace: &str, name: Option<OperatorName>) -> Merger {
        let is_it = |name: OperatorName| {
            self.operators.iter().find(|operator| operator.name() == name.as_str()).cloned()
        };
        Merger::new(keyspace, name, name.and_then(is_it), self.keys)
    }
}
