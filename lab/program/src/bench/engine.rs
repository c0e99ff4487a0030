//! Open stores as the benchmark sees them: an Esker database, and any peer.

use super::log_device::OpenLog;
use super::pool::{PoolSettings, held_bytes};
use crate::failure::Outcome;
use esker::api::{KeyRange, Ordered, Store, TransactionDb, Transactional};
use esker::env::Env;
use esker::{Db, Keyspace, KeyspaceSettings, Log, Result, Settings, Stats, SyncPolicy};
use esker_bench::accounting::{
    Copies, Reclaim, TableCost, TableDiskUsage, TableReadStats, disk_usage, table_usage,
};
use esker_bench::{Counters, Engine};
use esker_peers::Peer;
use esker_pmem::Pool;
use esker_storage::PosixStorage;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The keyspace that the load goes to.
pub const KEYSPACE: &str = "bench";

/// An open database under measurement.
pub struct EskerEngine {
    name: &'static str,
    dir: PathBuf,
    db: Db,
    keyspace: Keyspace,
    store: Store,
    transactions: TransactionDb<Db>,
    /// Where the log is, if that is on a device of its own.
    log: Option<OpenLog>,
    settings: BTreeMap<String, String>,
    /// The persistent memory that MemTables are in, if they do.
    pool: Option<Arc<Pool>>,
    /// Whether there is a table of copies in DRAM: it is what counts reads.
    has_dram_table: bool,
}

impl EskerEngine {
    /// Opens the database in `dir`, or creates one there.
    pub fn open(
        name: &'static str,
        dir: &Path,
        settings: Settings,
        keyspace: KeyspaceSettings,
    ) -> Outcome<Self> {
        let named = named(&settings, &keyspace);
        let has_dram_table = settings.dram_table_bytes != Some(0);
        let db = Db::open(dir, settings)?;
        let engine = EskerEngine::new(name, dir, db, named, keyspace)?;
        Ok(EskerEngine { has_dram_table, ..engine })
    }

    /// Opens the database in `dir`, or creates one there, with a new, emulated pool for its log.
    pub fn open_with_pool(
        name: &'static str,
        dir: &Path,
        settings: Settings,
        pool: &PoolSettings,
        keyspace: KeyspaceSettings,
    ) -> Outcome<Self> {
        let made = pool.make()?;
        let mut named = named(&settings.clone().with_pool(&made), &keyspace);
        named.extend(pool.named(&made));
        let storage = Arc::new(PosixStorage::create(dir)?);
        let env = Env::over(storage).pool(made.clone());
        let has_dram_table = settings.dram_table_bytes != Some(0);
        let db = Db::open_with(env, settings)?;
        // With its log elsewhere a database has its first segment when it is open.
        db.wait_for_compactions()?;
        let engine = EskerEngine::new(name, dir, db, named, keyspace)?;
        Ok(EskerEngine { pool: Some(made), has_dram_table, ..engine })
    }

    /// Opens the database in `dir`, or creates one there, with its log on a device.
    pub fn open_with_log(
        name: &'static str,
        dir: &Path,
        settings: Settings,
        log: OpenLog,
        keyspace: KeyspaceSettings,
    ) -> Outcome<Self> {
        let mut named = named(&settings, &keyspace);
        named.extend(log.named());
        let env = Env::over(Arc::new(PosixStorage::create(dir)?)).log_storage(log.storage()?);
        let has_dram_table = settings.dram_table_bytes != Some(0);
        let db = Db::open_with(env, settings)?;
        let engine = EskerEngine::new(name, dir, db, named, keyspace)?;
        Ok(EskerEngine { log: Some(log), has_dram_table, ..engine })
    }

    /// Where the log is, if that is on a device of its own.
    pub fn log(&self) -> Option<&OpenLog> {
        self.log.as_ref()
    }

    fn new(
        name: &'static str,
        dir: &Path,
        db: Db,
        settings: BTreeMap<String, String>,
        keyspace: KeyspaceSettings,
    ) -> Outcome<Self> {
        let keyspace = db.keyspace(KEYSPACE, keyspace)?;
        let store = db.store(&keyspace);
        let transactions = TransactionDb::new(db.clone());
        let (dir, log, pool, has_dram_table) = (dir.to_owned(), None, None, false);
        Ok(EskerEngine {
            name,
            dir,
            db,
            keyspace,
            store,
            transactions,
            log,
            settings,
            pool,
            has_dram_table,
        })
    }

    /// What was set, by name.
    pub fn settings(&self) -> BTreeMap<String, String> {
        self.settings.clone()
    }

    /// Closes the database.
    pub fn close(self) -> Outcome {
        drop((self.store, self.keyspace, self.transactions));
        Ok(self.db.close()?)
    }
}

impl Engine for EskerEngine {
    fn name(&self) -> &str {
        self.name
    }

