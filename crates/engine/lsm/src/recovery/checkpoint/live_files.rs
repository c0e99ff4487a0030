//! The files of a database at one time, for a copy that another writes.
//!
//! The version is held, so none of its tables is removed. A manifest in memory makes the tables a
//! database of their own.

use super::write_manifest;
use crate::engine::Engine;
use crate::history::lineage::{Lineage, Opening};
use crate::manifest::manifest_file::{CURRENT, read_current};
use crate::manifest::manifest_state::ManifestState;
use crate::recovery::replay;
use crate::version::{ListedValueFile, TableId, TableMeta, parse_value_file_name, table_file_name};
use esker_base::{EntryCursor, Error, Kind, Result, Seqno, ValuePlace};
use esker_storage::{Encryption, MemoryStorage, PosixStorage, ReadableFile, Storage};
use esker_table::{BlockCache, ReadPurpose, Table};
use std::path::Path;
use std::sync::Arc;

/// The files of a database at one time. Together they are a copy of it, which has no log.
///
/// [`Db::live_files`](crate::Db::live_files) returns them. Tables that a compaction replaces later stay
/// on disk until this is dropped.
pub struct LiveFiles {
    storage: Arc<dyn Storage>,
    /// Where the manifest of the copy is.
    manifest_storage: Arc<dyn Storage>,
    manifest: String,
    /// Holds the files.
    state: ManifestState,
    database: u64,
    /// Those that are noted. Empty: it is not known of which opening they are.
    openings: Vec<Opening>,
}

impl LiveFiles {
    /// Flushes, and takes the files that there are then.
    pub(crate) fn of(engine: &Engine) -> Result<LiveFiles> {
        engine.flush_all()?;
        let state = engine.tree.installer.state();
        if state.closed {
            return Err(Error::Closed);
        }
        let memory = MemoryStorage::new();
        write_manifest(engine, &state, &memory)?;
        Ok(LiveFiles {
            storage: engine.tree.storage.clone(),
            manifest: read_current(&memory)?,
            manifest_storage: Arc::new(memory),
            state,
            database: engine.tree.installer.identity(),
            openings: Lineage::noted(&*engine.tree.storage, 0)?.openings,
        })
    }

    /// Returns the files of the checkpoint in `dir`, which was made of the database with the identity
    /// `database`. The caller keeps the directory as it is.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] if it is no checkpoint, [`Error::Corruption`] if its manifest is damaged.
    pub fn of_checkpoint(dir: impl AsRef<Path>, database: u64) -> Result<LiveFiles> {
        LiveFiles::of_checkpoint_in(Arc::new(PosixStorage::open(dir.as_ref())?), database)
    }

    /// Returns the files of the checkpoint in `storage`, as [`LiveFiles::of_checkpoint`] does.
    ///
    /// # Errors
    /// The errors of [`LiveFiles::of_checkpoint`].
    pub fn of_checkpoint_in(storage: Arc<dyn Storage>, database: u64) -> Result<LiveFiles> {
        let manifest = match replay::look(&*storage)? {
            replay::DirectoryState::Database(name) => name,
            replay::DirectoryState::Nothing => {
                return Err(not_a_checkpoint(&*storage, "there is no database in it"));
            }
        };
        let (_, state) = replay::load_state(&storage, &manifest)?;
        if !state.logs.is_empty() {
            return Err(not_a_checkpoint(&*storage, "it is a database with a log"));
        }
        let (manifest_storage, openings) = (storage.clone(), Vec::new());
        Ok(LiveFiles { manifest_storage, storage, manifest, state, database, openings })
    }

    /// Sets the openings of the database that were noted before the checkpoint was made.
    #[must_use]
    pub fn noted_openings(mut self, openings: Vec<Opening>) -> LiveFiles {
        self.openings = openings;
        self
    }

    /// Returns the openings of the database that were noted by then, the oldest first. Empty if they are not known.
    pub fn openings(&self) -> &[Opening] {
        &self.openings
    }

    /// Returns the identity of the database: a random number that it got when it was created.
    pub fn database(&self) -> u64 {
        self.database
    }

