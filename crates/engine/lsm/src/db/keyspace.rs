//! Keyspaces: named, separate sets of keys in one database.

use super::cursor::DbCursor;
use super::range::Range;
use crate::engine::Engine;
use crate::index::maintain::bypassed;
use crate::ingest::{Ingested, SortedWriter};
use crate::manifest::version_edit::{VersionChange, VersionEdit, millis_of};
use crate::options::settings::KeyspaceSettings;
use crate::options::settings::check_ttl;
use crate::read::get::ReadTier;
use crate::version::readers::snapshot_tracker::Snapshot;
use esker_api::{KeyRange, KeyspaceRef, Value};
use esker_base::{Error, KeyspaceId, Result};
use std::sync::Arc;
use std::time::Duration;

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A named, ordered set of keys in an open database.
///
/// A handle reads and writes its keyspace, and names it in batches and transactions. It is
/// inexpensive to clone, and threads may share it.
///
/// * A handle does not keep its database open. Once the last [`Db`](crate::Db) is dropped, or one
///   is closed, calls fail with [`Error::Closed`].
/// * Only the open that made a handle accepts it. Others, a later open of the same database
///   included, fail with [`Error::ForeignHandle`].
/// * Each write is a batch of one: [`Db::write`](crate::Db::write) describes durability and limits.
///   It does not wait for the locks of transactions; a write in a
///   [`Transaction`](crate::Transaction) does.
/// * The storage of the database lives as long as a handle, but its memory is freed with the
///   database. A flash device can be opened again only once all handles are dropped.
///
/// # Examples
///
/// ```
/// # extern crate esker_lsm as esker;
/// # fn main() -> esker_base::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::{Db, KeyspaceSettings, Settings};
///
/// let db = Db::open(dir.path(), Settings::default())?;
/// let users = db.keyspace("users", KeyspaceSettings::default())?;
/// users.put("ada", "analyst")?;
/// users.put("grace", "admiral")?;
/// assert_eq!(users.get("ada")?.as_deref(), Some(&b"analyst"[..]));
/// for entry in users.prefix("g").rev() {
///     let (key, value) = entry?;
///     assert_eq!((&key[..], &value[..]), (&b"grace"[..], &b"admiral"[..]));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Keyspace {
    id: KeyspaceId,
    name: Arc<str>,
    inner: Arc<Engine>,
}

impl Keyspace {
    pub(crate) fn new(inner: &Arc<Engine>, id: KeyspaceId, name: &str) -> Self {
        Keyspace { id, name: name.into(), inner: inner.clone() }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.inner
    }

    /// Returns the id, which no other keyspace of the database ever gets.
    ///
    /// An id does not identify the database. A call that takes a bare id cannot reject one of
    /// another database.
    pub fn id(&self) -> KeyspaceId {
        self.id
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the settings of the keyspace.
    ///
    /// # Errors
    /// [`Error::UnknownKeyspace`] if the keyspace was dropped, [`Error::Closed`] once the database is
    /// closed, [`Error::Forked`] in a forked child.
    pub fn settings(&self) -> Result<KeyspaceSettings> {
        self.inner.tree.check_usable()?;
        let view = self.inner.tree.view.pin();
        match view.version.keyspaces.get(&self.id) {
            Some(found) => Ok(found.settings),
            None => Err(Error::UnknownKeyspace { name: self.name.to_string() }),
        }
    }

    /// Sets how long entries live after they were written: those that are there, and those to come. With
    /// `None`, nothing expires any more.
    ///
    /// What has expired stays so. An entry expires up to two seconds, or a thirtieth of its time to live,
    /// late, but never early. Of entries from before the keyspace's first time to live some may have lost
    /// their age: they count as the last write before it was set.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{Db, KeyspaceSettings, Settings};
    /// use std::time::Duration;
    ///
    /// const DAY: Duration = Duration::from_secs(24 * 3600);
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let events = db.keyspace("events", KeyspaceSettings::default().ttl(30 * DAY))?;
    /// events.put("1", "lives for a month")?;
    /// events.set_ttl(Some(7 * DAY))?;
    /// assert_eq!(events.settings()?.ttl, Some(7 * DAY), "or for a week");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] if `ttl` is below a second or the keyspace has a merge operator, the errors of [`Keyspace::settings`], and
    /// those of the storage.
    pub fn set_ttl(&self, ttl: Option<Duration>) -> Result<()> {
        self.inner.check_writable()?;
        let upkeep = self.inner.begin_upkeep()?;
        let (tree, id) = (&upkeep.tree, self.id);
        let millis = ttl.map(millis_of);
        // No index is created meanwhile.
        let _turn = upkeep.indexes.changes.lock();
        if let Some(slot) = upkeep.indexes.of(id).first() {
            let instead = "drop them";
            return Err(bypassed(slot, "set a time to live of", instead));
        }
        tree.installer.install(
            &tree.view,
            |state| {
                let found = state.version.keyspaces.get(&id);
                let found = found.ok_or_else(|| tree.unknown(id))?;
                ttl.map_or(Ok(()), |ttl| check_ttl(ttl, found.settings.merge))?;
                // No compaction that may still take seqnos away has a later write.
                let now = || upkeep.commit.visible();
                let zeroed_as = found.aging.map_or_else(now, |aging| aging.zeroed_as);
                Ok(VersionEdit::of([VersionChange::Ttl { keyspace: id, millis, zeroed_as }]))
            },
            |_| {},
        )?;
        if let Some(dram_table) = &tree.dram_table {
            // It may have entries that lost their age.
            dram_table.raise_invalidation_floor(id, upkeep.commit.visible());
        }
        Ok(())
    }

    /// Checks that a keyspace can be called `name`: 1 to 255 bytes without control characters.
    ///
    /// # Errors
    /// [`Error::BadKeyspaceName`] with the reason if it cannot.
    pub fn check_name(name: &str) -> Result<()> {
        check_name(name)
    }

    /// Returns the newest value of `key`, or `None`.
    ///
    /// # Errors
    /// The errors of [`Db::get`](crate::Db::get).
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.inner.get(self, key.as_ref(), ReadTier::MayBlock)
    }

