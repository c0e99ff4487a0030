//! A keyspace whose calls are futures.

use crate::blocking::Blocking;
use crate::elsewhere::Elsewhere;
use crate::scan::Scan;
use esker::{Db, Error, KeyRange, Keyspace, Result, Value};
use std::sync::Arc;
use std::time::Duration;

/// A keyspace whose calls are futures. Clones share it.
#[derive(Clone, Debug)]
pub struct AsyncKeyspace {
    keyspace: Keyspace,
    blocking: Blocking,
    /// After the keyspace, which keeps the database open, too.
    db: Arc<Elsewhere<Db>>,
}

impl AsyncKeyspace {
    pub(crate) fn new(keyspace: Keyspace, db: Arc<Elsewhere<Db>>, blocking: Blocking) -> Self {
        AsyncKeyspace { keyspace, blocking, db }
    }

    /// Returns the keyspace, which batches, snapshots and transactions take.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Returns the newest value of `key`, or `None`: [`Keyspace::get`]. It needs no other thread if the
    /// answer is in memory.
    ///
    /// # Errors
    /// The errors of [`Keyspace::get`].
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        match self.keyspace.try_get(&key) {
            Err(Error::WouldBlock) => {}
            found => return found,
        }
        let key = key.as_ref().to_vec();
        self.run(move |keyspace| keyspace.get(key)).await
    }

    /// Returns the newest values of `keys`, in their order: [`Keyspace::multi_get`].
    ///
    /// # Errors
    /// The errors of [`Keyspace::multi_get`].
    pub async fn multi_get(&self, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Value>>> {
        self.run(move |keyspace| keyspace.multi_get(&keys)).await
    }

    /// Sets `key` to `value`: [`Keyspace::put`].
    ///
    /// # Errors
    /// The errors of [`Keyspace::put`].
    pub async fn put(&self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Result<()> {
        let (key, value) = (key.into(), value.into());
        self.run(move |keyspace| keyspace.put(key, value)).await
    }

    /// Sets `key` to `value` for the time `ttl`: [`Keyspace::put_with_ttl`].
    ///
    /// # Errors
    /// The errors of [`Keyspace::put`].
    pub async fn put_with_ttl(
        &self,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
        ttl: Duration,
    ) -> Result<()> {
        let (key, value) = (key.into(), value.into());
        self.run(move |keyspace| keyspace.put_with_ttl(key, value, ttl)).await
    }

    /// Merges `operand` into the value of `key`: [`Keyspace::merge`].
    ///
    /// # Errors
    /// The errors of [`Keyspace::merge`].
    pub async fn merge(&self, key: impl Into<Vec<u8>>, operand: impl Into<Vec<u8>>) -> Result<()> {
        let (key, operand) = (key.into(), operand.into());
        self.run(move |keyspace| keyspace.merge(key, operand)).await
    }

    /// Deletes `key`, whether it exists or not: [`Keyspace::delete`].
    ///
    /// # Errors
    /// The errors of [`Keyspace::delete`].
    pub async fn delete(&self, key: impl Into<Vec<u8>>) -> Result<()> {
        let key = key.into();
        self.run(move |keyspace| keyspace.delete(key)).await
    }

    /// Returns a stream of the entries in `range`, at a snapshot that the first poll takes.
    pub fn range(&self, range: impl Into<KeyRange>) -> Scan {
        Scan::new(self.keyspace.range(range), self.db.clone(), self.blocking.clone())
    }

    /// Returns a stream of the entries whose keys start with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        Scan::new(self.keyspace.prefix(prefix), self.db.clone(), self.blocking.clone())
    }

    /// Runs `work` with the keyspace where it may block.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Keyspace) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let keyspace = self.keyspace.clone();
        self.blocking.run(move || work(&keyspace)).await
    }
}
