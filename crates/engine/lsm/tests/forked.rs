//! A forked child must not use what its parent has open: every call fails there, nothing hangs, and
//! nothing that the child does reaches the parent's files or locks.
#![cfg(target_os = "linux")]

#[path = "support/killed.rs"]
mod killed;
#[path = "support/pool_place.rs"]
mod pool_place;

use esker_api::{
    Concurrency, Cursor, KeyspaceRef, Kv, TransactionOptions, Transactional, WriteBatch,
};
use esker_base::{Error, KeyspaceId, Rng, Threads};
use esker_hashstore::{CreateSettings, HashStore};
use esker_lsm::{
    Db, DramTableStats, Keyspace, KeyspaceSettings, Log, Resources, Settings, SyncPolicy,
};
use esker_storage::{PosixStorage, Storage};
use esker_txn::TransactionDb;
use fork::Fork;
use parking_lot::Mutex;
use pool_place::Place;
use rustix::process::{Pid, Signal, kill_process};
use scopeguard::defer;
use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// One test at a time: a child has only its own thread, and must not wait for a lock that a thread of
/// another test held.
static ALONE: Mutex<()> = Mutex::new(());

/// How long a child may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

fn settings() -> Settings {
    let log = Log::File { dir: None, sync: SyncPolicy::Always };
    Settings::default().log(log).segment_bytes(256 << 10).memory_bytes(8 << 20)
}

fn put_all(db: &Db, numbers: std::ops::Range<u32>) {
    for number in numbers {
        db.put(&db.default_keyspace(), format!("{number:06}").as_bytes(), [b'v'; 300]).unwrap();
    }
}

#[track_caller]
fn expect_all(db: &Db, numbers: std::ops::Range<u32>) {
    let pairs: Vec<_> = db.range(&db.default_keyspace(), ..).collect();
    let found = pairs.into_iter().map(|pair| pair.unwrap().0);
    assert!(found.eq(numbers.map(|number| format!("{number:06}").into_bytes())));
}

/// Runs `body` in a forked child and expects it to end without a panic, while the parent is at `meanwhile`.
#[track_caller]
fn in_child(body: impl FnOnce(), meanwhile: impl FnOnce()) {
    let child = match fork::fork().unwrap() {
        Fork::Parent(child) => child,
        Fork::Child => {
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            if let Err(cause) = &ended {
                let text = cause.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("?");
                let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
            }
            // Nothing that the parent registered may run, nor any destructor.
            let own = rustix::process::getpid();
            let signal = if ended.is_ok() { Signal::USR1 } else { Signal::USR2 };
            let _ = kill_process(own, signal);
            unreachable!("the signal ends the child");
        }
    };
    meanwhile();
    let mut waited = Duration::ZERO;
    let status = loop {
        if let Some(status) = fork::waitpid_nohang(child).unwrap() {
            break status;
        }
        if waited > PATIENCE {
            kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
            fork::waitpid(child).unwrap();
            panic!("the child hangs");
        }
        std::thread::park_timeout(Duration::from_millis(5));
        waited += Duration::from_millis(5);
    };
    assert_eq!(status & 0x7f, Signal::USR1.as_raw(), "the child failed");
}

