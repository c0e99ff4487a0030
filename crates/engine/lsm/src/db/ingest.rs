//! Ingest: sorted entries become tables without passing the log.

use super::Db;
use super::keyspace::Keyspace;
use crate::ingest::{BulkLoader, Ingested, SortedWriter, ingest_all};
use esker_base::{Error, Result};

impl Db {
    /// Adds entries that come in ascending order of their keys, each key once, and makes all of them
    /// visible at once.
    ///
    /// The entries are written to tables, not to the log, so this is the fastest way to add many. They
    /// replace the values that their keys have. When this returns, they survive power loss, and so
    /// does every earlier write, because MemTables are flushed first. Writers wait for the last part
    /// of that flush.
    ///
    /// * Snapshots and cursors from before do not see the entries.
    /// * A transaction that read or wrote one of the keys before fails with a conflict if it checks
    ///   after the ingest returned, as after a put.
    /// * In a leveled keyspace, tables go to the deepest level at which they overlap no table of that
    ///   level or of one above. In a tiered one they go to level 0, unless the keyspace is empty and
    ///   has no space-amplification limit: then they go to the last level.
    ///
    /// [`Db::sorted_writer`] adds entries from several threads, or to several keyspaces, at once.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{Db, Settings};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let squares = db.default_keyspace();
    /// let ingested = db.ingest(&squares, (0..1_000_u64).map(|n| (n.to_be_bytes(), (n * n).to_string())))?;
    /// assert_eq!(ingested.entries, 1_000);
    /// assert_eq!(squares.get(12_u64.to_be_bytes())?.as_deref(), Some(&b"144"[..]));
    ///
    /// let error = db.ingest(&squares, [("b", "1"), ("a", "2")]).unwrap_err();
    /// assert!(error.to_string().contains("entry 2 to ingest is out of order"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// * [`Error::NotSorted`] if a key is not above the one before it.
    /// * [`Error::KeyTooLong`], [`Error::ValueTooLarge`] and [`Error::EmptyKey`] as for a put.
    /// * [`Error::UnknownKeyspace`] if the keyspace was dropped, [`Error::ForeignHandle`] if another
    ///   database, or an earlier open, made the handle.
    /// * [`Error::Io`] if a file cannot be written, as on a full disk; the errors of [`Db::flush`].
    ///
    /// After an error nothing is visible, and the files are removed. If the manifest could not be
    /// written and not be restored either, the next open may find the entries.
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Ingested> {
        let mut writer = self.sorted_writer(keyspace)?;
        entries.into_iter().try_for_each(|(key, value)| writer.put(key, value))?;
        writer.ingest()
    }

    /// Ingests as [`Db::ingest`] does, from an iterator that may fail.
    ///
    /// # Errors
    /// The first error of the iterator; then nothing is ingested. Otherwise the errors of
    /// [`Db::ingest`].
    pub fn try_ingest<K: AsRef<[u8]>, V: AsRef<[u8]>, E: From<Error>>(
        &self,
        keyspace: &Keyspace,
        entries: impl IntoIterator<Item = Result<(K, V), E>>,
    ) -> Result<Ingested, E> {
        let mut writer = self.sorted_writer(keyspace)?;
        for entry in entries {
            let (key, value) = entry?;
            writer.put(key, value)?;
        }
        Ok(writer.ingest()?)
    }

    /// Returns a writer of sorted entries for `keyspace`.
    ///
    /// Several writers may be used at once, each by its own thread.
    ///
    /// # Errors
    /// [`Error::UnknownKeyspace`], [`Error::ForeignHandle`], [`Error::ReadOnly`], [`Error::Closed`] and
    /// [`Error::Forked`] as for a write.
    pub fn sorted_writer(&self, keyspace: &Keyspace) -> Result<SortedWriter> {
        SortedWriter::new(&self.handle.inner, keyspace)
    }

    /// Returns a loader of entries for `keyspace` that come in any order.
    ///
    /// # Errors
    /// The errors of [`Db::sorted_writer`].
    pub fn bulk_loader(&self, keyspace: &Keyspace) -> Result<BulkLoader> {
        BulkLoader::new(&self.handle.inner, keyspace)
    }

    /// Makes what `writers` wrote visible, all at once. Writers of one keyspace must have ranges of keys
    /// that do not overlap.
    ///
    /// # Errors
    /// * [`Error::OverlappingWriters`] if two writers overlap.
    /// * [`Error::ForeignHandle`] if another database, or an earlier open, made a writer.
    /// * The error of a writer that failed; otherwise the errors of [`Db::ingest`].
    ///
    /// After an error nothing is visible, as with [`Db::ingest`].
    pub fn ingest_writers(
        &self,
        writers: impl IntoIterator<Item = SortedWriter>,
    ) -> Result<Ingested> {
        ingest_all(&self.handle.inner, writers.into_iter().collect())
    }
}
