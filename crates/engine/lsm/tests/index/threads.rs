//! Writers on threads, while an index is created and built.

use crate::support::*;
use esker_base::{Error, IndexError, Rng};
use esker_lsm::{Db, IndexSettings, Log};
use std::sync::atomic::{AtomicBool, Ordering};

const KEYS: u64 = 3_000;
const WRITERS: u64 = 4;
/// First words, few enough that writers compete for them.
const IDS: u64 = 300;
/// A writer writes so many batches, however soon it is stopped.
const BATCHES_MIN: u64 = 500;

fn write_some(db: &Db, seed: u64, stop: &AtomicBool) -> u64 {
    let (users, mut rng) = (users(db), Rng::new(seed));
    let (mut refused, mut batches) = (0, 0);
    while batches < BATCHES_MIN || !stop.load(Ordering::Relaxed) {
        batches += 1;
        let mut batch = db.batch();
        for _ in 0..1 + rng.below(3) {
            let key = format!("row{:05}", rng.below(KEYS));
            match rng.one_in(4) {
                true => batch.delete(&users, key),
                false => batch.put(&users, key, format!("id{} w{}", rng.below(IDS), rng.below(9))),
            }
        }
        if rng.one_in(100) {
            let start = rng.below(KEYS);
            let end = format!("row{:05}", start + 20);
            batch.delete_range(&users, format!("row{start:05}")..end);
        }
        match db.write(&batch) {
            Ok(()) => {}
            Err(Error::Index(error)) if matches!(*error, IndexError::NotUnique { .. }) => {
                refused += 1
            }
            Err(error) => panic!("{error}"),
        }
    }
    refused
}

/// Runs `work` while others write.
fn next_to_writers(db: &Db, work: impl FnOnce()) -> u64 {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|seed| {
                scope.spawn({
                    let stop = &stop;
                    move || write_some(db, seed, stop)
                })
            })
            .collect();
        let _stops = scopeguard::guard((), |()| stop.store(true, Ordering::Relaxed));
        work();
        drop(_stops);
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    })
}

fn open_threaded() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings().log(Log::None).memory_bytes(16 << 20);
    let db = Db::open(dir.path(), settings).unwrap();
    let users = users(&db);
    for number in 0..KEYS {
        users.put(format!("row{number:05}"), format!("first{number} w{}", number % 9)).unwrap();
    }
    (dir, db)
}

#[test]
fn an_index_that_is_built_under_writes_has_all_of_them() {
    let (_dir, db) = open_threaded();
    let users = users(&db);
    for version in 1..=12 {
        let mut index = None;
        next_to_writers(&db, || {
            let settings = IndexSettings::new("by_word").version(version);
            let built = users.index(settings, words).unwrap();
            built.wait_ready().unwrap();
            index = Some(built);
        });
        verify(&db, &index.unwrap(), &rows(&users), words);
    }
}

#[test]
fn writers_that_race_for_a_unique_key_leave_it_to_one_row() {
    let (_dir, db) = open_threaded();
    let users = users(&db);
    users.clear().unwrap();
    let index = users.index(IndexSettings::new("unique").unique(true), first_word).unwrap();
    index.wait_ready().unwrap();
    let mut refused = 0;
    for _ in 0..5 {
        refused += next_to_writers(&db, || {
            for _ in 0..20 {
                let checked = db.check_index(&index).unwrap();
                assert!(checked.is_sound(), "{checked:?}");
            }
        });
        verify(&db, &index, &rows(&users), first_word);
    }
    assert!(refused > 0);
}

#[test]
fn an_index_is_dropped_and_created_under_writes() {
    let (_dir, db) = open_threaded();
    let users = users(&db);
    next_to_writers(&db, || {
        for _ in 0..10 {
            users.index("a", words).unwrap();
            let index = users.index("b", first_word).unwrap();
            index.wait_ready().unwrap();
            users.drop_index("b").unwrap();
            users.drop_index("a").unwrap();
        }
        users.index("a", words).unwrap();
    });
    let index = users.index("a", words).unwrap();
    index.wait_ready().unwrap();
    verify(&db, &index, &rows(&users), words);
    // A close in the middle of a build ends it.
    users.index("c", words).unwrap();
    db.close().unwrap();
}
