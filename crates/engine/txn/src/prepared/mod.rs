//! Two-phase commit: transactions that are durable before they are decided.
//!
//! [`StoreTransaction::prepare`] does all that a commit does except for the commit itself: it locks,
//! checks, and writes the transaction as a [record](record), in one synced batch. From then on only
//! [`TransactionManager::commit_prepared`] or [`TransactionManager::rollback_prepared`] ends it.
//! Each is one synced batch: a commit applies the writes and deletes the record, a rollback deletes
//! the record. So at any time the store has either the record, or the outcome.
//!
//! The locks of a prepared transaction are held until then. [`TransactionManager::recover`] reads
//! the records of an earlier process and takes their locks, before any transaction begins. If the
//! transaction's reads were checked, it also stays among the serializable commits in progress: see
//! `committing`.

mod record;
mod registry;

pub use record::MAX_ID_BYTES;
pub(crate) use registry::Registry;

use crate::committing::WriteFootprint;
use crate::locks::{HeldLocks, LockKey, Locks};
use crate::manager::TransactionManager;
use crate::transaction::StoreTransaction;
use esker_api::{KeyRange, Keyspaces, WriteBatch};
use esker_base::{Error, KeyspaceId, Kind, PreparedError, Result, split_expiry};
use record::{BadRecord, LockedKey, Record, part_key, read_part_key};
use registry::Prepared;
use std::collections::HashSet;
use std::time::Duration;

/// A prepared transaction, as a list shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PreparedTransaction {
    /// The id it was prepared under.
    pub id: Vec<u8>,
    /// The number of its puts and deletes.
    pub writes: usize,
    /// The bytes of its puts and deletes, encoded.
    pub bytes: usize,
    /// The number of keys that it has locked.
    pub locks: usize,
    /// Whether its record is damaged: then it cannot be committed, and has no locks.
    pub is_damaged: bool,
}

impl<S: Keyspaces> StoreTransaction<S> {
    /// Prepares the transaction under `id`: writes it durably to the keyspace `records`, with its
    /// locks. It ends here, and its locks stay.
    ///
    /// # Errors
    /// [`Error::Prepared`] if it cannot have the id; the errors of a commit, as far as the store finds
    /// them before. The transaction has not ended then, and keeps its writes and its locks.
    pub fn prepare(&mut self, id: &[u8], records: KeyspaceId) -> Result<()> {
        self.check_live()?;
        let manager = self.held.table().clone();
        let reservation = check_id(id).and_then(|()| manager.prepared().reserve(id))?;
        let prepared = self.write_record(&manager, id, records)?;
        self.end("prepared");
        reservation.fill(Box::new(prepared));
        Ok(())
    }

    fn write_record(
        &mut self,
        manager: &TransactionManager,
        id: &[u8],
        records: KeyspaceId,
    ) -> Result<Prepared> {
        self.check_writes()?;
        let guard = match self.reads.is_empty() {
            true => None,
            false => {
                let footprint = WriteFootprint::of(self.writes.batch());
                let guard = manager.in_flight().enter(footprint);
                self.validate_reads(&guard.earlier)?;
                Some(guard)
            }
        };
        let entry_bytes = manager.limits().entry_bytes;
        let writes = self.writes.batch();
        let values = record::encode(writes, &self.further_locks(), guard.is_some(), entry_bytes);
        let parts = values.len() as u32;
        // The store may refuse what the commit will write, and then it must not be prepared.
        let mut commit = writes.clone();
        add_deletes(&mut commit, id, parts, records);
        self.store.check_write(&commit)?;
        let mut batch = WriteBatch::new();
        for (part, value) in (0..).zip(&values) {
            batch.put(records, part_key(id, part), value);
        }
        batch.set_sync(true);
        if let Err(error) = self.store.write(&batch) {
            // Without a log, the record is there although it is not durable.
            let _ = self.store.write(&deletes(id, parts, records));
            return Err(error);
        }
        let writes = self.writes.take_batch();
        let entered = guard.map(|guard| guard.keep());
        Ok(Prepared { writes, parts, locks: self.held.park(id), entered, damage: None })
    }

