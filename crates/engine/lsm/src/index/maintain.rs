//! Adds index entries to a batch.
//!
//! ```text
//! lock rows ─► read old values ─► run functions ─► lock unique keys ─► check ─► one batch
//! ```
//!
//! Only the value before the batch and the value after it count: of several writes of a row in a
//! batch, the last decides.

use super::format;
use super::index_keys::IndexKeys;
use super::registry::{IndexMap, IndexRegistry, IndexSlot};
use super::stripes::{HeldStripes, Stripes};
use crate::read::get::{ReadTier, get};
use crate::read::multi_get::multi_get;
use crate::tree::Tree;
use crate::version::readers::super_version::pin_present;
use crate::write::CommitPipeline;
use esker_api::{Value, WriteBatch};
use esker_base::{Error, IndexError, KeyspaceId, Kind, Result};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What adding entries needs of the database.
#[derive(Clone, Copy)]
pub(crate) struct Indexing<'a> {
    pub(crate) registry: &'a IndexRegistry,
    pub(crate) tree: &'a Tree,
    pub(crate) commit: &'a CommitPipeline,
}

/// A batch with the entries of indexes, and what keeps them right until it is visible.
pub(crate) struct IndexedBatch<'a> {
    pub(crate) batch: WriteBatch,
    _rows: HeldStripes<'a>,
    _unique_keys: HeldStripes<'a>,
}

/// What a batch makes of a row.
struct RowChange<'b> {
    keyspace: KeyspaceId,
    /// As it is stored.
    key: &'b [u8],
    /// `None`: there is no such row afterwards.
    value: Option<&'b [u8]>,
}

/// A key that a row gets or gives up in a unique index.
struct UniqueChange {
    slot: Arc<IndexSlot>,
    index_key: Vec<u8>,
    /// The key of the row.
    row: Vec<u8>,
    is_added: bool,
}

impl IndexedBatch<'_> {
    /// The batch, without the locks: it is visible, or is not written.
    pub(crate) fn release(self) -> WriteBatch {
        self.batch
    }
}

impl<'a> Indexing<'a> {
    /// Adds the entries of all indexes to `batch`, which has stored keys. `None` if no keyspace in it has
    /// an index.
    pub(crate) fn prepare(self, batch: &WriteBatch) -> Result<Option<IndexedBatch<'a>>> {
        loop {
            let map = self.registry.load();
            if !batch.keyspaces().any(|keyspace| map.contains_key(&keyspace)) {
                return Ok(None);
            }
            let changes = row_changes(batch, &map)?;
            let stripes = changes.iter().map(|row| Stripes::of(row.keyspace, row.key)).collect();
            let rows = self.registry.stripes().rows.lock(stripes);
            // A drop of an index takes all locks first.
            if self.registry.is_current(&map) {
                return self.with_entries(batch, &map, &changes, rows).map(Some);
            }
        }
    }

    fn with_entries(
        self,
        batch: &WriteBatch,
        map: &IndexMap,
        changes: &[RowChange<'_>],
        rows: HeldStripes<'a>,
    ) -> Result<IndexedBatch<'a>> {
        let mut indexed = batch.clone();
        let mut unique = Vec::new();
        for rows in changes.chunk_by(|a, b| a.keyspace == b.keyspace) {
            let slots = &map[&rows[0].keyspace];
            for slot in slots {
                slot.registered()?;
            }
            let keys: Vec<_> = rows.iter().map(|row| self.tree.keys.user(row.key)).collect();
            let before = self.values(rows[0].keyspace, &keys)?;
            for slot in slots {
                self.add_differences(slot, rows, &keys, &before, &mut indexed, &mut unique)?;
            }
        }
        let unique_keys = match unique.is_empty() {
            true => Vec::new(),
            false => self.add_unique(&unique, &mut indexed)?,
        };
        Ok(IndexedBatch { batch: indexed, _rows: rows, _unique_keys: unique_keys })
    }

    /// The values of `keys` now.
    pub(crate) fn values<K: AsRef<[u8]>>(
        self,
        keyspace: KeyspaceId,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        let (view, now) = pin_present(|| self.tree.view.pin(), || self.commit.visible());
        multi_get(self.tree, &view, keyspace, keys, now)
    }

    /// The row that has `index_key` in the unique index `slot` now.
    pub(crate) fn owner(self, slot: &IndexSlot, index_key: &[u8]) -> Result<Option<Value>> {
        let mut entry = Vec::new();
        format::entry_key(index_key, b"", &mut entry);
        let (view, now) = pin_present(|| self.tree.view.pin(), || self.commit.visible());
        get(self.tree, &view, slot.entries, &entry, now, ReadTier::MayBlock)
    }

    /// Adds what distinguishes the entries of the old values from those of the new ones.
    fn add_differences(
        self,
        slot: &Arc<IndexSlot>,
        rows: &[RowChange<'_>],
        keys: &[Cow<'_, [u8]>],
        before: &[Option<Value>],
        batch: &mut WriteBatch,
        unique: &mut Vec<UniqueChange>,
    ) -> Result<()> {
        let is_unique = slot.registered()?.is_unique;
        let (mut old, mut new) = (IndexKeys::default(), IndexKeys::default());
        let mut entry = Vec::new();
        for ((row, key), before) in rows.iter().zip(keys).zip(before) {
            old.clear();
            new.clear();
            if let Some(value) = before {
                slot.keys_of(key, value, &mut old)?;
            }
            if let Some(value) = row.value {
                slot.keys_of(key, value, &mut new)?;
            }
            let removed = old.iter().filter(|index_key| !new.contains(index_key));
            let added = new.iter().filter(|index_key| !old.contains(index_key));
            if is_unique {
                let change = |index_key: &[u8], is_added| UniqueChange {
                    slot: slot.clone(),
                    index_key: index_key.to_vec(),
                    row: key.to_vec(),
                    is_added,
                };
                unique.extend(removed.map(|index_key| change(index_key, false)));
                unique.extend(added.map(|index_key| change(index_key, true)));
                continue;
            }
            for index_key in removed {
                format::entry_key(index_key, key, &mut entry);
                batch.delete(slot.entries, &entry);
            }
            for index_key in added {
                format::entry_key(index_key, key, &mut entry);
                batch.put(slot.entries, &entry, b"");
            }
        }
        Ok(())
    }

    /// Locks the keys of unique indexes that change hands, and adds their entries unless a row outside
    /// the batch has one.
    fn add_unique(
        self,
        changes: &[UniqueChange],
        batch: &mut WriteBatch,
    ) -> Result<HeldStripes<'a>> {
        let of = |change: &UniqueChange| Stripes::of(change.slot.entries, &change.index_key);
        let held = self.registry.stripes().unique_keys.lock(changes.iter().map(of).collect());
        // The rows that have the keys afterwards, by index and key.
        let mut owners: BTreeMap<(KeyspaceId, &[u8]), Option<&[u8]>> = BTreeMap::new();
        for change in changes.iter().filter(|change| !change.is_added) {
            // Before the index is ready, another row may have the entry: one that the build finds.
            let owner = || self.owner(&change.slot, &change.index_key);
            if change.slot.is_ready() || owner()?.as_deref() == Some(&change.row[..]) {
                owners.insert((change.slot.entries, &change.index_key), None);
            }
        }
        for change in changes.iter().filter(|change| change.is_added) {
            let place = (change.slot.entries, &change.index_key[..]);
            let owner = match owners.get(&place) {
                Some(owner) => owner.map(Value::copy_of),
                None => self.owner(&change.slot, &change.index_key)?,
            };
            match owner {
                Some(owner) if *owner != *change.row => {
                    return Err(not_unique(&change.slot, &change.index_key, &change.row, &owner));
                }
                _ => _ = owners.insert(place, Some(&change.row)),
            }
        }
        let mut entry = Vec::new();
        for ((entries, index_key), owner) in owners {
            format::entry_key(index_key, b"", &mut entry);
            match owner {
                Some(row) => batch.put(entries, &entry, row),
                None => batch.delete(entries, &entry),
            }
        }
        Ok(held)
    }
}

