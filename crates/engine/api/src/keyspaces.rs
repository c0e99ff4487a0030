//! A whole store, with all of its keyspaces: what transactions are built on.

use crate::{Cursor, KeyRange, KeyspaceRef, Snapshot, Value, WriteBatch};
use esker_base::{KeyspaceId, Result};

/// A store of several keyspaces that reads at moments, writes atomically across keyspaces, and can
/// tell whether something was written after a moment. Shared between threads.
pub trait Keyspaces: Send + Sync {
    /// A moment to read at, kept until it is dropped.
    type Snapshot: Snapshot + Clone;

    /// The keyspace called `name`, created if there is none.
    fn keyspace(&self, name: &str) -> Result<KeyspaceRef>;

    /// Returns the id of `keyspace`, which all other calls take.
    ///
    /// # Errors
    /// [`Error::ForeignHandle`](esker_base::Error::ForeignHandle) if another store made the handle.
    fn resolve(&self, keyspace: KeyspaceRef) -> Result<KeyspaceId>;

    /// Fails with [`Error::UnknownKeyspace`](esker_base::Error::UnknownKeyspace) if there is no such
    /// keyspace, or none any more.
    fn check_keyspace(&self, keyspace: KeyspaceId) -> Result<()>;

    /// The largest batch that [`Keyspaces::write`] takes.
    fn batch_limits(&self) -> BatchLimits;

    /// The present moment. It has every write that returned before, and of each write all or nothing.
    fn snapshot(&self) -> Self::Snapshot;

    /// The newest value of `key`.
    fn get(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Value>>;

    /// The value of `key` at `snapshot`.
    fn get_at(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: &Self::Snapshot,
    ) -> Result<Option<Value>>;

    /// A cursor over `range` at `snapshot`. It keeps the moment by itself.
    fn cursor_at(
        &self,
        keyspace: KeyspaceId,
        range: KeyRange,
        snapshot: &Self::Snapshot,
    ) -> Result<Box<dyn Cursor + '_>>;

    /// Applies `batch` atomically. When this returns, the store's promise of durability holds, and
    /// every later read and snapshot sees the batch.
    fn write(&self, batch: &WriteBatch) -> Result<()>;

    /// Whether `key` was written, deletes and range deletes included, after `snapshot` and by a write
    /// that returned before this call. Of one that has not returned it may say either.
    fn changed_since(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: &Self::Snapshot,
    ) -> Result<bool>;

    /// The same for all keys in `range`: whether any was written.
    fn range_changed_since(
        &self,
        keyspace: KeyspaceId,
        range: &KeyRange,
        snapshot: &Self::Snapshot,
    ) -> Result<bool>;
}

/// The largest batch that a store takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchLimits {
    /// Bytes of the encoded batch.
    pub bytes: usize,
    /// Puts and deletes.
    pub entries: usize,
    /// Whether the empty key is a key.
    pub empty_key: bool,
    /// Bytes of an encoded entry: a key with its value.
    pub entry_bytes: usize,
}
