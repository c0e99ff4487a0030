//! A version: the immutable set of tables that reads see in addition to the MemTables.
//!
//! ```text
//! Version ─ keyspace ─┬─ level 0:  run 19 │ run 17 │ run 12      newest run first
//!                     ├─ level 1:  run 9: [table a..f][table g..m][table n..z]
//!                     └─ level 2:  run 4: […][…][…][…][…]
//! ```
//!
//! * A **run** is a set of tables with disjoint key ranges, in key order. Its ID orders it by age:
//!   for any key, a run with a higher ID has newer versions than one with a lower ID on the same or
//!   a deeper level. A flush creates a new run in level 0. A compaction's output takes the newest
//!   ID of its inputs, or the ID of the run that it joins: under a space-amplification limit the
//!   oldest one's.
//! * A **level** is a list of runs, newest first. For each key, level 0's data is newer than level
//!   1's, and so on.
//! * Leveled is one run per level below level 0, tiered is several: one structure, one reader.
//!
//! A version never changes. An [`VersionEdit`](crate::manifest::version_edit::VersionEdit) makes a new one from
//! an old one.

pub mod dates;
pub mod derived;
pub(crate) mod fence_pointers;
pub mod key_bounds;
pub(crate) mod pin_registry;
pub(crate) mod snapshot_tracker;
pub(crate) mod super_version;
pub mod table_lifetimes;
pub(crate) mod unreadable;

use crate::options::settings::KeyspaceSettings;
use crate::parallel;
use dates::Dates;
use derived::Derived;
use esker_api::KeyRange;
use esker_base::{Background, FragmentedTombstones, KeyspaceId, Result, Seqno};
use esker_storage::Storage;
use esker_table::{BlockCache, Sketches, Table};
use fence_pointers::FencePointers;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use table_lifetimes::{LifetimeEstimator, TableBirth};
use unreadable::Mark;

/// The number of levels that a keyspace may have.
pub const LEVELS: usize = 7;

/// The id of a table: its file, and its offset in the file. File ids are never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TableId {
    /// The id of the file.
    pub file: u64,
    /// The offset of the table in the file, in bytes.
    pub offset: u64,
}

/// The description of a table in the manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TableMeta {
    /// The id of the table.
    pub id: TableId,
    /// The size of the table, in bytes.
    pub bytes: u64,
    /// The smallest key that the table holds or deletes.
    pub smallest: Vec<u8>,
    /// The largest key that the table holds, or the end of its last range tombstone if that is
    /// greater.
    pub largest: Vec<u8>,
    /// Whether `largest` is the end of a range tombstone and not itself held or deleted.
    ///
    /// The next table of the run may then start at the same key.
    pub largest_is_exclusive: bool,
    /// Versions, including deletes, without range tombstones.
    pub entries: u64,
    /// Deletes.
    pub deletes: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Bytes of keys and values, uncompressed.
    pub raw_bytes: u64,
    /// The lowest sequence number.
    pub min_seqno: Seqno,
    /// The highest sequence number.
    pub max_seqno: Seqno,
    /// Reserved for ingested tables: one sequence number for all entries.
    pub global_seqno: Option<Seqno>,
}

impl TableMeta {
    /// Whether the table may hold or delete keys in `[smallest, largest]`.
    pub fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        &self.smallest[..] <= largest && !self.ends_before(smallest)
    }

    /// Whether the table holds and deletes only keys below `key`.
    #[inline]
    pub fn ends_before(&self, key: &[u8]) -> bool {
        if self.largest_is_exclusive { &self.largest[..] <= key } else { &self.largest[..] < key }
    }

    /// Whether the table may hold or delete keys in `range`.
    ///
    /// Range tombstones do not extend beyond the bounds of their table. So a read of `range` needs
    /// no other tables.
    pub fn meets(&self, range: &KeyRange) -> bool {
        !self.ends_below(range) && !range.ends_before(&self.smallest)
    }

    /// Whether the table neither holds nor deletes keys in `range` or after it.
    pub(crate) fn ends_below(&self, range: &KeyRange) -> bool {
        match &range.start {
            Bound::Included(start) => self.ends_before(start),
            Bound::Excluded(start) => self.largest <= *start,
            Bound::Unbounded => false,
        }
    }
}

/// The file behind one or more tables. When the last table that uses it is dropped, and no version
/// has it any more, the file is removed.
#[derive(Debug)]
pub struct TableFile {
    id: u64,
    storage: StorageHandle,
    obsolete: AtomicBool,
}

