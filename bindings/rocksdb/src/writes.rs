//! Puts, deletes and merges.

use crate::border::{Bytes, Code, Handle, Result, Status, c_api};
use crate::database::{Database, Family, Open};
use crate::knobs::Knobs;
use crate::stamps;
use esker::api::Kind;
use esker::transaction::Isolation;
use esker::{TransactionOptions, WriteBatch};
use std::sync::Arc;
use std::time::Duration;

/// One write to a column family.
#[derive(Clone, Copy)]
pub enum Write<'a> {
    /// Sets a key.
    Put(&'a [u8], &'a [u8]),
    /// Deletes a key.
    Delete(&'a [u8]),
    /// Merges an operand into a key.
    Merge(&'a [u8], &'a [u8]),
    /// Deletes a range of keys.
    DeleteRange(&'a [u8], &'a [u8]),
    /// Sets a key at a timestamp.
    PutAt(&'a [u8], &'a [u8], &'a [u8]),
    /// Deletes a key at a timestamp.
    DeleteAt(&'a [u8], &'a [u8]),
}

impl Write<'_> {
    /// Adds the write to a batch.
    ///
    /// # Errors
    /// If the end of a range is before its start, if the family has no merge operator, and if it has
    /// timestamps and the write has none, or the other way round.
    pub fn add_to(self, batch: &mut WriteBatch, family: &Family) -> Result<()> {
        let keyspace = match self {
            Write::PutAt(..) | Write::DeleteAt(..) => &family.keyspace,
            _ => family.plain()?,
        };
        match (self, family.ttl) {
            (Write::PutAt(key, stamp, value), _) => {
                let order = family.stamped()?.order;
                let stored = order.version(key, order.stamp(stamp)?);
                batch.put(keyspace, &stored, stamps::stored_value(value));
            }
            (Write::DeleteAt(key, stamp), _) => {
                let order = family.stamped()?.order;
                batch.put(keyspace, order.version(key, order.stamp(stamp)?), b"");
            }
            (Write::Put(key, value), None) => batch.put(keyspace, key, value),
            (Write::Put(key, value), Some(ttl)) => batch.put_with_ttl(keyspace, key, value, ttl),
            (Write::Delete(key), _) => batch.delete(keyspace, key),
            (Write::Merge(key, operand), _) => {
                if family.merge.is_none() {
                    return Err(Status::no_operator());
                }
                batch.merge(keyspace, key, operand);
            }
            (Write::DeleteRange(start, end), _) if family.direction.precedes(start, end) => {
                batch.delete_range(keyspace, family.direction.range(Some(start), Some(end)));
            }
            (Write::DeleteRange(start, end), _) if start == end => {}
            (Write::DeleteRange(..), _) => {
                return Err(Status::invalid("end key comes before start key"));
            }
        }
        Ok(())
    }
}

fn damaged() -> Status {
    Status::new(Code::Corruption, "the batch has an entry of an unknown kind")
}

/// Why a database of pessimistic transactions deletes no range.
const WITHOUT_RANGE_LOCKS: &str =
    "a database of pessimistic transactions has no locks on ranges; delete each key";

impl Open {
    /// Writes a batch, as durable as `options` ask.
    ///
    /// In a database of pessimistic transactions, it waits for their locks.
    ///
    /// # Errors
    /// Those of Esker's writes.
    pub fn write(&self, batch: &mut WriteBatch, options: Handle<Knobs>) -> Result<()> {
        let sync = options.optional().is_some_and(|options| options.is_on("sync"));
        self.write_with(batch, sync)
    }

    /// Writes a batch, synced or not.
    ///
    /// # Errors
    /// Those of Esker's writes.
    pub fn write_with(&self, batch: &mut WriteBatch, sync: bool) -> Result<()> {
        let begun = self.statistics().map(|statistics| statistics.begin());
        batch.set_sync(sync);
        let written = match self.lock_timeouts {
            Some(timeouts) => self.write_locked(batch, timeouts.of_writes, sync),
            None => {
                let _writing = self.writing();
                self.db.write(batch).map_err(Status::from)
            }
        };
        if let Some((statistics, begun)) = self.statistics().zip(begun) {
            statistics.count_write(batch, begun);
        }
        written
    }