    /// Returns the encryption of the files, if they are encrypted. [`LiveFiles::open`] decrypts them.
    pub fn encryption(&self) -> Option<Encryption> {
        self.storage.encryption()
    }

    /// Returns a sequence number such that the files have all writes up to it. They have later ones, too,
    /// if these left nothing in tables.
    pub fn seqno(&self) -> Seqno {
        self.state.version.tables_through
    }

    /// Returns the sequence number up to which all writes are in tables. The log goes on after it with a segment.
    pub fn flushed_through(&self) -> Seqno {
        self.state.version.flushed_through
    }

    /// Returns the names of the files that hold tables or values. Tables and values never change, but
    /// bytes of a file that belong to a removed table may become zeros. No other file of the database ever has its
    /// name, unless an earlier copy of the directory is brought back.
    pub fn tables(&self) -> Vec<String> {
        self.state.file_names()
    }

    /// Returns the names of the other files: the manifest, then `CURRENT`, which makes a directory with all
    /// the others a database.
    pub fn manifest(&self) -> [&str; 2] {
        [&self.manifest, CURRENT]
    }

    /// Opens a file by its name.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be opened.
    pub fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        match self.manifest().contains(&name) {
            true => self.manifest_storage.open(name),
            false => self.storage.open(name),
        }
    }

    /// Reads the tables or the values in the file `name`, and checks every checksum and the order of keys.
    /// Damage of values that no table refers to does not count.
    ///
    /// # Errors
    /// [`Error::Corruption`] for the first damage, [`Error::Io`] if the file cannot be read.
    pub fn verify(&self, name: &str) -> Result<()> {
        if let Some(file) = parse_value_file_name(name) {
            let listed = self.state.version.values.get(file);
            return listed.map_or(Ok(()), |listed| self.verify_values(listed));
        }
        let mut first = Ok(());
        for meta in self.table_metas().filter(|meta| table_file_name(meta.id.file) == name) {
            self.table(meta)?.verify(&mut |error| {
                if first.is_ok() {
                    first = Err(error);
                }
            });
        }
        first
    }

    /// Checks a value file from front to back, as its heads say. If there is damage, checks the places that
    /// tables refer to: a repair drops a damaged value and keeps its file.
    fn verify_values(&self, listed: &ListedValueFile) -> Result<()> {
        match listed.file.verify() {
            Err(error) if error.is_corruption() => {}
            verified => return verified,
        }
        let file = listed.meta.file;
        let refers = |meta: &&TableMeta| meta.value_files.iter().any(|of| of.file == file);
        for meta in self.table_metas().filter(refers) {
            let table = Arc::new(self.table(meta)?);
            let mut cursor = table.cursor(ReadPurpose::Compaction);
            cursor.seek_first()?;
            while cursor.valid() {
                let place = ValuePlace::decode(cursor.value());
                let place = place.filter(|it| cursor.kind() == Kind::Separated && it.file == file);
                place.map_or(Ok(()), |place| listed.file.check(&place))?;
                cursor.next()?;
            }
        }
        Ok(())
    }

    fn table_metas(&self) -> impl Iterator<Item = &TableMeta> {
        let keyspaces = self.state.version.keyspaces.values();
        keyspaces.flat_map(|keyspace| keyspace.tables()).map(|(_, _, table)| &table.meta)
    }

    fn table(&self, meta: &TableMeta) -> Result<Table> {
        let TableId { file, offset } = meta.id;
        let readable = self.storage.open(&table_file_name(file))?;
        let table = Table::open(readable, file, offset, meta.bytes, Arc::new(BlockCache::new(0)))?;
        table.ingested_at(meta.global_seqno)
    }
}

impl std::fmt::Debug for LiveFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveFiles")
            .field("database", &format_args!("{:016x}", self.database))
            .field("tables", &self.tables())
            .finish_non_exhaustive()
    }
}

fn not_a_checkpoint(storage: &dyn Storage, reason: &str) -> Error {
    Error::NotADatabase { dir: storage.describe(), reason: reason.into() }
}