/// The storage, hidden from `Debug`.
struct StorageHandle(Arc<dyn Storage>);

impl std::fmt::Debug for StorageHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.describe())
    }
}

/// The name of the file with this id.
pub fn table_file_name(file: u64) -> String {
    format!("{file:08}.tables")
}

/// The id in a name that [`table_file_name`] made.
pub fn parse_table_file_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".tables")?;
    (digits.len() >= 8).then(|| digits.parse().ok()).flatten()
}

impl TableFile {
    /// The file `id` of `storage`.
    pub fn new(storage: Arc<dyn Storage>, id: u64) -> Arc<Self> {
        Arc::new(TableFile {
            id,
            storage: StorageHandle(storage),
            obsolete: AtomicBool::new(false),
        })
    }

    /// Says that no version has the file any more: it goes with its last reader.
    pub fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() {
            // A file that cannot be removed now is found unused, and removed, at the next open.
            let _ = self.storage.0.remove(&table_file_name(self.id));
        }
    }
}

/// A table of a version: what the manifest knows, and the reader, opened at first use.
#[derive(Debug)]
pub struct TableHandle {
    /// What the manifest knows.
    pub meta: TableMeta,
    /// When it was written.
    pub born: TableBirth,
    file: Option<Arc<TableFile>>,
    reader: OnceLock<Arc<Table>>,
    /// Set when a read of it failed.
    pub(crate) mark: Mark,
    /// Of a table without a file.
    sketches: Option<Arc<Sketches>>,
}

/// What is known of a table's keys without reading it.
#[derive(Clone, Copy, Debug)]
pub struct TableSummary<'a> {
    /// Its distinct keys.
    pub keys: u64,
    /// The mean length of its versions' keys.
    pub mean_key_bytes: f64,
    /// Their sketches.
    pub sketches: &'a Sketches,
    /// Those of its bytes that it would have with fewer keys, too.
    pub fixed_bytes: u64,
    /// The lowest seqno of its deletes and range tombstones, if it has any and tells.
    pub oldest_delete: Option<Seqno>,
    /// Its range tombstones, if there may be any.
    pub tombstones: Option<&'a FragmentedTombstones>,
}

impl TableHandle {
    /// A table in `file`, written when `born` says.
    pub fn new(meta: TableMeta, born: TableBirth, file: Arc<TableFile>) -> Arc<Self> {
        let (reader, mark) = Default::default();
        Arc::new(TableHandle { meta, born, file: Some(file), reader, mark, sketches: None })
    }

    /// A table without a file behind it, for pickers' tests: it can be planned with, not read.
    pub fn detached(meta: TableMeta) -> Arc<Self> {
        Self::sketched(meta, Sketches::default())
    }

    /// A detached table of one version a key, with sketches of the keys. Its oldest version is a delete if it
    /// has any.
    pub fn sketched(meta: TableMeta, sketches: Sketches) -> Arc<Self> {
        let (born, reader, mark) = Default::default();
        let sketches = Some(Arc::new(sketches));
        Arc::new(TableHandle { meta, born, file: None, reader, mark, sketches })
    }