    /// Writes as a transaction, which waits for the locks of others.
    ///
    /// It locks the keys in their order, as all such writes do, so two of them cannot wait for each other.
    fn write_locked(&self, batch: &WriteBatch, timeout: Duration, sync: bool) -> Result<()> {
        if batch.has_range_delete() {
            return Err(Status::invalid(WITHOUT_RANGE_LOCKS));
        }
        let options = TransactionOptions::default();
        let options = options.isolation(Isolation::ReadCommitted).lock_timeout(timeout);
        let mut transaction = self.db.transaction_with(options)?;
        let mut keys: Vec<_> = batch.iter().map(|entry| (entry.keyspace, entry.key)).collect();
        if keys.len() > 1 {
            keys.sort_unstable();
            keys.dedup();
            for (keyspace, key) in keys {
                transaction.get_for_update(keyspace, key)?;
            }
        }
        for entry in batch.iter() {
            match entry.kind {
                Kind::Put => transaction.put(entry.keyspace, entry.key, entry.value)?,
                Kind::Delete => transaction.delete(entry.keyspace, entry.key)?,
                Kind::Merge => transaction.merge(entry.keyspace, entry.key, entry.value)?,
                Kind::ExpiringPut => {
                    let (millis, value) = entry.value.split_first_chunk().ok_or_else(damaged)?;
                    let ttl = Duration::from_millis(u64::from_le_bytes(*millis));
                    transaction.put_with_ttl(entry.keyspace, entry.key, value, ttl)?;
                }
                _ => return Err(damaged()),
            }
        }
        let _writing = self.writing();
        transaction.commit()?;
        if sync { self.db.sync().map_err(Status::from) } else { Ok(()) }
    }

    /// Writes to one key, or to one range.
    ///
    /// # Errors
    /// Those of [`Write::add_to`] and [`Open::write`].
    pub fn write_one(
        &self,
        family: &Family,
        write: Write<'_>,
        options: Handle<Knobs>,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        write.add_to(&mut batch, family)?;
        self.write(&mut batch, options)
    }
}

c_api! {
    try fn rocksdb_put | rocksdb_transactiondb_put(
        db: Handle<Database>,
        options: Handle<Knobs>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        let open = &db.get().open;
        let write = Write::Put(key.of(key_length), value.of(value_length));
        open.write_one(&open.default, write, options)
    }

    try fn rocksdb_put_cf | rocksdb_transactiondb_put_cf(
        db: Handle<Database>,
        options: Handle<Knobs>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        let write = Write::Put(key.of(key_length), value.of(value_length));
        db.get().open.write_one(family.get(), write, options)
    }

    try fn rocksdb_delete | rocksdb_transactiondb_delete(
        db: Handle<Database>,
        options: Handle<Knobs>,
        key: Bytes,
        length: usize,
    ) {
        let open = &db.get().open;
        open.write_one(&open.default, Write::Delete(key.of(length)), options)
    }

    try fn rocksdb_delete_cf | rocksdb_transactiondb_delete_cf(
        db: Handle<Database>,
        options: Handle<Knobs>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        length: usize,
    ) {
        db.get().open.write_one(family.get(), Write::Delete(key.of(length)), options)
    }

    /// Deletes as `rocksdb_delete` does.
    try fn rocksdb_singledelete(
        db: Handle<Database>,
        options: Handle<Knobs>,
        key: Bytes,
        length: usize,
    ) {
        let open = &db.get().open;
        open.write_one(&open.default, Write::Delete(key.of(length)), options)
    }

    try fn rocksdb_singledelete_cf(
        db: Handle<Database>,
        options: Handle<Knobs>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        length: usize,
    ) {
        db.get().open.write_one(family.get(), Write::Delete(key.of(length)), options)
    }

    try fn rocksdb_delete_range_cf(
        db: Handle<Database>,
        options: Handle<Knobs>,
        family: Handle<Arc<Family>>,
        start: Bytes,
        start_length: usize,
        end: Bytes,
        end_length: usize,
    ) {
        let open = &db.get().open;
        if open.lock_timeouts.is_some() {
            // The error of RocksDB, which has another one for a batch.
            return Err(Status::unsupported(WITHOUT_RANGE_LOCKS));
        }
        let write = Write::DeleteRange(start.of(start_length), end.of(end_length));
        open.write_one(family.get(), write, options)
    }

    try fn rocksdb_merge | rocksdb_transactiondb_merge(
        db: Handle<Database>,
        options: Handle<Knobs>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        let open = &db.get().open;
        let write = Write::Merge(key.of(key_length), value.of(value_length));
        open.write_one(&open.default, write, options)
    }

    try fn rocksdb_merge_cf | rocksdb_transactiondb_merge_cf(
        db: Handle<Database>,
        options: Handle<Knobs>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        let write = Write::Merge(key.of(key_length), value.of(value_length));
        db.get().open.write_one(family.get(), write, options)
    }
}
