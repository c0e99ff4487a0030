//! What applications ask of a store besides gets and puts, by Esker and by RocksDB in turns:
//!
//! ```text
//! cargo run --release -p esker-peers --features rocksdb --example features -- CASE [SIZE [ROUNDS [ENGINE]]]
//! ```
//!
//! | CASE | SIZE is the number of | |
//! |---|---|---|
//! | `counters` | merges | into a million keys by a Zipf distribution with exponent 1; then a get of each key |
//! | `hot` | merges | into one key; each hundredth is followed by a get of it |
//! | `ingest` | MiB | sorted entries of 1 KB that do not compress, until they can be read; and the same bytes to one file |
//! | `bulk` | MiB | the same entries in random order, until no compaction is due: by Esker's bulk loader, and by puts |
//!
//! Both have a log that is not synced, and no compression. RocksDB is set as in the benchmarks: write
//! buffers of 64 MiB, blocks of 16 KiB, filters of ten bits, dynamic levels, two background jobs.
//! Prints medians, and what a round of Esker's takes as a part of RocksDB's.

use esker::options::Compression;
use esker::{Db, KeyspaceSettings, Settings};
use esker_base::{Clock, Rng, SystemClock};
use rocksdb::{BlockBasedOptions, Cache, DB, DBCompressionType, MergeOperands, Options};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

const COUNTERS: u64 = 1_000_000;
const VALUE_BYTES: usize = 1_000;
/// Of both engines, for write buffers and blocks.
const MEMORY_BYTES: usize = 512 << 20;
const MERGES_PER_READ: u64 = 100;

/// The times of one engine's round, by what was measured.
type Times = Vec<(&'static str, f64)>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Engine {
    Esker,
    RocksDb,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let case = arguments.next().expect("CASE: counters, hot, ingest or bulk");
    let mut number = |default| arguments.next().map_or(default, |it| it.parse().expect("a number"));
    let (round, size): (fn(Engine, &Path, u64) -> Times, u64) = match &case[..] {
        "counters" => (counters, number(5_000_000)),
        "hot" => (hot, number(5_000_000)),
        "ingest" => (ingest, number(1_024)),
        "bulk" => (bulk, number(1_024)),
        other => panic!("no case {other}"),
    };
    let rounds = number(3);
    let only = std::env::args().nth(4);
    let mut times: BTreeMap<(&str, Engine), Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        for (name, engine) in [("esker", Engine::Esker), ("rocksdb", Engine::RocksDb)] {
            if only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            let dir = tempfile::tempdir().expect("a directory");
            for (what, time) in round(engine, dir.path(), size) {
                times.entry((what, engine)).or_default().push(time);
            }
        }
    }
    let mut median = |what, engine| -> Option<f64> {
        let times = times.get_mut(&(what, engine))?;
        times.sort_by(f64::total_cmp);
        Some(times[times.len() / 2])
    };
    let names: Vec<_> =
        ["write", "get", "get p50", "get p99.9", "get max", "whole", "file", "by puts"].into();
    for what in names {
        match (median(what, Engine::Esker), median(what, Engine::RocksDb)) {
            (Some(esker), Some(rocksdb)) => {
                let ratio = rocksdb / esker;
                println!("{what:>9}: esker {esker:10.3}, rocksdb {rocksdb:10.3}, {ratio:.2}x");
            }
            (Some(only), None) | (None, Some(only)) => println!("{what:>9}: {only:10.3}"),
            (None, None) => {}
        }
    }
}

fn esker(dir: &Path) -> Db {
    let settings = Settings::default().memory_bytes(MEMORY_BYTES);
    Db::open(dir, settings).expect("a new database")
}

fn plain() -> KeyspaceSettings {
    KeyspaceSettings::default().compression(Compression::None)
}

fn add(_key: &[u8], base: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    let of = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let sum = base.map_or(0, of) + operands.iter().map(of).sum::<i64>();
    Some(sum.to_le_bytes().to_vec())
}

fn rocksdb_options() -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_hyper_clock_cache(MEMORY_BYTES - 3 * (64 << 20), 0));
    table.set_block_size(16 << 10);
    table.set_bloom_filter(10.0, false);
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::None);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_bytes_per_sync(1 << 20);
    options.set_max_background_jobs(2);
    options.set_max_write_buffer_number(3);
    options.set_merge_operator_associative("add_i64", add);
    options
}

