//! Point reads and writes.

use crate::{KeyspaceRef, Value, WriteBatch};
use esker_base::{Error, Result};

/// One keyspace of a key-value store. Threads may share it.
pub trait Kv: Send + Sync {
    /// Returns the keyspace, for use in a [`WriteBatch`] of this store.
    fn keyspace_ref(&self) -> KeyspaceRef {
        KeyspaceRef::DEFAULT
    }

    /// Returns the newest value of `key`, or `None`.
    fn get(&self, key: &[u8]) -> Result<Option<Value>>;

    /// Returns the newest value of `key` if it is in memory, so that a reactor never waits for a
    /// device.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if the answer is not in memory.
    fn try_get(&self, _key: &[u8]) -> Result<Option<Value>> {
        Err(Error::WouldBlock)
    }

    /// Returns the newest values of `keys`, in their order.
    ///
    /// They are from one consistent snapshot if the store has snapshots.
    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Applies `batch` atomically. When this returns, the store's promise of durability holds.
    fn write(&self, batch: &WriteBatch) -> Result<()>;

    /// Sets `key` to `value`.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(self.keyspace_ref(), key, value);
        self.write(&batch)
    }

    /// Deletes `key`, whether it exists or not.
    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(self.keyspace_ref(), key);
        self.write(&batch)
    }
}
