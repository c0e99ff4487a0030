//! Databases whose indexes and filters are larger than the memory that they may use.

use crate::support::{copied, key};
use esker_base::Error;
use esker_lsm::inspect::{Inspector, MissingLogPolicy};
use esker_lsm::{Db, KeyspaceSettings, Settings, TableLimits};
use esker_table::format::{FOOTER_BYTES, Footer, MAGIC};
use esker_table::{Compression, PartLimits};
use std::path::{Path, PathBuf};

const KEYS: u64 = 30_000;

/// An eighth of what the filters take, or so.
const CACHE_BYTES: usize = 16 << 10;

fn settings() -> Settings {
    let stored = KeyspaceSettings::default().compression(Compression::None).filter_bits(32);
    let parts = PartLimits { bytes: 1 << 10, blocks_min: 4, whole_bytes_max: 1 << 10 };
    Settings::default()
        .segment_bytes(256 << 10)
        .memory_bytes(4 << 20)
        .dram_table_bytes(0)
        .default_keyspace(stored)
        .table_limits(TableLimits { parts: Some(parts), cache_bytes_max: CACHE_BYTES })
}

/// The keys are put out of order, so that runs overlap. Every tenth key has two versions.
fn fill(db: &Db) {
    let keyspace = db.default_keyspace();
    for n in (0..KEYS).map(|n| n * 7_919 % KEYS) {
        db.put(&keyspace, key(2 * n), n.to_be_bytes()).unwrap();
    }
    for n in (0..KEYS).step_by(10) {
        db.put(&keyspace, key(2 * n), (n + 1).to_be_bytes()).unwrap();
    }
    db.flush().unwrap();
}

fn expected(n: u64) -> [u8; 8] {
    if n.is_multiple_of(10) { (n + 1).to_be_bytes() } else { n.to_be_bytes() }
}

fn check_budget(db: &Db) {
    let stats = db.stats();
    assert!(stats.cache_part_bytes <= stats.cache_bytes, "{stats:?}");
    assert!(stats.cache_bytes <= CACHE_BYTES as u64, "{stats:?}");
    let held = stats.memory_charged_bytes + stats.cache_bytes;
    assert!(held <= stats.memory_budget_bytes, "{stats:?}");
}

fn check_reads(db: &Db) {
    let keyspace = db.default_keyspace();
    for (turn, n) in (0..KEYS).map(|n| n * 6_007 % KEYS).step_by(3).enumerate() {
        let found = db.get(&keyspace, key(2 * n)).unwrap();
        assert_eq!(found.as_deref(), Some(&expected(n)[..]), "key {n}");
        assert_eq!(db.get(&keyspace, key(2 * n + 1)).unwrap(), None);
        if turn % 1_000 == 0 {
            check_budget(db);
        }
    }
    let some: Vec<u64> = (0..3_000).map(|n| n * 104_729 % (2 * KEYS + 100)).collect();
    let keys: Vec<_> = some.iter().map(|&n| key(n)).collect();
    for (n, found) in some.iter().zip(db.multi_get(&keyspace, &keys).unwrap()) {
        let value = (n % 2 == 0 && n / 2 < KEYS).then(|| expected(n / 2));
        assert_eq!(found.as_deref(), value.as_ref().map(|value| &value[..]), "key {n}");
    }
    check_budget(db);
    let all = || (0..KEYS).map(|n| (key(2 * n), expected(n).to_vec()));
    assert!(db.range(&keyspace, ..).map(copied).eq(all()));
    assert!(db.range(&keyspace, ..).rev().map(copied).eq(all().rev()));
    for from in (0..KEYS).step_by(1_999) {
        let range = key(2 * from + 1)..key(2 * from + 41);
        let expected = all().skip(from as usize + 1).take(20);
        assert!(db.range(&keyspace, range).map(copied).eq(expected), "from {from}");
    }
    check_budget(db);
}

#[test]
fn a_database_with_little_memory_for_its_indexes_and_filters_serves_within_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), settings()).unwrap();
    fill(&db);
    check_reads(&db);
    db.compact().unwrap();
    check_reads(&db);
    let stats = db.stats();
    assert!(stats.cache_part_bytes > 0 && stats.filter_bytes > 0, "{stats:?}");
    assert!(stats.filter_bytes < KEYS, "filters take at least four bytes a key: {stats:?}");
    db.close().unwrap();
    let db = Db::open(dir.path(), settings()).unwrap();
    check_reads(&db);
    db.close().unwrap();
    let found = problems(dir.path());
    assert!(found.is_empty(), "{found:?}");
}

