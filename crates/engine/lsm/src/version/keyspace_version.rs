//! A version of one keyspace, and of all of them.

use super::aging::{Aging, Expired};
use super::dates::Dates;
use super::derived::Derived;
use super::run::{LEVELS, Level};
use super::table_handle::TableHandle;
use super::table_lifetimes::LifetimeEstimator;
use super::value_files::ValueFiles;
use crate::options::change::ChangedSettings;
use crate::options::settings::KeyspaceSettings;
use crate::parallel;
use crate::reserved;
use esker_base::{Background, KeyspaceId, Result, Seqno};
use esker_table::BlockCache;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Opens the reader of a table, if no part of it that an open needs is lost.
fn open_unless_lost(table: &TableHandle, cache: &Arc<BlockCache>) -> Result<()> {
    match table.reader(cache) {
        Err(error) if !error.is_lost() => Err(error),
        _ => Ok(()),
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
    /// Those of them that were changed since its creation.
    pub changed: ChangedSettings,
    /// Reserved for time travel: versions newer than this are kept.
    pub retention_seqno: Option<Seqno>,
    /// Its time to live, if it has or had one.
    pub aging: Option<Aging>,
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
        let (derived, lives, changed) = Default::default();
        // Windows need seqnos.
        let aging = settings.shape.windows().map(|_| Aging::default());
        let retention_seqno = None;
        KeyspaceVersion {
            id,
            name,
            settings,
            changed,
            retention_seqno,
            aging,
            levels,
            derived,
            lives,
        }
    }

    /// What has expired by its age.
    #[inline]
    pub(crate) fn expired(&self) -> Expired {
        self.aging.map_or_else(Expired::default, |aging| aging.expired())
    }

    /// The most bytes that tables may have, if the keyspace has windows.
    pub(crate) fn max_bytes(&self) -> Option<u64> {
        self.settings.shape.windows().and_then(|(_, max_bytes)| max_bytes)
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
    /// it has written `now` so far. `None` until that is known.
    pub fn expected_lifetime(&self, level: usize, now: u64) -> Option<u64> {
        let tables = self.tables().map(|(_, _, table)| table.born);
        let alive = tables.filter(|born| usize::from(born.level) == level);
        self.lives[level].expected(alive.map(|born| born.at), now)
    }

    /// The mean number of bytes of key and value of the writes in tables.
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

/// All keyspaces of a point in time.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// The keyspaces by id.
    pub keyspaces: BTreeMap<KeyspaceId, Arc<KeyspaceVersion>>,
    /// The value files that tables refer to.
    pub values: ValueFiles,
    /// Every write up to here is in tables; the log before it is not needed.
    pub flushed_through: Seqno,
    /// The highest seqno that a table has had, and no lower than `flushed_through`. An ingest that no
    /// flush has followed is one above that.
    pub tables_through: Seqno,
    /// When that was written.
    pub dates: Dates,
}

impl Version {
    /// The name by which statistics show `keyspace`.
    pub(crate) fn shown_name(&self, keyspace: &KeyspaceVersion) -> String {
        let name_of = |id| self.keyspaces.get(&id).map(|other| other.name.clone());
        reserved::shown(&keyspace.name, name_of)
    }

    fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        let tables = self.keyspaces.values().flat_map(|keyspace| keyspace.tables());
        tables.map(|(_, _, table)| table)
    }

    /// Opens the reader of every table that is not open yet. Fails with the first error, after it has tried all. A
    /// table of which a part is lost is left to its readers.
    pub fn open_tables(&self, cache: &Arc<BlockCache>) -> Result<()> {
        self.tables().map(|table| open_unless_lost(table, cache)).fold(Ok(()), Result::and)
    }

    /// Whether the reader of every table is open that can be, and is not left to reads.
    pub(crate) fn is_open(&self) -> bool {
        let is_open = |table: &TableHandle| {
            table.opened().is_some() || table.is_unreadable() || table.is_left_to_reads()
        };
        self.tables().all(|table| is_open(table))
    }

    /// The tables whose reader is not open yet and may come to be, without those left to reads.
    pub(crate) fn unopened(&self) -> Vec<Arc<TableHandle>> {
        let is_left = |table: &&Arc<TableHandle>| {
            table.opened().is_none()
                && !table.is_left_to_reads()
                && (!table.is_unreadable() || table.may_recover())
        };
        self.tables().filter(is_left).cloned().collect()
    }

    /// As [`Version::open_tables`], but for tables left to reads, by this thread and others that are free: most of it is waiting for
    /// devices and checksums, a table's after another's.
    pub(crate) fn open_tables_at_once(
        &self,
        cache: &Arc<BlockCache>,
        background: &dyn Background,
    ) -> Result<()> {
        let tables = self.tables().filter(|table| !table.is_left_to_reads()).cloned().collect();
        let cache = cache.clone();
        let open = move |table: Arc<TableHandle>| open_unless_lost(&table, &cache);
        parallel::for_each(background, parallel::helpers(), tables, open)
            .into_iter()
            .fold(Ok(()), Result::and)
    }

    /// The bytes that the indexes, filters and tombstones of its tables hold.
    pub(crate) fn table_memory(&self) -> u64 {
        let opened = self.tables().filter_map(|table| table.opened());
        opened.map(|table| table.memory_bytes() as u64).sum()
    }

    /// The keyspaces of which entries expire by their age or by the size of the keyspace.
    pub(crate) fn aging(&self) -> impl Iterator<Item = (&KeyspaceVersion, Aging)> {
        let aging = self.keyspaces.values().filter_map(|it| Some((&**it, it.aging?)));
        aging.filter(|(keyspace, aging)| aging.millis.is_some() || keyspace.max_bytes().is_some())
    }

    /// The length of the shortest window of a keyspace.
    pub(crate) fn shortest_window(&self) -> Option<Duration> {
        let windows = self.keyspaces.values().filter_map(|it| it.settings.shape.windows());
        windows.map(|(window, _)| window).min()
    }

    /// Whether a keyspace has a space-amplification limit.
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
