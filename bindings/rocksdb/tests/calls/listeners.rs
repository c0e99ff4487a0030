//! Listeners.

use super::Store;
use super::c::*;
use std::ptr::{null, null_mut};
use std::sync::Mutex;

/// How compactions have ended.
static ENDED: Mutex<Vec<Result<(), String>>> = Mutex::new(Vec::new());

extern "C" fn ended(_state: P, _db: P, job: P) {
    ENDED.lock().unwrap().push(with_error(|error| rocksdb_compactionjobinfo_status(job, error)));
}

/// What callbacks were called for, with the database and the column family.
static HEARD: Mutex<Vec<(&str, usize, String)>> = Mutex::new(Vec::new());

fn note(what: &'static str, db: P, family: B, length: usize) {
    let family = String::from_utf8(lent(family, length)).unwrap();
    HEARD.lock().unwrap().push((what, db.addr(), family));
}

extern "C" fn flush_begins(_state: P, db: P, job: P) {
    let mut length = 0;
    note("flush begins", db, rocksdb_flushjobinfo_cf_name(job, &mut length), length);
}

extern "C" fn flushed(_state: P, db: P, job: P) {
    let mut length = 0;
    note("flushed", db, rocksdb_flushjobinfo_cf_name(job, &mut length), length);
}

extern "C" fn compaction_begins(_state: P, db: P, job: P) {
    let mut length = 0;
    note("compaction begins", db, rocksdb_compactionjobinfo_cf_name(job, &mut length), length);
}

extern "C" fn compacted(_state: P, db: P, job: P) {
    with_error(|error| rocksdb_compactionjobinfo_status(job, error)).unwrap();
    let mut length = 0;
    note("compacted", db, rocksdb_compactionjobinfo_cf_name(job, &mut length), length);
}

/// A store whose listener is called when a flush or a compaction begins and ends.
fn with_listener(flush: [Option<Told>; 2], compaction: [Option<Told>; 2]) -> Store {
    let none = null_mut();
    let ([begins, flushed], [compacts, compacted]) = (flush, compaction);
    Store::new(|options| {
        let listener = rocksdb_eventlistener_create(
            none, none, begins, flushed, compacts, compacted, none, none, none, none, none, none,
        );
        rocksdb_options_add_eventlistener(options, listener);
    })
}

#[test]
fn jobs_in_the_background_are_heard() {
    let store = with_listener(
        [Some(flush_begins), Some(flushed)],
        [Some(compaction_begins), Some(compacted)],
    );
    let (flush, wait) = (rocksdb_flushoptions_create(), rocksdb_wait_for_compact_options_create());
    let count = |what| HEARD.lock().unwrap().iter().filter(|heard| heard.0 == what).count();
    for round in 1..=10 {
        // Over the same keys, so that runs have to be merged.
        (0..100_u32).for_each(|key| store.put(&key.to_be_bytes(), &[round; 100]));
        with_error(|error| rocksdb_flush(store.db, flush, error)).unwrap();
        assert_eq!(count("flushed"), usize::from(round), "each flush is heard before it returns");
    }
    with_error(|error| rocksdb_flush(store.db, flush, error)).unwrap();
    assert_eq!(count("flushed"), 10, "there was nothing to flush");
    with_error(|error| rocksdb_wait_for_compact(store.db, wait, error)).unwrap();
    assert_eq!(count("flush begins"), 10);
    assert!(count("compacted") > 0);
    assert_eq!(count("compacted"), count("compaction begins"));
    let is_own = |heard: &(_, usize, String)| heard.1 == store.db.addr() && heard.2 == "default";
    assert!(HEARD.lock().unwrap().iter().all(is_own));
    rocksdb_flushoptions_destroy(flush);
    rocksdb_wait_for_compact_options_destroy(wait);
}

#[test]
fn the_status_of_a_compaction_says_how_it_ended() {
    let store = with_listener([None; 2], [None, Some(ended)]);
    let compaction = rocksdb_compactoptions_create();
    let compact = || rocksdb_compact_range_opt(store.db, compaction, null(), 0, null(), 0);
    compact();
    // The family has no timestamps.
    rocksdb_compactoptions_set_full_history_ts_low(compaction, start(b"12345678"), 8);
    compact();
    rocksdb_compactoptions_destroy(compaction);
    let ended = ENDED.lock().unwrap();
    assert!(matches!(&ended[..], [Ok(()), Err(_)]), "{ended:?}");
}
