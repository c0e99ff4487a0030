//! Tables of a flush or a compaction share a file, and each of them is given back by itself; but not while something
//! else may read the file. In a directory of the file system, which must free parts of files.

use esker_base::Rng;
use esker_base::background::Stepped;
use esker_lsm::inspect::Inspector;
use esker_lsm::inspect::repair::MissingLogPolicy;
use esker_lsm::version::parse_table_file_name;
use esker_lsm::{Db, Dedup, Env, Keyspace, KeyspaceSettings, Log, Ratio, Settings, Shape};
use esker_storage::{PosixStorage, Storage};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

const SEGMENT_BYTES: usize = 1 << 20;
const KEYS: u64 = 24_000;
const VALUE_BYTES: usize = 400;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn settings() -> Settings {
    Settings::default().log(Log::None).segment_bytes(SEGMENT_BYTES).memory_bytes(16 << 20)
}

fn open(dir: &Path) -> (Db, Keyspace) {
    let storage = PosixStorage::create(dir).unwrap();
    assert!(storage.freed_block_bytes().is_some());
    let db = Db::open_with(Env::over(Arc::new(storage)).background(Arc::new(Stepped)), settings());
    let db = db.unwrap();
    let goal = KeyspaceSettings::default()
        .shape(Shape::Tiered { runs: 8 })
        .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(120) });
    let keyspace = db.keyspace("goal", goal).unwrap();
    (db, keyspace)
}

/// Puts each of the keys once, far from the one before. Returns what was put.
fn overwrite(db: &Db, keyspace: &Keyspace, seed: u64) -> Pairs {
    overwrite_where(db, keyspace, seed, |_| true)
}

/// The same with the keys that `is_chosen`.
fn overwrite_where(db: &Db, keyspace: &Keyspace, seed: u64, is_chosen: fn(u64) -> bool) -> Pairs {
    let mut put = Pairs::new();
    /// Has no factor in common with the number of keys.
    const STRIDE: u64 = 3_001;
    let mut rng = Rng::new(seed);
    let keys = (0..KEYS).map(|step| (step + seed) * STRIDE % KEYS);
    for key in keys.filter(|key| is_chosen(*key)) {
        let mut value = [0; VALUE_BYTES];
        rng.fill(&mut value);
        let key = format!("key/{key:08}");
        db.put(keyspace, &key, value).unwrap();
        put.insert(key.into_bytes(), value.to_vec());
        while db.run_background_job() {}
    }
    db.flush().unwrap();
    put
}

fn pairs(db: &Db, keyspace: &Keyspace) -> Pairs {
    let pairs = db.range(keyspace, ..).map(|pair| pair.unwrap());
    pairs.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

/// What the file system says that table files take, and how long they are.
fn space(dir: &Path) -> (u64, u64) {
    let (mut taken, mut length) = (0, 0);
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if parse_table_file_name(entry.file_name().to_str().unwrap()).is_some() {
            let found = entry.metadata().unwrap();
            taken += found.blocks() * 512;
            length += found.len();
        }
    }
    (taken, length)
}

/// What there is of files that is not used: of a block at each end of a table.
const ENDS: u64 = 512 << 10;

/// Fails if there is little in holes of table files.
fn expect_holes(dir: &Path) {
    let (taken, length) = space(dir);
    assert!(length > taken + ENDS, "{length} bytes, of which {taken} are taken");
}

/// Fails if table files take much more than the tables in use. Returns what they take.
fn expect_only_tables(dir: &Path, db: &Db) -> u64 {
    let (taken, tables) = (space(dir).0, db.stats().table_bytes);
    assert!(taken <= tables + ENDS, "{taken} bytes are taken by {tables} of tables");
    taken
}

#[test]
fn what_is_merged_is_given_back_although_the_file_stays() {
    let place = tempfile::tempdir().unwrap();
    let (db, keyspace) = open(place.path());
    overwrite(&db, &keyspace, 1);
    overwrite(&db, &keyspace, 2);
    expect_holes(place.path());
    let taken = expect_only_tables(place.path(), &db);
    let measured = db.stats().table_file_bytes;
    assert!(measured.abs_diff(taken) <= ENDS, "{measured} bytes are measured, {taken} taken");
}

