//! Checks whether a key was written after a snapshot. Transactions ask this before they write.
//!
//! The caller holds the snapshot. So compaction keeps the sequence number of every version and
//! delete that is the newest of its key and newer than the snapshot.
//!
//! MemTables that end before the snapshot are not searched. Nor are tables if everything flushed is
//! older than the snapshot, which is so unless a flush has happened since.

use super::get::may_contain;
use super::level_iter::LevelIter;
use super::lookup::ReadTier;
use crate::tree::Tree;
use crate::version::TableHandle;
use crate::version::readers::super_version::{SuperVersion, pin_present};
use esker_api::KeyRange;
use esker_base::operation_cost::count;
use esker_base::{EntryCursor, FragmentedTombstones, KeyspaceId, MAX_SEQNO, Result, Seqno, hash64};
use esker_memtable::MemTable;
use esker_table::{BlockReadStats, ReadPurpose};
use std::ops::Bound;
use std::sync::Arc;

/// Whether the user's `key` was written after `since`, as far as it is `visible` now.
pub(crate) fn key_written_since(
    tree: &Tree,
    visible: impl FnOnce() -> Seqno,
    keyspace: KeyspaceId,
    key: &[u8],
    since: Seqno,
) -> Result<bool> {
    let stored = tree.keys.stored(key);
    let key = &*stored;
    let (view, visible) = pin_present(|| tree.view.pin(), visible);
    let tables = view.version.keyspaces.get(&keyspace).ok_or_else(|| tree.unknown(keyspace))?;
    let hash = hash64(key);
    for memtable in newer_memtables(&view, since) {
        count(|cost| cost.memtables += 1);
        let tombstones = memtable.range_tombstones(keyspace);
        if tombstones.is_some_and(|list| list.covering(key, visible) > since) {
            return Ok(true);
        }
        let found = memtable.get(keyspace, key, hash, visible);
        memtable.sound()?;
        if let Some(found) = found {
            return Ok(found.seqno > since);
        }
    }
    if view.version.tables_through <= since {
        return Ok(false);
    }
    for run in tables.levels.iter().flat_map(|level| &level.runs) {
        let Some(handle) = run.table_for(key).filter(|table| table.meta.max_seqno > since) else {
            continue;
        };
        let table = handle.reader(&tree.cache)?;
        if table.tombstones().covering(key, visible) > since {
            return Ok(true);
        }
        if may_contain(table, (key, hash, visible), ReadTier::MayBlock)?
            && let Some(found) = table.find(key, visible, &mut BlockReadStats::default())?
        {
            return Ok(found.seqno > since);
        }
    }
    Ok(false)
}

