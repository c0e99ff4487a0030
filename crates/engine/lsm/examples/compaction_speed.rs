//! Nanoseconds an entry of merging and compacting, in memory: `cargo run --release --example
//! compaction_speed [merge|compact]`.

use esker_base::{
    Clock, EntryCursor, KeyspaceId, Kind, Result, Rng, Seqno, SystemClock, WriteHint,
};
use esker_lsm::compaction::execute::subcompaction::execute_part;
use esker_lsm::compaction::in_progress::InProgressCompactions;
use esker_lsm::compaction::pick::pick;
use esker_lsm::compaction::plan::SubcompactionRange;
use esker_lsm::compaction::space::budget::PickerContext;
use esker_lsm::options::sizes::SizeTargets;
use esker_lsm::output::job_context::JobContext;
use esker_lsm::output::output_files::write_table;
use esker_lsm::output::value_output::ValueOutput;
use esker_lsm::output::version_filter::VersionFilter;
use esker_lsm::read::level_iter::LevelIter;
use esker_lsm::read::merging_iter::MergingIter;
use esker_lsm::version::table_lifetimes::TableBirth;
use esker_lsm::version::{
    KeyspaceVersion, Run, TableFile, TableHandle, TableMeta, ValueFiles, table_file_name,
};
use esker_lsm::{KeyspaceSettings, Shape};
use esker_storage::{Storage, memory::MemoryStorage};
use esker_table::{BlockCache, Compression, PartLimits, ReadPurpose, TableOptions, TableWriter};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const KEYS: u64 = 2_000_000;
const FINGERPRINT_BITS: u8 = 8;
const VALUE: [u8; 100] = [b'v'; 100];

/// A cursor over sorted keys, as cheap as can be.
struct Keys {
    keys: Arc<Vec<([u8; 16], Seqno)>>,
    at: usize,
}

impl EntryCursor for Keys {
    fn valid(&self) -> bool {
        self.at < self.keys.len()
    }
    fn seek_first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        self.at = self.keys.len().wrapping_sub(1);
        Ok(())
    }
    fn seek(&mut self, key: &[u8], _: Seqno) -> Result<()> {
        self.at = self.keys.partition_point(|(k, _)| &k[..] < key);
        Ok(())
    }
    fn seek_before(&mut self, key: &[u8], _: Seqno) -> Result<()> {
        self.at = self.keys.partition_point(|(k, _)| &k[..] < key).wrapping_sub(1);
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        self.at = self.at.wrapping_sub(1);
        Ok(())
    }
    fn key(&self) -> &[u8] {
        &self.keys[self.at].0
    }
    fn seqno(&self) -> Seqno {
        self.keys[self.at].1
    }
    fn kind(&self) -> Kind {
        Kind::Put
    }
    fn value(&self) -> &[u8] {
        &VALUE
    }
}

/// `many` sorted lists of random keys; decimal ones share their first bytes.
fn lists(many: u64, decimal: bool) -> Vec<Keys> {
    let mut rng = Rng::new(1);
    let list = |list: u64| {
        let mut keys: Vec<([u8; 16], Seqno)> = (0..KEYS / many)
            .map(|n| {
                let mut key = [0; 16];
                if decimal {
                    key.copy_from_slice(format!("{:016}", rng.below(KEYS)).as_bytes());
                } else {
                    rng.fill(&mut key);
                }
                (key, 1 + list * KEYS + n)
            })
            .collect();
        keys.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        keys.dedup_by_key(|entry| entry.0);
        Keys { keys: Arc::new(keys), at: 0 }
    };
    (0..many).rev().map(list).collect()
}

/// The time that this thread has run, so that other programs' load does not count; where the system
/// does not say, the time that has passed.
fn run_time(clock: &SystemClock) -> Duration {
    let spent = std::fs::read_to_string("/proc/self/schedstat").ok();
    let spent = spent.and_then(|text| text.split_whitespace().next()?.parse().ok());
    spent.map_or_else(|| clock.now(), Duration::from_nanos)
}

fn report(clock: &SystemClock, what: &str, body: impl FnOnce() -> u64) {
    let started = run_time(clock);
    let entries = body();
    let took = run_time(clock) - started;
    println!("{what:45} {:6.1} ns an entry", took.as_nanos() as f64 / entries as f64);
}

fn walk<C: EntryCursor + ?Sized>(cursor: &mut C) -> u64 {
    cursor.seek_first().unwrap();
    let mut entries = 0;
    let mut bytes = 0;
    while cursor.valid() {
        entries += 1;
        bytes += cursor.key().len() + cursor.value().len();
        cursor.next().unwrap();
    }
    assert!(bytes > 0);
    entries
}

struct Bench {
    storage: Arc<dyn Storage>,
    cache: Arc<BlockCache>,
    settings: KeyspaceSettings,
    keyspace: KeyspaceVersion,
    next_file: AtomicU64,
}