#[track_caller]
fn expect_forked<T>(result: esker_base::Result<T>, dir: &Path) {
    match result.err() {
        Some(error @ Error::Forked { .. }) => {
            assert!(error.to_string().contains(dir.to_str().unwrap()), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

fn expect_locked(dir: &Path) {
    let storage = PosixStorage::open(dir).unwrap();
    assert!(matches!(storage.lock().err(), Some(Error::Locked { .. })));
}

/// All that a child may try.
fn use_in_child(db: &Db, dir: &Path, cursor: &mut dyn Cursor, before: &esker_lsm::Snapshot) {
    let default = db.default_keyspace();
    for number in 0..100_u32 {
        expect_forked(db.put(&default, number.to_be_bytes(), b"child"), dir);
    }
    expect_forked(db.get(&default, b"000001"), dir);
    expect_forked(db.try_get(&default, b"000001"), dir);
    expect_forked(before.get(&default, b"000001"), dir);
    expect_forked(db.multi_get(&default, [b"000001"]), dir);
    expect_forked(db.snapshot().clone().get(&default, b"000001"), dir);
    expect_forked(db.delete(&default, b"000001"), dir);
    expect_forked(db.delete_range(&default, b"0"..b"9"), dir);
    expect_forked(db.range(&default, ..).next().unwrap(), dir);
    expect_forked(cursor.next(), dir);
    expect_forked(db.cursor(&default, esker_api::KeyRange::all()), dir);
    expect_forked(db.keyspace("new", KeyspaceSettings::default()), dir);
    expect_forked(db.open_keyspace("default"), dir);
    expect_forked(db.drop_keyspace(&default), dir);
    expect_forked(db.sync(), dir);
    expect_forked(db.flush(), dir);
    expect_forked(db.compact(), dir);
    expect_forked(db.compact_keyspace(&default), dir);
    expect_forked(db.wait_for_compactions(), dir);
    expect_forked(db.checkpoint(dir.join("copy")), dir);
    assert!(!db.run_background_job());
    expect_forked(db.background_error().map_or(Ok(()), Err), dir);
    assert!(db.stats().background_error.is_some());
    assert!(
        db.levels().is_empty()
            && db.space_amp_status().is_empty()
            && db.estimate_live_data().is_none()
    );
    assert_eq!(db.dram_table(), DramTableStats::default());
    assert!(db.torn_tail().is_none() && db.set_aside().is_empty());
    assert!(db.used_bytes() == 0 && db.unreadable_tables().is_empty());
    assert!(db.keyspaces().is_empty());
    expect_forked(db.lost_files(), dir);
    assert_eq!(before.clone().seqno(), before.seqno());
    use_keyspace_in_child(&default, dir, before);
    expect_forked(db.clone().close(), dir);
}

/// All that a child may try with the handle of a keyspace.
fn use_keyspace_in_child(keyspace: &Keyspace, dir: &Path, before: &esker_lsm::Snapshot) {
    expect_forked(keyspace.get(b"000001"), dir);
    expect_forked(keyspace.try_get(b"000001"), dir);
    expect_forked(before.get(keyspace, b"000001"), dir);
    expect_forked(keyspace.multi_get([b"000001"]), dir);
    expect_forked(keyspace.contains_key(b"000001"), dir);
    expect_forked(keyspace.range(..).next().unwrap(), dir);
    expect_forked(keyspace.prefix(b"0").next_back().unwrap(), dir);
    expect_forked(keyspace.iter().next().unwrap(), dir);
    expect_forked(keyspace.first(), dir);
    expect_forked(keyspace.last(), dir);
    expect_forked(keyspace.is_empty(), dir);
    expect_forked(keyspace.count(..), dir);
    expect_forked(keyspace.put(b"000001", b"child"), dir);
    expect_forked(keyspace.delete(b"000001"), dir);
    expect_forked(keyspace.delete_range(b"0"..b"9"), dir);
    expect_forked(keyspace.clear(), dir);
    assert_eq!((keyspace.name(), keyspace.clone()), ("default", keyspace.clone()));
}

#[test]
fn a_child_can_do_nothing_and_the_parent_goes_on() {
    let _alone = ALONE.lock();
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    let db = Db::open(dir, settings()).unwrap();
    put_all(&db, 0..300);
    let (snapshot, default) = (db.snapshot(), db.default_keyspace());
    let mut cursor = db.cursor(&default, esker_api::KeyRange::all()).unwrap();
    cursor.seek_first().unwrap();
    in_child(|| use_in_child(&db, dir, &mut cursor, &snapshot), || put_all(&db, 300..600));
    expect_locked(dir);
    cursor.next().unwrap();
    expect_all(&db, 0..600);
    assert!(!dir.join("copy").exists());
    db.close().unwrap();
    expect_all(&Db::open(dir, settings()).unwrap(), 0..600);
}

#[test]
fn a_child_waits_for_no_lock_that_its_parent_held_at_the_fork() {
    let _alone = ALONE.lock();
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    let db = Db::open(dir, settings()).unwrap();
    put_all(&db, 0..300);
    let (snapshot, default) = (db.snapshot(), db.default_keyspace());
    let mut cursor = db.cursor(&default, esker_api::KeyRange::all()).unwrap();
    cursor.seek_first().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        defer! { over.store(true, Ordering::Relaxed) }
        // Between them they hold these locks for most of the time.
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = db.used_bytes();
                    drop(db.snapshot());
                }
            });
        }
        for _ in 0..4 {
            in_child(|| use_in_child(&db, dir, &mut cursor, &snapshot), || ());
        }
    });
    expect_all(&db, 0..300);
}

