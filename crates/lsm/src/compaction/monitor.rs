//! How much of a level repeats itself: its keys, counted in each table, for each distinct one.
//!
//! PlexDB keeps a counter of distinct keys for each level: what is written to a level is noted in the
//! level's counter, and a level that was compacted starts anew. Here the counter of a level is the
//! merge of its tables' own, which the manifest and the tables' properties give at any moment. The two
//! are the same as long as whole levels are compacted; but nothing has to be rebuilt at an open, and
//! nothing is forgotten that came while a compaction ran, or that it left.

use crate::version::{KeyspaceVersion, LEVELS, Level};
use esker_table::Hll;
use std::sync::OnceLock;

/// The duplicate rates of a version's levels, each worked out when it is first asked for.
#[derive(Debug, Default)]
pub struct Monitors {
    rates: [OnceLock<f64>; LEVELS],
}

impl Clone for Monitors {
    /// A copy of a version is made to change it, so what was worked out does not go with it.
    fn clone(&self) -> Self {
        Monitors::default()
    }
}

impl KeyspaceVersion {
    /// How many keys `level` holds, counted in each of its tables, for each distinct one: 1 if it
    /// repeats nothing. `None` if it is not known, because a table could not be opened yet.
    pub fn duplicate_rate(&self, level: usize) -> Option<f64> {
        if let Some(rate) = self.monitors.rates[level].get() {
            return Some(*rate);
        }
        let rate = duplicate_rate(&self.levels[level])?;
        Some(*self.monitors.rates[level].get_or_init(|| rate))
    }
}

fn duplicate_rate(level: &Level) -> Option<f64> {
    // The tables of a run are disjoint: one run repeats nothing, whatever its counters err by.
    if level.runs.len() < 2 {
        return Some(1.0);
    }
    let mut distinct = Hll::new();
    let mut keys = 0;
    for table in level.runs.iter().flat_map(|run| &run.tables) {
        let contents = table.contents()?;
        keys += contents.keys;
        distinct.merge(&contents.sketches.hll);
    }
    // Tables of range tombstones alone have no keys.
    Some(if keys == 0 { 1.0 } else { (keys as f64 / distinct.estimate()).max(1.0) })
}
