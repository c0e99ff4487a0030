//! Inspects, checks and repairs the files of a database.
//!
//! An [`Inspector`] reads the manifest, the tables and the logs without recovering the database:
//!
//! * [`Inspector::manifest`], [`Inspector::table`], [`Inspector::log`] read one file;
//! * [`Inspector::check`] verifies every checksum and invariant of all files;
//! * [`Inspector::read_around`] reads the entries of a keyspace and skips damage;
//! * [`Inspector::repair`] makes a database of what can be read.
//!
//! `repair` keeps the manifest; `rebuild` replaces a lost one. `salvage` reads damaged tables, and
//! `sources` puts their versions and those of logs into one order.

pub mod check;
pub(crate) mod concurrent_check;
mod encryption_check;
pub(crate) mod inspected_pool;
mod kept_logs;
pub mod logs;
pub(crate) mod pool;
pub mod read_around;
pub(crate) mod rebuild;
pub mod repair;
pub(crate) mod salvage;
pub(crate) mod sources;

pub use crate::version::dates::Dates;
pub use check::CheckReport;
pub use esker_table::LostKeys;
pub use logs::LogDump;
pub use read_around::Skipped;
pub use repair::{MissingLogPolicy, RepairReport};
pub use salvage::DroppedTable;

use crate::manifest::manifest_file::{Record, read_manifest, torn_tail_offset};
use crate::manifest::manifest_state::ManifestState;
use crate::recovery::replay;
use crate::recovery::unlisted_files::{Fate, loss_in};
use crate::version::{TableHandle, TableId, TableMeta, table_file_name};
use esker_base::{Error, KeyspaceId, Result};
use esker_storage::{Encryption, ReadableFile, Storage, posix::PosixStorage};
use esker_table::{BlockCache, Table};
use inspected_pool::InspectedPool;
use std::path::Path;
use std::sync::Arc;

/// Reads, checks and repairs the files of one database without opening it.
///
/// # Examples
///
/// ```
/// # mod esker { pub use esker_lsm::{Db, Settings, inspect}; }
/// # fn main() -> esker_base::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::inspect::Inspector;
/// # use esker::{Db, Settings};
///
/// # let db = Db::open(dir.path(), Settings::default())?;
/// # db.default_keyspace().put("key", "value")?;
/// # db.close()?;
/// let inspector = Inspector::open(dir.path(), None)?;
/// let checked = inspector.check(&mut |problem| eprintln!("{problem}"))?;
/// assert_eq!(checked.problems, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "an inspector reads nothing until it is asked"]
pub struct Inspector {
    storage: Arc<dyn Storage>,
    log_storage: Arc<dyn Storage>,
    /// The pool that `log_storage` shows, if the logs are in one.
    pool: Option<InspectedPool>,
}

impl std::fmt::Debug for Inspector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inspector")
            .field("storage", &self.storage.describe())
            .finish_non_exhaustive()
    }
}

/// The content of a manifest file.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct ManifestDump {
    /// The name of the file.
    pub name: String,
    /// The id of the database.
    pub identity: u64,
    /// The edits. The first one is a snapshot of the state.
    pub records: Vec<Record>,
}

/// A table and its position in the LSM tree.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct TablePlace {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The name by which statistics show the keyspace.
    pub keyspace_name: String,
    /// The level.
    pub level: usize,
    /// The id of the run.
    pub run: u64,
    /// The description of the table in the manifest.
    pub meta: TableMeta,
}

impl Inspector {
    /// Returns an inspector of the database in `dir`, with its log files in `log_dir`, or in `dir`
    /// if `None`.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] if a directory does not exist, [`Error::Io`] if it cannot be opened.
    pub fn open(dir: impl AsRef<Path>, log_dir: Option<&Path>) -> Result<Self> {
        let dir = dir.as_ref();
        let not_there = |dir: &Path| Error::NotADatabase {
            dir: dir.display().to_string(),
            reason: "there is no such directory".into(),
        };
        let open = |dir: &Path| -> Result<Arc<dyn Storage>> {
            if !dir.is_dir() {
                return Err(not_there(dir));
            }
            Ok(Arc::new(PosixStorage::open(dir)?.with_shared_files()))
        };
        let storage = open(dir)?;
        let is_same = |log_dir: &&Path| match (dir.canonicalize(), log_dir.canonicalize()) {
            (Ok(dir), Ok(log_dir)) => dir == log_dir,
            _ => false,
        };
        let log_dir = log_dir.filter(|log_dir| !is_same(log_dir));
        let log_storage = log_dir.map_or_else(|| Ok(storage.clone()), open)?;
        Ok(Inspector::of(storage, log_storage))
    }

