//! A whole store with all of its keyspaces, as a base for transactions.

use crate::{Cursor, KeyRange, KeyspaceRef, Snapshot, Value, WriteBatch};
use esker_base::{Error, KeyspaceId, Result};

/// A store of several keyspaces with snapshots, atomic batches and conflict checks. Threads may
/// share it.
pub trait Keyspaces: Send + Sync {
    /// A snapshot, kept until it is dropped.
    type Snapshot: Snapshot + Clone;

    /// Returns the keyspace called `name`, and creates it if it does not exist.
    fn keyspace(&self, name: &str) -> Result<KeyspaceRef>;

    /// Returns the id of `keyspace`, which all other calls take.
    ///
    /// # Errors
    /// [`Error::ForeignHandle`](esker_base::Error::ForeignHandle) if another store made the handle.
    fn resolve(&self, keyspace: KeyspaceRef) -> Result<KeyspaceId>;

    /// Checks that the keyspace exists.
    ///
    /// # Errors
    /// [`Error::UnknownKeyspace`](esker_base::Error::UnknownKeyspace) if it does not, or was
    /// dropped.
    fn check_keyspace(&self, keyspace: KeyspaceId) -> Result<()>;

    /// Returns the limits of a batch for [`Keyspaces::write`].
    fn batch_limits(&self) -> BatchLimits;

    /// Takes a snapshot. It sees every write that returned before, and all or nothing of every
    /// write.
    fn snapshot(&self) -> Self::Snapshot;

    /// Returns the newest value of `key`, or `None`.
    fn get(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Value>>;

    /// Returns the value of `key` at `snapshot`, or `None`.
    fn get_at(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: &Self::Snapshot,
    ) -> Result<Option<Value>>;

    /// Returns a cursor over `range` at `snapshot`. It keeps the snapshot.
    fn cursor_at(
        &self,
        keyspace: KeyspaceId,
        range: KeyRange,
        snapshot: &Self::Snapshot,
    ) -> Result<Box<dyn Cursor + Send + '_>>;

    /// Applies `batch` atomically.
    ///
    /// When this returns, the store's promise of durability holds, and every later read and
    /// snapshot sees the batch.
    fn write(&self, batch: &WriteBatch) -> Result<()>;

    /// Fails if [`Keyspaces::write`] would refuse `batch` now, and writes nothing.
    ///
    /// # Errors
    /// Those of the write, as far as the store can find them before.
    fn check_write(&self, batch: &WriteBatch) -> Result<()> {
        let _ = batch;
        Ok(())
    }

    /// Returns the value of `key` after merges of `operands`, the oldest first, on `base`.
    ///
    /// # Errors
    /// Those of a merge. [`Error::NotOffered`] if the store has no merges.
    fn merged(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>> {
        let _ = (keyspace, key, base, operands);
        let (store, instead) = ("this store", "read the value and put it");
        Err(Error::NotOffered { store, what: "merge", instead })
    }

    /// Whether a write after `snapshot` put, merged, deleted or range-deleted `key`.
    ///
    /// Writes that returned before this call count. A concurrent write may count or not.
    fn changed_since(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: &Self::Snapshot,
    ) -> Result<bool>;

    /// Whether a write after `snapshot` changed a key in `range`. See [`Keyspaces::changed_since`].
    fn range_changed_since(
        &self,
        keyspace: KeyspaceId,
        range: &KeyRange,
        snapshot: &Self::Snapshot,
    ) -> Result<bool>;
}

impl<S: Keyspaces> Keyspaces for &S {
    type Snapshot = S::Snapshot;

    fn keyspace(&self, name: &str) -> Result<KeyspaceRef> {
        (**self).keyspace(name)
    }

    #[inline]
    fn resolve(&self, keyspace: KeyspaceRef) -> Result<KeyspaceId> {
        (**self).resolve(keyspace)
    }

    #[inline]
    fn check_keyspace(&self, keyspace: KeyspaceId) -> Result<()> {
        (**self).check_keyspace(keyspace)
    }

    fn batch_limits(&self) -> BatchLimits {
        (**self).batch_limits()
    }

    fn snapshot(&self) -> S::Snapshot {
        (**self).snapshot()
    }

    #[inline]
    fn get(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Value>> {
        (**self).get(keyspace, key)
    }

    fn get_at(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: &S::Snapshot,
    ) -> Result<Option<Value>> {
        (**self).get_at(keyspace, key, snapshot)
    }

    fn cursor_at(
        &self,
        keyspace: KeyspaceId,
        range: KeyRange,
        snapshot: &S::Snapshot,
    ) -> Result<Box<dyn Cursor + Send + '_>> {
        (**self).cursor_at(keyspace, range, snapshot)
    }

    #[inline]
    fn write(&self, batch: &WriteBatch) -> Result<()> {
        (**self).write(batch)
    }

    fn check_write(&self, batch: &WriteBatch) -> Result<()> {
        (**self).check_write(batch)
    }

    fn merged(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>> {
        (**self).merged(keyspace, key, base, operands)
    }

    fn changed_since(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: &S::Snapshot,
    ) -> Result<bool> {
        (**self).changed_since(keyspace, key, snapshot)
    }

    fn range_changed_since(
        &self,
        keyspace: KeyspaceId,
        range: &KeyRange,
        snapshot: &S::Snapshot,
    ) -> Result<bool> {
        (**self).range_changed_since(keyspace, range, snapshot)
    }
}

/// The limits of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchLimits {
    /// The largest encoded batch, in bytes.
    pub bytes: usize,
    /// The largest number of puts and deletes.
    pub entries: usize,
    /// Whether the empty key is valid.
    pub empty_key: bool,
    /// The largest encoded entry, a key with its value, in bytes.
    pub entry_bytes: usize,
}
