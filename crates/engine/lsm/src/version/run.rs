//! Runs of tables, and the levels that they make.

use super::fence_pointers::FencePointers;
use super::table_handle::TableHandle;
use std::sync::Arc;

/// The number of levels that a keyspace may have.
pub const LEVELS: usize = 7;

/// Tables with disjoint ranges, in key order.
#[derive(Clone, Debug)]
pub struct Run {
    /// How new the run is: higher is newer.
    pub id: u64,
    tables: Vec<Arc<TableHandle>>,
    bounds: FencePointers,
}

impl Run {
    /// A run of these tables.
    pub fn new(id: u64, tables: Vec<Arc<TableHandle>>) -> Self {
        Run { id, tables, bounds: FencePointers::default() }
    }

    /// Its tables, in key order.
    #[inline]
    pub fn tables(&self) -> &[Arc<TableHandle>] {
        &self.tables
    }

    /// Its tables, to be changed: what lookups go by is then gathered anew.
    pub fn tables_mut(&mut self) -> &mut Vec<Arc<TableHandle>> {
        self.bounds = FencePointers::default();
        &mut self.tables
    }

    /// Gathers what [`Run::table_for`] goes by now, so that no reader has to.
    pub(crate) fn gather_bounds(&self) {
        self.bounds.gather(&self.tables);
    }

    /// The only table that may hold or delete `key`. O(log tables).
    #[inline]
    pub fn table_for(&self, key: &[u8]) -> Option<&Arc<TableHandle>> {
        self.bounds.find(&self.tables, key).map(|at| &self.tables[at])
    }

    /// The tables that overlap `[smallest, largest]`.
    pub fn overlapping(&self, smallest: &[u8], largest: &[u8]) -> &[Arc<TableHandle>] {
        let from = self.tables.partition_point(|table| table.meta.ends_before(smallest));
        let to = self.tables.partition_point(|table| &table.meta.smallest[..] <= largest);
        &self.tables[from..to.max(from)]
    }

    /// Whether one of its tables can't be read.
    pub(crate) fn has_unreadable(&self) -> bool {
        self.tables.iter().any(|table| table.is_unreadable())
    }

    /// The bytes of all tables.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.meta.bytes).sum()
    }
}

/// Runs, newest first.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// The runs.
    pub runs: Vec<Arc<Run>>,
}

impl Level {
    /// The bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes()).sum()
    }

    /// Whether there is no run.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}
