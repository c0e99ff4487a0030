//! Adds index entries to a batch.
//!
//! ```text
//! lock rows ─► run functions on new values ─► read old values ─► run functions on them
//!           ─► lock unique keys ─► check ─► one batch
//! ```
//!
//! Only the value before the batch and the value after it count: of several writes of a row in a
//! batch, the last decides. A range delete counts as deletes of the rows in it, which are read under
//! the locks of all rows; if it deletes all rows of a keyspace, it deletes all entries.
//!
//! Where a row and its entries go in the active MemTable is known before the old value is: the
//! processor is asked for those cache lines at once, so that they arrive together.

use super::format;
use super::index_keys::IndexKeys;
use super::registry::{IndexMap, IndexRegistry, IndexSlot};
use super::stripes::{HeldStripes, Stripes};
use crate::read::db_iter::DbIter;
use crate::read::get::{ReadTier, get};
use crate::read::multi_get::multi_get;
use crate::tree::Tree;
use crate::version::readers::super_version::{SuperVersion, pin_present};
use crate::write::CommitPipeline;
use esker_api::{KeyRange, Value, WriteBatch};
use esker_base::{
    Entry, Error, IndexError, KeyspaceId, Kind, MAX_KEY_BYTES, Result, Seqno, hash64,
};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rows whose old values are in memory at once.
const CHUNK_ROWS: usize = 256;

/// What adding entries needs of the database.
#[derive(Clone, Copy)]
pub(crate) struct Indexing<'a> {
    pub(crate) registry: &'a IndexRegistry,
    pub(crate) tree: &'a Tree,
    pub(crate) commit: &'a CommitPipeline,
}

/// Rows of a batch whose places are asked for ahead. More would not stay in the cache.
const PREFETCHED: usize = 16;

/// Capacity that a batch gets for the entry of a row. A longer entry costs another allocation.
const ENTRY_CAPACITY_BYTES: usize = 64;

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
    key: Cow<'b, [u8]>,
    /// `None`: there is no such row afterwards.
    value: Option<&'b [u8]>,
}

/// The rows that a batch changes, with their new values.
type ChangedRows<'b> = BTreeMap<(KeyspaceId, Cow<'b, [u8]>), Option<&'b [u8]>>;

/// What a batch makes of the rows of keyspaces with indexes.
#[derive(Default)]
struct RowChanges<'b> {
    /// By keyspace and key, each row once.
    rows: SmallVec<[RowChange<'b>; 1]>,
    /// Keyspaces whose rows are all deleted before `rows` are written.
    cleared: BTreeSet<KeyspaceId>,
}