#[test]
fn an_iterator_keeps_what_it_reads() {
    let place = tempfile::tempdir().unwrap();
    let (db, keyspace) = open(place.path());
    // Nothing has read it into a cache.
    let before = overwrite(&db, &keyspace, 1);
    let mut iterator = db.range(&keyspace, ..);
    let first = iterator.next().unwrap().unwrap();
    overwrite(&db, &keyspace, 2);
    overwrite(&db, &keyspace, 3);
    let others = iterator.map(|pair| pair.unwrap());
    let seen = std::iter::once(first).chain(others);
    let seen: Pairs = seen.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    assert!(seen == before, "it sees what was there when it was made");
}

#[test]
fn the_files_of_a_backup_keep_what_they_hold() {
    let place = tempfile::tempdir().unwrap();
    let (db, keyspace) = open(place.path());
    overwrite(&db, &keyspace, 1);
    let files = db.live_files().unwrap();
    overwrite(&db, &keyspace, 2);
    for name in files.tables() {
        files.verify(&name).unwrap();
    }
}

#[test]
fn a_process_that_reads_keeps_what_it_reads() {
    let place = tempfile::tempdir().unwrap();
    let (db, keyspace) = open(place.path());
    overwrite(&db, &keyspace, 1);
    let before = pairs(&db, &keyspace);
    let reader = Db::open_read_only(place.path(), settings()).unwrap();
    let seen = reader.open_keyspace("goal").unwrap();
    overwrite(&db, &keyspace, 2);
    overwrite(&db, &keyspace, 3);
    assert!(pairs(&reader, &seen) == before, "the reader sees what was there when it was opened");
    drop((reader, seen));
    // Each edit tries again to free what is left.
    overwrite(&db, &keyspace, 4);
    overwrite(&db, &keyspace, 5);
    expect_only_tables(place.path(), &db);
}

#[test]
fn a_checkpoint_keeps_its_tables() {
    let (place, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (db, keyspace) = open(place.path());
    overwrite(&db, &keyspace, 1);
    let before = pairs(&db, &keyspace);
    let dir = copy.path().join("checkpoint");
    db.checkpoint(&dir).unwrap();
    overwrite(&db, &keyspace, 2);
    overwrite(&db, &keyspace, 3);
    let other = Db::open(&dir, Settings::default()).unwrap();
    let seen = other.open_keyspace("goal").unwrap();
    assert!(pairs(&other, &seen) == before, "the checkpoint has what was there when it was made");
}

#[test]
fn what_a_process_left_is_given_back_by_the_next() {
    let place = tempfile::tempdir().unwrap();
    let (db, keyspace) = open(place.path());
    overwrite(&db, &keyspace, 1);
    let reader = Db::open_read_only(place.path(), settings()).unwrap();
    // So that few files are removed as a whole.
    overwrite_where(&db, &keyspace, 2, |key| (key / 1_200).is_multiple_of(3));
    let expected = pairs(&db, &keyspace);
    db.close().unwrap();
    drop((keyspace, reader));
    let before = space(place.path()).0;
    let (db, keyspace) = open(place.path());
    for _ in 0..64 {
        db.wait_for_compactions().unwrap();
    }
    let taken = expect_only_tables(place.path(), &db);
    assert!(before > taken + ENDS / 2, "{before} bytes were taken, and {taken} now");
    assert!(pairs(&db, &keyspace) == expected);
}

#[test]
fn without_a_manifest_what_was_given_back_is_no_damage() {
    let place = tempfile::tempdir().unwrap();
    let (db, keyspace) = open(place.path());
    overwrite(&db, &keyspace, 1);
    overwrite(&db, &keyspace, 2);
    let expected = pairs(&db, &keyspace);
    db.close().unwrap();
    drop(keyspace);
    expect_holes(place.path());
    std::fs::remove_file(place.path().join("CURRENT")).unwrap();
    for entry in std::fs::read_dir(place.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "manifest") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let inspector = Inspector::open(place.path(), None).unwrap();
    let repaired = inspector.repair(MissingLogPolicy::GiveUp).unwrap();
    assert!(repaired.lost_tables.is_empty(), "{:?}", repaired.lost_tables);
    let (db, keyspace) = open(place.path());
    assert!(pairs(&db, &keyspace) == expected);
}
