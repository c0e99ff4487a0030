//! One transaction.

use super::{Database, RocksTransactions, Size};
use crate::check;
use crate::rocksdb::cursor::{RocksCursor, within};
use ::rocksdb::{
    Error as RocksError, ErrorKind, ReadOptions, Transaction as Native,
    TransactionOptions as NativeOptions,
};
use esker_api::{Cursor, Isolation, KeyRange, KeyspaceRef, Transaction, TransactionOptions, Value};
use esker_base::{Entry, Error, KeyspaceId, Kind, Result};
use std::time::Duration;

pub(super) struct RocksTransaction<'a> {
    store: &'a RocksTransactions,
    state: State<'a>,
    isolation: Isolation,
    lock_timeout: Duration,
    /// What it will have written.
    size: Size,
    /// The sizes at its savepoints.
    savepoints: Vec<Size>,
}

enum State<'a> {
    Open(Native<'a, Database>, ReadOptions),
    Ended(&'static str),
}

impl<'a> RocksTransaction<'a> {
    pub(super) fn begin(store: &'a RocksTransactions, options: &TransactionOptions) -> Self {
        let TransactionOptions { isolation, lock_timeout, .. } = *options;
        let mut native = NativeOptions::default();
        native.set_snapshot(isolation >= Isolation::Snapshot);
        native.set_deadlock_detect(true);
        native.set_lock_timeout(i64::try_from(lock_timeout.as_millis()).unwrap_or(i64::MAX));
        let transaction = store.families.database().transaction_opt(&store.writes, &native);
        let reads = reads(&transaction, isolation);
        let (size, savepoints) = (Size::default(), Vec::new());
        let state = State::Open(transaction, reads);
        RocksTransaction { store, state, isolation, lock_timeout, size, savepoints }
    }

    fn open(&self) -> Result<(&Native<'a, Database>, &ReadOptions)> {
        match &self.state {
            State::Open(transaction, reads) => Ok((transaction, reads)),
            State::Ended(how) => Err(Error::TransactionEnded { how }),
        }
    }

    fn refused(&self, key: &[u8], error: RocksError) -> Error {
        self.store.conflict("write to", key, self.lock_timeout, error)
    }

    fn wrote(&mut self, keyspace: KeyspaceId, kind: Kind, key: &[u8], value: &[u8]) {
        self.size.add(Entry { keyspace, kind, key, value });
    }
}

/// Options to read as the transaction sees it: its snapshot is held by itself, so the options may be
/// used for as long as it is there.
fn reads(transaction: &Native<'_, Database>, isolation: Isolation) -> ReadOptions {
    let mut reads = ReadOptions::default();
    if isolation >= Isolation::Snapshot {
        reads.set_snapshot(&transaction.snapshot());
    }
    reads
}

impl Transaction for RocksTransaction<'_> {
    fn get(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        check::key(key)?;
        let (transaction, reads) = self.open()?;
        let found = transaction.get_cf_opt(self.store.families.of(keyspace)?, key, reads);
        Ok(self.store.done("read", found)?.map(Value::from))
    }

    fn get_for_update(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        check::key(key)?;
        let (transaction, _) = self.open()?;
        let found = transaction.get_for_update_cf(self.store.families.of(keyspace)?, key, true);
        Ok(found.map_err(|error| self.refused(key, error))?.map(Value::from))
    }

    fn put(&mut self, keyspace: KeyspaceRef, key: &[u8], value: &[u8]) -> Result<()> {
        check::key(key)?;
        let (transaction, _) = self.open()?;
        let put = transaction.put_cf(self.store.families.of(keyspace)?, key, value);
        put.map_err(|error| self.refused(key, error))?;
        self.wrote(keyspace.id, Kind::Put, key, value);
        Ok(())
    }

    fn delete(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<()> {
        check::key(key)?;
        let (transaction, _) = self.open()?;
        let deleted = transaction.delete_cf(self.store.families.of(keyspace)?, key);
        deleted.map_err(|error| self.refused(key, error))?;
        self.wrote(keyspace.id, Kind::Delete, key, b"");
        Ok(())
    }

    fn cursor(&mut self, keyspace: KeyspaceRef, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let (transaction, _) = self.open()?;
        let reads = within(range, reads(transaction, self.isolation));
        let family = self.store.families.of(keyspace)?;
        let iterator = transaction.raw_iterator_cf_opt(family, reads);
        Ok(Box::new(RocksCursor::over(iterator, &self.store.dir)))
    }

    fn set_savepoint(&mut self) -> Result<()> {
        self.open()?.0.set_savepoint();
        self.savepoints.push(self.size);
        Ok(())
    }

    fn rollback_to_savepoint(&mut self) -> Result<()> {
        let undone = self.open()?.0.rollback_to_savepoint();
        match undone {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::NoSavepoint),
            undone => {
                self.store.done("roll back in", undone)?;
                self.size = self.savepoints.pop().ok_or(Error::NoSavepoint)?;
                Ok(())
            }
        }
    }

    fn commit(&mut self) -> Result<()> {
        self.open()?;
        match std::mem::replace(&mut self.state, State::Ended("committed")) {
            State::Open(transaction, reads) => {
                drop(reads);
                if let Err(error) = transaction.commit() {
                    self.state = State::Ended("rolled back, because its commit failed");
                    return Err(self.refused(b"", error));
                }
                self.store.count(self.size);
                Ok(())
            }
            State::Ended(_) => unreachable!("it was open"),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        let undone = self.open()?.0.rollback();
        self.state = State::Ended("rolled back");
        self.store.done("roll back in", undone)
    }
}