/// Whether any key in `range` was written after `since`, as far as it is `visible` now. Reads what
/// MemTables and tables with newer writes have in the range.
pub(crate) fn range_written_since(
    tree: &Tree,
    visible: impl FnOnce() -> Seqno,
    keyspace: KeyspaceId,
    range: &KeyRange,
    since: Seqno,
) -> Result<bool> {
    let range = &tree.keys.range(range.clone());
    let (view, visible) = pin_present(|| tree.view.load(), visible);
    let tables = view.version.keyspaces.get(&keyspace).ok_or_else(|| tree.unknown(keyspace))?;
    for memtable in newer_memtables(&view, since) {
        let tombstones = memtable.range_tombstones(keyspace);
        if tombstones.is_some_and(|list| any_tombstone(&list, range, since))
            || any_version(&mut memtable.cursor(keyspace, visible), range, since)?
        {
            return Ok(true);
        }
    }
    if view.version.tables_through <= since {
        return Ok(false);
    }
    for run in tables.levels.iter().flat_map(|level| &level.runs) {
        let touched =
            |table: &&Arc<TableHandle>| table.meta.max_seqno > since && table.meta.meets(range);
        let handles: Vec<_> = run.tables().iter().filter(touched).cloned().collect();
        for handle in handles.iter().filter(|table| table.meta.range_tombstones > 0) {
            if any_tombstone(handle.reader(&tree.cache)?.tombstones(), range, since) {
                return Ok(true);
            }
        }
        let cache = tree.cache.clone();
        let mut cursor = LevelIter::of_tables(handles, cache, ReadPurpose::Read);
        if any_version(&mut cursor, range, since)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The MemTables that may have something newer, newest first.
fn newer_memtables(view: &SuperVersion, since: Seqno) -> impl Iterator<Item = &Arc<MemTable>> {
    view.memtables.iter().take_while(move |memtable| memtable.last_seqno() > since)
}

/// Whether a version in `range` is newer. Versions that are not visible yet may count.
fn any_version(cursor: &mut impl EntryCursor, range: &KeyRange, since: Seqno) -> Result<bool> {
    match &range.start {
        Bound::Unbounded => cursor.seek_first()?,
        Bound::Included(start) | Bound::Excluded(start) => cursor.seek(start, MAX_SEQNO)?,
    }
    while cursor.valid() && !range.ends_before(cursor.key()) {
        if cursor.seqno() > since && range.contains(cursor.key()) {
            return Ok(true);
        }
        cursor.next()?;
    }
    Ok(false)
}

/// Whether a newer tombstone deletes keys in `range`.
fn any_tombstone(list: &FragmentedTombstones, range: &KeyRange, since: Seqno) -> bool {
    let overlaps = |start: &[u8], end: &[u8]| !range.ends_before(start) && !is_below(end, range);
    list.fragments().iter().any(|fragment| {
        // Newest first, and never empty.
        fragment.seqnos[0] > since && overlaps(&fragment.start, &fragment.end)
    })
}

/// Whether no key before `end` is in `range`.
fn is_below(end: &[u8], range: &KeyRange) -> bool {
    match &range.start {
        Bound::Included(start) | Bound::Excluded(start) => end <= &start[..],
        Bound::Unbounded => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Db, Keyspace, Settings};
    use esker_api::{KeyRange, Keyspaces};
    use tempfile::TempDir;

    fn database() -> (TempDir, Db, Keyspace) {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings::default().segment_bytes(256 << 10).memory_bytes(8 << 20);
        let db = Db::open(dir.path(), settings).unwrap();
        let keyspace = db.default_keyspace();
        (dir, db, keyspace)
    }

    /// Whether `key` counts as changed, by itself and as a range.
    #[track_caller]
    fn changed(db: &Db, key: &[u8], since: &crate::Snapshot) -> bool {
        let id = db.default_keyspace().id();
        let alone = db.changed_since(id, key, since).unwrap();
        let range = KeyRange::of::<&[u8]>(key..=key);
        assert_eq!(db.range_changed_since(id, &range, since).unwrap(), alone);
        alone
    }

    /// The key is changed by `write` and by nothing before; also once all is in tables, and merged.
    #[track_caller]
    fn check(write: impl Fn(&Db, &Keyspace)) {
        let (_dir, db, keyspace) = database();
        for key in [b"j", b"k", b"l"] {
            db.put(&keyspace, key, b"old").unwrap();
        }
        let before = db.snapshot();
        assert!(!changed(&db, b"k", &before));
        db.put(&keyspace, b"other", b"1").unwrap();
        assert!(!changed(&db, b"k", &before), "another key was written");
        write(&db, &keyspace);
        let after = db.snapshot();
        db.put(&keyspace, b"other", b"2").unwrap();
        let moves: [&dyn Fn(); 3] = [&|| (), &|| db.flush().unwrap(), &|| db.compact().unwrap()];
        for (stage, move_on) in moves.iter().enumerate() {
            move_on();
            assert!(changed(&db, b"k", &before), "stage {stage}");
            assert!(!changed(&db, b"k", &after), "stage {stage}");
            assert!(!changed(&db, b"j", &before), "stage {stage}");
        }
    }

    #[test]
    fn a_put_counts_as_a_change() {
        check(|db, keyspace| db.put(keyspace, b"k", b"new").unwrap());
    }

    #[test]
    fn a_delete_counts_as_a_change() {
        check(|db, keyspace| db.delete(keyspace, b"k").unwrap());
    }

    #[test]
    fn a_put_that_was_deleted_again_counts_as_a_change() {
        let (_dir, db, keyspace) = database();
        db.put(&keyspace, b"other", b"1").unwrap();
        let before = db.snapshot();
        db.put(&keyspace, b"k", b"new").unwrap();
        let moves: [&dyn Fn(); 3] = [&|| (), &|| db.flush().unwrap(), &|| db.compact().unwrap()];
        for delete_after in 0..moves.len() {
            db.put(&keyspace, b"k", b"new").unwrap();
            moves[delete_after]();
            db.delete(&keyspace, b"k").unwrap();
            for (stage, move_on) in moves.iter().enumerate() {
                move_on();
                assert!(changed(&db, b"k", &before), "deleted at {delete_after}, stage {stage}");
            }
        }
    }

    #[test]
    fn a_range_delete_counts_as_a_change_of_the_keys_in_it() {
        check(|db, keyspace| db.delete_range(keyspace, b"ja"..b"kz").unwrap());
    }

    #[test]
    fn a_range_is_changed_by_what_is_written_within_its_bounds() {
        let (_dir, db, keyspace) = database();
        db.put(&keyspace, b"a", b"1").unwrap();
        let before = db.snapshot();
        db.put(&keyspace, b"m", b"1").unwrap();
        let changed =
            |range: KeyRange| db.range_changed_since(keyspace.id(), &range, &before).unwrap();
        for _ in 0..2 {
            assert!(changed(KeyRange::all()) && changed(KeyRange::of::<[u8; 1]>(b"m"..=b"m")));
            assert!(!changed(KeyRange::of::<&[u8]>(&b"a"[..]..b"m")));
            assert!(!changed(KeyRange::of::<&[u8]>(&b"m\0"[..]..)));
            db.flush().unwrap();
        }
    }
}
