//! Where ingested tables go: to the deepest level at which nothing overlaps them, or to level 0.
//!
//! A table at a level needs that no table of the same or a shallower level has a key in its range:
//! the others would be found first, although they are older. Then no compaction has to rewrite it.
//! Compactions that run meanwhile may write to gaps between tables, so a level is left alone if one
//! of them takes from it, puts to it or passes it within the keys of the ingest.
//!
//! * Leveled: the tables join the run of that level.
//! * Tiered: an empty keyspace gets one run in the last level.
//! * Otherwise, and with a space-amplification limit or windows: a new run of level 0, as a flush makes it.

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
        // Where flushes put deletes, too.
        _ if tables.iter().any(|table| table.deletes > 0) => (0, fresh),
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
        Shape::Windowed { .. } => (0, fresh),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::plan::{CompactionInput, CompactionPlan, CompactionReason};
    use crate::options::settings::KeyspaceSettings;
    use crate::options::sizes::SizeTargets;
    use crate::version::{Run, TableHandle, TableId};
    use esker_base::KeyspaceId;
    use std::sync::Arc;

    fn table(file: u64, smallest: &str, largest: &str) -> TableMeta {
        let meta = TableMeta::new(TableId { file, offset: 0 }, smallest, largest);
        TableMeta { bytes: 1000, entries: 10, raw_bytes: 1000, min_seqno: 1, max_seqno: 9, ..meta }
    }

    fn keyspace(shape: Shape, levels: &[(usize, u64, Vec<TableMeta>)]) -> KeyspaceVersion {
        let settings = KeyspaceSettings::default().shape(shape);
        let mut keyspace = KeyspaceVersion::new(KeyspaceId(1), "k".into(), settings);
        for (level, run, tables) in levels {
            let tables = tables.iter().cloned().map(TableHandle::detached).collect();
            keyspace.levels[*level].runs.push(Arc::new(Run::new(*run, tables)));
        }
        keyspace
    }

    fn leveled(levels: &[(usize, u64, Vec<TableMeta>)]) -> KeyspaceVersion {
        keyspace(Shape::Leveled { ratio: 10 }, levels)
    }

    #[track_caller]
    fn expect(keyspace: &KeyspaceVersion, tables: &[TableMeta], expected: (usize, u64)) {
        let place = place(keyspace, tables, &InProgressCompactions::default(), 99);
        assert_eq!((place.level, place.run), expected);
    }

    #[test]
    fn tables_join_the_run_of_the_deepest_level_without_overlap() {
        let tables = [table(20, "c", "d"), table(21, "g", "h")];
        expect(&leveled(&[]), &tables, (6, 99));
        expect(&leveled(&[(6, 4, vec![table(1, "a", "b"), table(2, "e", "f")])]), &tables, (6, 4));
        expect(&leveled(&[(6, 4, vec![table(1, "a", "c")])]), &tables, (5, 99));
        let two = leveled(&[(5, 7, vec![table(3, "h", "z")]), (6, 4, vec![table(1, "a", "b")])]);
        expect(&two, &tables, (4, 99));
        expect(&leveled(&[(0, 7, vec![table(3, "d", "g")])]), &tables, (0, 99));
    }

    #[test]
    fn a_level_is_left_alone_while_a_compaction_passes_it_within_the_keys() {
        // It writes one table from a to z: the gap from c to d is no gap then.
        let inputs = vec![table(1, "a", "b"), table(2, "y", "z")];
        let keyspace = leveled(&[(3, 8, inputs)]);
        let run = keyspace.levels[3].runs[0].clone();
        let whole = CompactionInput::whole(3, &run);
        let sizes = SizeTargets { segment_bytes: 1 << 20 };
        let plan =
            CompactionPlan::new(&keyspace, vec![whole], 5, 8, CompactionReason::RunsFull, sizes);
        let plan = plan.unwrap();
        let mut busy = InProgressCompactions::default();
        busy.claim(&plan);
        let arriving = place(&keyspace, &[table(20, "c", "d")], &busy, 99);
        assert_eq!((arriving.level, arriving.run), (6, 99), "below what it writes");
        let mut deeper = leveled(&[(3, 8, vec![table(1, "a", "b"), table(2, "y", "z")])]);
        deeper.levels[6]
            .runs
            .push(Arc::new(Run::new(1, vec![TableHandle::detached(table(9, "a", "z"))])));
        let arriving = place(&deeper, &[table(20, "c", "d")], &busy, 99);
        assert_eq!((arriving.level, arriving.run), (2, 99), "above what it reads");
    }

    #[test]
    fn no_compaction_begins_where_tables_arrive_nor_takes_them() {
        let keyspace = leveled(&[(5, 8, vec![table(1, "a", "b"), table(2, "y", "z")])]);
        let run = keyspace.levels[5].runs[0].clone();
        let sizes = SizeTargets { segment_bytes: 1 << 20 };
        let plan = |run: &Run| {
            let input = CompactionInput::whole(5, run);
            let reason = CompactionReason::RunsFull;
            CompactionPlan::new(&keyspace, vec![input], 6, 8, reason, sizes).unwrap()
        };
        let mut busy = InProgressCompactions::default();
        let arriving = place(&keyspace, &[table(20, "c", "d")], &busy, 99);
        assert!(busy.permits(&plan(&run)));
        busy.hold_arriving(&arriving);
        assert_eq!(busy.output_run(keyspace.id, 6), Some(99), "another run would be a second one");
        assert!(!busy.permits(&plan(&run)));
        let arrived = Run::new(99, vec![TableHandle::detached(table(20, "c", "d"))]);
        assert!(busy.holds(&arrived.tables()[0]));
        busy.release_arriving(&arriving);
        assert!(busy.permits(&plan(&run)) && !busy.holds(&arrived.tables()[0]));
        assert_eq!(busy.output_run(keyspace.id, 6), None);
    }

    #[test]
    fn tiered_keyspaces_take_tables_in_level_0_unless_they_are_empty() {
        let tables = [table(20, "c", "d")];
        expect(&keyspace(Shape::Tiered { runs: 4 }, &[]), &tables, (6, 99));
        let used = keyspace(Shape::Tiered { runs: 4 }, &[(2, 5, vec![table(1, "x", "z")])]);
        expect(&used, &tables, (0, 99));
    }
}
