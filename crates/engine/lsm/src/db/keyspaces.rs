//! The keyspaces of a database.

use super::Db;
use super::keyspace::{Keyspace, KeyspaceInfo, check_name};
use crate::feed::keyspace_notes::KeyspaceNotes;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::options::settings::{DEFAULT_KEYSPACE, KeyspaceSettings};
use crate::reserved::is_reserved;
use crate::version::KeyspaceVersion;
use esker_base::{Error, KeyspaceId, Result};
use std::sync::Arc;

impl Db {
    /// Returns the keyspace called `name`, and creates it with `settings` if it does not exist.
    ///
    /// The settings of an existing keyspace must be the same, except those that [`Db::set`] changed
    /// since. [`Db::open_keyspace`] opens a keyspace whatever its settings. The creation is durable
    /// when this returns.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::options::Shape;
    /// use esker::{Db, KeyspaceSettings, Settings};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let tiered = KeyspaceSettings::default().shape(Shape::Tiered { runs: 8 });
    /// db.keyspace("events", tiered)?;
    /// assert!(db.keyspace("events", tiered).is_ok());
    ///
    /// let error = db.keyspace("events", KeyspaceSettings::default()).unwrap_err();
    /// assert!(error.to_string().contains("shape is tiered:8, not leveled:10"));
    /// assert_eq!(db.open_keyspace("events")?.settings()?, tiered);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// * [`Error::KeyspaceSettingsDiffer`] if the keyspace exists with other settings.
    /// * [`Error::BadKeyspaceName`] if no keyspace may have this name: see
    ///   [`Keyspace::check_name`].
    /// * [`Error::InvalidSetting`] if the keyspace does not exist and a setting is out of range.
    /// * [`Error::ReadOnly`] if it does not exist and the database is read-only.
    /// * [`Error::Io`] if the manifest cannot be written; [`Error::Closed`] and [`Error::Forked`]
    ///   as for every call.
    pub fn keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<Keyspace> {
        if let Ok(found) = self.open_keyspace_with(name, &settings) {
            return found;
        }
        check_name(name)?;
        settings.validate()?;
        self.create_keyspace(name, settings)?;
        // Another thread may have created it in the meantime, with its own settings.
        self.open_keyspace_with(name, &settings)?
    }

    /// Creates the keyspace `name`, unless it exists.
    pub(super) fn create_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<()> {
        self.inner().check_writable()?;
        let inner = self.upkeep()?;
        let notes = KeyspaceNotes::of(&inner);
        inner.tree.installer.install(
            &inner.tree.view,
            |state| {
                if state.version.keyspace_named(name).is_some() {
                    return Ok(VersionEdit::default());
                }
                let id = KeyspaceId(state.next_keyspace);
                // Before it can be written to.
                settings.compaction_filter.iter().for_each(|_| inner.tree.filters.expect(id));
                let create = VersionEdit::of(VersionChange::create(id, name, settings));
                Ok(notes.add_to(state, create))
            },
            |_| notes.publish(),
        )
    }

    /// The keyspace `name`: an outer error if it does not exist, and an inner one if its settings
    /// differ from `settings`.
    fn open_keyspace_with(
        &self,
        name: &str,
        settings: &KeyspaceSettings,
    ) -> Result<Result<Keyspace>> {
        let view = self.usable()?.tree.view.pin();
        let found = view.version.keyspace_named(name).filter(|_| !is_reserved(name));
        let Some(found) = found else {
            return Err(Error::UnknownKeyspace { name: name.to_owned() });
        };
        Ok(match settings.difference_from(&found.settings, found.changed) {
            None => Ok(self.handle_of(found.id, &found.name)),
            Some(difference) => {
                Err(Error::KeyspaceSettingsDiffer { name: name.to_owned(), difference })
            }
        })
    }

    /// Returns the keyspace called `name`.
    ///
    /// # Errors
    /// [`Error::UnknownKeyspace`] if it does not exist, [`Error::Closed`] once the database is
    /// closed.
    pub fn open_keyspace(&self, name: &str) -> Result<Keyspace> {
        let view = self.usable()?.tree.view.pin();
        match view.version.keyspace_named(name) {
            Some(found) if !is_reserved(name) => Ok(self.handle_of(found.id, &found.name)),
            _ => Err(Error::UnknownKeyspace { name: name.to_owned() }),
        }
    }

    /// Returns the keyspace called `default`, which every database has.
    pub fn default_keyspace(&self) -> Keyspace {
        self.handle_of(KeyspaceId::DEFAULT, DEFAULT_KEYSPACE)
    }

    fn handle_of(&self, id: KeyspaceId, name: &str) -> Keyspace {
        Keyspace::new(&self.handle.inner, id, name)
    }

    /// Returns all keyspaces, ordered by id, except those of the engine itself, such as the entries of
    /// indexes. Empty once the database is closed, and in a forked child.
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        let Ok(inner) = self.usable() else { return Vec::new() };
        let info = |keyspace: &Arc<KeyspaceVersion>| KeyspaceInfo {
            name: keyspace.name.clone(),
            id: keyspace.id,
            settings: keyspace.settings,
        };
        let view = inner.tree.view.pin();
        let keyspaces = view.version.keyspaces.values();
        keyspaces.filter(|keyspace| !is_reserved(&keyspace.name)).map(info).collect()
    }

    /// Drops `keyspace` with all its entries and indexes.
    ///
    /// The drop is durable when this returns. Disk space is freed once no cursor reads the
    /// keyspace. Its handles are useless from then on, also after a keyspace of the same name is
    /// created. The default keyspace cannot be dropped.
    ///
    /// # Errors
    /// * [`Error::UnknownKeyspace`] if it was dropped.
    /// * [`Error::ForeignHandle`] if another database made the handle.
    /// * [`Error::BadKeyspaceName`] for the default keyspace; [`Db::clear`] deletes its keys
    ///   instead.
    /// * [`Error::ReadOnly`] if the database is read-only.
    /// * [`Error::Io`] if the manifest cannot be written.
    ///
    /// After an error the keyspace still exists. If the manifest could not be restored either, the
    /// next open may find the keyspace dropped. Until it is restored, each write to the keyspace
    /// tries again, and fails with [`Error::DropUndecided`] if it cannot.
    pub fn drop_keyspace(&self, keyspace: &Keyspace) -> Result<()> {
        self.inner().check_writable()?;
        let inner = self.upkeep()?;
        let id = inner.tree.resolve(keyspace)?;
        let name = || keyspace.name().to_owned();
        if id == KeyspaceId::DEFAULT {
            return Err(Error::BadKeyspaceName {
                name: name(),
                reason: "the default keyspace can't be dropped; delete its keys instead",
            });
        }
        inner.drop_with_indexes(id, keyspace.name())?;
        if let Some(dram_table) = &inner.tree.dram_table {
            dram_table.drop_keyspace(id);
        }
        Ok(())
    }
}
