//! Settings that change while the database is open.

use super::Db;
use crate::background::change;
use crate::options::change::{CurrentSetting, SettingChange};
use crate::options::settings::Settings;
use esker_base::Result;

impl Db {
    /// Changes a setting of the open database.
    ///
    /// Settings of a keyspace are stored in the database: the change is durable when this returns.
    /// Other changes last until the database closes: the next open gets its [`Settings`] anew.
    /// [`SettingChange::is_persisted`] distinguishes the two.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use esker::options::{BackgroundWriteRate, SettingChange};
    /// use esker::{Db, KeyspaceSettings, Settings};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let users = db.keyspace("users", KeyspaceSettings::default())?;
    ///
    /// db.set(&SettingChange::BackgroundWriteRate(BackgroundWriteRate::Fixed(20 << 20)))?;
    /// db.set(&"users.compression=zstd".parse()?)?;
    /// assert_eq!(users.settings()?.compression.to_string(), "zstd");
    ///
    /// let rate = db.settings()?.into_iter().find(|it| it.name == "background_write_rate").unwrap();
    /// assert_eq!((&rate.value[..], rate.is_persisted), ("20MiB", false));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// * [`Error::InvalidSetting`](esker_base::Error::InvalidSetting) if the value is out of range, or
    ///   if this database cannot change the setting while it is open.
    /// * [`Error::UnknownKeyspace`](esker_base::Error::UnknownKeyspace) if there is no such keyspace.
    /// * [`Error::Io`](esker_base::Error::Io) if the manifest cannot be written;
    ///   [`Error::ReadOnly`](esker_base::Error::ReadOnly), [`Error::Closed`](esker_base::Error::Closed)
    ///   and [`Error::Forked`](esker_base::Error::Forked) as for every change.
    pub fn set(&self, change: &SettingChange) -> Result<()> {
        if change.is_persisted() {
            self.inner().check_writable()?;
        }
        change::apply(&*self.upkeep()?, change)
    }

    /// Returns the settings that [`Db::set`] changes, with their values now.
    ///
    /// # Errors
    /// [`Error::Closed`](esker_base::Error::Closed) once the database is closed,
    /// [`Error::Forked`](esker_base::Error::Forked) in a forked child.
    pub fn settings(&self) -> Result<Vec<CurrentSetting>> {
        self.usable().map(change::settings)
    }

    /// Returns the settings that the database was opened with. [`Db::set`] changes nothing in them.
    ///
    /// With a log in a pool, the size and the number of segments are those of the pool.
    pub fn settings_at_open(&self) -> &Settings {
        &self.inner().tree.settings
    }
}
