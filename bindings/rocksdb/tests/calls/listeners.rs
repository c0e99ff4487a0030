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

#[test]
fn the_status_of_a_compaction_says_how_it_ended() {
    let none = null_mut();
    let store = Store::new(|options| {
        let listener = rocksdb_eventlistener_create(
            none,
            none,
            None,
            None,
            None,
            Some(ended),
            none,
            none,
            none,
            none,
            none,
            none,
        );
        rocksdb_options_add_eventlistener(options, listener);
    });
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
