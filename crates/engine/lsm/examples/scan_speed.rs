//! Scans and gets of a fully compacted database that is in memory:
//!
//! `cargo run --release -p esker-lsm --example scan_speed -- [RECORDS] [VALUE_BYTES] [ROUNDS] [WHAT]`
//!
//! Loads the records in random order, flushes, waits for compactions, and prints the runs that are left. Then it prints the
//! minimum and the median of all rounds, in nanoseconds for each entry, seek or get:
//!
//! * `cursor`: a full scan by `Db::cursor`, `range`: one by `Db::range`.
//! * `seek`: a new cursor, a seek, and 50 entries; `kept`: the same with one cursor for all seeks.
//! * `first`: a get of each entry, in the order of the load, before all rounds. Blocks are not cached yet.
//! * `get`: a get of a key that exists.
//!
//! WHAT is one of them alone, for a profiler. `WHAT+compact` compacts to one run before.

mod common;

use common::key;
use esker_api::Cursor;
use esker_base::{Clock, Rng, SystemClock};
use esker_lsm::{Db, DbCursor, KeyspaceSettings, LevelInfo, Settings};
use esker_table::Compression;
use std::hint::black_box;

const WHATS: [&str; 5] = ["cursor", "range", "seek", "kept", "get"];
/// Seeks and gets in a round.
const POINTS: u64 = 20_000;
const ENTRIES_AFTER_SEEK: usize = 50;

/// What a reader does with an entry.
fn weigh(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + usize::from(key[key.len() - 1]) + usize::from(value[0])
}

fn load(db: &Db, records: u64, value_bytes: usize) {
    let (keyspace, mut rng) = (db.default_keyspace(), Rng::new(1));
    let mut value = vec![7; value_bytes];
    for number in 0..records {
        rng.fill(&mut value[..16]);
        keyspace.put(key(number), &value).expect("a put");
    }
    db.flush().expect("flushed");
    db.wait_for_compactions().expect("settled");
}

fn read_on(cursor: &mut DbCursor, entries: usize) -> usize {
    let mut sum = 0;
    for _ in 0..entries {
        let Some((key, value)) = cursor.current() else { break };
        sum += weigh(key, value);
        cursor.next().expect("a step");
    }
    sum
}

fn get(db: &Db, number: u64) -> usize {
    let key = key(number);
    let value = db.get(&db.default_keyspace(), key).expect("a get").expect("a value");
    weigh(&key, &value)
}

/// Runs one round. Returns how many entries, seeks or gets there were.
fn run(db: &Db, what: &str, records: u64, rng: &mut Rng) -> u64 {
    let keyspace = db.default_keyspace();
    let mut sum = 0;
    let done = match what {
        "cursor" => {
            let mut cursor = db.cursor(&keyspace, ..).expect("a cursor");
            cursor.seek_first().expect("a seek");
            let mut entries = 0;
            while let Some((key, value)) = cursor.current() {
                sum += weigh(key, value);
                entries += 1;
                cursor.next().expect("a step");
            }
            assert_eq!(entries, records);
            entries
        }
        "range" => {
            let entries = db.range(&keyspace, ..).map(|entry| {
                let (key, value) = entry.expect("an entry");
                sum += weigh(&key, &value);
            });
            entries.count() as u64
        }
        "seek" => {
            for _ in 0..POINTS {
                let mut cursor = db.cursor(&keyspace, ..).expect("a cursor");
                cursor.seek(&key(rng.below(records))).expect("a seek");
                sum += read_on(&mut cursor, ENTRIES_AFTER_SEEK);
            }
            POINTS
        }
        "kept" => {
            let mut cursor = db.cursor(&keyspace, ..).expect("a cursor");
            for _ in 0..POINTS {
                cursor.seek(&key(rng.below(records))).expect("a seek");
                sum += read_on(&mut cursor, ENTRIES_AFTER_SEEK);
            }
            POINTS
        }
        _ => {
            sum += (0..POINTS).map(|_| get(db, rng.below(records))).sum::<usize>();
            POINTS
        }
    };
    black_box(sum);
    done
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: u64| {
        arguments.next().map_or(default, |text| text.parse::<u64>().expect("a number"))
    };
    let (records, value_bytes, rounds) = (next(1_000_000), next(100), next(9));
    let what = arguments.next().unwrap_or_default();
    let (what, is_compacted) = match what.strip_suffix("+compact") {
        Some(what) => (what, true),
        None => (&what[..], false),
    };
    let dir = tempfile::tempdir().expect("a directory");
    let default_keyspace = KeyspaceSettings::default().compression(Compression::None);
    let settings = Settings::default().memory_bytes(2 << 30).default_keyspace(default_keyspace);
    let db = Db::open(dir.path(), settings).expect("a new database");
    load(&db, records, value_bytes as usize);
    if is_compacted {
        db.compact_keyspace(&db.default_keyspace()).expect("compacted");
    }
    for keyspace in db.levels() {
        let runs = |level: &LevelInfo| format!("{}: {} runs", level.level, level.runs.len());
        let levels: Vec<String> = keyspace.levels.iter().map(runs).collect();
        println!("levels of {}: {}", keyspace.name, levels.join(", "));
    }
    let clock = SystemClock::new();
    let mut rng = Rng::new(2);
    if what.is_empty() || what == "get" {
        let started = clock.now();
        black_box((0..records).map(|number| get(&db, number)).sum::<usize>());
        let took = (clock.now() - started).as_nanos() as f64;
        println!("first   {:12.1}", took / records as f64);
    }
    let whats = WHATS.into_iter().filter(|it| what.is_empty() || *it == what);
    let mut took: Vec<(&str, Vec<f64>)> = whats.map(|what| (what, Vec::new())).collect();
    for _ in 0..rounds {
        for (what, took) in &mut took {
            let started = clock.now();
            let done = run(&db, what, records, &mut rng);
            took.push((clock.now() - started).as_nanos() as f64 / done as f64);
        }
    }
    for (what, mut took) in took {
        took.sort_by(f64::total_cmp);
        println!("{what:7} min {:8.1}  median {:8.1}", took[0], took[took.len() / 2]);
    }
}