    /// What is known of its keys; `None` before its reader is open.
    pub fn contents(&self) -> Option<TableSummary<'_>> {
        match (&self.sketches, self.opened()) {
            (Some(sketches), _) => Some(TableSummary {
                keys: self.meta.entries,
                mean_key_bytes: 0.0,
                fixed_bytes: 0,
                sketches,
                oldest_delete: self.has_deletes().then_some(self.meta.min_seqno),
                tombstones: None,
            }),
            (None, Some(table)) => {
                let properties = table.properties();
                let entries = properties.entries.max(1) as f64;
                Some(TableSummary {
                    keys: properties.keys,
                    mean_key_bytes: properties.raw_key_bytes as f64 / entries,
                    sketches: &properties.sketches,
                    fixed_bytes: table.fixed_bytes(),
                    oldest_delete: properties.oldest_delete,
                    tombstones: Some(table.tombstones()),
                })
            }
            (None, None) => None,
        }
    }

    /// Whether there is a delete or a range tombstone in it.
    pub fn has_deletes(&self) -> bool {
        self.meta.deletes > 0 || self.meta.range_tombstones > 0
    }

    /// Versions of keys that it holds newer ones of: once kept for a snapshot. 0 before its reader is open.
    pub fn repeats(&self) -> u64 {
        let keys = self.contents().map(|contents| contents.keys);
        keys.map_or(0, |keys| self.meta.entries.saturating_sub(keys))
    }

    /// The bytes of its data blocks that lie wholly between `start` and `end`. 0 before its reader is open.
    pub fn bytes_within(&self, start: &[u8], end: &[u8]) -> u64 {
        self.opened().map_or(0, |table| table.bytes_within(start, end))
    }

    /// The file behind the table.
    pub fn file(&self) -> Option<&Arc<TableFile>> {
        self.file.as_ref()
    }

    /// The reader if it is open already.
    pub fn opened(&self) -> Option<&Arc<Table>> {
        self.reader.get()
    }

    /// The reader, opened now if it was not yet. A table that lost what an open needs is not tried again. A failed open
    /// marks the table as unreadable, and a later one that succeeds takes the mark away.
    pub fn reader(&self, cache: &Arc<BlockCache>) -> Result<&Arc<Table>> {
        if let Some(table) = self.reader.get() {
            return Ok(table);
        }
        match self.mark.why() {
            Some(error) if error.is_lost() => Err(error),
            _ => {
                let opened = self.open(cache).inspect_err(|error| self.mark_unreadable(error))?;
                self.mark.clear();
                Ok(opened)
            }
        }
    }

    fn open(&self, cache: &Arc<BlockCache>) -> Result<&Arc<Table>> {
        let file = self.file.as_ref().expect("a detached table is never read");
        let id = self.meta.id;
        let readable = file.storage.0.open(&table_file_name(id.file))?;
        let table = Table::open(readable, id.file, id.offset, self.meta.bytes, cache.clone())?;
        Ok(self.reader.get_or_init(|| Arc::new(table)))
    }
}

/// Opens the reader of a table, if no part of it that an open needs is lost.
fn open_unless_lost(table: &TableHandle, cache: &Arc<BlockCache>) -> Result<()> {
    match table.reader(cache) {
        Err(error) if !error.is_lost() => Err(error),
        _ => Ok(()),
    }
}

/// Tables with disjoint ranges, in key order.
#[derive(Clone, Debug)]
pub struct Run {
    /// How new the run is: higher is newer.
    pub id: u64,
    tables: Vec<Arc<TableHandle>>,
    bounds: FencePointers,
}

impl Run {
    /// A run of these tables.
    pub fn new(id: u64, tables: Vec<Arc<TableHandle>>) -> Self {
        Run { id, tables, bounds: FencePointers::default() }
    }

    /// Its tables, in key order.
    #[inline]
    pub fn tables(&self) -> &[Arc<TableHandle>] {
        &self.tables
    }

    /// Its tables, to be changed: what lookups go by is then gathered anew.
    pub fn tables_mut(&mut self) -> &mut Vec<Arc<TableHandle>> {
        self.bounds = FencePointers::default();
        &mut self.tables
    }

    /// Gathers what [`Run::table_for`] goes by now, so that no reader has to.
    pub(crate) fn gather_bounds(&self) {
        self.bounds.gather(&self.tables);
    }

    /// The only table that may hold or delete `key`. O(log tables).
    #[inline]
    pub fn table_for(&self, key: &[u8]) -> Option<&Arc<TableHandle>> {
        self.bounds.find(&self.tables, key).map(|at| &self.tables[at])
    }

    /// The tables that overlap `[smallest, largest]`.
    pub fn overlapping(&self, smallest: &[u8], largest: &[u8]) -> &[Arc<TableHandle>] {
        let from = self.tables.partition_point(|table| table.meta.ends_before(smallest));
        let to = self.tables.partition_point(|table| &table.meta.smallest[..] <= largest);
        &self.tables[from..to.max(from)]
    }

    /// The bytes of all tables.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.meta.bytes).sum()
    }
}

/// Runs, newest first.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// The runs.
    pub runs: Vec<Arc<Run>>,
}

impl Level {
    /// The bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes()).sum()
    }

    /// Whether there is no run.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

/// A keyspace's tables and settings.
#[derive(Clone, Debug)]
pub struct KeyspaceVersion {
    /// Its id, never reused.
    pub id: KeyspaceId,
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: KeyspaceSettings,
    /// Reserved for time travel: versions newer than this are kept.
    pub retention_seqno: Option<Seqno>,
    /// Its levels, `LEVELS` of them.
    pub levels: Vec<Level>,
    /// What is known of the levels' duplicates. To be made anew when the levels change.
    pub derived: Derived,
    /// How long tables lived, by the level that they were written to.
    pub lives: [LifetimeEstimator; LEVELS],
}

