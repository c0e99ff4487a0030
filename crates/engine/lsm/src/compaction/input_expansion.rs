//! Adds older data to the inputs of a compaction, so that newer versions stay above it.

use super::inputs::CompactionInput;
use crate::version::{KeyspaceVersion, Run, TableHandle};
use std::sync::Arc;

/// A span that borrows its ends.
pub(super) struct InputExpansion<'a> {
    smallest: &'a [u8],
    /// The last key, and whether it is of the span: where keys are alike, that end is the later one.
    end: (&'a [u8], bool),
}

impl<'a> InputExpansion<'a> {
    pub fn of(tables: &'a [Arc<TableHandle>]) -> Self {
        let first = &tables[0].meta;
        let mut reach = InputExpansion {
            smallest: &first.smallest,
            end: (&first.largest, !first.largest_is_exclusive),
        };
        reach.widen(tables);
        reach
    }

    /// Takes in `tables`, of one run.
    pub fn widen(&mut self, tables: &'a [Arc<TableHandle>]) {
        for table in tables.first().into_iter().chain(tables.last()) {
            self.smallest = self.smallest.min(&table.meta.smallest);
            self.end = self.end.max((&table.meta.largest, !table.meta.largest_is_exclusive));
        }
    }

    /// The tables of `run` that overlap it. O(log tables).
    pub fn tables_of<'r>(&self, run: &'r Run) -> &'r [Arc<TableHandle>] {
        let starts_in = |key: &[u8]| match self.end {
            (end, true) => key <= end,
            (end, false) => key < end,
        };
        let tables = run.tables();
        let from = tables.partition_point(|table| table.meta.ends_before(self.smallest));
        let to = tables.partition_point(|table| starts_in(&table.meta.smallest));
        &tables[from..to.max(from)]
    }

    /// The tables of `runs`, newest first, that overlap it and those taken in before.
    pub fn inputs(mut self, runs: impl Iterator<Item = (usize, &'a Run)>) -> Vec<CompactionInput> {
        let input = |(level, run)| {
            let tables = self.tables_of(run);
            self.widen(tables);
            CompactionInput { level, run: run.id, tables: tables.to_vec() }
        };
        runs.map(input).collect()
    }
}

/// The runs below a run of `level`, newest first.
pub(super) fn older_than(
    keyspace: &KeyspaceVersion,
    level: usize,
    run: u64,
) -> impl Iterator<Item = (usize, &Run)> {
    let levels = keyspace.levels.iter().enumerate().skip(level);
    let runs = levels.flat_map(|(at, level)| level.runs.iter().map(move |run| (at, &**run)));
    runs.filter(move |(at, older)| *at > level || older.id < run)
}

/// `seed`, of a run of `level`, and everything older that its keys, or theirs, overlap.
pub(super) fn down_from(
    keyspace: &KeyspaceVersion,
    level: usize,
    run: u64,
    seed: &[Arc<TableHandle>],
) -> Vec<CompactionInput> {
    let mut inputs = vec![CompactionInput { level, run, tables: seed.to_vec() }];
    inputs.extend(InputExpansion::of(seed).inputs(older_than(keyspace, level, run)));
    inputs
}
