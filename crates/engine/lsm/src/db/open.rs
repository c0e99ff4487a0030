//! The ways to open a database.

use super::Db;
use crate::options::settings::Settings;
use crate::recovery::env::{Env, posix_env};
use crate::recovery::open;
use crate::recovery::open::{CreateMode, existing_directory};
#[expect(unused_imports, reason = "links of the documentation, also where it is re-exported")]
use esker_base::Error;
use esker_base::Result;
use esker_storage::PosixStorage;
use std::path::Path;
use std::sync::Arc;

impl Db {
    /// Opens the database in `dir`, or creates it if the directory is missing or empty.
    ///
    /// Recovers the writes in the log and prepares the first log segment. Tables are opened in the
    /// background, so damage in a table is reported later: by reads and by
    /// [`Db::background_error`]. The exception is a keyspace with a space-amplification limit. Then
    /// the open waits for the tables, and damage in their indexes and filters fails it.
    ///
    /// # Errors
    /// * [`Error::InvalidSetting`] if a setting is out of range.
    /// * [`Error::Locked`] if the database is open for writing in another process, or in this one. It
    ///   is tried for 200 ms, because `esker top` and `esker ui` lock a closed database briefly.
    /// * [`Error::NotADatabase`] if the directory holds other files.
    /// * [`Error::Corruption`] if the manifest, the log or the end of a table is damaged, or a
    ///   table file is missing.
    /// * [`Error::TornLog`] under [`Recovery::Strict`](crate::Recovery::Strict).
    /// * [`Error::NewerVersion`] or [`Error::UnknownFeatures`] if a newer release wrote the files.
    /// * [`Error::PoolRefused`] or [`Error::PoolDamaged`] if the pool of persistent memory cannot
    ///   be used.
    /// * [`Error::Forked`] if the settings share resources of a parent process.
    /// * [`Error::Io`] if the system fails an operation, such as the preparation of a log segment
    ///   on a full disk.
    pub fn open(dir: impl AsRef<Path>, settings: Settings) -> Result<Db> {
        settings.validate()?;
        let dir = dir.as_ref();
        let is_new = !dir.exists();
        let storage = Arc::new(PosixStorage::create(dir)?.with_direct_reads(settings.direct_reads));
        let opened = posix_env(storage.clone(), &settings, true)
            .and_then(|env| Db::opened(env, settings, CreateMode::IfMissing));
        if is_new && opened.is_err() {
            // It stays if anything is in it.
            let _ = storage.remove_if_empty();
        }
        opened
    }

    /// Opens the database in `dir`, which must exist.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] if there is no database in `dir`; otherwise the errors of
    /// [`Db::open`].
    pub fn open_existing(dir: impl AsRef<Path>, settings: Settings) -> Result<Db> {
        settings.validate()?;
        let storage = existing_directory(dir.as_ref())?.with_direct_reads(settings.direct_reads);
        Db::opened(posix_env(Arc::new(storage), &settings, true)?, settings, CreateMode::Never)
    }

    /// Opens the database in `dir` for reading, at its present state.
    ///
    /// Another process may write to the database at the same time. Its later writes are not visible
    /// here. Nothing is written to `dir`.
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
    /// writer.put(&writer.default_keyspace(), "ada", "analyst")?;
    ///
    /// let reader = Db::open_read_only(dir.path(), Settings::default())?;
    /// writer.delete(&writer.default_keyspace(), "ada")?;
    /// assert!(reader.contains_key(&reader.default_keyspace(), "ada")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotADatabase`] if there is no database in `dir`; otherwise the errors of
    /// [`Db::open`], except [`Error::Locked`]. Later calls that would change the database fail with
    /// [`Error::ReadOnly`].
    pub fn open_read_only(dir: impl AsRef<Path>, settings: Settings) -> Result<Db> {
        settings.validate()?;
        let storage = existing_directory(dir.as_ref())?.with_shared_files();
        let storage = storage.with_direct_reads(settings.direct_reads);
        Db::opened_read_only(posix_env(Arc::new(storage), &settings, false)?, settings)
    }

    /// Opens or creates a database with a custom [`Env`].
    ///
    /// # Errors
    /// The errors of [`Db::open`].
    pub fn open_with(env: Env, settings: Settings) -> Result<Db> {
        settings.validate()?;
        Db::opened(env, settings, CreateMode::IfMissing)
    }

    /// Opens an existing database with a custom [`Env`].
    ///
    /// # Errors
    /// The errors of [`Db::open_existing`].
    pub fn open_existing_with(env: Env, settings: Settings) -> Result<Db> {
        settings.validate()?;
        Db::opened(env, settings, CreateMode::Never)
    }

    /// Opens a database for reading with a custom [`Env`].
    ///
    /// # Errors
    /// The errors of [`Db::open_read_only`].
    pub fn open_read_only_with(env: Env, settings: Settings) -> Result<Db> {
        settings.validate()?;
        Db::opened_read_only(env, settings)
    }

    fn opened(env: Env, settings: Settings, create: CreateMode) -> Result<Db> {
        Ok(Db { handle: open::open(env, settings, create)? })
    }

    fn opened_read_only(env: Env, settings: Settings) -> Result<Db> {
        Ok(Db { handle: open::open_read_only(env, settings)? })
    }
}
