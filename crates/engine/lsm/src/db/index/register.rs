//! Creates, registers and drops indexes.

use super::build;
use super::handle::Index;
use crate::db::keyspace::Keyspace;
use crate::engine::Engine;
use crate::feed::keyspace_notes::KeyspaceNotes;
use crate::index::format::BuildProgress;
use crate::index::index_keys::IndexKeys;
use crate::index::registry::{BuildState, IndexMap, IndexSlot, Registered};
use crate::index::settings::{IndexInfo, IndexSettings, IndexStatus};
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::options::settings::KeyspaceSettings;
use crate::reserved::index_keyspace;
use crate::stats::cumulative::CumulativeStats;
use esker_base::{Error, IndexError, KeyspaceId, Priority, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Keyspace {
    /// Registers an index of this keyspace, and creates it if it does not exist.
    ///
    /// `function` gets the key and the value of a row, and adds the keys by which the index finds it:
    /// none, one or several. From then on every write to the keyspace, also in batches and
    /// transactions, changes the index atomically with the rows. Rows that exist already are added in
    /// the background: [`Index::wait_ready`] waits for that.
    ///
    /// * The function must be pure: the same keys for the same row, always. Give it another
    ///   [version](IndexSettings::version) whenever it changes.
    /// * Functions are not stored. After each open, register all indexes before the first write. A write
    ///   to a keyspace with an index that is not registered fails.
    /// * An index of another version, or one that was unique and is not to be any more, is dropped and
    ///   built again: see [`IndexSettings::rebuild`].
    /// * If this open has registered the same index already, `function` is ignored. A build that failed
    ///   begins again.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod esker { pub use esker_lsm::*; pub mod index { pub use esker_lsm::*; } }
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::index::IndexSettings;
    /// use esker::{Db, KeyspaceSettings, Settings};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let users = db.keyspace("users", KeyspaceSettings::default())?;
    /// users.put("ada", "London")?;
    /// users.put("grace", "New York")?;
    ///
    /// let by_city = users.index("by_city", |_user, city, keys| keys.add(city))?;
    /// by_city.wait_ready()?;
    /// users.put("charles", "London")?;
    ///
    /// let mut names = Vec::new();
    /// for row in by_city.get("London") {
    ///     names.push(row?.key);
    /// }
    /// assert_eq!(names, [b"ada".as_slice(), b"charles"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// * [`Error::Index`] with [`IndexError::BadName`], or with [`IndexError::Differs`] if the index exists
    ///   with another version and may not be rebuilt.
    /// * [`Error::ReadOnly`] if the database is read-only and has to build the index.
    /// * [`Error::UnknownKeyspace`] if the keyspace was dropped; [`Error::Io`] if the manifest cannot be
    ///   written; [`Error::Closed`] and [`Error::Forked`] as for every call.
    pub fn index(
        &self,
        settings: impl Into<IndexSettings>,
        function: impl Fn(&[u8], &[u8], &mut IndexKeys) + Send + Sync + 'static,
    ) -> Result<Index> {
        let settings = settings.into();
        settings.check()?;
        let registered = Registered {
            function: Box::new(function),
            version: settings.version,
            is_unique: settings.is_unique,
        };
        let slot = self.engine().register_index(self, &settings, registered)?;
        Ok(Index::new(self.engine(), slot))
    }

    /// Returns the indexes of this keyspace, registered or not.
    ///
    /// # Errors
    /// [`Error::Closed`] and [`Error::Forked`] as for every call; the errors of [`Keyspace::get`].
    pub fn indexes(&self) -> Result<Vec<IndexInfo>> {
        let engine = self.engine();
        engine.tree.check_usable()?;
        engine.indexes.of(self.id()).iter().map(|slot| describe(engine, slot)).collect()
    }

    /// Drops the index called `name`, registered or not. Rows stay.
    ///
    /// # Errors
    /// [`Error::Index`] with [`IndexError::Unknown`] if there is none;
    /// [`Error::ReadOnly`] if the database is read-only; [`Error::Io`] if the manifest cannot be
    /// written, and then the index still exists.
    pub fn drop_index(&self, name: &str) -> Result<()> {
        let engine = self.engine();
        engine.check_writable()?;
        let engine = engine.begin_upkeep()?;
        let _turn = engine.indexes.changes.lock();
        let Some(slot) = engine.indexes.find(self.id(), name) else {
            let (keyspace, index) = (self.name().to_owned(), name.to_owned());
            return Err(IndexError::Unknown { keyspace, index }.into());
        };
        // No writer may find the index in the map and its keyspace gone.
        let _rows = engine.indexes.stripes().rows.lock_all();
        let notes = KeyspaceNotes::of(&engine);
        engine.tree.install(
            CumulativeStats::default(),
            |state| Ok(notes.add_to(state, VersionEdit::of(drop_of(state, &slot)))),
            |_| notes.publish(),
        )?;
        engine.replace_slot(self.id(), Some(&slot), None);
        Ok(())
    }
}

fn describe(engine: &Engine, slot: &IndexSlot) -> Result<IndexInfo> {
    let name = slot.name.clone();
    let Ok(registered) = slot.registered() else {
        let record = build::read_record(engine, slot)?;
        return Ok(IndexInfo {
            name,
            version: record.as_ref().map(|record| record.version),
            is_unique: record.is_some_and(|record| record.is_unique),
            status: IndexStatus::NotRegistered,
        });
    };
    let (version, is_unique) = (Some(registered.version), registered.is_unique);
    Ok(IndexInfo { name, version, is_unique, status: slot.status() })
}

/// The error of an index on a keyspace whose rows expire: its entries would outlive them.
fn expires_without_entries(keyspace: &str) -> Error {
    Error::InvalidSetting {
        setting: "index",
        value: format!("of keyspace {keyspace:?}"),
        reason: "a keyspace with windows, or that has or had a time to live, cannot have indexes"
            .into(),
    }
}

/// The change that drops the keyspace of `slot`, if there is one.
fn drop_of(state: &ManifestState, slot: &IndexSlot) -> Option<VersionChange> {
    let has = state.version.keyspaces.contains_key(&slot.entries);
    has.then_some(VersionChange::DropKeyspace(slot.entries))
}

fn shown(version: u32, is_unique: bool) -> String {
    format!("version {version}, {}", if is_unique { "unique" } else { "not unique" })
}

impl Engine {
    fn register_index(
        self: &Arc<Self>,
        keyspace: &Keyspace,
        settings: &IndexSettings,
        registered: Registered,
    ) -> Result<Arc<IndexSlot>> {
        self.tree.check_usable()?;
        let rows = self.tree.resolve(keyspace)?;
        self.check_unfiltered(keyspace, rows)?;
        let _turn = self.indexes.changes.lock();
        let Some(slot) = self.indexes.find(rows, &settings.name) else {
            return self.create_index(keyspace, settings, registered, None);
        };
        let asked = (registered.version, registered.is_unique);
        let before = slot.registered().map(|before| (before.version, before.is_unique));
        let record = match before {
            Ok(_) => None,
            Err(_) => build::read_record(self, &slot)?,
        };
        let stored =
            before.ok().or(record.as_ref().map(|record| (record.version, record.is_unique)));
        match stored {
            Some(stored) if stored == asked => {}
            Some((version, is_unique)) if !settings.may_rebuild => {
                let (stored, asked) = (shown(version, is_unique), shown(asked.0, asked.1));
                return Err(IndexError::Differs { index: slot.name.clone(), stored, asked }.into());
            }
            // If its build had not begun, it does not say what it was to be.
            _ => return self.create_index(keyspace, settings, registered, Some(&slot)),
        }
        match record.map(|record| record.progress) {
            Some(BuildProgress::Complete) => {
                slot.register(registered);
                slot.set_ready(0);
            }
            Some(BuildProgress::Through(_)) => {
                self.check_writable()?;
                slot.register(registered);
                self.start_build(&slot)?;
            }
            None if matches!(*slot.build.lock(), BuildState::Ready | BuildState::Running) => {}
            None => self.start_build(&slot)?,
        }
        Ok(slot)
    }

    /// Fails if the keyspace has a compaction filter.
    fn check_unfiltered(&self, keyspace: &Keyspace, rows: KeyspaceId) -> Result<()> {
        let view = self.tree.view.pin();
        let filter = view.version.keyspaces.get(&rows).and_then(|it| it.settings.compaction_filter);
        match filter {
            None => Ok(()),
            Some(filter) => {
                let (keyspace, filter) = (keyspace.name().to_owned(), filter.into());
                Err(IndexError::Filtered { keyspace, filter }.into())
            }
        }
    }

    /// Creates an index in place of another. `changes` is held.
    fn create_index(
        self: &Arc<Self>,
        keyspace: &Keyspace,
        settings: &IndexSettings,
        registered: Registered,
        replaced: Option<&Arc<IndexSlot>>,
    ) -> Result<Arc<IndexSlot>> {
        self.check_writable()?;
        let upkeep = self.begin_upkeep()?;
        let rows = keyspace.id();
        // An ingest that has begun adds rows without their entries.
        let _ingests = self.ingests.lock();
        let _rows = replaced.map(|_| self.indexes.stripes().rows.lock_all());
        let mut entries = KeyspaceId::DEFAULT;
        let notes = KeyspaceNotes::of(self);
        self.tree.install(
            CumulativeStats::default(),
            |state| {
                let Some(found) = state.version.keyspaces.get(&rows) else {
                    return Err(Error::UnknownKeyspace { name: keyspace.name().to_owned() });
                };
                if found.aging.is_some() {
                    return Err(expires_without_entries(keyspace.name()));
                }
                entries = KeyspaceId(state.next_keyspace);
                let create = VersionChange::CreateKeyspace {
                    id: entries,
                    name: index_keyspace(rows, &settings.name),
                    settings: KeyspaceSettings::default(),
                    retention_seqno: None,
                };
                let dropped = replaced.and_then(|slot| drop_of(state, slot));
                let edit = VersionEdit::of(dropped.into_iter().chain([create]));
                Ok(notes.add_to(state, edit))
            },
            |_| notes.publish(),
        )?;
        let slot = Arc::new(IndexSlot::new(&settings.name, rows, keyspace.name(), entries));
        slot.register(registered);
        self.replace_slot(rows, replaced, Some(&slot));
        drop((_rows, _ingests, upkeep));
        self.start_build(&slot)?;
        Ok(slot)
    }

    /// Makes a slot part of writes, in place of another.
    fn replace_slot(
        &self,
        rows: KeyspaceId,
        before: Option<&Arc<IndexSlot>>,
        slot: Option<&Arc<IndexSlot>>,
    ) {
        self.change_indexes(|map| {
            let slots = map.entry(rows).or_default();
            slots.retain(|one| !before.is_some_and(|before| Arc::ptr_eq(one, before)));
            slots.extend(slot.cloned());
        });
        if let Some(before) = before {
            self.forget_slot(before);
        }
    }

    fn change_indexes(&self, change: impl FnOnce(&mut IndexMap)) {
        self.indexes.change(|epoch| self.commit.begin_index_epoch(epoch), change);
    }

    fn forget_slot(&self, slot: &IndexSlot) {
        slot.is_gone.store(true, Ordering::Release);
        if let Some(dram_table) = &self.tree.dram_table {
            dram_table.drop_keyspace(slot.entries);
        }
    }

    /// Builds an index on a thread of its own, if there are any. Otherwise `Index::wait_ready` builds.
    fn start_build(self: &Arc<Self>, slot: &Arc<IndexSlot>) -> Result<()> {
        *slot.build.lock() = BuildState::Running;
        let mut builders = self.indexes.builders.lock();
        // A close that has begun joins no more threads.
        if self.gate.is_cancelled() {
            slot.end_build(BuildState::Failed(Error::Closed));
            return Err(Error::Closed);
        }
        let (engine, building) = (self.clone(), slot.clone());
        let body = move || {
            let _turn = building.builder.lock();
            build::build(&engine, &building);
        };
        // Not low: writers wait for the locks that it holds.
        let started =
            self.indexes.background.spawn("esker-index", Priority::Normal, Box::new(body));
        match started {
            Ok(thread) => {
                // A thread that nobody waits for keeps its stack.
                builders.retain(|builder| !builder.is_over());
                builders.extend(thread);
            }
            Err(error) => {
                slot.end_build(BuildState::Failed(error.clone()));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Drops the keyspace `id` with its indexes.
    pub(crate) fn drop_with_indexes(&self, id: KeyspaceId, name: &str) -> Result<()> {
        let _turn = self.indexes.changes.lock();
        let slots = self.indexes.of(id);
        let _rows = (!slots.is_empty()).then(|| self.indexes.stripes().rows.lock_all());
        let notes = KeyspaceNotes::of(self);
        self.tree.install(
            CumulativeStats::default(),
            |state| match state.version.keyspaces.contains_key(&id) {
                true => {
                    let indexes = slots.iter().filter_map(|slot| drop_of(state, slot));
                    let drops = indexes.chain([VersionChange::DropKeyspace(id)]);
                    Ok(notes.add_to(state, VersionEdit::of(drops)))
                }
                false => Err(Error::UnknownKeyspace { name: name.to_owned() }),
            },
            |_| notes.publish(),
        )?;
        if !slots.is_empty() {
            self.change_indexes(|map| _ = map.remove(&id));
        }
        slots.iter().for_each(|slot| self.forget_slot(slot));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::registry::NO_INDEXES;
    use crate::{Db, Env, Settings};
    use esker_api::WriteBatch;
    use esker_base::Background;
    use esker_base::background::{Body, Running, Stepped};
    use esker_storage::MemoryStorage;

    /// A writer may find no index, and take its seqno only after one was created.
    #[test]
    fn a_batch_that_was_prepared_before_an_index_is_not_written_after_it() {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings::default().segment_bytes(64 << 10)).unwrap();
        let (users, engine) = (db.default_keyspace(), db.inner());
        let (mut small, mut large) = (WriteBatch::new(), WriteBatch::new());
        small.put(&users, "a", "1");
        (0..100_u8).for_each(|key| large.put(&users, [key], [1; 2_000]));
        assert!(engine.indexes.epoch() == NO_INDEXES && !engine.fits_frame(&large));
        users.index("by_value", |_, value, keys| keys.add(value)).unwrap();
        for batch in [&small, &large] {
            assert_eq!(engine.commit_batch(batch, NO_INDEXES).unwrap(), None);
        }
        assert_eq!(users.count(..).unwrap(), 0);
        db.write(&small).unwrap();
        let index = users.index("by_value", |_, _, _| {}).unwrap();
        index.wait_ready().unwrap();
        assert_eq!(index.get("1").count(), 1);
    }

    /// Has no threads, and says that those of indexes are over.
    struct Over;

    impl Background for Over {
        fn spawn(&self, name: &str, _: Priority, _: Body) -> Result<Option<Box<dyn Running>>> {
            Ok((name == "esker-index").then(|| Box::new(Over) as _))
        }
    }

    impl Running for Over {
        fn join(self: Box<Self>) -> bool {
            true
        }
        fn is_over(&self) -> bool {
            true
        }
    }

    #[test]
    fn threads_of_builds_that_are_over_are_let_go() {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Over));
        let db = Db::open_with(env, Settings::default()).unwrap();
        for version in 1..5 {
            let settings = IndexSettings::new("by_value").version(version);
            let index = db.default_keyspace().index(settings, |_, value, keys| keys.add(value));
            index.unwrap().wait_ready().unwrap();
        }
        assert_eq!(db.inner().indexes.builders.lock().len(), 1);
    }

    /// Older versions of the program would write rows without the entries of their indexes.
    #[test]
    fn older_versions_of_the_program_refuse_an_edit_that_creates_an_index() {
        let create = |name: &str| {
            VersionEdit::of([VersionChange::CreateKeyspace {
                id: KeyspaceId(3),
                name: name.into(),
                settings: KeyspaceSettings::default(),
                retention_seqno: None,
            }])
        };
        let index = index_keyspace(KeyspaceId(2), "by_city");
        for (name, tag) in [("users", 1), (index.as_str(), 24)] {
            let bytes = create(name).encode();
            assert_eq!(bytes[0], tag);
            assert_eq!(VersionEdit::decode(&bytes), Ok(create(name)));
        }
        assert!(VersionEdit::decode(&[24, 3]).unwrap_err().contains("malformed"));
    }
}
