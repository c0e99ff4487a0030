//! Finds tables without any visible data. An edit drops them, without reading or writing any data.
//!
//! * A table whose keys are all deleted by a **newer range tombstone**. The tombstone is in a table
//!   at a newer place, so a crash cannot undo it. It also deletes everything older, so the dropped
//!   table's own deletes are not needed. A snapshot that sees a version of the table but not the
//!   tombstone keeps the table.
//! * A table in which **everything has expired**, once nothing older is within its bounds that it
//!   hides, and every snapshot sees its versions: a transaction may ask what was written since.
//! * A table of **tombstones only**, once nothing older is within its bounds and every snapshot
//!   sees its tombstones.
//!
//! The first kind creates the second: a keyspace emptied by one range delete ends without tables.

use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::plan::{CompactionPlan, RunPosition};
use crate::version::key_bounds::KeyBounds;
use crate::version::{KeyspaceVersion, TableHandle, TableId, TableMeta};
use esker_base::Seqno;
use esker_base::range_tombstone::Fragment;
use std::sync::Arc;

/// The plan that drops all such tables that no running plan has. `now` is in milliseconds since
/// 1970-01-01.
pub(in crate::compaction) fn pick(
    keyspace: &KeyspaceVersion,
    busy: &InProgressCompactions,
    snapshots: &[Seqno],
    now: u64,
) -> Option<CompactionPlan> {
    let has_tombstones = keyspace.has_range_tombstones();
    let snapshots = keyspace.splitting(snapshots);
    let all_see = |meta: &TableMeta| snapshots.first().is_none_or(|&it| meta.max_seqno <= it);
    let expired = keyspace.expired_tables(now, all_see);
    if !has_tombstones && expired.is_empty() {
        return None;
    }
    let mut free: Vec<TableId> = expired.into_iter().map(|table| table.meta.id).collect();
    if has_tombstones {
        let deleted = keyspace.derived.deleted(snapshots, || find(keyspace, snapshots));
        free.extend_from_slice(&deleted);
    }
    free.sort_unstable();
    free.dedup();
    free.retain(|id| !busy.has_input(*id));
    CompactionPlan::dropping(keyspace, &free).filter(|plan| busy.permits(plan))
}

/// The tables, in order, and whether they are all: not if a table with range tombstones is yet to be
/// opened, or cannot be.
fn find(keyspace: &KeyspaceVersion, snapshots: &[Seqno]) -> (Vec<TableId>, bool) {
    let mut found = Vec::new();
    let with_tombstones = keyspace.tables().filter(|(_, _, table)| table.meta.range_tombstones > 0);
    let mut is_complete = true;
    for (level, run, table) in with_tombstones {
        let place = RunPosition::new(level, run);
        let span = KeyBounds::of_table(&table.meta);
        let older: Vec<_> = older_within(keyspace, place, &span).collect();
        let all_see = snapshots.first().is_none_or(|&first| table.meta.max_seqno <= first);
        if older.is_empty() && table.meta.entries == 0 && all_see {
            found.push(table.meta.id);
            continue;
        }
        let Some(tombstones) = table.contents().and_then(|contents| contents.tombstones) else {
            is_complete = false;
            continue;
        };
        let fragments = tombstones.fragments();
        let deleted = older.iter().filter(|older| deletes(fragments, &older.meta, snapshots));
        found.extend(deleted.map(|table| table.meta.id));
    }
    found.sort_unstable();
    found.dedup();
    (found, is_complete)
}

/// The tables at places older than `place` that overlap `span`.
fn older_within<'a>(
    keyspace: &'a KeyspaceVersion,
    place: RunPosition,
    span: &'a KeyBounds,
) -> impl Iterator<Item = &'a Arc<TableHandle>> {
    let levels = keyspace.levels.iter().enumerate().skip(place.level);
    let runs = levels.flat_map(|(level, runs)| runs.runs.iter().map(move |run| (level, run)));
    let older = runs.filter(move |(level, run)| RunPosition::new(*level, run.id) > place);
    older.flat_map(move |(_, run)| span.tables_of(run))
}

/// Whether range tombstones delete all of the table `older`, for every reader. `snapshots` ascend.
pub(in crate::compaction) fn deletes(
    fragments: &[Fragment],
    older: &TableMeta,
    snapshots: &[Seqno],
) -> bool {
    let mut from = &older.smallest[..];
    let first = fragments.partition_point(|fragment| &fragment.end[..] <= from);
    for fragment in &fragments[first..] {
        // The oldest that deletes all versions hides them from the most snapshots.
        let mut oldest_first = fragment.seqnos.iter().rev();
        let Some(&seqno) = oldest_first.find(|&&seqno| seqno > older.max_seqno) else {
            return false;
        };
        let at = snapshots.partition_point(|&snapshot| snapshot < older.min_seqno);
        let sees_versions_alone = snapshots.get(at).is_some_and(|&snapshot| snapshot < seqno);
        if &fragment.start[..] > from || sees_versions_alone {
            return false;
        }
        from = &fragment.end;
        if older.ends_before(from) {
            return true;
        }
    }
    false
}

