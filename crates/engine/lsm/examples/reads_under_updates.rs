//! Point reads of stores that were updated as fast as they take it, a leveled one and some under space-amplification limits, held
//! side by side and read in turn:
//!
//! `cargo run --release -p esker-lsm --example reads_under_updates -- [RECORDS] [ROUNDS] [READS] [KIND]`
//!
//! Every round updates an eighth of the keys of each store, which leaves it unsettled, and reads at random from it. It
//! prints percentiles, what reads cost by the engine's own count, and the medians of all rounds of both, and of their
//! ratios to the leveled store's of the same round. Files are in memory, and background work is done by the writer
//! when it has to wait for it: so what is read is the same in every run, whatever else the machine does. KIND is one
//! store alone, for a profiler.

use esker_base::background::Stepped;
use esker_base::{Clock, Rng, SystemClock};
use esker_lsm::{Db, Dedup, Env, KeyspaceSettings, Ratio, Settings, Shape, TableReadStats};
use esker_storage::MemoryStorage;
use esker_table::Compression;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// As `esker-lab experiment plexdb` has them.
const VALUE_BYTES: usize = 200;
const MEMTABLES: u64 = 30;
const SEGMENTS_OF_MEMORY: usize = 16;
const KINDS: [&str; 3] = ["leveled", "1.2", "1.5"];

/// Time that passes only as it is slept.
#[derive(Default)]
struct Slept(AtomicU64);

impl Clock for Slept {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }
}

struct Store {
    kind: &'static str,
    db: Db,
    rng: Rng,
    records: u64,
}

/// Keys are anywhere.
fn key(number: u64) -> [u8; 10] {
    let mut key = *b"0000000000";
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key
}

impl Store {
    fn new(kind: &'static str, records: u64) -> Store {
        let (shape, dedup) = match kind {
            "leveled" => (Shape::Leveled { ratio: 10 }, Dedup::None),
            goal => {
                let amp: f64 = goal.parse().expect("a goal");
                let amp = Ratio::of_hundredths((amp * 100.0).round() as u32);
                (Shape::Tiered { runs: 8 }, Dedup::SpaceGoal { amp })
            }
        };
        let compression = Compression::None;
        let default_keyspace =
            KeyspaceSettings::default().shape(shape).dedup(dedup).compression(compression);
        let segment_bytes = (records * (10 + VALUE_BYTES as u64) / MEMTABLES) as usize;
        let segment_bytes = segment_bytes.next_multiple_of(4096).max(64 << 10);
        let settings = Settings::default()
            .segment_bytes(segment_bytes)
            .memory_bytes(segment_bytes * SEGMENTS_OF_MEMORY)
            .default_keyspace(default_keyspace);
        let (clock, background) = (Arc::new(Slept::default()), Arc::new(Stepped));
        let env = Env::over(Arc::new(MemoryStorage::new())).clock(clock).background(background);
        let db = Db::open_with(env, settings).expect("a new database");
        let mut store = Store { kind, db, rng: Rng::new(1), records };
        (0..records).for_each(|number| store.put(number));
        store.update(9 * records);
        store
    }

    fn put(&mut self, number: u64) {
        let mut value = [7; VALUE_BYTES];
        self.rng.fill(&mut value[..16]);
        self.db.put(&self.db.default_keyspace(), key(number), value).expect("a put");
    }

    fn update(&mut self, updates: u64) {
        for _ in 0..updates {
            let number = self.rng.below(self.records);
            self.put(number);
        }
    }

    /// Nanoseconds of each of so many reads.
    fn read(&mut self, reads: u64, clock: &SystemClock) -> Vec<u64> {
        let keyspace = self.db.default_keyspace();
        let mut took = Vec::with_capacity(reads as usize);
        for _ in 0..reads {
            let key = key(self.rng.below(self.records));
            let started = clock.now();
            let found = self.db.get(&keyspace, key).expect("a get");
            took.push((clock.now() - started).as_nanos() as u64);
            assert!(found.is_some());
        }
        took
    }
}

/// The 10th, 50th, 90th and 99th percentile, and the mean of those up to the 90th.
fn summary(mut took: Vec<u64>) -> [f64; 5] {
    took.sort_unstable();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize] as f64;
    let most = &took[..took.len() * 9 / 10];
    let mean = most.iter().sum::<u64>() as f64 / most.len() as f64;
    [at(0.1), at(0.5), at(0.9), at(0.99), mean]
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut of: Vec<f64> = of.collect();
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// What a read cost: the part that came to tables, and of these runs visited, tables read, blocks read of files.
fn costs(after: TableReadStats, before: TableReadStats, reads: u64) -> [f64; 4] {
    let gets = after.gets() - before.gets();
    let each = |sum: u64| sum as f64 / gets.max(1) as f64;
    let tables = after.hit_reads + after.miss_reads - before.hit_reads - before.miss_reads;
    let [runs, blocks] = [after.runs - before.runs, after.blocks - before.blocks];
    [gets as f64 / reads as f64, each(runs), each(tables), each(blocks)]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: u64| {
        arguments.next().map_or(default, |text| text.parse::<u64>().expect("a number"))
    };
    let (records, rounds, reads) = (next(640_000), next(9), next(20_000));
    let only = arguments.next();
    let clock = SystemClock::new();
    let wanted = KINDS.into_iter().filter(|kind| only.as_ref().is_none_or(|only| only == kind));
    let mut stores: Vec<Store> = wanted.map(|kind| Store::new(kind, records)).collect();
    let mut found: Vec<Vec<([f64; 5], [f64; 4])>> = vec![Vec::new(); stores.len()];
    for round in 0..rounds as usize {
        // Each is the first in its turn.
        for turn in 0..stores.len() {
            let at = (round + turn) % stores.len();
            let store = &mut stores[at];
            store.update(records / 8);
            let before = store.db.stats().table_gets;
            let summary = summary(store.read(reads, &clock));
            let costs = costs(store.db.stats().table_gets, before, reads);
            found[at].push((summary, costs));
        }
    }
    println!("ns of the 10th, 50th, 90th, 99th percentile, and the mean up to the 90th");
    for (store, rows) in stores.iter().zip(&found) {
        let ns = [0, 1, 2, 3, 4].map(|n| median(rows.iter().map(|row| row.0[n])));
        let beside =
            |n| median(rows.iter().zip(&found[0]).map(|(row, first)| row.0[n] / first.0[n]));
        let ratios = [0, 1, 2, 3, 4].map(beside);
        let costs = [0, 1, 2, 3].map(|n| median(rows.iter().map(|row| row.1[n])));
        println!("{:7} {ns:.0?}, {ratios:.3?} of {}'s", store.kind, stores[0].kind);
        println!("        {costs:.3?}: came to tables; then runs, tables, blocks");
    }
}
