//! Builds an index over the rows that exist, while others write them.
//!
//! The build walks the rows in chunks, in key order. For each chunk it takes the stripes of its rows, as
//! their writers do, reads their values again, and writes their entries with the key that it has got
//! to, in one batch. So a crash loses at most the last chunk, and the next build goes on behind it.
//!
//! Writers add and remove entries of all rows meanwhile, of those that the build has not passed too. An
//! entry that is there already is written once more, which changes nothing.

use crate::db::cursor::DbCursor;
use crate::engine::Engine;
use crate::index::format::{self, BuildProgress, IndexRecord};
use crate::index::index_keys::IndexKeys;
use crate::index::maintain::{bypassed, check_entry, not_unique};
use crate::index::registry::{BuildState, IndexSlot};
use crate::index::stripes::Stripes;
use crate::read::get::{ReadTier, get};
use esker_api::{Cursor, KeyRange, WriteBatch};
use esker_base::{Error, Result, Seqno};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Rows of a chunk, at most. Their writers wait for it.
const CHUNK_ROWS: usize = 256;
/// Bytes of the rows of a chunk, about.
const CHUNK_BYTES: usize = 256 << 10;

/// Builds the index of `slot`, unless that has ended. The caller holds its `builder`.
pub(super) fn build(engine: &Arc<Engine>, slot: &IndexSlot) {
    if !matches!(*slot.build.lock(), BuildState::Running) {
        return;
    }
    let mut ends = Ends { slot, outcome: Err(Error::Closed) };
    ends.outcome = build_all(engine, slot);
}

/// Ends the build, also after a panic: callers may wait for it.
struct Ends<'a> {
    slot: &'a IndexSlot,
    outcome: Result<Seqno>,
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        match &self.outcome {
            Ok(seqno) => self.slot.set_ready(*seqno),
            Err(error) => self.slot.end_build(BuildState::Failed(error.clone())),
        }
    }
}

/// Returns the seqno from which on the index has all rows.
fn build_all(engine: &Arc<Engine>, slot: &IndexSlot) -> Result<Seqno> {
    let mut through = match read_record(engine, slot)?.map(|record| record.progress) {
        Some(BuildProgress::Through(key)) => key,
        Some(BuildProgress::Complete) | None => None,
    };
    // Once this is visible, so is every batch that was prepared without the index.
    write_record(engine, slot, BuildProgress::Through(through.clone()))?;
    loop {
        engine.check_writable()?;
        let rows = next_rows(engine, slot, through.as_deref())?;
        if rows.keys.is_empty() {
            return write_record(engine, slot, BuildProgress::Complete);
        }
        engine.stall.before_write(rows.bytes, &*engine.tree.clock);
        add_entries(engine, slot, &rows.keys)?;
        slot.rows_built.fetch_add(rows.keys.len() as u64, Ordering::Relaxed);
        through = rows.keys.last().cloned();
    }
}

/// The record of the index, if its build has begun.
pub(super) fn read_record(engine: &Engine, slot: &IndexSlot) -> Result<Option<IndexRecord>> {
    let (view, now) = engine.pin_present();
    let bytes =
        get(&engine.tree, &view, slot.entries, format::RECORD_KEY, now, ReadTier::MayBlock)?;
    let Some(bytes) = bytes else { return Ok(None) };
    IndexRecord::decode(&bytes).map(Some).ok_or_else(|| {
        let what = format!("the record of index {:?} is malformed", slot.name);
        Error::corruption(engine.tree.storage.describe(), 0, what)
    })
}

fn record(slot: &IndexSlot, progress: BuildProgress) -> Result<Vec<u8>> {
    let registered = slot.registered()?;
    let (version, is_unique) = (registered.version, registered.is_unique);
    Ok(IndexRecord { version, is_unique, progress }.encode())
}

fn write_record(engine: &Engine, slot: &IndexSlot, progress: BuildProgress) -> Result<Seqno> {
    let mut batch = WriteBatch::new();
    batch.put(slot.entries, format::RECORD_KEY, record(slot, progress)?);
    engine.write_own(&batch)
}

/// Rows behind another, in order.
#[derive(Default)]
struct NextRows {
    keys: Vec<Vec<u8>>,
    /// Of keys and values.
    bytes: usize,
}

fn next_rows(engine: &Arc<Engine>, slot: &IndexSlot, through: Option<&[u8]>) -> Result<NextRows> {
    let start = through.map_or(Bound::Unbounded, |key| Bound::Excluded(key.to_vec()));
    let range = KeyRange { start, end: Bound::Unbounded };
    let mut cursor = DbCursor::new(engine, slot.rows, range, engine.take_snapshot())?;
    cursor.seek_first()?;
    let mut rows = NextRows::default();
    while let Some((key, value)) = cursor.current() {
        // From the registration on, none is put.
        if cursor.expires() {
            let instead = "put them without a time to live, or wait until they have expired";
            return Err(bypassed(slot, "index the expiring rows of", instead));
        }
        rows.keys.push(key.to_vec());
        rows.bytes += key.len() + value.len();
        if rows.keys.len() == CHUNK_ROWS || rows.bytes >= CHUNK_BYTES {
            break;
        }
        cursor.next()?;
    }
    Ok(rows)
}

/// Adds the entries of the rows `keys`, in one batch if they fit.
fn add_entries(engine: &Engine, slot: &IndexSlot, keys: &[Vec<u8>]) -> Result<()> {
    match add_at_once(engine, slot, keys) {
        Err(Error::BatchTooLarge { .. }) if keys.len() > 1 => {
            let (first, second) = keys.split_at(keys.len() / 2);
            add_entries(engine, slot, first)?;
            add_entries(engine, slot, second)
        }
        added => added,
    }
}

