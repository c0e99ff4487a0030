//! Following a database that another process writes.

use super::Db;
use crate::options::settings::Settings;
use crate::recovery::env::{Env, posix_env};
use crate::recovery::open::existing_directory;
use crate::recovery::open_follower;
use crate::stats::follower::{CaughtUp, FollowerStats};
use esker_base::{ChangesError, Error, Result};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

impl Db {
    /// Opens the database in `dir` as a follower: for reading, while another process writes to it, whose
    /// writes become visible here.
    ///
    /// [`Db::catch_up`] reads what was written since. With an `interval`, a thread calls it that often.
    ///
    /// * Every read and every snapshot sees whole batches, and all of them up to a sequence number.
    /// * What is shown was written by the other process. It may not be synced yet, and so may be lost if the
    ///   machine loses power: [`FollowerStats::durable_through`] says how far the log is known to be durable.
    /// * After another process has opened the database for writing, has repaired it, or has put a copy in its place,
    ///   such as a restored backup, the follower begins anew with what is there: see [`CaughtUp::began_anew`].
    /// * A snapshot keeps the MemTables and tables that it reads, so drop it when it is no longer needed.
    ///
    /// The writer does not know its followers, and nothing is written to `dir`. A follower takes as much
    /// memory for MemTables as the writer.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{Db, Settings};
    ///
    /// let writer = Db::open(dir.path(), Settings::default())?;
    /// let follower = Db::open_follower(dir.path(), Settings::default(), None)?;
    ///
    /// writer.put(&writer.default_keyspace(), "ada", "analyst")?;
    /// follower.catch_up()?;
    /// let value = follower.get(&follower.default_keyspace(), "ada")?;
    /// assert_eq!(value.as_deref(), Some(&b"analyst"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::PoolRefused`] if the settings name a pool; otherwise the errors of
    /// [`Db::open_read_only`]. Later calls that would change the database fail with [`Error::ReadOnly`].
    pub fn open_follower(
        dir: impl AsRef<Path>,
        settings: Settings,
        interval: impl Into<Option<Duration>>,
    ) -> Result<Db> {
        settings.validate()?;
        open_follower::check_log(&settings)?;
        // So that it is noticed if another directory is there later.
        let dir = std::path::absolute(dir.as_ref());
        let dir = dir.map_err(|source| Error::io("find", "the working directory", source))?;
        let storage = existing_directory(&dir)?.with_shared_files();
        let storage = storage.with_direct_reads(settings.direct_reads);
        let env = posix_env(Arc::new(storage), &settings, false)?;
        Db::open_follower_with(env, settings, interval)
    }

    /// Opens a database as a follower with a custom [`Env`].
    ///
    /// # Errors
    /// The errors of [`Db::open_follower`].
    pub fn open_follower_with(
        env: Env,
        settings: Settings,
        interval: impl Into<Option<Duration>>,
    ) -> Result<Db> {
        settings.validate()?;
        Ok(Db { handle: open_follower::open(env, settings, interval.into())? })
    }

    /// Shows what the other process has written up to now, if this is a [follower](Db::open_follower).
    ///
    /// After an error, reads see what they saw before, and the next call tries again.
    ///
    /// # Errors
    /// * [`Error::Changes`] with [`ChangesError::NotAFollower`] if the database was opened in another way,
    ///   or with [`ChangesError::Replaced`] if another database is in its place now which is no copy of it, or a
    ///   copy in which a keyspace has the id of another one: open it again.
    /// * [`Error::Corruption`] if a file is damaged or missing, [`Error::Io`] if it cannot be read.
    /// * [`Error::Closed`] once the database is closed, [`Error::Forked`] in a forked child.
    pub fn catch_up(&self) -> Result<CaughtUp> {
        let inner = self.usable()?;
        self.handle.follower.get().ok_or(ChangesError::NotAFollower)?.catch_up(inner)
    }

    /// Returns how far a [follower](Db::open_follower) is. `None` if the database was opened in another way.
    pub fn follower_stats(&self) -> Option<FollowerStats> {
        let inner = self.usable().ok()?;
        Some(self.handle.follower.get()?.stats(inner))
    }
}
