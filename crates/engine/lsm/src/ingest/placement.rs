//! Where ingested tables go: to the deepest level at which nothing overlaps them, or to level 0.
//!
//! A table at a level needs that no table of the same or a shallower level has a key in its range:
//! the others would be found first, although they are older. Then no compaction has to rewrite it.
//! Compactions that run meanwhile may write to gaps between tables, so a level is left alone if one
//! of them takes from it, puts to it or passes it within the keys of the ingest.
//!
//! * Leveled: the tables join the run of that level.
//! * Tiered: an empty keyspace gets one run in the last level.
//! * Otherwise, and with a space-amplification limit: a new run of level 0, as a flush makes it.

use crate::compaction::in_progress::{ArrivingTables, InProgressCompactions};
use crate::options::settings::Shape;
use crate::version::key_bounds::KeyBounds;
use crate::version::{KeyspaceVersion, LEVELS, TableMeta};

/// The place of `tables`, which are in key order and not empty. `fresh` is a run ID that was never used.
pub(crate) fn place(
    keyspace: &KeyspaceVersion,
    tables: &[TableMeta],
    busy: &InProgressCompactions,
    fresh: u64,
) -> ArrivingTables {
    let span = span_of(tables);
    let (level, run) = match keyspace.settings.shape {
        Shape::Leveled { .. } => {
            let is_free = |level: &usize| {
                is_free(keyspace, *level, tables) && !busy.crosses(keyspace.id, *level, &span)
            };
            let level = (1..LEVELS).rev().find(is_free);
            level.map_or((0, fresh), |level| {
                let joined = keyspace.levels[level].runs.first().map(|run| run.id);
                let begun = || busy.output_run(keyspace.id, level);
                (level, joined.or_else(begun).unwrap_or(fresh))
            })
        }
        Shape::Tiered { .. } => {
            let is_empty = keyspace.tables().next().is_none() && busy.is_idle(keyspace.id);
            let goes_deep = is_empty && !keyspace.settings.has_space_goal();
            (if goes_deep { LEVELS - 1 } else { 0 }, fresh)
        }
    };
    let tables = tables.iter().map(|table| table.id).collect();
    ArrivingTables { keyspace: keyspace.id, span, level, run, tables }
}

/// Whether no table of `level` or above overlaps one of `tables`.
pub(crate) fn is_free(keyspace: &KeyspaceVersion, level: usize, tables: &[TableMeta]) -> bool {
    let runs = || keyspace.levels[..=level].iter().flat_map(|level| &level.runs);
    tables.iter().all(|table| {
        let span = KeyBounds::of_table(table);
        runs().all(|run| span.tables_of(run).is_empty())
    })
}

fn span_of(tables: &[TableMeta]) -> KeyBounds {
    let mut span = KeyBounds::of_table(&tables[0]);
    tables[1..].iter().for_each(|table| span.widen(table));
    span
}
