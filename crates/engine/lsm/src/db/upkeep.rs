//! Flushes, compactions, checkpoints and the close, at a caller's request.

use super::Db;
use super::keyspace::Keyspace;
use crate::background::steps;
use crate::recovery::checkpoint::live_files::LiveFiles;
use crate::recovery::checkpoint::request;
use esker_base::{Error, Result};
use esker_storage::Storage;
use std::path::Path;

impl Db {
    /// Flushes all acknowledged writes to tables, and waits for it.
    ///
    /// # Errors
    /// The error of the flush, such as [`Error::Io`] on a full disk; [`Error::LogFailed`] after the
    /// log failed; [`Error::ReadOnly`], [`Error::Closed`], [`Error::Forked`] if the handle cannot
    /// write.
    pub fn flush(&self) -> Result<()> {
        self.upkeep()?.flush_all()
    }

    /// Flushes, and compacts every keyspace into one run without obsolete data.
    ///
    /// Runs in the calling thread and rewrites all tables that hold obsolete data or overlap. What
    /// snapshots see is kept. If a keyspace has a compaction filter, all of its tables are rewritten.
    ///
    /// # Errors
    /// [`Error::TableUnreadable`] if a table cannot be read; then everything that does not need the
    /// table is compacted. [`Error::FilterFailed`] if a compaction filter failed; then the entries that it
    /// failed on stay. Otherwise the errors of [`Db::flush`].
    pub fn compact(&self) -> Result<()> {
        let inner = self.upkeep()?;
        // A version held would keep all that is merged.
        let keyspaces: Vec<_> = inner.tree.view.load().version.keyspaces.keys().copied().collect();
        let mut left_out = Ok(());
        for keyspace in keyspaces {
            match inner.compact_fully(keyspace) {
                // Dropped meanwhile.
                Err(Error::UnknownKeyspace { .. }) => {}
                Err(error @ (Error::TableUnreadable { .. } | Error::FilterFailed { .. })) => {
                    left_out = left_out.and(Err(error));
                }
                done => done?,
            }
        }
        left_out
    }

    /// Compacts one keyspace as [`Db::compact`] does.
    ///
    /// # Errors
    /// [`Error::UnknownKeyspace`] if the keyspace was dropped; otherwise the errors of
    /// [`Db::compact`].
    pub fn compact_keyspace(&self, keyspace: &Keyspace) -> Result<()> {
        let inner = self.upkeep()?;
        inner.compact_fully(inner.tree.resolve(keyspace)?)
    }

    /// Waits until flush and compaction have no work left and the next log segment is prepared.
    ///
    /// Then it compacts each small leveled keyspace to one run, which makes reads faster: one of up to
    /// eight segments, unless level 0 has less than an eighth of the bytes that this rewrites below.
    /// Larger keyspaces keep up to three runs in level 0, or seven that are small against what is below.
    /// [`Db::compact`] leaves one run always.
    ///
    /// Unless others write meanwhile, the space of log files that an idle database does not need is freed,
    /// as ten seconds without a write do. The next writes allocate it again.
    ///
    /// Work that needs a table that cannot be opened is left; [`Db::background_error`] reports it.
    ///
    /// # Errors
    /// The error of a flush or a compaction that failed; [`Error::ReadOnly`], [`Error::Closed`],
    /// [`Error::Forked`] if the handle cannot write.
    pub fn wait_for_compactions(&self) -> Result<()> {
        self.upkeep()?.settle()
    }

    /// Runs one background job in the calling thread. Returns false if there is none, or if it
    /// failed.
    ///
    /// This is for a database whose [`Background`](esker_base::Background) has no threads.
    pub fn run_background_job(&self) -> bool {
        self.upkeep().is_ok_and(|inner| steps::step(&inner))
    }

    /// Writes a consistent copy of the database into `dir`, which must be missing or empty.
    ///
    /// The copy has every write acknowledged before the call, and none that began after it
    /// returned. Writers proceed meanwhile. Tables are hard links where the file system can link
    /// them, and copies elsewhere.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{Db, Settings};
    ///
    /// let db = Db::open(dir.path().join("db"), Settings::default())?;
    /// db.put(&db.default_keyspace(), "ada", "analyst")?;
    /// db.checkpoint(dir.path().join("copy"))?;
    ///
    /// let copy = Db::open(dir.path().join("copy"), Settings::default())?;
    /// assert!(copy.contains_key(&copy.default_keyspace(), "ada")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// * [`Error::DatabaseExists`] if `dir` holds a database, [`Error::NotADatabase`] if it holds other
    ///   files.
    /// * [`Error::Io`] if a file cannot be linked, copied or written; the errors of [`Db::flush`].
    ///
    /// After an error nothing is left in `dir`, and `dir` is removed if it was missing.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.checkpoint_while(dir, &|| true)
    }

    /// Writes a checkpoint as [`Db::checkpoint`] does, as long as `goes_on` returns true.
    ///
    /// `goes_on` is called before each table.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if `goes_on` returns false; otherwise the errors of [`Db::checkpoint`].
    pub fn checkpoint_while(
        &self,
        dir: impl AsRef<Path>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<()> {
        // Before a directory is made for it.
        self.inner().check_writable()?;
        crate::recovery::checkpoint::checkpoint_into(&*self.upkeep()?, dir.as_ref(), goes_on)
    }

    /// Writes a checkpoint into a custom storage, which must be empty.
    ///
    /// # Errors
    /// The errors of [`Db::checkpoint`].
    pub fn checkpoint_to(&self, target: &dyn Storage) -> Result<()> {
        crate::recovery::checkpoint::checkpoint(&*self.upkeep()?, target, &|| true)
    }

    /// Flushes, and returns the files that the database has then, for a copy that the caller makes.
    ///
    /// Writers proceed. Tables that a compaction replaces meanwhile stay on disk until the result is
    /// dropped. A backup is such a copy; [`Db::checkpoint`] is one in a directory.
    ///
    /// # Errors
    /// The errors of [`Db::flush`].
    pub fn live_files(&self) -> Result<LiveFiles> {
        LiveFiles::of(&*self.upkeep()?)
    }

    /// Answers one request of another process, if there is one. Returns whether there was one.
    ///
    /// The only request is a checkpoint, as `esker checkpoint` sends it. With
    /// [`Settings::answers_requests`](crate::Settings::answers_requests) a thread calls this.
    ///
    /// # Errors
    /// [`Error::Io`] if the request cannot be read or the answer cannot be written. An error of the
    /// checkpoint itself goes to the requester.
    pub fn answer_request(&self) -> Result<bool> {
        request::answer(&*self.upkeep()?)
    }

    /// Closes the database: stops background work, flushes, and releases threads, files and locks.
    ///
    /// Waits for calls in other threads. Other handles may remain: their calls, and the moves of
    /// cursors, fail with [`Error::Closed`]. The database can be opened again at once.
    ///
    /// # Errors
    /// The error of the final flush or of the manifest. The database is closed even then. The log, if
    /// there is one, keeps the writes that were not flushed.
    pub fn close(self) -> Result<()> {
        self.handle.close()
    }
}