fn add_at_once(engine: &Engine, slot: &IndexSlot, keys: &[Vec<u8>]) -> Result<()> {
    let (indexing, stripes) = (engine.indexing(), engine.indexes.stripes());
    let stripe = |key: &Vec<u8>| Stripes::of(slot.rows, &engine.tree.keys.stored(key));
    let _rows = stripes.rows.lock(keys.iter().map(stripe).collect());
    if slot.is_gone.load(Ordering::Acquire) {
        return Err(slot.gone());
    }
    let is_unique = slot.registered()?.is_unique;
    let values = indexing.values(slot.rows, keys)?;
    let mut batch = WriteBatch::new();
    let (mut index_keys, mut entry) = (IndexKeys::default(), format::EntryKey::new());
    let mut unique: BTreeMap<Vec<u8>, &[u8]> = BTreeMap::new();
    for (key, value) in keys.iter().zip(&values) {
        let Some(value) = value else { continue };
        slot.keys_of(key, value, &mut index_keys)?;
        for index_key in index_keys.iter() {
            if !is_unique {
                format::entry_key(index_key, key, &mut entry);
                check_entry(slot, &entry, key)?;
                batch.put(slot.entries, &entry, b"");
            } else if let Some(other) = unique.insert(index_key.to_vec(), key) {
                return Err(not_unique(slot, index_key, key, other));
            }
        }
    }
    let of = |(index_key, _): (&Vec<u8>, &&[u8])| Stripes::of(slot.entries, index_key);
    let _unique_keys = stripes.unique_keys.lock(unique.iter().map(of).collect());
    for (index_key, key) in &unique {
        match indexing.owner(slot, index_key)? {
            Some(owner) if *owner != **key => {
                return Err(not_unique(slot, index_key, key, &owner));
            }
            _ => {
                format::entry_key(index_key, b"", &mut entry);
                check_entry(slot, &entry, key)?;
                batch.put(slot.entries, &entry, key);
            }
        }
    }
    let through = BuildProgress::Through(keys.last().cloned());
    batch.put(slot.entries, format::RECORD_KEY, record(slot, through)?);
    engine.check_fits(&batch)?;
    engine.write_own(&batch).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Env, Keyspace, Settings};
    use esker_base::background::Stepped;
    use esker_storage::MemoryStorage;

    fn rows_and_slot() -> (Db, Keyspace, Arc<IndexSlot>) {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings::default()).unwrap();
        let users = db.default_keyspace();
        for key in ["a", "b", "c"] {
            users.put(key, "old").unwrap();
        }
        users.index("by_value", |_, value, keys| keys.add(value)).unwrap();
        let slot = db.inner().indexes.find(users.id(), "by_value").unwrap();
        (db, users, slot)
    }

    /// Two writers that hold nothing between check and write would both give a key to a row.
    #[test]
    fn a_batch_is_prepared_with_the_locks_of_its_rows_and_its_unique_keys() {
        let (db, users, _) = rows_and_slot();
        let unique = crate::IndexSettings::new("unique").unique(true);
        users.index(unique, |_, value, keys| keys.add([value, b"!"].concat())).unwrap();
        let engine = db.inner();
        let entries = engine.indexes.find(users.id(), "unique").unwrap().entries;
        let mut batch = WriteBatch::new();
        batch.put(&users, "d", "new");
        batch.put(&users, "a", "newer");
        let prepared = engine.indexing().prepare(&batch).unwrap().unwrap();
        let locks = engine.indexes.stripes();
        let are_locked = || {
            let of_row = |key: &str| locks.rows.is_locked(Stripes::of(users.id(), key.as_bytes()));
            let of_key =
                |key: &str| locks.unique_keys.is_locked(Stripes::of(entries, key.as_bytes()));
            let rows = ["a", "d"].map(of_row);
            (rows, ["new!", "newer!", "old!"].map(of_key))
        };
        assert_eq!(are_locked(), ([true; 2], [true; 3]));
        drop(prepared);
        assert_eq!(are_locked(), ([false; 2], [false; 3]));
    }

    /// A build that took the values that it saw when it chose the rows would bring back their entries.
    #[test]
    fn rows_that_are_written_after_they_were_chosen_get_the_entries_of_their_new_values() {
        let (db, users, slot) = rows_and_slot();
        let chosen = next_rows(&db.handle.inner, &slot, None).unwrap();
        assert_eq!(chosen.keys, [b"a", b"b", b"c"]);
        users.put("a", "new").unwrap();
        users.delete("b").unwrap();
        users.put("bb", "new").unwrap();
        add_entries(db.inner(), &slot, &chosen.keys).unwrap();
        let seqno = write_record(db.inner(), &slot, BuildProgress::Complete).unwrap();
        slot.set_ready(seqno);
        let index = users.index("by_value", |_, _, _| {}).unwrap();
        let found: Vec<_> = index.entries(..).map(|entry| entry.unwrap()).collect();
        let expected = [("new", "a"), ("new", "bb"), ("old", "c")];
        assert!(
            found
                .iter()
                .map(|(index_key, key)| (&**index_key, &**key))
                .eq(expected.map(|(index_key, key)| (index_key.as_bytes(), key.as_bytes())))
        );
        assert!(db.check_index(&index).unwrap().is_sound());
    }
}