/// A key that a row gets or loses in a unique index.
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
            let epoch = self.registry.epoch();
            let map = self.registry.load();
            if !batch.keyspaces().any(|keyspace| map.contains_key(&keyspace)) {
                return Ok(None);
            }
            if batch.has_range_delete() {
                let rows = self.registry.stripes().rows.lock_all();
                // A drop of an index takes all locks first.
                if self.registry.epoch() == epoch {
                    let changes = self.changes_with_ranges(batch, &map)?;
                    return self.with_entries(batch, &map, &changes, rows).map(Some);
                }
                continue;
            }
            let changes = changes(batch, &map)?;
            let locks = &self.registry.stripes().rows;
            let stripe = |row: &RowChange<'_>| Stripes::of(row.keyspace, &row.key);
            let rows = match &changes.rows[..] {
                [row] => locks.lock_one(stripe(row)),
                rows => locks.lock(rows.iter().map(stripe).collect()),
            };
            if self.registry.epoch() == epoch {
                return self.with_entries(batch, &map, &changes, rows).map(Some);
            }
        }
    }

    fn with_entries(
        self,
        batch: &WriteBatch,
        map: &IndexMap,
        changes: &RowChanges<'_>,
        rows: HeldStripes<'a>,
    ) -> Result<IndexedBatch<'a>> {
        self.prefetch_rows(&changes.rows);
        let mut indexed = batch.clone_with_capacity(changes.rows.len() * ENTRY_CAPACITY_BYTES);
        for keyspace in &changes.cleared {
            for slot in &map[keyspace] {
                slot.registered()?;
                indexed.delete_range(slot.entries, format::entry_range(&KeyRange::all()));
            }
        }
        let mut unique = Vec::new();
        for rows in changes.rows.chunk_by(|a, b| a.keyspace == b.keyspace) {
            let keyspace = rows[0].keyspace;
            let slots = &map[&keyspace];
            for slot in slots {
                slot.registered()?;
            }
            for rows in rows.chunks(CHUNK_ROWS) {
                let mut keys: SmallVec<[_; 1]> = SmallVec::with_capacity(rows.len());
                for row in rows {
                    keys.push(self.tree.keys.user(&row.key));
                }
                let after = keys_after(slots, rows, &keys)?;
                let (view, now) = pin_present(|| self.tree.view.pin(), || self.commit.visible());
                self.prefetch_entries(&view, slots, &keys, &after);
                let before = match changes.cleared.contains(&keyspace) {
                    true => smallvec![None; keys.len()],
                    false => self.values_at(&view, keyspace, &keys, now)?,
                };
                drop(view);
                for (slot, after) in slots.iter().zip(after.chunks(keys.len())) {
                    add_differences(slot, &keys, &before, after, &mut indexed, &mut unique)?;
                }
            }
        }
        let unique_keys = match unique.is_empty() {
            true => HeldStripes::new(),
            false => self.add_unique(&unique, &changes.cleared, &mut indexed)?,
        };
        Ok(IndexedBatch { batch: indexed, _rows: rows, _unique_keys: unique_keys })
    }

    /// What `batch` makes of rows, those in its range deletes included. The locks of all rows are held.
    #[cold]
    fn changes_with_ranges<'b>(
        self,
        batch: &'b WriteBatch,
        map: &IndexMap,
    ) -> Result<RowChanges<'b>> {
        let mut rows: ChangedRows<'b> = BTreeMap::new();
        let mut cleared = BTreeSet::new();
        for entry in batch.iter().filter(|entry| map.contains_key(&entry.keyspace)) {
            let keyspace = entry.keyspace;
            if entry.kind != Kind::RangeDelete {
                rows.insert((keyspace, entry.key.into()), value_after(&entry, map)?);
            } else if self.tree.keys.is_all(entry.key, entry.value) {
                rows.retain(|(other, _), _| *other != keyspace);
                cleared.insert(keyspace);
            } else {
                let bounds = (keyspace, entry.key.into())..(keyspace, entry.value.into());
                rows.range_mut(bounds).for_each(|(_, value)| *value = None);
                if !cleared.contains(&keyspace) {
                    self.for_each_row(keyspace, entry.key, entry.value, |key| {
                        rows.insert((keyspace, Cow::Owned(key.to_vec())), None);
                        self.check_count(batch, rows.len())
                    })?;
                }
            }
        }
        let row = |((keyspace, key), value)| RowChange { keyspace, key, value };
        Ok(RowChanges { rows: rows.into_iter().map(row).collect(), cleared })
    }

    /// Calls `work` with the stored keys of all rows from `start` up to, not including, `end`.
    fn for_each_row(
        self,
        keyspace: KeyspaceId,
        start: &[u8],
        end: &[u8],
        mut work: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let snapshot = self.tree.snapshots.take(|| self.commit.visible());
        let range = KeyRange::deleted(start, end);
        let mut iter = DbIter::new(self.tree, keyspace, range, &snapshot)?;
        iter.seek_first()?;
        while let Some(key) = iter.key() {
            work(key)?;
            iter.next()?;
        }
        Ok(())
    }

    /// Fails if a batch of so many rows cannot be written, before it is in memory.
    fn check_count(self, batch: &WriteBatch, rows: usize) -> Result<()> {
        let settings = &self.tree.settings;
        if rows <= settings.max_batch_entries() {
            return Ok(());
        }
        Err(Error::BatchTooLarge {
            bytes: batch.encoded().len(),
            limit: settings.max_batch_bytes(),
            entries: rows,
            entries_limit: settings.max_batch_entries(),
        })
    }

    /// The values of `keys` now.
    pub(crate) fn values<K: AsRef<[u8]>>(
        self,
        keyspace: KeyspaceId,
        keys: &[K],
    ) -> Result<SmallVec<[Option<Value>; 1]>> {
        let (view, now) = pin_present(|| self.tree.view.pin(), || self.commit.visible());
        self.values_at(&view, keyspace, keys, now)
    }

    fn values_at<K: AsRef<[u8]>>(
        self,
        view: &SuperVersion,
        keyspace: KeyspaceId,
        keys: &[K],
        now: Seqno,
    ) -> Result<SmallVec<[Option<Value>; 1]>> {
        if let [key] = keys {
            let value = get(self.tree, view, keyspace, key.as_ref(), now, ReadTier::MayBlock)?;
            return Ok(smallvec![value]);
        }
        multi_get(self.tree, view, keyspace, keys, now).map(SmallVec::from_vec)
    }

    /// The row that has `index_key` in the unique index `slot` now.
    pub(crate) fn owner(self, slot: &IndexSlot, index_key: &[u8]) -> Result<Option<Value>> {
        let mut entry = format::EntryKey::new();
        format::entry_key(index_key, b"", &mut entry);
        let (view, now) = pin_present(|| self.tree.view.pin(), || self.commit.visible());
        get(self.tree, &view, slot.entries, &entry, now, ReadTier::MayBlock)
    }

    /// Asks for the places of `rows` in the active MemTable.
    fn prefetch_rows(self, rows: &[RowChange<'_>]) {
        let view = self.tree.view.pin();
        let Some(active) = view.memtables.first() else { return };
        for row in rows.iter().take(PREFETCHED) {
            active.prefetch(row.keyspace, hash64(&row.key));
        }
    }

    /// Asks for the places in the active MemTable of the entries that the rows `keys` have `after` the
    /// batch, which are probably new.
    fn prefetch_entries(
        self,
        view: &SuperVersion,
        slots: &[Arc<IndexSlot>],
        keys: &[Cow<'_, [u8]>],
        after: &[IndexKeys],
    ) {
        let Some(active) = view.memtables.first() else { return };
        let mut entry = format::EntryKey::new();
        for (slot, after) in slots.iter().zip(after.chunks(keys.len())) {
            for (key, after) in keys.iter().zip(after).take(PREFETCHED) {
                for index_key in after.iter() {
                    format::entry_key(index_key, key, &mut entry);
                    active.prefetch(slot.entries, hash64(&self.tree.keys.stored(&entry)));
                }
            }
        }
    }

    /// Locks the keys of unique indexes that change hands, and adds their entries unless a row outside
    /// the batch has one.
    fn add_unique(
        self,
        changes: &[UniqueChange],
        cleared: &BTreeSet<KeyspaceId>,
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
        let mut entry = format::EntryKey::new();
        for change in changes.iter().filter(|change| change.is_added) {
            format::entry_key(&change.index_key, b"", &mut entry);
            check_entry(&change.slot, &entry, &change.row)?;
            let place = (change.slot.entries, &change.index_key[..]);
            let owner = match owners.get(&place) {
                Some(owner) => owner.map(Value::copy_of),
                None if cleared.contains(&change.slot.rows) => None,
                None => self.owner(&change.slot, &change.index_key)?,
            };
            match owner {
                Some(owner) if *owner != *change.row => {
                    return Err(not_unique(&change.slot, &change.index_key, &change.row, &owner));
                }
                _ => _ = owners.insert(place, Some(&change.row)),
            }
        }
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

/// The keys that the rows `keys` have afterwards in each of `slots`: those of the first slot, then those
/// of the next.
fn keys_after(
    slots: &[Arc<IndexSlot>],
    rows: &[RowChange<'_>],
    keys: &[Cow<'_, [u8]>],
) -> Result<SmallVec<[IndexKeys; 1]>> {
    let mut after = SmallVec::with_capacity(slots.len() * rows.len());
    for slot in slots {
        for (row, key) in rows.iter().zip(keys) {
            let mut index_keys = IndexKeys::default();
            if let Some(value) = row.value {
                slot.keys_of(key, value, &mut index_keys)?;
            }
            after.push(index_keys);
        }
    }
    Ok(after)
}

/// Adds what distinguishes the entries of the old values from those of the new ones. `keys` are the rows,
/// `before` their old values, and `after` their new keys in the index.
fn add_differences(
    slot: &Arc<IndexSlot>,
    keys: &[Cow<'_, [u8]>],
    before: &[Option<Value>],
    after: &[IndexKeys],
    batch: &mut WriteBatch,
    unique: &mut Vec<UniqueChange>,
) -> Result<()> {
    let is_unique = slot.registered()?.is_unique;
    let mut old = IndexKeys::default();
    let mut entry = format::EntryKey::new();
    for ((key, before), new) in keys.iter().zip(before).zip(after) {
        old.clear();
        if let Some(value) = before {
            slot.keys_of(key, value, &mut old)?;
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
            check_entry(slot, &entry, key)?;
            batch.put(slot.entries, &entry, b"");
        }
    }
    Ok(())
}

/// What `batch`, which has no range delete, makes of rows.
fn changes<'b>(batch: &'b WriteBatch, map: &IndexMap) -> Result<RowChanges<'b>> {
    let mut rows: SmallVec<[RowChange<'b>; 1]> = SmallVec::new();
    for entry in batch.iter().filter(|entry| map.contains_key(&entry.keyspace)) {
        let (keyspace, key) = (entry.keyspace, Cow::Borrowed(entry.key));
        rows.push(RowChange { keyspace, key, value: value_after(&entry, map)? });
    }
    if rows.len() > 1 {
        // Stable: of the changes of a row, the last stays the last.
        rows.sort_by(|a, b| (a.keyspace, &a.key).cmp(&(b.keyspace, &b.key)));
        rows.dedup_by(|later, earlier| {
            let is_same = (later.keyspace, &later.key) == (earlier.keyspace, &earlier.key);
            if is_same {
                earlier.value = later.value;
            }
            is_same
        });
    }
    Ok(RowChanges { rows, cleared: BTreeSet::new() })
}

/// The value of a row after a write of its key.
fn value_after<'b>(entry: &Entry<'b>, map: &IndexMap) -> Result<Option<&'b [u8]>> {
    match entry.kind {
        Kind::Put => Ok(Some(entry.value)),
        Kind::Separated => unreachable!("only tables have such entries"),
        Kind::Delete | Kind::RangeDelete => Ok(None),
        Kind::Merge | Kind::Combined => {
            Err(bypassed(&map[&entry.keyspace][0], "merge into", "merge in a transaction"))
        }
        Kind::ExpiringPut => {
            let instead = "put it, and delete it later";
            Err(bypassed(&map[&entry.keyspace][0], "put an expiring row into", instead))
        }
    }
}

/// Fails if `entry` of the row `key` is too long.
pub(crate) fn check_entry(slot: &IndexSlot, entry: &[u8], key: &[u8]) -> Result<()> {
    if entry.len() <= MAX_KEY_BYTES {
        return Ok(());
    }
    let (index, key) = (slot.name.clone(), key.escape_ascii().to_string());
    Err(IndexError::EntryTooLong { index, key, bytes: entry.len(), limit: MAX_KEY_BYTES }.into())
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
