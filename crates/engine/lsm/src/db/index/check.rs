//! Compares an index with its rows.

use super::build::read_record;
use super::handle::Index;
use crate::db::Db;
use crate::db::cursor::DbCursor;
use crate::engine::Engine;
use crate::index::format;
use crate::index::index_keys::IndexKeys;
use crate::index::registry::IndexSlot;
use crate::version::readers::snapshot_tracker::Snapshot;
use esker_api::{Cursor, KeyRange, KeyspaceRef, foreign};
use esker_base::Result;
use std::sync::Arc;

/// Rows or entries that are compared at once.
const CHUNK: usize = 256;

/// What a check of an index found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct IndexCheck {
    /// Rows of the keyspace.
    pub rows: u64,
    /// Entries of the index.
    pub entries: u64,
    /// Entries that no row has, or not with this key.
    pub entries_without_row: u64,
    /// Entries that rows should have, and that are missing.
    pub missing_entries: u64,
    /// The key of the first row that differs from the index.
    pub first: Option<Vec<u8>>,
}

/// An index of a keyspace that [`Db::check_indexes`] has checked.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CheckedIndex {
    /// The name of the keyspace.
    pub keyspace: String,
    /// The name of the index.
    pub index: String,
    /// What was found.
    pub found: IndexCheck,
}

impl IndexCheck {
    /// Whether the index has exactly the entries of the rows.
    pub fn is_sound(&self) -> bool {
        self.entries_without_row == 0 && self.missing_entries == 0
    }

    fn note(&mut self, key: &[u8]) {
        self.first.get_or_insert_with(|| key.to_vec());
    }
}

impl Db {
    /// Compares `index` with the rows, all of both at one snapshot.
    ///
    /// An index differs if its function does not always give a row the same keys, or was changed without
    /// another version. `esker repair` may drop entries or rows. Drop such an index, and create it again.
    ///
    /// # Errors
    /// [`Error::Index`](esker_base::Error::Index) if the index is not ready or its function panics;
    /// [`Error::ForeignHandle`](esker_base::Error::ForeignHandle) for an index of another database; otherwise
    /// the errors of [`Db::get`].
    pub fn check_index(&self, index: &Index) -> Result<IndexCheck> {
        let engine = self.usable()?;
        if !Arc::ptr_eq(&self.handle.inner, &index.engine) {
            let what = format!("the index {:?}", index.name());
            return Err(foreign(what, engine.tree.storage.describe()));
        }
        index.slot.check_ready()?;
        let snapshot = self.snapshot();
        let mut found = IndexCheck::default();
        index.check_rows(&snapshot, &mut found)?;
        index.check_entries(&snapshot, &mut found)?;
        Ok(found)
    }
}

impl Db {
    /// Looks for the rows of all entries of all indexes, all of them at one snapshot.
    ///
    /// This needs no functions. So it finds entries without a row, but no entry that is missing or has
    /// another key than the row: [`Db::check_index`] does.
    ///
    /// # Errors
    /// The errors of [`Db::get`].
    pub fn check_indexes(&self) -> Result<Vec<CheckedIndex>> {
        let engine = self.usable()?;
        let snapshot = self.snapshot();
        let indexes = engine.indexes.load();
        let checked = indexes.values().flatten().map(|slot| {
            let (keyspace, index) = (slot.rows_name.clone(), slot.name.clone());
            let found = check_rows_of_entries(&self.handle.inner, slot, &snapshot)?;
            Ok(CheckedIndex { keyspace, index, found })
        });
        checked.collect()
    }
}

/// Looks for the rows of all entries of `slot`.
fn check_rows_of_entries(
    engine: &Arc<Engine>,
    slot: &IndexSlot,
    snapshot: &Snapshot,
) -> Result<IndexCheck> {
    let mut found = IndexCheck::default();
    // Its build writes the record before the first entry.
    let Some(record) = read_record(engine, slot)? else { return Ok(found) };
    let rows = KeyspaceRef { id: slot.rows, store: engine.tree.store_id };
    let range = format::entry_range(&KeyRange::all());
    let mut cursor = DbCursor::new(engine, slot.entries, range, snapshot.clone())?;
    let mut keys: Vec<Vec<u8>> = Vec::new();
    cursor.seek_first()?;
    loop {
        let entry = cursor.current();
        if keys.len() >= CHUNK || entry.is_none() {
            let values = engine.multi_get(rows, &keys, Some(snapshot))?;
            for (key, value) in keys.drain(..).zip(values) {
                if value.is_none() {
                    found.entries_without_row += 1;
                    found.note(&key);
                }
            }
        }
        let Some((entry, value)) = entry else { return Ok(found) };
        found.entries += 1;
        match format::split_entry_key(entry) {
            Some(_) if record.is_unique => keys.push(value.to_vec()),
            Some((_, row)) => keys.push(row.to_vec()),
            None => found.entries_without_row += 1,
        }
        cursor.next()?;
    }
}

