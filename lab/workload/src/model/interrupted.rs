//! A store that runs something else in the middle of a transaction, for tests: what threads do to each
//! other seldom, and never the same way twice.

use super::TransactionalModel;
use esker_api::{
    Cursor, KeyRange, KeyspaceRef, Transaction, TransactionOptions, Transactional, Value,
    WriteBatch,
};
use esker_base::Result;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What comes in between.
type Interruption<'a> = Box<dyn FnOnce() + Send + 'a>;

/// A model of which one read in a transaction is followed by something else, once.
pub(crate) struct Interrupted<'a> {
    model: &'a TransactionalModel,
    reads_left: AtomicUsize,
    interruption: Mutex<Option<Interruption<'a>>>,
}

impl<'a> Interrupted<'a> {
    /// After so many reads and one more, runs `interruption`.
    pub(crate) fn new(
        model: &'a TransactionalModel,
        after: usize,
        interruption: impl FnOnce() + Send + 'a,
    ) -> Self {
        let interruption = Mutex::new(Some(Box::new(interruption) as Interruption<'a>));
        Interrupted { model, reads_left: AtomicUsize::new(after), interruption }
    }

    /// Whether the interruption has come.
    pub(crate) fn has_come(&self) -> bool {
        self.interruption.lock().unwrap().is_none()
    }

    fn has_read(&self) {
        if self.reads_left.load(Relaxed) > 0 {
            self.reads_left.fetch_sub(1, Relaxed);
        } else if let Some(interrupt) = self.interruption.lock().unwrap().take() {
            interrupt();
        }
    }
}

impl Transactional for Interrupted<'_> {
    fn keyspace(&self, name: &str) -> Result<KeyspaceRef> {
        self.model.keyspace(name)
    }

    fn get(&self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        self.model.get(keyspace, key)
    }

    fn cursor(&self, keyspace: KeyspaceRef, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        self.model.cursor(keyspace, range)
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.model.write(batch)
    }

    fn begin(&self, options: &TransactionOptions) -> Result<Box<dyn Transaction + '_>> {
        Ok(Box::new(InterruptedTransaction { of: self, inner: self.model.begin(options)? }))
    }
}

struct InterruptedTransaction<'s, 'a> {
    of: &'s Interrupted<'a>,
    inner: Box<dyn Transaction + 's>,
}

impl Transaction for InterruptedTransaction<'_, '_> {
    fn get(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        let read = self.inner.get(keyspace, key);
        self.of.has_read();
        read
    }

    fn get_for_update(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        let read = self.inner.get_for_update(keyspace, key);
        self.of.has_read();
        read
    }

    fn put(&mut self, keyspace: KeyspaceRef, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.put(keyspace, key, value)
    }

    fn delete(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<()> {
        self.inner.delete(keyspace, key)
    }

    fn cursor(&mut self, keyspace: KeyspaceRef, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let cursor = self.inner.cursor(keyspace, range);
        self.of.has_read();
        cursor
    }

    fn set_savepoint(&mut self) -> Result<()> {
        self.inner.set_savepoint()
    }

    fn rollback_to_savepoint(&mut self) -> Result<()> {
        self.inner.rollback_to_savepoint()
    }

    fn commit(&mut self) -> Result<()> {
        self.inner.commit()
    }

    fn rollback(&mut self) -> Result<()> {
        self.inner.rollback()
    }
}
