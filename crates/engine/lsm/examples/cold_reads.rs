//! Cold reads: many keys at once against one by one, and a scan against reading its files.
//!
//! `cargo run --release -p esker-lsm --example cold_reads -- DIRECTORY [RECORDS] [VALUE_BYTES] [ROUNDS]`
//!
//! Creates a database in DIRECTORY, which is removed at the end, and opens it past the page cache with
//! a tenth of its size as memory. Prints the median of the rounds, which take turns:
//!
//! * `get`: 128 random keys by `get`, in microseconds.
//! * `multi_get`: 128 random keys by `multi_get`, in microseconds.
//! * `scan`: all entries by `Db::cursor`, in MB/s of the table files; and the same backward.
//! * `files`: the table files read in pieces of a MiB past the page cache, in MB/s.
//!
//! The first line says how wide reads were done: by `io_uring`, by threads or by `pread`.

mod common;

use common::key;
use esker_api::Cursor;
use esker_base::{Clock, Result, Rng, SystemClock};
use esker_lsm::{Db, KeyspaceSettings, Settings};
use esker_storage::{PosixStorage, Storage};
use esker_table::Compression;
use std::hint::black_box;
use std::path::Path;

const KEYS: usize = 128;
/// Groups of keys in a round.
const GROUPS: u64 = 20;
const PIECE_BYTES: u64 = 1 << 20;

fn settings() -> Settings {
    let stored = KeyspaceSettings::default().compression(Compression::None);
    Settings::default().segment_bytes(8 << 20).default_keyspace(stored)
}

fn load(dir: &Path, records: u64, value_bytes: usize) -> Result<()> {
    let db = Db::open(dir, settings())?;
    let (keyspace, mut rng) = (db.default_keyspace(), Rng::new(1));
    let mut value = vec![7; value_bytes];
    for number in 0..records {
        rng.fill(&mut value);
        keyspace.put(key(number), &value)?;
    }
    db.compact()?;
    db.close()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn tables(storage: &dyn Storage) -> Result<Vec<String>> {
    Ok(storage.list()?.into_iter().filter(|name| name.ends_with(".tables")).collect())
}

/// Reads the table files in pieces. Returns their bytes.
fn read_files(storage: &dyn Storage) -> Result<u64> {
    let (mut piece, mut sum) = (vec![0; PIECE_BYTES as usize], 0);
    for name in tables(storage)? {
        let file = storage.open_for_caching(&name)?;
        let bytes = file.len()?;
        for offset in (0..bytes).step_by(PIECE_BYTES as usize) {
            let part = &mut piece[..PIECE_BYTES.min(bytes - offset) as usize];
            file.read_exact_at(offset, part)?;
            black_box(part);
        }
        sum += bytes;
    }
    Ok(sum)
}

fn scan(db: &Db, is_backward: bool) -> Result<u64> {
    let mut cursor = db.cursor(&db.default_keyspace(), ..)?;
    let mut entries = 0;
    if is_backward {
        cursor.seek_last()?
    } else {
        cursor.seek_first()?
    }
    while let Some((key, value)) = cursor.current() {
        black_box((key[0], value[0]));
        entries += 1;
        if is_backward { cursor.prev()? } else { cursor.next()? }
    }
    Ok(entries)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        arguments.get(at).map_or(default, |text| text.parse().expect("a number"))
    };
    let dir = Path::new(arguments.first().expect("a directory"));
    let (records, value_bytes, rounds) = (number(1, 500_000), number(2, 1_000), number(3, 7));
    load(dir, records, value_bytes as usize)?;
    let data_bytes = records * (value_bytes + 16);
    let memory_bytes = (data_bytes / 10).max(20 << 20) as usize;
    let storage = PosixStorage::open(dir)?.with_direct_reads(true);
    let db = Db::open(
        dir,
        settings().memory_bytes(memory_bytes).dram_table_bytes(0).direct_reads(true),
    )?;
    let (keyspace, clock, mut rng) = (db.default_keyspace(), SystemClock::new(), Rng::new(2));
    let mut figures: [Vec<f64>; 5] = Default::default();
    for _ in 0..rounds {
        for (what, figure) in [false, true].into_iter().zip(&mut figures) {
            let begun = clock.now();
            for _ in 0..GROUPS {
                let keys: Vec<_> = (0..KEYS).map(|_| key(rng.below(records))).collect();
                match what {
                    true => drop(black_box(db.multi_get(&keyspace, &keys)?)),
                    false => {
                        for key in &keys {
                            black_box(db.get(&keyspace, key)?);
                        }
                    }
                }
            }
            figure.push((clock.now() - begun).as_secs_f64() * 1e6 / GROUPS as f64);
        }
        let begun = clock.now();
        assert_eq!(scan(&db, false)?, records);
        let scanned = clock.now();
        assert_eq!(scan(&db, true)?, records);
        let back = clock.now();
        let bytes = read_files(&storage)? as f64 / 1e6;
        figures[2].push(bytes / (scanned - begun).as_secs_f64());
        figures[3].push(bytes / (back - scanned).as_secs_f64());
        figures[4].push(bytes / (clock.now() - back).as_secs_f64());
    }
    let [get, multi_get, scan, back, files] = figures.map(median);
    println!(
        "wide reads by {}; {} MB of data, {} MB of memory",
        db.wide_reads(),
        data_bytes / 1_000_000,
        memory_bytes / 1_000_000
    );
    println!("get {get:.0} us, multi_get {multi_get:.0} us: {:.2} times as fast", get / multi_get);
    println!("scan {scan:.0} MB/s, files {files:.0} MB/s: {:.2}", scan / files);
    println!("backward {back:.0} MB/s: {:.2}", back / files);
    db.close()?;
    std::fs::remove_dir_all(dir).expect("removed");
    Ok(())
}