impl Index {
    /// Looks for the entries of all rows.
    fn check_rows(&self, snapshot: &Snapshot, found: &mut IndexCheck) -> Result<()> {
        let slot = &*self.slot;
        let is_unique = slot.registered()?.is_unique;
        let store = self.engine.tree.store_id;
        let entries = KeyspaceRef { id: slot.entries, store };
        let all = KeyRange::all();
        let mut cursor = DbCursor::new(&self.engine, slot.rows, all, snapshot.clone())?;
        let mut keys = IndexKeys::default();
        let mut expected: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        cursor.seek_first()?;
        loop {
            let row = cursor.current();
            if expected.len() >= CHUNK || row.is_none() {
                let values = self.engine.multi_get(
                    entries,
                    expected.iter().map(|(entry, _)| entry),
                    Some(snapshot),
                )?;
                for ((_, key), value) in expected.drain(..).zip(values) {
                    let row = if is_unique { &key[..] } else { b"" };
                    if value.as_deref() != Some(row) {
                        found.missing_entries += 1;
                        found.note(&key);
                    }
                }
            }
            let Some((key, value)) = row else { return Ok(()) };
            found.rows += 1;
            slot.keys_of(key, value, &mut keys)?;
            for index_key in keys.iter() {
                let mut entry = format::EntryKey::new();
                format::entry_key(index_key, if is_unique { b"" } else { key }, &mut entry);
                expected.push((entry.into_vec(), key.to_vec()));
            }
            cursor.next()?;
        }
    }

    /// Looks for the rows of all entries.
    fn check_entries(&self, snapshot: &Snapshot, found: &mut IndexCheck) -> Result<()> {
        let rows = KeyspaceRef { id: self.slot.rows, store: self.engine.tree.store_id };
        let mut entries = self.entries(..).at(snapshot);
        let mut keys = IndexKeys::default();
        loop {
            let chunk = entries.by_ref().take(CHUNK).collect::<Result<Vec<_>>>()?;
            if chunk.is_empty() {
                return Ok(());
            }
            let keys_of_rows = chunk.iter().map(|(_, key)| key);
            let values = self.engine.multi_get(rows, keys_of_rows, Some(snapshot))?;
            for ((index_key, key), value) in chunk.iter().zip(values) {
                found.entries += 1;
                let is_right = match value {
                    Some(value) => {
                        self.slot.keys_of(key, &value, &mut keys)?;
                        keys.contains(index_key)
                    }
                    None => false,
                };
                if !is_right {
                    found.entries_without_row += 1;
                    found.note(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Env, IndexSettings, Settings};
    use esker_api::WriteBatch;
    use esker_base::background::Stepped;
    use esker_storage::MemoryStorage;
    use std::sync::Arc;

    #[test]
    fn entries_without_rows_are_found_without_the_functions() {
        let storage = Arc::new(MemoryStorage::new());
        let open = || {
            let env = Env::over(storage.clone()).background(Arc::new(Stepped));
            crate::Db::open_with(env, Settings::default()).unwrap()
        };
        let db = open();
        let users = db.default_keyspace();
        let by_value = IndexSettings::new("by_value").unique(true);
        let by_value = users.index(by_value, |_, value, keys| keys.add(value)).unwrap();
        let words =
            users.index("words", |_, _, keys| ["a", "b"].iter().for_each(|it| keys.add(it)));
        let words = words.unwrap();
        by_value.wait_ready().unwrap();
        words.wait_ready().unwrap();
        for number in 0..600_u32 {
            users.put(number.to_be_bytes(), format!("value {number}")).unwrap();
        }
        let found = |db: &crate::Db| {
            let checked = db.check_indexes().unwrap();
            checked.into_iter().map(|it| {
                let found = it.found;
                (it.index, found.entries, found.entries_without_row, found.first)
            })
        };
        let [value, word] = ["by_value", "words"].map(str::to_owned);
        assert!(found(&db).eq([(value.clone(), 600, 0, None), (word.clone(), 1200, 0, None)]));
        // As a repair may leave it.
        let mut batch = WriteBatch::new();
        batch.delete(users.id(), 7_u32.to_be_bytes());
        db.inner().write_own(&batch).unwrap();
        assert!(!db.check_index(&words).unwrap().is_sound());
        db.close().unwrap();
        let first = Some(7_u32.to_be_bytes().to_vec());
        let expected = [(value, 600, 1, first.clone()), (word, 1200, 2, first)];
        assert!(found(&open()).eq(expected));
    }
}