impl Bench {
    fn new(compression: Compression) -> Self {
        let settings = KeyspaceSettings::default()
            .shape(Shape::Leveled { ratio: 10 })
            .compression(compression);
        Bench {
            storage: Arc::new(MemoryStorage::new()),
            cache: Arc::new(BlockCache::new(64 << 20)),
            settings,
            keyspace: KeyspaceVersion::new(KeyspaceId(0), "k".into(), settings),
            next_file: AtomicU64::new(1),
        }
    }

    /// Flushes a list to a run of level 0.
    fn flush(&mut self, mut keys: Keys) {
        let file_id = self.next_file.fetch_add(1, Ordering::Relaxed);
        let mut file = self.storage.create(&table_file_name(file_id), WriteHint::table(0)).unwrap();
        let options = TableOptions {
            keyspace: KeyspaceId(0),
            compression: self.settings.compression,
            fingerprint_bits: FINGERPRINT_BITS,
            level: 0,
            file_id,
            sample_level: 0,
            parts: PartLimits::default(),
        };
        keys.seek_first().unwrap();
        let writer = TableWriter::new(&mut *file, options);
        let mut fold = VersionFilter::new(Vec::new(), false);
        let values = &mut ValueOutput::none();
        let meta = write_table(writer, &mut keys, Vec::new(), &mut fold, values);
        let table = self.handle(meta.unwrap().unwrap());
        self.keyspace.levels[0].runs.insert(0, Arc::new(Run::new(file_id, vec![table])));
    }

    fn handle(&self, meta: TableMeta) -> Arc<TableHandle> {
        let file = TableFile::new(self.storage.clone(), meta.id.file);
        TableHandle::new(meta, TableBirth::default(), file)
    }

    fn compact(&mut self, sizes: SizeTargets) -> u64 {
        let plan = pick(
            &self.keyspace,
            &InProgressCompactions::default(),
            sizes,
            &PickerContext::default(),
        )
        .unwrap();
        let context = JobContext {
            storage: self.storage.clone(),
            cache: self.cache.clone(),
            next_file_id: &|| self.next_file.fetch_add(1, Ordering::Relaxed),
            snapshots: Vec::new(),
            settings: self.settings,
            filter: None,
            merger: None,
            now: 0,
            expired: Default::default(),
            cancelled: &AtomicBool::new(false),
            throttle: &|bytes| bytes,
            table_bytes: sizes.table_bytes(),
            fingerprint_bits: FINGERPRINT_BITS,
            sample_level: 0,
            part_limits: PartLimits::default(),
            expected_lifetime: None,
            values: ValueFiles::default(),
            collected: BTreeSet::new(),
            origin: None,
        };
        let outcome = execute_part(&plan, &SubcompactionRange::default(), &context).unwrap();
        let tables = outcome.outputs.into_iter().map(|meta| self.handle(meta)).collect();
        for input in &plan.inputs {
            self.keyspace.levels[input.level].runs.clear();
        }
        let run = Arc::new(Run::new(plan.output_run, tables));
        self.keyspace.levels[plan.output_level].runs = vec![run];
        outcome.entries_in
    }
}

fn merges(clock: &SystemClock) {
    for decimal in [false, true] {
        let keys = if decimal { "decimal keys" } else { "random keys" };
        for many in [1, 2, 3, 5, 8, 20] {
            let mut merge = MergingIter::new(lists(many, decimal));
            report(clock, &format!("{keys}, merge of {many}"), || walk(&mut merge));
        }
    }
}

fn compactions(clock: &SystemClock, compression: Compression) {
    let mut bench = Bench::new(compression);
    let (first, second) = (lists(4, true), lists(4, true));
    report(clock, &format!("{compression}: flush"), || {
        first.into_iter().rev().for_each(|list| bench.flush(list));
        KEYS
    });
    let run = bench.keyspace.levels[0].runs[0].clone();
    let mut cursor = LevelIter::new(run, bench.cache.clone(), ReadPurpose::Compaction);
    report(clock, &format!("{compression}: read a run"), || walk(&mut cursor));
    let sizes = SizeTargets { segment_bytes: 64 << 20 };
    report(clock, &format!("{compression}: compact 4 runs"), || bench.compact(sizes));
    second.into_iter().rev().for_each(|list| bench.flush(list));
    report(clock, &format!("{compression}: compact 4 runs and a level"), || bench.compact(sizes));
}

fn main() {
    let clock = SystemClock::new();
    let wanted = std::env::args().nth(1);
    if wanted.as_deref() != Some("compact") {
        merges(&clock);
    }
    if wanted.as_deref() != Some("merge") {
        compactions(&clock, Compression::None);
        compactions(&clock, Compression::Lz4);
    }
}