    fn store(&self) -> &dyn Ordered {
        &self.store
    }

    fn transactional(&self) -> Option<&dyn Transactional> {
        Some(&self.transactions)
    }

    fn iterates(&self) -> bool {
        true
    }

    fn iterate(&self, range: KeyRange, most: usize) -> Result<u64> {
        let mut entries = self.db.range(&self.keyspace, range).take(most);
        entries.try_fold(0, |read, entry| {
            std::hint::black_box(entry?);
            Ok(read + 1)
        })
    }

    fn counters(&self) -> Counters {
        let stats = self.db.stats();
        let (copies, gets) = (&stats.dram_table, &stats.table_gets);
        // MemTables in DRAM answer all reads that do not come to the table of copies behind them.
        // MemTables in persistent memory answer some, which nobody counts; the rest, copies did.
        let has_pool = self.pool.is_some();
        let (dram_hits, dram_misses) = match (has_pool, self.has_dram_table) {
            (true, _) => (Some(copies.hits + copies.exact_hits), None),
            (false, true) => (None, Some(copies.misses)),
            (false, false) => (None, None),
        };
        Counters {
            user_bytes: stats.user_bytes,
            log_bytes: Some(stats.log_bytes),
            pool_bytes: if has_pool { stats.log_bytes } else { 0 },
            log_syncs: Some(stats.log_syncs),
            flush_bytes: Some(stats.flush_bytes),
            compaction_bytes: Some(stats.compaction_bytes),
            stall_us: Some(stats.stalled.as_micros() as u64),
            dram_hits,
            dram_misses,
            copies: self.has_dram_table.then_some(Copies {
                fills: copies.fills,
                invalidations: copies.invalidations,
                evictions: copies.evictions,
            }),
            placed: None,
            cache_hits: Some(stats.cache_hits),
            cache_misses: Some(stats.cache_misses),
            table_hits: Some(TableReadStats { gets: gets.hits, table_reads: gets.hit_reads }),
            table_misses: Some(TableReadStats { gets: gets.misses, table_reads: gets.miss_reads }),
            table_cost: Some(TableCost {
                gets: gets.gets(),
                runs: gets.runs,
                blocks: gets.blocks,
                bytes: gets.block_bytes,
            }),
        }
    }

    fn disk_bytes(&self) -> u64 {
        // The pool first: what a flush moves meanwhile is seen twice rather than never.
        let held = self.pool.as_deref().map_or(0, held_bytes);
        held + disk_usage(&self.dir)
    }

    fn table_space(&self) -> TableDiskUsage {
        let stats = self.db.stats();
        TableDiskUsage {
            bytes: stats.table_file_bytes,
            peak_bytes: Some(stats.table_file_bytes_peak),
        }
    }

    fn reclaim(&self) -> Option<Reclaim> {
        reclaim_of(&self.db.stats())
    }

    fn live_table_bytes(&self) -> Option<f64> {
        self.db.estimate_live_data().map(|live| live.bytes)
    }

    fn flush(&self) -> Result<()> {
        self.db.flush()
    }

    fn settle(&self) -> Result<()> {
        self.db.wait_for_compactions()
    }
}

/// What compactions were expected to free and did, as far as the engine keeps account of it.
fn reclaim_of(stats: &Stats) -> Option<Reclaim> {
    Some(Reclaim {
        judged: stats.compactions,
        within_tenth: stats.reclaims_within_tenth,
        predicted_bytes: stats.predicted_reclaim_bytes,
        reclaimed_bytes: stats.reclaimed_bytes,
    })
}

