//! Compares an index with its rows.

use super::handle::Index;
use crate::db::Db;
use crate::db::cursor::DbCursor;
use crate::index::format;
use crate::index::index_keys::IndexKeys;
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
                let mut entry = Vec::new();
                format::entry_key(index_key, if is_unique { b"" } else { key }, &mut entry);
                expected.push((entry, key.to_vec()));
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
