//! What a compaction takes: runs in their places, and ranges of keys.

use crate::version::key_bounds::KeyBounds;
use crate::version::{Run, TableHandle};
use esker_api::KeyRange;
use std::cmp::Reverse;
use std::ops::Bound;
use std::sync::Arc;

/// Where a run is: newer places are less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RunPosition {
    /// The level.
    pub level: usize,
    /// The run's id; a higher one is newer.
    pub run: Reverse<u64>,
}

impl RunPosition {
    /// The place of a run.
    pub fn new(level: usize, run: u64) -> Self {
        RunPosition { level, run: Reverse(run) }
    }
}

/// What a plan takes from one run.
#[derive(Clone, Debug)]
pub struct CompactionInput {
    /// The run's level.
    pub level: usize,
    /// The run's id.
    pub run: u64,
    /// Its tables that take part, in key order.
    pub tables: Vec<Arc<TableHandle>>,
}

impl CompactionInput {
    /// The whole of `run`.
    pub fn whole(level: usize, run: &Run) -> Self {
        CompactionInput { level, run: run.id, tables: run.tables().to_vec() }
    }

    /// The tables of `run` that overlap `span`.
    pub fn overlapping(level: usize, run: &Run, span: &KeyBounds) -> Self {
        CompactionInput { level, run: run.id, tables: span.tables_of(run).to_vec() }
    }

    /// The run's place.
    pub fn place(&self) -> RunPosition {
        RunPosition::new(self.level, self.run)
    }
}

/// A range of keys that one thread merges: `start` included, `end` not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SubcompactionRange {
    /// The first key; `None` is the plan's start.
    pub start: Option<Vec<u8>>,
    /// The first key after it; `None` is the plan's end.
    pub end: Option<Vec<u8>>,
    /// Whether the output goes to the newest input's place, because a table in its way can't be
    /// read.
    pub held_back: bool,
}

impl SubcompactionRange {
    /// The keys.
    pub fn range(&self) -> KeyRange {
        KeyRange {
            start: self.start.clone().map_or(Bound::Unbounded, Bound::Included),
            end: self.end.clone().map_or(Bound::Unbounded, Bound::Excluded),
        }
    }
}