pub(super) fn named(settings: &Settings, keyspace: &KeyspaceSettings) -> BTreeMap<String, String> {
    let log = match settings.log {
        Log::File { sync: SyncPolicy::Always, .. } => "file, synced at every write".to_owned(),
        Log::File { sync: SyncPolicy::Os, .. } => "file, not synced".to_owned(),
        Log::File { sync: SyncPolicy::Every(interval), .. } => {
            format!("file, synced every {interval:?}")
        }
        Log::Pmem { .. } => "a pool of persistent memory".to_owned(),
        Log::None => "none".to_owned(),
    };
    let dram_table = settings.dram_table_bytes.map_or("default".to_owned(), |b| b.to_string());
    let or_default = |value: Option<String>| value.unwrap_or_else(|| "default".to_owned());
    let max_open_files = or_default(settings.max_open_files.map(|files| files.to_string()));
    let separated = keyspace.separation_threshold.map(|bytes| bytes.to_string());
    let pairs = [
        ("log", log),
        ("segment_bytes", settings.segment_bytes.to_string()),
        ("sealed_segments", settings.sealed_segments.to_string()),
        ("memory_bytes", settings.memory_bytes.to_string()),
        ("dram_table_bytes", dram_table),
        ("forwarding", format!("{:?}", settings.forwarding)),
        ("background_threads", settings.background_threads.to_string()),
        ("shape", keyspace.shape.to_string()),
        ("dedup", keyspace.dedup.to_string()),
        ("compression", keyspace.compression.to_string()),
        ("filter_bits", keyspace.filter_bits.to_string()),
        ("max_open_files", max_open_files),
        ("separation_threshold", separated.unwrap_or_else(|| "none".to_owned())),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Another engine's store under measurement.
pub struct PeerEngine {
    /// The name it was asked for by.
    name: String,
    dir: PathBuf,
    peer: Box<dyn Peer>,
}

impl PeerEngine {
    /// `peer`, open in `dir`.
    pub fn new(name: &str, dir: &Path, peer: Box<dyn Peer>) -> Self {
        PeerEngine { name: name.to_owned(), dir: dir.to_owned(), peer }
    }

    /// What was set, by name.
    pub fn settings(&self) -> BTreeMap<String, String> {
        self.peer.configuration().into_iter().collect()
    }
}

impl Engine for PeerEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn store(&self) -> &dyn Ordered {
        &*self.peer
    }

    fn counters(&self) -> Counters {
        let written = self.peer.written();
        Counters {
            user_bytes: written.user_bytes.unwrap_or(0),
            log_bytes: written.log_bytes,
            flush_bytes: written.flush_bytes,
            compaction_bytes: written.compaction_bytes,
            stall_us: written.stall_us,
            ..Counters::default()
        }
    }

    fn disk_bytes(&self) -> u64 {
        disk_usage(&self.dir)
    }

    fn table_space(&self) -> TableDiskUsage {
        TableDiskUsage { bytes: table_usage(&self.dir), peak_bytes: None }
    }

    fn flush(&self) -> Result<()> {
        self.peer.flush()
    }

    fn settle(&self) -> Result<()> {
        self.peer.settle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::{Error, WriteBatch};
    use esker_base::{Clock, SystemClock};
    use std::time::Duration;

    const VALUE: [u8; 1_000] = [7; 1_000];

    /// For what comes soon, on a machine that does much else.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn open(dir: &Path) -> EskerEngine {
        let log = Log::Pmem { pool: PathBuf::new(), emulated: true };
        let settings = Settings::default().log(log).segment_bytes(64 << 10);
        let pool = PoolSettings { pool: 16 << 20, ..PoolSettings::default() };
        let keyspace = KeyspaceSettings::default();
        EskerEngine::open_with_pool("esker-wbl", dir, settings, &pool, keyspace).unwrap()
    }

    #[test]
    fn what_lies_in_the_pool_takes_space() {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(dir.path());
        let put = |numbers: std::ops::Range<u32>| {
            let one = |number: u32| engine.store().put(&number.to_be_bytes(), &VALUE).unwrap();
            numbers.for_each(one);
        };
        // Less than an extent.
        put(0..800);
        let live = 800 * VALUE.len() as u64;
        assert!(disk_usage(dir.path()) < live, "it is not in files yet");
        assert!(engine.disk_bytes() >= live, "{} for {live}", engine.disk_bytes());
        put(800..8_000);
        engine.flush().unwrap();
        // Who looked at it, for a flush or to merge, may hold an extent for a moment longer.
        let clock = SystemClock::new();
        let held = || held_bytes(engine.pool.as_deref().unwrap());
        while held() >= 4_000_000 {
            assert!(clock.now() < PATIENCE, "{}: what is in tables leaves the pool", held());
            clock.sleep(Duration::from_millis(1));
        }
        engine.close().unwrap();
    }

    #[test]
    fn the_settings_of_an_engine_with_a_pool_are_those_in_force() {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(dir.path());
        let told = engine.settings();
        let number = |name: &str| told[name].parse::<usize>().unwrap();
        assert_eq!(number("segment_bytes"), number("pool_extent_bytes"));
        // Of sixteen one is written to, and two wait to be.
        assert_eq!((number("pool_extents"), number("sealed_segments")), (16, 13));
        assert!(number("segment_bytes") * number("pool_extents") <= number("pool_bytes"));
        // A batch takes a quarter of the extents that MemTables take.
        let mut batch = WriteBatch::new();
        let keyspace = engine.store().keyspace_ref();
        (0..5_000u32).for_each(|key| batch.put(keyspace, key.to_be_bytes(), VALUE));
        let in_force = Settings::default()
            .log(Log::Pmem { pool: PathBuf::new(), emulated: true })
            .segment_bytes(number("segment_bytes"))
            .sealed_segments(number("sealed_segments"));
        match engine.store().write(&batch) {
            Err(Error::BatchTooLarge { limit, .. }) => {
                assert_eq!(limit, in_force.max_batch_bytes())
            }
            other => panic!("{other:?}"),
        }
        engine.close().unwrap();
    }
}