#[test]
fn dropping_everything_in_a_child_writes_nothing_and_keeps_the_parents_lock() {
    let _alone = ALONE.lock();
    for read_only in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path();
        let db = Db::open(dir, settings()).unwrap();
        put_all(&db, 0..300);
        let reader = read_only.then(|| Db::open_read_only(dir, settings()).unwrap());
        let mut cursor = db.cursor(&db.default_keyspace(), esker_api::KeyRange::all()).unwrap();
        cursor.seek_last().unwrap();
        // The child takes its copy out.
        let handles = RefCell::new(Some((db.snapshot(), cursor, reader, db)));
        in_child(|| drop(handles.borrow_mut().take()), || ());
        expect_locked(dir);
        let (_, _, _, db) = handles.into_inner().unwrap();
        put_all(&db, 300..600);
        db.close().unwrap();
        expect_all(&Db::open(dir, settings()).unwrap(), 0..600);
    }
}

#[test]
fn a_child_that_lives_on_does_not_keep_the_lock() {
    let _alone = ALONE.lock();
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    let db = Db::open(dir, settings()).unwrap();
    put_all(&db, 0..100);
    let go = tempfile::tempdir().unwrap();
    let done = go.path().join("done");
    in_child(
        || {
            while !done.exists() {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        },
        || {
            db.close().unwrap();
            let again = Db::open(dir, settings());
            std::fs::write(&done, "").unwrap();
            expect_all(&again.unwrap(), 0..100);
        },
    );
}

#[test]
fn a_child_opens_databases_of_its_own() {
    let _alone = ALONE.lock();
    let [theirs, own] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let db = Db::open(theirs.path(), settings()).unwrap();
    in_child(
        || {
            let parents = Db::open(theirs.path(), settings());
            match parents.err() {
                Some(Error::Locked { .. }) => {}
                other => panic!("{other:?}"),
            }
            let own = Db::open(own.path(), settings()).unwrap();
            put_all(&own, 0..300);
            own.close().unwrap();
            expect_forked(db.put(&db.default_keyspace(), b"k", b"v"), theirs.path());
        },
        || (),
    );
    expect_all(&Db::open(own.path(), settings()).unwrap(), 0..300);
    put_all(&db, 0..10);
}

#[test]
fn a_pool_is_the_parents_alone() {
    let _alone = ALONE.lock();
    let place = Place::new();
    let dir = place.dir();
    let db = Db::open(dir, place.settings()).unwrap();
    put_all(&db, 0..100);
    in_child(
        || {
            expect_forked(db.put(&db.default_keyspace(), b"k", b"v"), dir);
            expect_forked(db.sync(), dir);
            expect_forked(db.clone().close(), dir);
        },
        || put_all(&db, 100..200),
    );
    let pool = esker_pmem::Pool::open(place.pool(), esker_pmem::Accept::Emulated);
    assert!(matches!(pool.err(), Some(Error::Locked { .. })));
    expect_locked(dir);
    db.close().unwrap();
    expect_all(&Db::open(dir, place.settings()).unwrap(), 0..200);
}

#[test]
fn a_transaction_is_the_parents_alone() {
    let _alone = ALONE.lock();
    let place = tempfile::tempdir().unwrap();
    let db = TransactionDb::new(Db::open(place.path(), settings()).unwrap());
    for concurrency in [Concurrency::Pessimistic, Concurrency::Optimistic] {
        let options = TransactionOptions::default().concurrency(concurrency);
        let default = KeyspaceRef::DEFAULT;
        let mut transaction = db.begin(&options).unwrap();
        transaction.put(default, b"key", b"value").unwrap();
        let handle = RefCell::new(Some(transaction));
        let mut batch = WriteBatch::default();
        batch.put(default, b"key", b"child");
        // Whichever of the two notices first.
        let text = Path::new("");
        in_child(
            || {
                let mut transaction = handle.borrow_mut().take().unwrap();
                expect_forked(transaction.put(default, b"other", b"child"), text);
                expect_forked(transaction.get(default, b"key"), text);
                expect_forked(transaction.get_for_update(default, b"key"), text);
                expect_forked(transaction.commit(), text);
                expect_forked(transaction.rollback(), text);
                drop(transaction);
                expect_forked(db.write(&batch), text);
                expect_forked(db.begin(&options), text);
            },
            || (),
        );
        handle.into_inner().unwrap().commit().unwrap();
        assert_eq!(db.get(default, b"key").unwrap().as_deref(), Some(&b"value"[..]));
        assert_eq!(db.held().keys, 0);
    }
}

/// Another thread of the parent may have had a part of the table locked at the fork.
#[test]
fn a_transaction_is_dropped_in_a_child_without_its_locks() {
    let _alone = ALONE.lock();
    let place = tempfile::tempdir().unwrap();
    let db = TransactionDb::new(Db::open(place.path(), settings()).unwrap());
    let default = KeyspaceRef::DEFAULT;
    let mut transaction = db.begin(&TransactionOptions::default()).unwrap();
    transaction.put(default, b"key", b"value").unwrap();
    let handle = RefCell::new(Some(transaction));
    let held = db.held();
    in_child(
        || {
            drop(handle.borrow_mut().take());
            assert_eq!(db.held(), held, "the child's copy of the table is as it was");
        },
        || (),
    );
    handle.into_inner().unwrap().rollback().unwrap();
    assert_eq!(db.held().keys, 0);
}

#[test]
fn a_hash_store_is_the_parents_alone() {
    let _alone = ALONE.lock();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("hash");
    let settings = CreateSettings::default().partitions(2);
    HashStore::create(&path, Some(8 << 20), &settings, &mut Rng::new(1)).unwrap();
    let store = HashStore::open(&path, &Threads).unwrap();
    store.put(b"key", b"value").unwrap();
    let handle = RefCell::new(Some(store));
    in_child(
        || {
            let store = handle.borrow_mut().take().unwrap();
            let mut batch = WriteBatch::default();
            batch.put(KeyspaceId::DEFAULT, b"key", b"child");
            expect_forked(store.put(b"key", b"child"), &path);
            expect_forked(store.write(&batch), &path);
            expect_forked(store.delete(b"key"), &path);
            expect_forked(store.get(b"key"), &path);
            expect_forked(store.multi_get(&[b"key"]), &path);
            expect_forked(store.exists(b"key"), &path);
            expect_forked(store.list(None, 10), &path);
            expect_forked(store.stats(), &path);
            expect_forked(store.close(), &path);
        },
        || (),
    );
    // The child's drop has left the lock.
    assert!(matches!(HashStore::open(&path, &Threads).err(), Some(Error::Locked { .. })));
    let store = handle.into_inner().unwrap();
    store.put(b"other", b"value").unwrap();
    assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    store.close().unwrap();
}

#[test]
fn a_child_cannot_open_a_database_with_resources_of_its_parent() {
    let _alone = ALONE.lock();
    let place = tempfile::tempdir().unwrap();
    let resources = Resources::new(16 << 20, 2).unwrap();
    let shared = || settings().resources(resources.clone());
    let databases: Vec<Db> =
        (0..4).map(|n| Db::open(place.path().join(n.to_string()), shared()).unwrap()).collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        defer! { over.store(true, Ordering::Relaxed) }
        // Threads of the parent hold locks of the resources at most times.
        for db in &databases {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    put_all(db, 0..200);
                    db.flush().unwrap();
                }
            });
        }
        for n in 0..20 {
            let new = place.path().join(format!("new-{n}"));
            let try_all = || {
                assert_eq!((resources.databases(), resources.charged_bytes()), (0, 0));
                let opened = Db::open(&new, shared());
                assert!(matches!(opened.err(), Some(Error::Forked { .. })));
            };
            in_child(try_all, || ());
        }
    });
    assert_eq!(resources.databases(), 4);
    // It can have resources of its own. A fork in the middle of a wait of the parent's writers could leave the
    // table of waiting threads locked, which all locks of a process share, so these have ended.
    let new = place.path().join("own");
    in_child(|| drop(Db::open(&new, settings()).unwrap()), || ());
}
