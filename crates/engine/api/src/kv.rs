//! Point reads and writes.

use crate::{KeyspaceRef, Value, WriteBatch};
use esker_base::{Error, Result};

/// One keyspace of a key-value store. Shared between threads.
pub trait Kv: Send + Sync {
    /// The keyspace to name in a [`WriteBatch`] for this store.
    fn keyspace_ref(&self) -> KeyspaceRef {
        KeyspaceRef::DEFAULT
    }

    /// The newest value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Value>>;

    /// Like [`Kv::get`], but answers from memory or fails with [`Error::WouldBlock`], so that a
    /// reactor never waits for a device.
    fn try_get(&self, _key: &[u8]) -> Result<Option<Value>> {
        Err(Error::WouldBlock)
    }

    /// The newest values of `keys`, in their order, as of one moment if the store has snapshots.
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

    /// Removes `key`, whether it is there or not.
    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(self.keyspace_ref(), key);
        self.write(&batch)
    }
}
