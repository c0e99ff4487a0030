//! Looking into a database from outside: what its files hold, and whether they hold together.
//!
//! An [`Inspector`] reads the manifest, the tables and the logs of a closed database without
//! recovering it, so that damage can be seen, named and, as far as the bytes allow, put right:
//!
//! * [`Inspector::manifest`], [`Inspector::table`], [`Inspector::log`]: what one file says;
//! * [`Inspector::check`]: every checksum and every rule, of all files;
//! * [`Inspector::repair`]: a database of what can still be read.

mod check;
mod choose;
mod repair;

pub use check::Checked;
pub use repair::{LostTable, MissingLogs, Repaired};

use crate::log_files::{check_claim, log_file_name, parse_log_file_name};
use crate::manifest::{LogEnd, Record, State, cut_off_at, read_manifest};
use crate::pool_logs::{self, PoolStorage};
use crate::recover;
use crate::version::{TableHandle, TableId, TableMeta, table_file_name};
use esker_base::{Entry, Error, KeyspaceId, Result, Seqno, Threads};
use esker_memtable::{FRAME_HEADER_BYTES, FrameInfo, Scan, SegmentHeader, scan};
use esker_pmem::{Accept, Pool};
use esker_storage::{ReadableFile, Storage, posix::PosixStorage};
use esker_table::{BlockCache, Table};
use std::path::Path;
use std::sync::Arc;

/// Reads the files of one database.
pub struct Inspector {
    storage: Arc<dyn Storage>,
    log_storage: Arc<dyn Storage>,
    /// The pool that `log_storage` shows, if the logs lie in one.
    pool: Option<Arc<Pool>>,
}

/// A manifest file.
#[derive(Clone, PartialEq, Debug)]
pub struct ManifestDump {
    /// The file's name.
    pub name: String,
    /// The database's identity.
    pub identity: u64,
    /// The edits, the snapshot first.
    pub records: Vec<Record>,
}

/// A table of the tree.
#[derive(Clone, PartialEq, Debug)]
pub struct TablePlace {
    /// Its keyspace.
    pub keyspace: KeyspaceId,
    /// Its level.
    pub level: usize,
    /// Its run.
    pub run: u64,
    /// What the manifest knows of it.
    pub meta: TableMeta,
}

/// A log file.
pub struct LogDump {
    /// The file's name.
    pub name: String,
    /// What it says of itself.
    pub header: SegmentHeader,
    /// Its frames, whatever seqno they start with, and why there are no more.
    pub scan: Scan,
    bytes: Vec<u8>,
}

impl LogDump {
    /// Where its sound frames end that name only keyspaces below `next_keyspace`, or `None` if the
    /// first does not. An open refuses the others.
    fn end_of_known(&self, next_keyspace: u32) -> Option<LogEnd> {
        let frames = &self.scan.frames;
        let is_known = |frame: &FrameInfo| {
            self.entries(frame).all(|(_, entry)| entry.keyspace.0 < next_keyspace)
        };
        let known = frames.iter().take_while(|frame| is_known(frame)).count();
        let offset = frames.get(known).map_or(self.scan.end, |unknown| unknown.offset);
        let last = frames[..known].last()?;
        Some(LogEnd { offset, last_seqno: last.next_seqno() - 1 })
    }

    /// The entries of one of the log's frames, each with its seqno.
    pub fn entries(&self, frame: &FrameInfo) -> impl Iterator<Item = (Seqno, Entry<'_>)> {
        let start = frame.offset as usize + FRAME_HEADER_BYTES;
        let end = frame.offset as usize + frame.bytes as usize;
        let mut rest = self.bytes.get(start..end).unwrap_or_default();
        // The scan has decoded them all once; behind the last there is padding.
        let entries = std::iter::from_fn(move || Entry::decode(&mut rest));
        (frame.first_seqno..frame.next_seqno()).zip(entries)
    }
}

impl Inspector {
    /// An inspector of the database in `dir`, whose log files lie there too or in `log_dir`.
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
            Ok(Arc::new(PosixStorage::open(dir)?))
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

    /// An inspector of the database in `dir`, whose logs lie in the pool `pool`, emulated or not.
    pub fn open_with_pool(dir: impl AsRef<Path>, pool: &Path, emulated: bool) -> Result<Self> {
        let accept = if emulated { Accept::Emulated } else { Accept::Persistent };
        let inspector = Inspector::open(dir, None)?;
        let pool = Pool::open_read_only(pool, accept)?;
        let log_storage = Arc::new(PoolStorage(pool.clone()));
        Ok(Inspector { log_storage, pool: Some(pool), ..inspector })
    }

    /// An inspector of the database in `storage`, with its logs in `log_storage`.
    pub fn of(storage: Arc<dyn Storage>, log_storage: Arc<dyn Storage>) -> Self {
        Inspector { storage, log_storage, pool: None }
    }

    /// The manifest in force.
    pub fn manifest(&self) -> Result<ManifestDump> {
        self.read_manifest(&self.current()?)
    }

    fn read_manifest(&self, name: &str) -> Result<ManifestDump> {
        let (identity, records) = read_manifest(&*self.storage, name)?;
        Ok(ManifestDump { name: name.to_owned(), identity, records })
    }