    /// Returns the newest value of `key` if it is in memory, and never waits for the device.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if the answer is not in memory; otherwise the errors of
    /// [`Keyspace::get`].
    pub fn try_get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.inner.get(self, key.as_ref(), ReadTier::MemoryOnly)
    }

    /// Returns the value of `key` at `snapshot`, or `None`: [`Snapshot::get`].
    pub(super) fn get_at(&self, key: &[u8], snapshot: &Snapshot) -> Result<Option<Value>> {
        self.inner.get_at(self, key, snapshot)
    }

    /// Returns the newest values of `keys`, in their order, from one consistent snapshot.
    ///
    /// # Errors
    /// The errors of [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        self.inner.multi_get(self, keys, None)
    }

    /// Like [`Keyspace::multi_get`], at `snapshot`.
    pub(super) fn multi_get_at<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        snapshot: &Snapshot,
    ) -> Result<Vec<Option<Value>>> {
        self.inner.multi_get(self, keys, Some(snapshot))
    }

    /// Whether `key` exists. Costs as much as [`Keyspace::get`].
    ///
    /// # Errors
    /// The errors of [`Keyspace::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Iterates over the entries with keys in `range`: `"a".."b"`, `key..`, `..=key`, `..`.
    ///
    /// The iterator yields the errors of [`Keyspace::get`], and ends after one. It does not keep the
    /// database open, as one of [`Db::range`](crate::Db::range) does: once that is closed, the next
    /// step is [`Error::Closed`].
    pub fn range(&self, range: impl Into<KeyRange>) -> Range {
        Range::new(&self.inner, None, self.into(), range.into())
    }

    /// Iterates over the entries whose keys start with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.range(KeyRange::prefix(prefix))
    }

    /// Iterates over all entries.
    pub fn iter(&self) -> Range {
        self.range(..)
    }

    /// Returns a cursor over `range` at a new snapshot. [`Snapshot::cursor`] reads at an older one.
    ///
    /// # Errors
    /// The errors of [`Keyspace::get`].
    pub fn cursor(&self, range: impl Into<KeyRange>) -> Result<DbCursor> {
        self.cursor_at(range.into(), &self.inner.take_snapshot())
    }

    /// Like [`Keyspace::cursor`], at `snapshot`.
    pub(super) fn cursor_at(&self, range: KeyRange, snapshot: &Snapshot) -> Result<DbCursor> {
        let keyspace = self.inner.tree.resolve(self)?;
        DbCursor::new(&self.inner, keyspace, range, snapshot.clone())
    }

    /// Returns the entry with the smallest key, or `None` if the keyspace is empty.
    ///
    /// # Errors
    /// The errors of [`Keyspace::get`].
    pub fn first(&self) -> Result<Option<(Value, Value)>> {
        self.iter().next().transpose()
    }

    /// Returns the entry with the largest key, or `None` if the keyspace is empty.
    ///
    /// # Errors
    /// The errors of [`Keyspace::get`].
    pub fn last(&self) -> Result<Option<(Value, Value)>> {
        self.iter().next_back().transpose()
    }

    /// Whether the keyspace has no key.
    ///
    /// # Errors
    /// The errors of [`Keyspace::get`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.first()?.is_none())
    }

    /// Counts the keys in `range`. Reads all of them, so the time is linear in the range.
    ///
    /// # Errors
    /// The errors of [`Keyspace::get`].
    pub fn count(&self, range: impl Into<KeyRange>) -> Result<u64> {
        self.inner.count(self, range.into(), self.inner.take_snapshot())
    }

    /// Like [`Keyspace::count`], at `snapshot`.
    pub(crate) fn count_at(&self, range: KeyRange, snapshot: &Snapshot) -> Result<u64> {
        self.inner.tree.resolve_snapshot(snapshot)?;
        self.inner.count(self, range, snapshot.clone())
    }

    /// Estimates the number of keys, without a scan.
    ///
    /// * Tables are estimated from samples of their keys. With at most a few thousand keys per table
    ///   the error is small; expect a few percent otherwise.
    /// * A write that is not flushed yet counts as one key, also if it deletes or overwrites one. If
    ///   other keyspaces are written at the same time, these writes are divided evenly among them.
    ///
    /// [`Keyspace::count`] is exact. Opens tables that are not open yet.
    ///
    /// # Errors
    /// [`Error::UnknownKeyspace`] if the keyspace was dropped, [`Error::Closed`] once the database is
    /// closed, [`Error::Forked`] in a forked child.
    pub fn approximate_len(&self) -> Result<u64> {
        self.inner.approximate_len(self)
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// The errors of [`Db::write`](crate::Db::write).
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.inner.put(self, key.as_ref(), value.as_ref())
    }

    /// Adds entries that come in ascending order of their keys, each key once, all at once.
    ///
    /// [`Db::ingest`](crate::Db::ingest) describes it.
    ///
    /// # Errors
    /// The errors of [`Db::ingest`](crate::Db::ingest).
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Ingested> {
        let mut writer = SortedWriter::new(&self.inner, self)?;
        entries.into_iter().try_for_each(|(key, value)| writer.put(key, value))?;
        writer.ingest()
    }

    /// Merges `operand` into the value of `key`, by the merge operator of the keyspace, without a read.
    ///
    /// Reads see the value. The operator is named when the keyspace is created: see
    /// [`KeyspaceSettings::merge`]. `MergeOperator` shows how to write one.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{Db, KeyspaceSettings, Settings};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let visits = db.keyspace("visits", KeyspaceSettings::default().merge("add_i64"))?;
    /// for _ in 0..3 {
    ///     visits.merge("/index.html", 1_i64.to_le_bytes())?;
    /// }
    /// assert_eq!(visits.get("/index.html")?.as_deref(), Some(&3_i64.to_le_bytes()[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// * [`Error::NoMergeOperator`] if the keyspace has no operator, or this open lacks it.
    /// * [`Error::MergeFailed`] if the operator rejects the operand.
    /// * The errors of [`Db::write`](crate::Db::write).
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.inner.merge(self, key.as_ref(), operand.as_ref())
    }

    /// Sets `key` to `value` for the time `ttl`. Then the key has no value, for all readers: those at
    /// a snapshot, too.
    ///
    /// The time goes by the calendar of the machine, in milliseconds, and does not go back if the
    /// calendar does. After a crash, entries may expire up to one second early.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker::Db::open(dir.path(), esker::Settings::default())?;
    /// use std::time::Duration;
    ///
    /// let sessions = db.default_keyspace();
    /// sessions.put_with_ttl("4711", "ada", Duration::from_secs(3600))?;
    /// assert_eq!(sessions.get("4711")?.as_deref(), Some(&b"ada"[..]));
    /// sessions.put_with_ttl("4711", "ada", Duration::ZERO)?;
    /// assert_eq!(sessions.get("4711")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Db::write`](crate::Db::write).
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.inner.put_with_ttl(self, key.as_ref(), value.as_ref(), ttl)
    }

    /// Deletes `key`, whether it exists or not.
    ///
    /// # Errors
    /// The errors of [`Db::write`](crate::Db::write).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.inner.delete(self, key.as_ref())
    }

    /// Deletes all keys in `range`. Costs as much as one put.
    ///
    /// # Errors
    /// [`Error::EmptyRange`] if the range ends at or before its start; otherwise the errors of
    /// [`Db::write`](crate::Db::write).
    pub fn delete_range(&self, range: impl Into<KeyRange>) -> Result<()> {
        self.inner.delete_range(self, range.into())
    }

    /// Deletes all keys of the keyspace, which continues to exist. Costs as much as one put.
    ///
    /// # Errors
    /// The errors of [`Db::write`](crate::Db::write).
    pub fn clear(&self) -> Result<()> {
        self.delete_range(..)
    }
}

/// Two handles are equal if they name the same keyspace of the same open database.
impl PartialEq for Keyspace {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.inner.tree.store_id == other.inner.tree.store_id
    }
}

impl Eq for Keyspace {}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyspace").field("name", &self.name).field("id", &self.id).finish()
    }
}

impl From<&Keyspace> for KeyspaceRef {
    #[inline]
    fn from(keyspace: &Keyspace) -> KeyspaceRef {
        KeyspaceRef { id: keyspace.id, store: keyspace.inner.tree.store_id }
    }
}

/// The description of a keyspace in a list of keyspaces.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct KeyspaceInfo {
    /// The name.
    pub name: String,
    /// The id.
    pub id: KeyspaceId,
    /// The settings.
    pub settings: KeyspaceSettings,
}

/// Checks that `name` can name a keyspace.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let bad = |reason| Err(Error::BadKeyspaceName { name: name.to_owned(), reason });
    if name.is_empty() {
        bad("it is empty")
    } else if name.len() > NAME_BYTES_MAX {
        bad("it is longer than 255 bytes")
    } else if name.chars().any(char::is_control) {
        bad("it has control characters in it")
    } else {
        Ok(())
    }
}
