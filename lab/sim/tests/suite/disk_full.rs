//! A full disk: writes say so, reads go on, and nothing is lost.

use crate::common::{Pairs, disk, env, key, lose_power, open, pairs, put, settings};
use esker_base::{Error, SystemClock, Threads};
use esker_lsm::{Db, Log, SyncPolicy};
use esker_pmem::Pool;
use esker_pmem::sim::SimRegion;
use std::sync::Arc;

/// Writes until it fails. Gives the error; `held` grows by what was acknowledged.
fn fill(db: &Db, from: u32, held: &mut Pairs) -> Error {
    for number in from..from + 10_000 {
        match put(db, number % 500, 1000) {
            Ok(()) => held.insert(key(number % 500), vec![(number % 500) as u8; 1000]),
            Err(error) => return error,
        };
    }
    panic!("the disk never fills up");
}

#[test]
fn writing_resumes_once_there_is_space() {
    let disk = disk(1);
    let db = open(&disk, SyncPolicy::Always).unwrap();
    let mut held = Pairs::new();
    for free in [0, 3_000, 70_000, 400_000] {
        disk.set_space_limit(Some(disk.used_bytes() + free));
        for tries in 0..3 {
            let error = fill(&db, tries, &mut held);
            assert!(error.is_out_of_space(), "{error}");
            assert!(error.to_string().contains("free some space"), "{error}");
            assert_eq!(pairs(&db).unwrap(), held, "reads go on");
        }
        disk.set_space_limit(None);
        for number in 0..200 {
            put(&db, number, 1200).unwrap();
            held.insert(key(number), vec![number as u8; 1200]);
        }
        db.flush().unwrap();
        db.compact().unwrap();
        assert_eq!(pairs(&db).unwrap(), held);
    }
    let disk = lose_power(&disk, db);
    assert_eq!(pairs(&open(&disk, SyncPolicy::Always).unwrap()).unwrap(), held);
}

#[test]
fn a_full_disk_is_no_reason_to_lose_what_was_acknowledged() {
    let disk = disk(2);
    let db = open(&disk, SyncPolicy::Always).unwrap();
    let mut held = Pairs::new();
    disk.set_space_limit(Some(disk.used_bytes() + 300_000));
    let error = fill(&db, 0, &mut held);
    assert!(error.is_out_of_space(), "{error}");
    let disk = lose_power(&disk, db);
    // Opening takes a little space for a fresh manifest.
    if let Err(error) = open(&disk, SyncPolicy::Always) {
        assert!(error.is_out_of_space(), "{error}");
    }
    disk.set_space_limit(None);
    assert_eq!(pairs(&open(&disk, SyncPolicy::Always).unwrap()).unwrap(), held);
}

/// Writers that a full pool stops get the reason, with threads that flush as without.
#[test]
fn a_full_pool_before_a_full_disk_says_so_and_goes_on_once_there_is_space() {
    for threaded in [false, true] {
        let disk = disk(3);
        let memory = Arc::new(SimRegion::new(136 << 10));
        let pool = Pool::format(memory, "pool", 7).unwrap();
        let mut env = env(&disk, None, 1).pool(pool);
        if threaded {
            env.background = Arc::new(Threads);
            env.clock = Arc::new(SystemClock::new());
        }
        let log = Log::Pmem { pool: "pool".into(), emulated: true };
        let db = Db::open_with(env, settings(SyncPolicy::Always).log(log)).unwrap();
        let mut held = Pairs::new();
        disk.set_space_limit(Some(disk.used_bytes() + 6_000));
        let error = fill(&db, 0, &mut held);
        assert!(error.is_out_of_space(), "{error}");
        assert_eq!(pairs(&db).unwrap(), held, "reads go on");
        disk.set_space_limit(None);
        for number in 0..400 {
            put(&db, number, 900).unwrap();
            held.insert(key(number), vec![number as u8; 900]);
        }
        assert_eq!(pairs(&db).unwrap(), held);
        db.close().unwrap();
    }
}