/// What `batch` makes of the rows of keyspaces with indexes, by keyspace and key.
fn row_changes<'b>(batch: &'b WriteBatch, map: &IndexMap) -> Result<Vec<RowChange<'b>>> {
    let mut changes = Vec::with_capacity(batch.len());
    for entry in batch.iter() {
        let Some(slots) = map.get(&entry.keyspace) else { continue };
        let value = match entry.kind {
            Kind::Put => Some(entry.value),
            Kind::Delete => None,
            Kind::Merge | Kind::Combined => {
                return Err(bypassed(&slots[0], "merge into", "merge in a transaction"));
            }
            Kind::ExpiringPut => {
                let instead = "put it, and delete it later";
                return Err(bypassed(&slots[0], "put an expiring row into", instead));
            }
            Kind::RangeDelete => {
                return Err(bypassed(&slots[0], "delete a range of", "delete its keys one by one"));
            }
        };
        changes.push(RowChange { keyspace: entry.keyspace, key: entry.key, value });
    }
    // Stable: of the changes of a row, the last stays the last.
    changes.sort_by_key(|row| (row.keyspace, row.key));
    changes.dedup_by(|later, earlier| {
        let is_same = (later.keyspace, later.key) == (earlier.keyspace, earlier.key);
        if is_same {
            earlier.value = later.value;
        }
        is_same
    });
    Ok(changes)
}

/// The error of an operation that adds or removes rows without the entries of `slot`.
pub(crate) fn bypassed(slot: &IndexSlot, what: &'static str, instead: &'static str) -> Error {
    IndexError::Bypassed { keyspace: slot.rows_name.clone(), what, instead }.into()
}

/// The error of a second row with a key of a unique index.
#[cold]
pub(crate) fn not_unique(slot: &IndexSlot, index_key: &[u8], key: &[u8], other: &[u8]) -> Error {
    let escaped = |bytes: &[u8]| bytes.escape_ascii().to_string();
    IndexError::NotUnique {
        index: slot.name.clone(),
        index_key: escaped(index_key),
        key: escaped(key),
        other: escaped(other),
    }
    .into()
}
