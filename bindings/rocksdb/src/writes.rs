//! Puts, deletes and merges.

use crate::border::{Bytes, Handle, Result, Status, c_api};
use crate::database::{Database, Family, Open};
use crate::knobs::Knobs;
use esker::transaction::Isolation;
use esker::{KeyRange, TransactionOptions, WriteBatch};
use std::sync::Arc;

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
}

impl Write<'_> {
    /// Adds the write to a batch.
    ///
    /// # Errors
    /// If the end of a range is before its start, or the family has no merge operator.
    pub fn add_to(self, batch: &mut WriteBatch, family: &Family) -> Result<()> {
        let keyspace = &family.keyspace;
        match (self, family.ttl) {
            (Write::Put(key, value), None) => batch.put(keyspace, key, value),
            (Write::Put(key, value), Some(ttl)) => batch.put_with_ttl(keyspace, key, value, ttl),
            (Write::Delete(key), _) => batch.delete(keyspace, key),
            (Write::Merge(key, operand), _) => {
                if family.merge.is_none() {
                    return Err(no_operator());
                }
                batch.merge(keyspace, key, operand);
            }
            (Write::DeleteRange(start, end), _) if start < end => {
                batch.delete_range(keyspace, KeyRange::deleted(start, end));
            }
            (Write::DeleteRange(start, end), _) if start == end => {}
            (Write::DeleteRange(..), _) => {
                return Err(Status::invalid("end key comes before start key"));
            }
        }
        Ok(())
    }
}

/// The error of a merge into a family without an operator.
pub fn no_operator() -> Status {
    Status::unsupported("Provide a merge_operator when opening DB")
}

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
        let written = match self.lock_timeout {
            Some(timeout) if !batch.has_range_delete() => self.write_locked(batch, timeout, sync),
            _ => self.db.write(batch).map_err(Status::from),
        };
        if let Some((statistics, begun)) = self.statistics().zip(begun) {
            statistics.count_write(batch, begun);
        }
        written.map_err(|status| match status.message().contains("merge operator") {
            true => no_operator(),
            false => status,
        })
    }

    /// Writes as a transaction, which waits for the locks of others.
    fn write_locked(
        &self,
        batch: &WriteBatch,
        timeout: std::time::Duration,
        sync: bool,
    ) -> Result<()> {
        use esker::api::Kind;
        let options = TransactionOptions::default();
        let options = options.isolation(Isolation::ReadCommitted).lock_timeout(timeout);
        let mut transaction = self.db.transaction_with(options)?;
        for entry in batch.iter() {
            match entry.kind {
                Kind::Put => transaction.put(entry.keyspace, entry.key, entry.value)?,
                Kind::Delete => transaction.delete(entry.keyspace, entry.key)?,
                Kind::Merge => transaction.merge(entry.keyspace, entry.key, entry.value)?,
                // Entries that expire, of a family with a time to live.
                _ => return self.db.write(batch).map_err(Status::from),
            }
        }
        transaction.commit()?;
        if sync { self.db.sync().map_err(Status::from) } else { Ok(()) }
    }

    fn write_one(&self, family: &Family, write: Write<'_>, options: Handle<Knobs>) -> Result<()> {
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
        let write = Write::DeleteRange(start.of(start_length), end.of(end_length));
        db.get().open.write_one(family.get(), write, options)
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