impl KeyspaceVersion {
    /// Whether a table has range tombstones.
    pub fn has_range_tombstones(&self) -> bool {
        self.tables().any(|(_, _, table)| table.meta.range_tombstones > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::in_progress::CompactionClaim;
    use crate::compaction::plan::{CompactionInput, CompactionReason};
    use crate::manifest::version_edit::tests::sample_table;
    use crate::options::settings::KeyspaceSettings;
    use crate::options::sizes::SizeTargets;
    use crate::version::table_lifetimes::TableBirth;
    use crate::version::{Run, TableFile};
    use esker_base::{Error, KeyspaceId};
    use esker_storage::MemoryStorage;

    /// Whether it is known without the tables. Otherwise has them read.
    fn is_known(keyspace: &KeyspaceVersion) -> bool {
        let mut is_known = true;
        keyspace.derived.deleted(&[], || {
            is_known = false;
            find(keyspace, &[])
        });
        is_known
    }

    #[test]
    fn what_is_found_while_a_table_cannot_be_opened_is_not_kept() {
        let mut keyspace =
            KeyspaceVersion::new(KeyspaceId(0), "k".into(), KeyspaceSettings::default());
        let mut with_tombstones = table("a", "z", [3, 8]);
        (with_tombstones.range_tombstones, with_tombstones.id.file) = (1, 1);
        let file = TableFile::new(Arc::new(MemoryStorage::new()), 1);
        let unopened = TableHandle::new(with_tombstones, TableBirth::default(), file);
        unopened.mark_unreadable(&Error::Closed);
        keyspace.levels[1].runs = vec![Arc::new(Run::new(7, vec![unopened]))];
        assert!(!is_known(&keyspace));
        assert!(!is_known(&keyspace), "a retry may succeed");
        keyspace.levels[1].runs.clear();
        keyspace.derived = Default::default();
        assert!(!is_known(&keyspace));
        assert!(is_known(&keyspace), "nothing can change it");
    }

    fn fragment(start: &str, end: &str, seqnos: &[Seqno]) -> Fragment {
        Fragment { start: start.into(), end: end.into(), seqnos: seqnos.to_vec() }
    }

    fn table(smallest: &str, largest: &str, seqnos: [Seqno; 2]) -> TableMeta {
        let (smallest, largest, largest_is_exclusive) = (smallest.into(), largest.into(), false);
        let [min_seqno, max_seqno] = seqnos;
        TableMeta {
            smallest,
            largest,
            largest_is_exclusive,
            min_seqno,
            max_seqno,
            ..sample_table(1)
        }
    }

    #[test]
    fn a_table_is_deleted_only_if_all_of_its_keys_are() {
        let table = table("d", "m", [3, 8]);
        let is_deleted = |fragments: &[Fragment]| deletes(fragments, &table, &[]);
        assert!(is_deleted(&[fragment("a", "z", &[9])]));
        assert!(is_deleted(&[fragment("a", "f", &[9]), fragment("f", "n", &[12, 9, 2])]));
        assert!(!is_deleted(&[fragment("a", "f", &[9]), fragment("g", "n", &[9])]), "a gap");
        assert!(!is_deleted(&[fragment("a", "m", &[9])]), "the last key is left");
        assert!(!is_deleted(&[fragment("e", "z", &[9])]), "the first key is left");
        assert!(!is_deleted(&[fragment("a", "z", &[8])]), "of the same write, or older");
        assert!(!is_deleted(&[]));
    }

    #[test]
    fn a_snapshot_between_versions_and_tombstone_keeps_the_table() {
        let table = table("d", "m", [3, 8]);
        let fragments = [fragment("a", "z", &[20, 12])];
        let is_deleted = |snapshots: &[Seqno]| deletes(&fragments, &table, snapshots);
        assert!(is_deleted(&[2]) && is_deleted(&[12]) && is_deleted(&[2, 13, 25]));
        assert!(
            !is_deleted(&[3]) && !is_deleted(&[5]) && !is_deleted(&[8]) && !is_deleted(&[2, 11])
        );
    }

    #[test]
    fn a_plan_that_drops_tables_runs_beside_others() {
        let mut keyspace =
            KeyspaceVersion::new(KeyspaceId(0), "k".into(), KeyspaceSettings::default());
        let run = |id, tables: Vec<TableMeta>| {
            Arc::new(Run::new(id, tables.into_iter().map(TableHandle::detached).collect()))
        };
        let of_tombstones = |file, smallest, largest| {
            let mut meta = table(smallest, largest, [3, 8]);
            (meta.id.file, meta.entries, meta.deletes, meta.range_tombstones) = (file, 0, 0, 1);
            meta
        };
        let mut sound = table("b", "q", [1, 2]);
        (sound.id.file, sound.range_tombstones) = (3, 0);
        let tombstones = vec![of_tombstones(1, "r", "s"), of_tombstones(2, "t", "u")];
        keyspace.levels[1].runs = vec![run(7, tombstones)];
        keyspace.levels[2].runs = vec![run(5, vec![sound])];
        let inputs = vec![CompactionInput::whole(2, &keyspace.levels[2].runs[0])];
        let sizes = SizeTargets { segment_bytes: 1 << 20 };
        let other =
            CompactionPlan::new(&keyspace, inputs, 3, 5, CompactionReason::LevelSize, sizes)
                .unwrap();

        let mut busy = InProgressCompactions::default();
        busy.claim(&other);
        let drop = pick(&keyspace, &busy, &[], 0).unwrap();
        assert_eq!(drop.tables().count(), 2, "the whole run");
        busy.release(&CompactionClaim::by(&other));
        busy.claim(&drop);
        assert!(busy.permits(&other));
        assert!(pick(&keyspace, &busy, &[], 0).is_none(), "its tables are claimed");
    }
}
