//! Reads and writes, shared by the handles [`Db`](crate::Db) and [`Keyspace`](crate::Keyspace).

use super::cursor::DbCursor;
use crate::engine::Engine;
use crate::index::registry::NO_INDEXES;
use crate::options::settings::Log;
use crate::read::get::ReadTier;
use crate::read::{get, merged_get, multi_get};
use crate::recovery::close::Upkeep;
use crate::stats::call_watch::shown_key;
use crate::stats::events::{CallKind, EventKind};
use crate::version::readers::snapshot_tracker::Snapshot;
use esker_api::{Cursor, KeyRange, KeyspaceRef, Value, WriteBatch};
use esker_base::operation_cost::count;
use esker_base::{ChangesError, Error, KeyspaceId, Kind, Result, Seqno, hash64};
use esker_memtable::{DramTable, MemTable};
use std::sync::Arc;
use std::time::Duration;

impl Engine {
    /// For calls that do I/O for upkeep: a close waits for them before it releases the lock.
    pub(crate) fn begin_upkeep(&self) -> Result<Upkeep<'_>> {
        self.tree.check_usable()?;
        let upkeep = Upkeep::begin(self);
        self.check_upkeep()?;
        Ok(upkeep)
    }

    /// Fails unless users may change what is in the database.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.tree.is_replica {
            false => self.check_upkeep(),
            true => Err(ChangesError::Follows { dir: self.tree.storage.describe() }.into()),
        }
    }

    fn check_upkeep(&self) -> Result<()> {
        self.tree.check_usable()?;
        if self.tree.read_only {
            Err(Error::ReadOnly)
        } else if self.gate.is_cancelled() {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    pub(crate) fn take_snapshot(&self) -> Snapshot {
        match self.tree.follows {
            None => self.tree.snapshots.take(|| self.commit.visible()),
            Some(_) => self.tree.snapshots.keep(self.tree.view.load()),
        }
    }

    #[inline]
    pub(crate) fn get(
        &self,
        keyspace: impl Into<KeyspaceRef>,
        key: &[u8],
        patience: ReadTier,
    ) -> Result<Option<Value>> {
        let keyspace = keyspace.into();
        if self.calls.is_on() {
            return self.watched(CallKind::Get, keyspace.id, key, || {
                self.get_now(keyspace, key, patience)
            });
        }
        self.get_now(keyspace, key, patience)
    }

    #[inline]
    fn get_now(
        &self,
        keyspace: KeyspaceRef,
        key: &[u8],
        patience: ReadTier,
    ) -> Result<Option<Value>> {
        self.tree.check_usable()?;
        let keyspace = self.tree.resolve(keyspace)?;
        let (view, visible) = self.pin_present();
        get::get(&self.tree, &view, keyspace, key, visible, patience)
    }

    pub(crate) fn get_at(
        &self,
        keyspace: impl Into<KeyspaceRef>,
        key: &[u8],
        snapshot: &Snapshot,
    ) -> Result<Option<Value>> {
        let keyspace = keyspace.into();
        if self.calls.is_on() {
            return self.watched(CallKind::Get, keyspace.id, key, || {
                self.get_at_now(keyspace, key, snapshot)
            });
        }
        self.get_at_now(keyspace, key, snapshot)
    }

    #[inline]
    fn get_at_now(
        &self,
        keyspace: KeyspaceRef,
        key: &[u8],
        snapshot: &Snapshot,
    ) -> Result<Option<Value>> {
        self.tree.check_usable()?;
        let keyspace = self.tree.resolve(keyspace)?;
        let seqno = self.tree.resolve_snapshot(snapshot)?;
        if let Some(view) = snapshot.view() {
            return get::get(&self.tree, view, keyspace, key, seqno, ReadTier::MayBlock);
        }
        let view = self.tree.view.pin();
        get::get(&self.tree, &view, keyspace, key, seqno, ReadTier::MayBlock)
    }

    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: impl Into<KeyspaceRef>,
        keys: impl IntoIterator<Item = K>,
        snapshot: Option<&Snapshot>,
    ) -> Result<Vec<Option<Value>>> {
        self.tree.check_usable()?;
        let keyspace = self.tree.resolve(keyspace)?;
        let seqno = snapshot.map(|at| self.tree.resolve_snapshot(at)).transpose()?;
        // The caller's iterator may wait, or write: not while a view is pinned.
        let keys: Vec<K> = keys.into_iter().collect();
        let search = || {
            let (view, visible) = self.pin_present();
            let own = snapshot.and_then(Snapshot::view);
            let (view, seqno) = (own.unwrap_or(&view), seqno.unwrap_or(visible));
            multi_get::multi_get(&self.tree, view, keyspace, &keys, seqno)
        };
        let found = match self.calls.is_on() {
            true => {
                let first = keys.first().map_or(&b""[..], AsRef::as_ref);
                self.watched(CallKind::MultiGet, keyspace, first, search)
            }
            false => search(),
        };
        self.charge_wide_reads();
        found
    }

    /// Runs `call`, and notes an event if it is slow. `key` is the first of its keys, as the user knows
    /// it.
    #[cold]
    pub(super) fn watched<T>(
        &self,
        call: CallKind,
        keyspace: KeyspaceId,
        key: &[u8],
        run: impl FnOnce() -> T,
    ) -> T {
        self.calls.run(call, &*self.tree.clock, run, |took, cost| {
            if !self.tree.owner.is_current() {
                return;
            }
            let view = self.tree.view.pin();
            let name = view.version.keyspaces.get(&keyspace).map(|found| found.name.clone());
            let (keyspace, key) = (name.unwrap_or_default(), shown_key(key));
            drop(view);
            self.tree.note_event(EventKind::SlowCall { call, keyspace, key, took, cost });
        })
    }

    /// Counts the keys in `range` at `snapshot`.
    pub(crate) fn count(
        self: &Arc<Self>,
        keyspace: impl Into<KeyspaceRef>,
        range: KeyRange,
        snapshot: Snapshot,
    ) -> Result<u64> {
        let keyspace = self.tree.resolve(keyspace)?;
        let mut cursor = DbCursor::new(self, keyspace, range, snapshot)?;
        let mut keys = 0;
        cursor.seek_first()?;
        while cursor.current().is_some() {
            keys += 1;
            cursor.next()?;
        }
        Ok(keys)
    }

    /// Estimates the number of keys in `keyspace`: live keys of its tables, from samples, and entries
    /// of MemTables, which are divided among the keyspaces of each.
    pub(crate) fn approximate_len(&self, keyspace: impl Into<KeyspaceRef>) -> Result<u64> {
        self.tree.check_usable()?;
        let keyspace = self.tree.resolve(keyspace)?;
        // Opens tables, so no view is pinned before.
        let version = self.tree.opened_version();
        let in_version =
            version.keyspaces.get(&keyspace).ok_or_else(|| self.tree.unknown(keyspace))?;
        let (snapshots, now) = (self.tree.snapshots.list(), self.tree.time.now_if_used());
        let in_tables = match in_version.estimate_at(&snapshots, now) {
            Some(estimate) => estimate.live_keys,
            // A table cannot be opened: its counts are in the manifest.
            None => in_version.tables().map(|(_, _, table)| table.meta.entries as f64).sum(),
        };
        let in_memory = |memtable: &Arc<MemTable>| {
            let keyspaces = memtable.keyspaces();
            match keyspaces.contains(&keyspace) {
                true => memtable.entries() / keyspaces.len() as u64,
                false => 0,
            }
        };
        let in_memtables: u64 = self.tree.view.load().memtables.iter().map(in_memory).sum();
        Ok(in_tables.max(0.0).round() as u64 + in_memtables)
    }

    #[inline]
    pub(crate) fn put(
        self: &Arc<Self>,
        keyspace: impl Into<KeyspaceRef>,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(keyspace, key, value);
        self.write(&batch)
    }

    pub(crate) fn put_with_ttl(
        self: &Arc<Self>,
        keyspace: impl Into<KeyspaceRef>,
        key: &[u8],
        value: &[u8],
        ttl: Duration,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put_with_ttl(keyspace, key, value, ttl);
        self.write(&batch)
    }

    pub(crate) fn merge(
        self: &Arc<Self>,
        keyspace: impl Into<KeyspaceRef>,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.merge(keyspace, key, operand);
        self.write(&batch)
    }

    /// Merges `operands` on `base`, as a read will.
    pub(crate) fn merged(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>> {
        self.tree.check_usable()?;
        let view = self.tree.view.pin();
        let found = view.version.keyspaces.get(&keyspace);
        let merger = self.tree.merger(found.ok_or_else(|| self.tree.unknown(keyspace))?);
        drop(view);
        operands.iter().try_for_each(|operand| merger.check(key, operand))?;
        merger.merge_all(&self.tree.keys.stored(key), base, operands)
    }

    pub(crate) fn delete(
        self: &Arc<Self>,
        keyspace: impl Into<KeyspaceRef>,
        key: &[u8],
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(keyspace, key);
        self.write(&batch)
    }

    pub(crate) fn delete_range(
        self: &Arc<Self>,
        keyspace: impl Into<KeyspaceRef>,
        range: KeyRange,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(keyspace, range);
        self.write(&batch)
    }

    #[inline]
    pub(crate) fn write(self: &Arc<Self>, batch: &WriteBatch) -> Result<()> {
        if self.calls.is_on()
            && let Some(first) = batch.iter().next()
        {
            return self
                .watched(CallKind::Write, first.keyspace, first.key, || self.write_now(batch));
        }
        self.write_now(batch)
    }

    #[inline]
    fn write_now(self: &Arc<Self>, batch: &WriteBatch) -> Result<()> {
        self.check_writable()?;
        if batch.is_empty() {
            return Ok(());
        }
        let accepted = match self.accept(batch) {
            Err(refused @ Error::ValueTooLarge { .. }) => return self.write_large(batch, refused),
            accepted => accepted?,
        };
        let batch = &*accepted;
        self.stall.before_write(batch.encoded().len(), &*self.tree.clock);
        let epoch = self.indexes.epoch();
        let written = match epoch == NO_INDEXES {
            true => self.commit_batch(batch, epoch)?,
            false => None,
        };
        match written {
            Some(last_seqno) => self.after_write(batch, last_seqno),
            None => self.write_indexed(batch),
        }
    }

    /// Fails if a write of `batch` would be refused now: because of its size, its keyspaces, or their
    /// indexes.
    pub(crate) fn check_write(&self, batch: &WriteBatch) -> Result<()> {
        self.check_writable()?;
        let accepted = self.accept(batch)?;
        match self.indexing().prepare(&accepted)? {
            Some(indexed) => self.check_fits(&indexed.batch),
            None => Ok(()),
        }
    }

    /// Writes `batch` with the entries of indexes.
    #[inline(never)]
    fn write_indexed(&self, batch: &WriteBatch) -> Result<()> {
        loop {
            // Loaded before the batch is prepared: see `index::registry`.
            let epoch = self.indexes.epoch();
            let indexed = self.indexing().prepare(batch)?;
            let whole = indexed.as_ref().map_or(batch, |indexed| &indexed.batch);
            if indexed.is_some() {
                self.check_fits(whole)?;
            }
            let Some(last_seqno) = self.commit_batch(whole, epoch)? else { continue };
            let Some(indexed) = indexed else { return self.after_write(batch, last_seqno) };
            let whole = indexed.release();
            let added = whole.encoded().len() - batch.encoded().len();
            self.stall.before_write(added, &*self.tree.clock);
            return self.after_write(&whole, last_seqno);
        }
    }

    /// Writes a batch of the engine's own. It may write to no keyspace with indexes.
    pub(crate) fn write_own(&self, batch: &WriteBatch) -> Result<Seqno> {
        loop {
            if let Some(last_seqno) = self.commit_batch(batch, self.indexes.epoch())? {
                return self.after_write(batch, last_seqno).map(|()| last_seqno);
            }
        }
    }

    /// Writes `batch`, which has what indexes need at `epoch`. `None` if there is another epoch.
    #[inline]
    pub(super) fn commit_batch(&self, batch: &WriteBatch, epoch: u64) -> Result<Option<Seqno>> {
        let written = match self.fits_frame(batch) {
            true => self.commit.write(batch, epoch, self),
            false => {
                let segment_bytes = self.tree.settings.segment_bytes;
                self.commit.write_large(batch, segment_bytes, epoch, self)
            }
        }?;
        if written.is_some() {
            count(|cost| cost.bytes_written += batch.encoded().len() as u64);
        }
        Ok(written)
    }

    #[inline]
    fn after_write(&self, batch: &WriteBatch, last_seqno: Seqno) -> Result<()> {
        if let Some(dram_table) = self.tree.dram_table.as_ref().filter(|table| table.wants_puts()) {
            self.forward(dram_table, batch, last_seqno);
        }
        if batch.has_merges() {
            let (view, visible) = self.pin_present();
            merged_get::look_at_merges(&self.tree, (&view, visible), batch, last_seqno);
        }
        if batch.wants_sync() && self.tree.settings.log == Log::None {
            // Without a log, tables are the only durable place.
            self.begin_upkeep()?.flush_all()?;
        }
        Ok(())
    }

    /// Offers what was just written to the DRAMTable.
    fn forward(&self, dram_table: &DramTable, batch: &WriteBatch, last_seqno: Seqno) {
        let first_seqno = last_seqno + 1 - batch.len() as u64;
        for (seqno, entry) in (first_seqno..).zip(batch.iter()) {
            let value = match entry.kind {
                Kind::Put => Some(entry.value),
                // Copies are of values that stay.
                Kind::Delete
                | Kind::Merge
                | Kind::Combined
                | Kind::Separated
                | Kind::ExpiringPut => None,
                // Readers meet it in its MemTable; when that leaves, the floor is raised.
                Kind::RangeDelete => continue,
            };
            if !self.tree.filters.changes(entry.keyspace) {
                dram_table.put(entry.keyspace, entry.key, hash64(entry.key), seqno, value);
            }
        }
    }
}