    /// Returns an inspector of the database in `storage`, with its logs in `log_storage`.
    pub fn of(storage: Arc<dyn Storage>, log_storage: Arc<dyn Storage>) -> Self {
        Inspector { storage, log_storage, pool: None }
    }

    /// Returns the inspector of an encrypted database, whose files `encryption` decrypts.
    pub fn encryption(self, encryption: &Encryption) -> Self {
        let storage = encryption.over(self.storage.clone());
        let log_storage = match self.is_one_storage() {
            true => storage.clone(),
            false => encryption.over(self.log_storage),
        };
        Inspector { storage, log_storage, ..self }
    }

    /// Reads the current manifest.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] if there is none, [`Error::Corruption`] if it is damaged.
    pub fn manifest(&self) -> Result<ManifestDump> {
        self.read_manifest(&self.current()?)
    }

    fn read_manifest(&self, name: &str) -> Result<ManifestDump> {
        let (identity, records) = read_manifest(&*self.storage, name)?;
        Ok(ManifestDump { name: name.to_owned(), identity, records })
    }

    /// Returns the tables in the current manifest, by keyspace, level and run.
    ///
    /// # Errors
    /// The errors of [`Inspector::manifest`].
    pub fn tables(&self) -> Result<Vec<TablePlace>> {
        let (_, state) = self.state()?;
        let mut tables = Vec::new();
        for (keyspace, level, run, table) in places(&state) {
            let named = &state.version.keyspaces[&keyspace];
            let (keyspace_name, meta) = (state.version.shown_name(named), table.meta.clone());
            tables.push(TablePlace { keyspace, keyspace_name, level, run, meta });
        }
        Ok(tables)
    }

    /// Opens the table that `meta` describes.
    ///
    /// # Errors
    /// [`Error::Corruption`] if its file is missing, or if the table is damaged outside of its data
    /// blocks.
    pub fn table(&self, meta: &TableMeta) -> Result<Arc<Table>> {
        let TableId { file, offset } = meta.id;
        let name = table_file_name(file);
        if !self.storage.exists(&name)? {
            let what = "the manifest lists the file and it is missing";
            return Err(Error::corruption(path(&*self.storage, &name), 0, what));
        }
        let readable =
            Arc::new(Placed { file: self.storage.open(&name)?, path: path(&*self.storage, &name) });
        let cache = Arc::new(BlockCache::new(0));
        let table = Table::open(readable, file, offset, meta.bytes, cache)?;
        Ok(Arc::new(table.ingested_at(meta.global_seqno)?))
    }

    fn current(&self) -> Result<String> {
        match replay::look(&*self.storage)? {
            replay::DirectoryState::Database(name) => Ok(name),
            replay::DirectoryState::Nothing => Err(Error::NotADatabase {
                dir: self.storage.describe(),
                reason: "there is no database in it".into(),
            }),
        }
    }

    /// Where the manifest goes on with bytes that are no edit, if it does.
    fn torn_tail_offset(&self, manifest: &ManifestDump) -> Result<Option<u64>> {
        torn_tail_offset(&*self.storage, &manifest.name, &manifest.records)
    }

    /// The damage of the manifest that orphaned files show.
    fn loss_in<'a>(
        &self,
        fates: impl IntoIterator<Item = &'a Fate>,
        manifest: &str,
    ) -> Result<Option<Error>> {
        let bytes = self.storage.open(manifest)?.len()?;
        Ok(loss_in(fates, &path(&*self.storage, manifest), bytes))
    }

    fn state(&self) -> Result<(u64, ManifestState)> {
        replay::load_state(&self.storage, &self.current()?)
    }
}

/// A file that says in messages where it is.
struct Placed {
    file: Arc<dyn ReadableFile>,
    path: String,
}

impl ReadableFile for Placed {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(offset, out)
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn name(&self) -> &str {
        &self.path
    }
}

fn path(storage: &dyn Storage, name: &str) -> String {
    format!("{}/{name}", storage.describe())
}

/// All tables of `state` and where they are.
fn places(
    state: &ManifestState,
) -> impl Iterator<Item = (KeyspaceId, usize, u64, &Arc<TableHandle>)> {
    let keyspaces = state.version.keyspaces.values();
    keyspaces.flat_map(|keyspace| {
        keyspace.tables().map(|(level, run, table)| (keyspace.id, level, run, table))
    })
}