fn rocksdb(dir: &Path) -> DB {
    DB::open(&rocksdb_options(), dir).expect("a new database")
}

fn rank_key(rank: u64) -> [u8; 8] {
    rank.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Nanoseconds of a merge, and of a get afterwards.
fn counters(engine: Engine, dir: &Path, merges: u64) -> Times {
    let one = 1_i64.to_le_bytes();
    match engine {
        Engine::Esker => {
            let db = esker(dir);
            let sums = db.keyspace("sums", plain().merge("add_i64")).expect("a keyspace");
            let merge = |key: [u8; 8]| sums.merge(key, one).expect("a merge");
            let get = |key: [u8; 8]| sums.get(key).expect("a get").map(|value| value.to_vec());
            count(merges, merge, get)
        }
        Engine::RocksDb => {
            let db = rocksdb(dir);
            let get = |key: [u8; 8]| db.get(key).expect("a get");
            count(merges, |key| db.merge(key, one).expect("a merge"), get)
        }
    }
}

fn count(merges: u64, merge: impl Fn([u8; 8]), get: impl Fn([u8; 8]) -> Option<Vec<u8>>) -> Times {
    let clock = SystemClock::new();
    let mut rng = Rng::new(1);
    let ln_keys = (COUNTERS as f64).ln();
    let started = clock.now();
    for _ in 0..merges {
        let uniform = rng.below(1 << 53) as f64 / (1_u64 << 53) as f64;
        // The logarithm of the rank is uniform.
        merge(rank_key((ln_keys * uniform).exp() as u64 - 1));
    }
    let written = each(clock.now() - started, merges);
    let started = clock.now();
    let values = (0..COUNTERS).filter_map(|rank| get(rank_key(rank)));
    let sum: i64 =
        values.map(|value| i64::from_le_bytes(value.try_into().expect("eight bytes"))).sum();
    assert_eq!(sum, merges as i64, "each merge counts once");
    vec![("write", written), ("get", each(clock.now() - started, COUNTERS))]
}

/// Nanoseconds of a merge, and of gets of the key.
fn hot(engine: Engine, dir: &Path, merges: u64) -> Times {
    let one = 1_i64.to_le_bytes();
    match engine {
        Engine::Esker => {
            let db = esker(dir);
            let sums = db.keyspace("sums", plain().merge("add_i64")).expect("a keyspace");
            let get = || sums.get("hot").expect("a get").map(|value| value.to_vec());
            merge_and_get(merges, || sums.merge("hot", one).expect("a merge"), get)
        }
        Engine::RocksDb => {
            let db = rocksdb(dir);
            let get = || db.get("hot").expect("a get");
            merge_and_get(merges, || db.merge("hot", one).expect("a merge"), get)
        }
    }
}

fn merge_and_get(merges: u64, merge: impl Fn(), get: impl Fn() -> Option<Vec<u8>>) -> Times {
    let clock = SystemClock::new();
    let (mut written, mut gets) = (Duration::ZERO, Vec::new());
    for number in 1..=merges {
        let started = clock.now();
        merge();
        written += clock.now() - started;
        if number.is_multiple_of(MERGES_PER_READ) {
            let started = clock.now();
            let value = get();
            gets.push(each(clock.now() - started, 1));
            assert_eq!(value.as_deref(), Some(&number.to_le_bytes()[..]));
        }
    }
    gets.sort_by(f64::total_cmp);
    let at = |part: f64| gets[((gets.len() - 1) as f64 * part) as usize];
    vec![
        ("write", each(written, merges)),
        ("get p50", at(0.5)),
        ("get p99.9", at(0.999)),
        ("get max", at(1.0)),
    ]
}

/// Seconds until the entries can be read, and for one file of the same bytes.
fn ingest(engine: Engine, dir: &Path, mib: u64) -> Times {
    let clock = SystemClock::new();
    let (pairs, bytes) = (pairs_of(mib), random_bytes());
    match engine {
        Engine::Esker => {
            let db = esker(dir);
            let keyspace = db.keyspace("rows", plain()).expect("a keyspace");
            let started = clock.now();
            let rows = (0..pairs).map(|number| (number.to_be_bytes(), value(&bytes, number)));
            db.ingest(&keyspace, rows).expect("ingested");
            let whole = clock.now() - started;
            let last = keyspace.get((pairs - 1).to_be_bytes()).expect("a get");
            assert_eq!(last.as_deref(), Some(value(&bytes, pairs - 1)));
            vec![("whole", whole.as_secs_f64()), ("file", one_file(dir, pairs, &bytes))]
        }
        Engine::RocksDb => {
            let (options, db) = (rocksdb_options(), rocksdb(dir));
            let started = clock.now();
            // A file of the size that a compaction would write.
            let pairs_per_file = (64 << 20) / VALUE_BYTES as u64;
            let mut files = Vec::new();
            for start in (0..pairs).step_by(pairs_per_file as usize) {
                let path = dir.join(format!("{start}.ingest"));
                let mut writer = rocksdb::SstFileWriter::create(&options);
                writer.open(&path).expect("a file");
                for number in start..(start + pairs_per_file).min(pairs) {
                    writer.put(number.to_be_bytes(), value(&bytes, number)).expect("a put");
                }
                writer.finish().expect("a whole file");
                files.push(path);
            }
            let mut ingest = rocksdb::IngestExternalFileOptions::default();
            ingest.set_move_files(true);
            db.ingest_external_file_opts(&ingest, files).expect("ingested");
            let whole = clock.now() - started;
            let last = db.get((pairs - 1).to_be_bytes()).expect("a get");
            assert_eq!(last.as_deref(), Some(value(&bytes, pairs - 1)));
            vec![("whole", whole.as_secs_f64()), ("file", one_file(dir, pairs, &bytes))]
        }
    }
}

/// Seconds to write and sync the entries to one file, a MiB at a time.
fn one_file(dir: &Path, pairs: u64, bytes: &[u8]) -> f64 {
    let clock = SystemClock::new();
    let started = clock.now();
    let mut file = std::fs::File::create(dir.join("one")).expect("a file");
    let mut left = pairs as usize * (VALUE_BYTES + 8);
    while left > 0 {
        let part = left.min(1 << 20);
        file.write_all(&bytes[..part]).expect("written");
        left -= part;
    }
    file.sync_data().expect("synced");
    (clock.now() - started).as_secs_f64()
}

/// Seconds until no compaction is due.
fn bulk(engine: Engine, dir: &Path, mib: u64) -> Times {
    let clock = SystemClock::new();
    let (pairs, bytes) = (pairs_of(mib), random_bytes());
    // A permutation: the multiplier is prime.
    let shuffled = |number: u64| (number * 7_368_787) % pairs;
    let started = clock.now();
    match engine {
        Engine::Esker => {
            let db = esker(dir);
            let keyspace = db.keyspace("rows", plain()).expect("a keyspace");
            let mut loader = db.bulk_loader(&keyspace).expect("a loader");
            for number in (0..pairs).map(shuffled) {
                loader.put(number.to_be_bytes(), value(&bytes, number)).expect("a put");
            }
            loader.ingest().expect("loaded");
            db.wait_for_compactions().expect("settled");
            let loaded = clock.now() - started;
            drop(db);
            let db = esker(&dir.join("puts"));
            let keyspace = db.keyspace("rows", plain()).expect("a keyspace");
            let started = clock.now();
            for number in (0..pairs).map(shuffled) {
                keyspace.put(number.to_be_bytes(), value(&bytes, number)).expect("a put");
            }
            db.flush().expect("flushed");
            db.wait_for_compactions().expect("settled");
            let puts = clock.now() - started;
            vec![("whole", loaded.as_secs_f64()), ("by puts", puts.as_secs_f64())]
        }
        Engine::RocksDb => {
            let db = rocksdb(dir);
            for number in (0..pairs).map(shuffled) {
                db.put(number.to_be_bytes(), value(&bytes, number)).expect("a put");
            }
            db.flush().expect("flushed");
            db.wait_for_compact(&rocksdb::WaitForCompactOptions::default()).expect("settled");
            let puts = (clock.now() - started).as_secs_f64();
            vec![("whole", puts), ("by puts", puts)]
        }
    }
}

fn pairs_of(mib: u64) -> u64 {
    mib * (1 << 20) / (VALUE_BYTES as u64 + 8)
}

fn random_bytes() -> Vec<u8> {
    let mut rng = Rng::new(1);
    (0..2 << 20).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

fn value(bytes: &[u8], number: u64) -> &[u8] {
    let start = (number as usize * 7_919) % (bytes.len() - VALUE_BYTES);
    &bytes[start..start + VALUE_BYTES]
}

fn each(time: Duration, count: u64) -> f64 {
    time.as_nanos() as f64 / count as f64
}
