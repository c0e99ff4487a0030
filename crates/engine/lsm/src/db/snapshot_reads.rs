//! Reads at a snapshot, by the snapshot.

use super::cursor::DbCursor;
use super::keyspace::Keyspace;
use super::range::Range;
use crate::version::readers::snapshot_tracker::Snapshot;
use esker_api::{KeyRange, Value};
use esker_base::Result;

/// Reads of a keyspace at the snapshot. A keyspace of another database, or of an earlier open, is
/// rejected with [`Error::ForeignHandle`](esker_base::Error::ForeignHandle).
impl Snapshot {
    /// Returns the value of `key` at the snapshot, or `None`.
    ///
    /// # Errors
    /// [`Error::ForeignHandle`](esker_base::Error::ForeignHandle) if another database, or another
    /// open, made the keyspace; otherwise the errors of [`Keyspace::get`].
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        keyspace.get_at(key.as_ref(), self)
    }

    /// Returns the values of `keys` at the snapshot, in the order of the keys, as
    /// [`Keyspace::multi_get`] does.
    ///
    /// # Errors
    /// The errors of [`Snapshot::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        keyspace.multi_get_at(keys, self)
    }

    /// Whether `key` exists at the snapshot. Costs as much as [`Snapshot::get`].
    ///
    /// # Errors
    /// The errors of [`Snapshot::get`].
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(keyspace, key)?.is_some())
    }

    /// Iterates over the entries with keys in `range` at the snapshot, as [`Keyspace::range`] does.
    pub fn range(&self, keyspace: &Keyspace, range: impl Into<KeyRange>) -> Range {
        keyspace.range(range).at(self)
    }

    /// Iterates over the entries whose keys start with `prefix` at the snapshot.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Range {
        keyspace.prefix(prefix).at(self)
    }

    /// Iterates over all entries at the snapshot.
    pub fn iter(&self, keyspace: &Keyspace) -> Range {
        keyspace.iter().at(self)
    }

    /// Returns a cursor over `range` at the snapshot.
    ///
    /// # Errors
    /// The errors of [`Snapshot::get`].
    pub fn cursor(&self, keyspace: &Keyspace, range: impl Into<KeyRange>) -> Result<DbCursor> {
        keyspace.cursor_at(range.into(), self)
    }

    /// Returns the entry with the smallest key at the snapshot, or `None` if there was none.
    ///
    /// # Errors
    /// The errors of [`Snapshot::get`].
    pub fn first(&self, keyspace: &Keyspace) -> Result<Option<(Value, Value)>> {
        self.iter(keyspace).next().transpose()
    }

    /// Returns the entry with the largest key at the snapshot, or `None` if there was none.
    ///
    /// # Errors
    /// The errors of [`Snapshot::get`].
    pub fn last(&self, keyspace: &Keyspace) -> Result<Option<(Value, Value)>> {
        self.iter(keyspace).next_back().transpose()
    }

    /// Counts the keys in `range` at the snapshot. Reads all of them, so the time is linear in the
    /// range.
    ///
    /// # Errors
    /// The errors of [`Snapshot::get`].
    pub fn count(&self, keyspace: &Keyspace, range: impl Into<KeyRange>) -> Result<u64> {
        keyspace.count_at(range.into(), self)
    }
}