    /// The tables in force, by keyspace, level and run.
    pub fn tables(&self) -> Result<Vec<TablePlace>> {
        let (_, state) = self.state()?;
        let mut tables = Vec::new();
        for (keyspace, level, run, table) in places(&state) {
            tables.push(TablePlace { keyspace, level, run, meta: table.meta.clone() });
        }
        Ok(tables)
    }

    /// The table that lies there.
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
        Ok(Arc::new(Table::open(readable, file, offset, meta.bytes, cache)?))
    }

    /// The epochs of the logs in force, oldest first.
    pub fn logs(&self) -> Result<Vec<u32>> {
        Ok(self.state()?.1.logs.keys().copied().collect())
    }

    /// Whether there is a log file of this epoch, in force or not.
    pub fn has_log(&self, epoch: u32) -> Result<bool> {
        self.log_storage.exists(&log_file_name(epoch))
    }

    /// The log of this epoch.
    pub fn log(&self, epoch: u32) -> Result<LogDump> {
        self.read_log(epoch, None, None)
    }

    /// The log of `epoch`, up to where an earlier recovery found its end: what it rejected stays
    /// rejected.
    fn read_log(
        &self,
        epoch: u32,
        end: Option<LogEnd>,
        expected: Option<Seqno>,
    ) -> Result<LogDump> {
        let name = log_file_name(epoch);
        let path = path(&*self.log_storage, &name);
        if !self.log_storage.exists(&name)? {
            return Err(Error::corruption(path, 0, "there is no such log file"));
        }
        let file = self.log_storage.open(&name)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(0, &mut bytes)?;
        let header = SegmentHeader::decode(&bytes, &path)?;
        if header.epoch != epoch || header.capacity != bytes.len() as u64 {
            let what = format!(
                "the header is of log {} with {} bytes, and the file has {}",
                header.epoch,
                header.capacity,
                bytes.len()
            );
            return Err(Error::corruption(path, 0, what));
        }
        let end = end.map_or(bytes.len(), |end| bytes.len().min(end.offset as usize));
        let scan = scan(&bytes[..end], &header, expected);
        Ok(LogDump { name, header, scan, bytes })
    }

    /// Fails if the logs have a place of their own that does not belong to the database `identity`.
    fn check_log_directory(&self, identity: u64) -> Result<()> {
        if let Some(pool) = &self.pool {
            return pool_logs::check_claim(pool, identity);
        }
        if self.is_one_storage() { Ok(()) } else { check_claim(&*self.log_storage, identity) }
    }

    /// The lock of the log directory, if it is another.
    fn lock_logs(&self) -> Result<Option<Box<dyn Send + Sync>>> {
        if self.is_one_storage() { Ok(None) } else { self.log_storage.lock().map(Some) }
    }

    /// Logs in a pool are copied, too: nothing here goes on with them.
    fn log_source(&self) -> crate::log_read::LogSource<'_> {
        crate::log_read::LogSource { storage: &*self.log_storage, pool: None, background: &Threads }
    }

    fn is_one_storage(&self) -> bool {
        Arc::ptr_eq(&self.storage, &self.log_storage)
    }

    fn current(&self) -> Result<String> {
        match recover::look(&*self.storage)? {
            recover::Found::Database(name) => Ok(name),
            recover::Found::Nothing => Err(Error::NotADatabase {
                dir: self.storage.describe(),
                reason: "there is no database in it".into(),
            }),
        }
    }

    /// Where the manifest goes on with bytes that are no edit, if it does.
    fn cut_off_at(&self, manifest: &ManifestDump) -> Result<Option<u64>> {
        cut_off_at(&*self.storage, &manifest.name, &manifest.records)
    }

    /// Logs that `state` does not know and that hold writes beyond all it knows. A log that was
    /// retired holds only writes that are in tables.
    fn unlisted_logs(&self, state: &State) -> Result<Vec<u32>> {
        let mut last_seqno = state.version.flushed_through;
        for &epoch in state.logs.keys() {
            // One that can't be read is reported by whoever reads it in earnest.
            let frames = self.log(epoch).map(|log| log.scan.frames).unwrap_or_default();
            last_seqno = frames.last().map_or(last_seqno, |frame| frame.next_seqno() - 1);
        }
        let names = self.log_storage.list()?;
        let mut epochs: Vec<u32> =
            names.iter().filter_map(|name| parse_log_file_name(name)).collect();
        epochs.retain(|epoch| !state.logs.contains_key(epoch));
        epochs.sort_unstable();
        let mut unlisted = Vec::new();
        for epoch in epochs {
            let frames = match self.log(epoch) {
                Ok(log) => log.scan.frames,
                // One without a sound header never held anything.
                Err(error) if error.is_corruption() => continue,
                Err(error) => return Err(error),
            };
            if frames.last().is_some_and(|frame| frame.next_seqno() > last_seqno + 1) {
                unlisted.push(epoch);
            }
        }
        Ok(unlisted)
    }

    fn state(&self) -> Result<(u64, State)> {
        recover::load_state(&self.storage, &self.current()?)
    }
}

/// A file that says in messages where it lies.
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

/// All tables of `state` and where they stand.
fn places(state: &State) -> impl Iterator<Item = (KeyspaceId, usize, u64, &Arc<TableHandle>)> {
    let keyspaces = state.version.keyspaces.values();
    keyspaces.flat_map(|keyspace| {
        keyspace.tables().map(|(level, run, table)| (keyspace.id, level, run, table))
    })
}