    /// Locks on keys that the transaction does not write.
    fn further_locks(&self) -> Vec<LockedKey> {
        let entries = self.writes.batch().iter();
        let written: HashSet<_> = entries.map(|entry| (entry.keyspace, entry.key)).collect();
        let mut keys = self.held.locked_keys();
        keys.retain(|(keyspace, key)| !written.contains(&(*keyspace, &key[..])));
        keys
    }
}

impl TransactionManager {
    /// Lists the prepared transactions, ordered by id. One that a thread is just preparing or
    /// deciding may be missing.
    pub fn prepared_transactions(&self) -> Vec<PreparedTransaction> {
        self.prepared().list(|id, prepared| PreparedTransaction {
            id: id.to_vec(),
            writes: prepared.writes.len(),
            bytes: prepared.writes.encoded().len(),
            locks: prepared.locks.len(),
            is_damaged: prepared.damage.is_some(),
        })
    }

    /// Applies the writes of the transaction prepared under `id` in `store`, durably, and ends it.
    /// `records` has its record. Writes to keyspaces that were dropped are left out.
    ///
    /// # Errors
    /// [`PreparedError::Unknown`] if there is none. [`Error::Corruption`] if its record is damaged. The
    /// errors of a write: the transaction is still prepared then, unless its writes are visible and only
    /// their sync failed.
    pub fn commit_prepared<S: Keyspaces>(
        &self,
        store: &S,
        id: &[u8],
        records: KeyspaceId,
    ) -> Result<()> {
        self.decide(store, id, records, |prepared| {
            prepared.damage.clone().map_or(Ok(()), Err)?;
            let mut batch = prepared.writes.clone();
            add_deletes(&mut batch, id, prepared.parts, records);
            match store.write(batch.set_sync(true)) {
                Err(Error::UnknownKeyspace { .. }) => {
                    let mut batch = known(store, &prepared.writes);
                    add_deletes(&mut batch, id, prepared.parts, records);
                    store.write(batch.set_sync(true))
                }
                written => written,
            }
        })
    }

    /// Discards the transaction prepared under `id` in `store`, durably.
    ///
    /// # Errors
    /// Those of [`TransactionManager::commit_prepared`].
    pub fn rollback_prepared<S: Keyspaces>(
        &self,
        store: &S,
        id: &[u8],
        records: KeyspaceId,
    ) -> Result<()> {
        self.decide(store, id, records, |prepared| {
            store.write(deletes(id, prepared.parts, records).set_sync(true))
        })
    }

    fn decide<S: Keyspaces>(
        &self,
        store: &S,
        id: &[u8],
        records: KeyspaceId,
        write: impl FnOnce(&Prepared) -> Result<()>,
    ) -> Result<()> {
        self.locks().check_process()?;
        let (reservation, prepared) = self.prepared().take(id)?;
        let written = write(&prepared);
        let is_there = || !matches!(store.get(records, &part_key(id, 0)), Ok(None));
        if written.is_err() && (prepared.damage.is_some() || is_there()) {
            reservation.fill(prepared);
            return written;
        }
        self.in_flight().leave(prepared.entered.as_ref());
        self.locks().release_parked(prepared.locks);
        written
    }

    /// Takes over the transactions whose records are in the keyspace `records` of `store`, with
    /// their locks. No transaction may have begun before. One whose record is damaged can only be rolled
    /// back.
    ///
    /// # Errors
    /// [`Error::Corruption`] if a later release may have written a record; the errors of a read.
    pub fn recover<S: Keyspaces>(&self, store: &S, records: KeyspaceId) -> Result<()> {
        let mut cursor = store.cursor_at(records, KeyRange::all(), &store.snapshot())?;
        let mut found: Option<(Vec<u8>, Parts)> = None;
        cursor.seek_first()?;
        while let Some((key, value)) = cursor.current() {
            let (id, part) =
                read_part_key(key).ok_or_else(|| corrupt(key, "its key is malformed"))?;
            match &mut found {
                Some((of, parts)) if of == id => parts.push((part, value.to_vec())),
                _ => {
                    let next = (id.to_vec(), vec![(part, value.to_vec())]);
                    if let Some((id, parts)) = found.replace(next) {
                        self.take_over(&id, parts)?;
                    }
                }
            }
            cursor.next()?;
        }
        found.map_or(Ok(()), |(id, parts)| self.take_over(&id, parts))
    }