impl KeyspaceVersion {
    /// A new, empty keyspace.
    pub fn new(id: KeyspaceId, name: String, settings: KeyspaceSettings) -> Self {
        let levels = vec![Level::default(); LEVELS];
        let (derived, lives) = Default::default();
        KeyspaceVersion { id, name, settings, retention_seqno: None, levels, derived, lives }
    }

    /// All tables with their level and run id.
    pub fn tables(&self) -> impl Iterator<Item = (usize, u64, &Arc<TableHandle>)> {
        self.levels.iter().enumerate().flat_map(|(level, runs)| {
            runs.runs
                .iter()
                .flat_map(move |run| run.tables().iter().map(move |table| (level, run.id, table)))
        })
    }

    /// The bytes of all tables.
    pub fn bytes(&self) -> u64 {
        self.levels.iter().map(Level::bytes).sum()
    }

    /// How much the database is expected to write to tables while a table lives that is written to `level` now, when
    /// it has written `now` so far. `None` until that was learnt.
    pub fn expected_lifetime(&self, level: usize, now: u64) -> Option<u64> {
        let tables = self.tables().map(|(_, _, table)| table.born);
        let alive = tables.filter(|born| usize::from(born.level) == level);
        self.lives[level].expected(alive.map(|born| born.at), now)
    }

    /// The bytes of keys and values of a write, in the mean of those in tables.
    pub fn mean_write_bytes(&self) -> f64 {
        let add = |(bytes, writes), (_, _, table): (usize, u64, &Arc<TableHandle>)| {
            let meta = &table.meta;
            (bytes + meta.raw_bytes, writes + meta.entries + meta.range_tombstones)
        };
        let (bytes, writes) = self.tables().fold((0, 0), add);
        bytes as f64 / writes.max(1) as f64
    }

    /// The highest seqno in a table.
    pub fn newest_seqno(&self) -> Seqno {
        self.tables().map(|(_, _, table)| table.meta.max_seqno).max().unwrap_or(0)
    }
}

/// All keyspaces of a moment.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// The keyspaces by id.
    pub keyspaces: BTreeMap<KeyspaceId, Arc<KeyspaceVersion>>,
    /// Every write up to here is in tables; the log before it is not needed.
    pub flushed_through: Seqno,
    /// When that was written.
    pub dates: Dates,
}

impl Version {
    fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        let tables = self.keyspaces.values().flat_map(|keyspace| keyspace.tables());
        tables.map(|(_, _, table)| table)
    }

    /// Opens the reader of every table that is not open yet. Fails with the first error, after it has tried all. A
    /// table of which a part is lost is left to its readers.
    pub fn open_tables(&self, cache: &Arc<BlockCache>) -> Result<()> {
        self.tables().map(|table| open_unless_lost(table, cache)).fold(Ok(()), Result::and)
    }

    /// Whether the reader of every table is open that can be.
    pub(crate) fn is_open(&self) -> bool {
        self.tables().all(|table| table.opened().is_some() || table.is_unreadable())
    }

    /// The tables whose reader is not open yet, and may come to be.
    pub(crate) fn unopened(&self) -> Vec<Arc<TableHandle>> {
        let is_left = |table: &&Arc<TableHandle>| {
            table.opened().is_none() && (!table.is_unreadable() || table.may_recover())
        };
        self.tables().filter(is_left).cloned().collect()
    }

    /// As [`Version::open_tables`], by this thread and others that are free: most of it is waiting for
    /// devices and checksums, a table's after another's.
    pub(crate) fn open_tables_at_once(
        &self,
        cache: &Arc<BlockCache>,
        background: &dyn Background,
    ) -> Result<()> {
        let tables = self.tables().cloned().collect();
        let cache = cache.clone();
        let open = move |table: Arc<TableHandle>| open_unless_lost(&table, &cache);
        parallel::for_each(background, parallel::helpers(), tables, open)
            .into_iter()
            .fold(Ok(()), Result::and)
    }

    /// Whether a keyspace has a goal for space.
    pub(crate) fn has_space_goal(&self) -> bool {
        self.keyspaces.values().any(|keyspace| keyspace.settings.has_space_goal())
    }

    /// Gathers the bounds of runs that are new, so that no reader has to.
    pub(crate) fn gather_bounds(&self) {
        let levels = self.keyspaces.values().flat_map(|keyspace| &keyspace.levels);
        levels.flat_map(|level| &level.runs).for_each(|run| run.gather_bounds());
    }

    /// The keyspace called `name`.
    pub fn keyspace_named(&self, name: &str) -> Option<&Arc<KeyspaceVersion>> {
        self.keyspaces.values().find(|keyspace| keyspace.name == name)
    }
}