fn problems(dir: &Path) -> Vec<Error> {
    let mut problems = Vec::new();
    Inspector::open(dir, None).unwrap().check(&mut |problem| problems.push(problem)).unwrap();
    problems
}

/// The only table of the database: its file, and where its parts are.
fn parts_of_table(dir: &Path) -> (PathBuf, std::ops::Range<usize>) {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut tables = files.filter(|file| {
        file.is_file() && std::fs::read(file).is_ok_and(|bytes| bytes.ends_with(&MAGIC))
    });
    let file = tables.next().unwrap();
    assert_eq!(tables.next(), None);
    let bytes = std::fs::read(&file).unwrap();
    let footer = Footer::decode(&bytes[bytes.len() - FOOTER_BYTES..], "t", 0).unwrap();
    assert_eq!(footer.offset, 0);
    let start = footer.sections[0] as usize;
    (file, start..start + footer.part_bytes() as usize)
}

#[test]
fn damaged_parts_hide_no_key_are_named_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let keys = 4_000;
    let db = Db::open(dir.path(), settings()).unwrap();
    let keyspace = db.default_keyspace();
    for n in 0..keys {
        db.put(&keyspace, key(n), n.to_be_bytes()).unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    let (file, parts) = parts_of_table(dir.path());
    let sound = std::fs::read(&file).unwrap();
    let (mut of_filters, mut of_indexes) = (0, 0);
    for at in parts.clone().step_by(parts.len() / 12) {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&file, &damaged).unwrap();
        let found = problems(dir.path());
        let [Error::Corruption { file: name, offset, what }] = &found[..] else {
            panic!("{found:?}")
        };
        assert!(file.ends_with(Path::new(name).file_name().unwrap()), "{name}");
        assert!((parts.start..=at).contains(&(*offset as usize)), "{offset}, byte {at}");
        let is_filter = what.contains("filter");
        let db = Db::open(dir.path(), settings()).unwrap();
        let keyspace = db.default_keyspace();
        let mut unreadable = 0;
        for n in 0..keys {
            match db.get(&keyspace, key(n)) {
                Ok(value) => assert_eq!(value.as_deref(), Some(&n.to_be_bytes()[..])),
                Err(error) => {
                    assert!(error.is_corruption(), "{error}");
                    unreadable += 1;
                }
            }
        }
        assert!(if is_filter { unreadable == 0 } else { (1..keys / 2).contains(&unreadable) });
        *(if is_filter { &mut of_filters } else { &mut of_indexes }) += 1;
        db.close().unwrap();
    }
    assert!(of_filters > 0 && of_indexes > 0, "{of_filters}, {of_indexes}");
    Inspector::open(dir.path(), None).unwrap().repair(MissingLogPolicy::Refuse).unwrap();
    let found = problems(dir.path());
    assert!(found.is_empty(), "{found:?}");
    let db = Db::open(dir.path(), settings()).unwrap();
    let all = (0..keys).map(|n| (key(n), n.to_be_bytes().to_vec()));
    assert!(db.range(&db.default_keyspace(), ..).map(copied).eq(all));
}

/// The bytes of parts in the cache, of a database with so large a cache, once its keys were read.
fn part_bytes_with(cache_bytes_max: usize) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let limits = TableLimits { parts: None, cache_bytes_max };
    let settings = settings().segment_bytes(2 << 20).memory_bytes(32 << 20).table_limits(limits);
    let db = Db::open(dir.path(), settings).unwrap();
    // The first table is written while there is none, and a compaction of it alone would only move it.
    fill(&db);
    fill(&db);
    db.compact().unwrap();
    for n in 0..100 {
        assert!(db.get(&db.default_keyspace(), key(600 * n)).unwrap().is_some());
    }
    db.stats().cache_part_bytes
}

#[test]
fn tables_have_parts_if_the_data_is_larger_than_the_cache() {
    assert_eq!(part_bytes_with(usize::MAX), 0);
    // A part fits the half of the cache that parts may take.
    assert!(part_bytes_with(250 << 10) > 20_000);
}