    fn take_over(&self, id: &[u8], parts: Parts) -> Result<()> {
        let end = parts.last().map_or(0, |(last, _)| last.saturating_add(1));
        let prepared = match read_record(parts) {
            Ok(record) => self.lock_again(id, record),
            Err(BadRecord::Unknown(what)) => return Err(corrupt(id, what)),
            Err(BadRecord::Damaged(what)) => Err(corrupt(id, what)),
        };
        let prepared = prepared.unwrap_or_else(|damage| Prepared {
            writes: WriteBatch::new(),
            parts: end,
            locks: HeldLocks::new(self.clone()).park(id),
            entered: None,
            damage: Some(damage),
        });
        self.prepared().reserve(id)?.fill(Box::new(prepared));
        Ok(())
    }

    fn lock_again(&self, id: &[u8], record: Record) -> Result<Prepared> {
        let Record { writes, locks, reads_checked, parts } = record;
        let mut held = HeldLocks::new(self.clone());
        let written = writes.iter().map(|entry| LockKey::new(entry.keyspace, entry.key));
        let further = locks.iter().map(|(keyspace, key)| LockKey::new(*keyspace, key));
        for key in written.chain(further) {
            // A repair may have brought back one that was decided.
            let locked = held.lock(key, Duration::ZERO);
            locked.map_err(|_| corrupt(id, "another prepared transaction has a key of its own"))?;
        }
        let entered =
            reads_checked.then(|| self.in_flight().enter(WriteFootprint::of(&writes)).keep());
        Ok(Prepared { writes, parts, locks: held.park(id), entered, damage: None })
    }
}

/// The parts of a record that are there, in their order.
type Parts = Vec<(u32, Vec<u8>)>;

fn read_record(parts: Parts) -> std::result::Result<Record, BadRecord> {
    let is_whole = (0..).zip(&parts).all(|(number, (part, _))| *part == number);
    if !is_whole {
        return Err(BadRecord::Damaged("parts of its record are missing"));
    }
    let values: Vec<Vec<u8>> = parts.into_iter().map(|(_, value)| value).collect();
    record::decode(&values)
}

fn check_id(id: &[u8]) -> Result<()> {
    match id.len() {
        1..=MAX_ID_BYTES => Ok(()),
        bytes => Err(Error::Prepared(PreparedError::BadId { bytes, limit: MAX_ID_BYTES })),
    }
}

fn add_deletes(batch: &mut WriteBatch, id: &[u8], parts: u32, records: KeyspaceId) {
    (0..parts).for_each(|part| batch.delete(records, part_key(id, part)));
}

/// A batch that deletes the record of `id`.
fn deletes(id: &[u8], parts: u32, records: KeyspaceId) -> WriteBatch {
    let mut batch = WriteBatch::new();
    add_deletes(&mut batch, id, parts, records);
    batch
}

/// The writes to keyspaces that still exist.
fn known<S: Keyspaces>(store: &S, writes: &WriteBatch) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for entry in writes.iter().filter(|entry| store.check_keyspace(entry.keyspace).is_ok()) {
        match entry.kind {
            Kind::Put => batch.put(entry.keyspace, entry.key, entry.value),
            Kind::ExpiringPut => {
                let (ttl, value) = split_expiry(entry.value).unwrap_or_default();
                let ttl = Duration::from_millis(ttl);
                batch.put_with_ttl(entry.keyspace, entry.key, value, ttl);
            }
            _ => batch.delete(entry.keyspace, entry.key),
        }
    }
    batch
}

#[cold]
fn corrupt(id: &[u8], what: &str) -> Error {
    Error::corruption(format!("the prepared transaction {}", id.escape_ascii()), 0, what)
}
