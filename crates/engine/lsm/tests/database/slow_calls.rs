//! Calls over a limit are events, and without a limit no call is timed.

use crate::support::{key, small};
use esker_api::Cursor;
use esker_base::background::Stepped;
use esker_base::{Clock, OperationCost};
use esker_lsm::stats::{CallKind, Event, EventKind};
use esker_lsm::{Db, Env, Keyspace, Settings};
use esker_storage::MemoryStorage;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Each reading is a millisecond after the last.
#[derive(Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
    fn sleep(&self, _: Duration) {}
    fn calendar(&self) -> Duration {
        Duration::from_secs(1)
    }
}

fn open(settings: Settings) -> (Db, Keyspace, Arc<Ticking>) {
    let clock = Arc::new(Ticking::default());
    let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
    let db = Db::open_with(env.clock(clock.clone()), settings.dram_table_bytes(0)).unwrap();
    let keyspace = db.default_keyspace();
    (db, keyspace, clock)
}

/// The slow calls after an event: kind, keyspace, key, time, cost.
fn slow(events: Vec<Event>) -> Vec<(CallKind, String, String, Duration, OperationCost)> {
    let of = |event: Event| match event.kind {
        EventKind::SlowCall { call, keyspace, key, took, cost } => {
            Some((call, keyspace, key, took, cost))
        }
        _ => None,
    };
    events.into_iter().filter_map(of).collect()
}

#[test]
fn without_a_limit_no_call_reads_the_clock() {
    let (db, keyspace, clock) = open(small());
    keyspace.put("a", "1").unwrap();
    let calls = || {
        let before = clock.0.load(Ordering::Relaxed);
        keyspace.get("a").unwrap();
        db.snapshot().get(&keyspace, "a").unwrap();
        keyspace.multi_get(["a", "b"]).unwrap();
        keyspace.put("a", "2").unwrap();
        assert_eq!(keyspace.iter().count(), 1);
        clock.0.load(Ordering::Relaxed) - before
    };
    assert_eq!(calls(), 0);
    db.set(&"slow_call=1s".parse().unwrap()).unwrap();
    assert!(calls() >= 10, "two for each call");
    assert!(slow(db.events(0)).is_empty(), "none was slow");
    db.set(&"slow_call=off".parse().unwrap()).unwrap();
    assert_eq!(calls(), 0);
}

#[test]
fn looking_for_requests_ends_a_watch_that_no_call_ends() {
    let (db, keyspace, clock) = open(small());
    let reads = || {
        let before = clock.0.load(Ordering::Relaxed);
        keyspace.get("a").unwrap();
        clock.0.load(Ordering::Relaxed) - before
    };
    db.status().unwrap();
    assert!(!db.answer_request().unwrap());
    assert_eq!(reads(), 2, "it is watched");
    clock.0.fetch_add(60_000, Ordering::Relaxed);
    assert!(!db.answer_request().unwrap());
    assert_eq!(reads(), 0);
}

#[test]
fn slow_calls_are_events_with_their_cost() {
    let (db, keyspace, _clock) = open(small().slow_call(Duration::from_micros(1)));
    (0..200).for_each(|n| keyspace.put(key(n), [7; 500]).unwrap());
    db.flush().unwrap();
    db.levels();
    let last = |of: &dyn Fn()| {
        let before = db.events(0).last().unwrap().number;
        of();
        slow(db.events(before))
    };
    let [(call, name, shown, took, cost)] =
        &last(&|| assert!(keyspace.get(key(5)).unwrap().is_some()))[..]
    else {
        panic!("one get is one event")
    };
    assert_eq!((*call, &name[..], &shown[..]), (CallKind::Get, "default", "key00000005"));
    assert!(*took >= Duration::from_millis(1));
    assert_eq!((cost.runs, cost.cache_hits + cost.cache_misses), (1, 1));

    let snapshot = db.snapshot();
    let found = last(&|| assert!(snapshot.get(&keyspace, key(6)).unwrap().is_some()));
    assert_eq!((found.len(), found[0].0, &found[0].2[..]), (1, CallKind::Get, "key00000006"));

    let keys = [vec![0; 100], key(1)];
    let found = last(&|| drop(keyspace.multi_get(&keys).unwrap()));
    assert_eq!((found.len(), found[0].0), (1, CallKind::MultiGet));
    assert_eq!(found[0].2, format!("{}...", "\\x00".repeat(64)));

    let mut batch = db.batch();
    batch.delete(&keyspace, "x\n");
    batch.put(&keyspace, "y", "z");
    let found = last(&|| db.write(&batch).unwrap());
    assert_eq!((found.len(), found[0].0, &found[0].2[..]), (1, CallKind::Write, "x\\n"));
    assert_eq!(found[0].4.bytes_written, batch.encoded().len() as u64);

    let found = last(&|| {
        let mut cursor = db.cursor(&keyspace, "key0000001".."z").unwrap();
        cursor.seek_first().unwrap();
        assert!(cursor.current().is_some());
    });
    assert_eq!((found[0].0, &found[0].2[..]), (CallKind::Scan, "key0000001"));
    let blocks: u64 = found.iter().map(|it| it.4.cache_hits + it.4.cache_misses).sum();
    assert!(blocks >= 1, "{found:?}");

    // A move to the next block counts for itself.
    let moves = last(&|| assert_eq!(keyspace.iter().count(), 201));
    assert!(moves.len() > 5 && moves.iter().all(|it| it.0 == CallKind::Scan), "{}", moves.len());

    let mut transaction = db.transaction().unwrap();
    transaction.put(&keyspace, "t", "1").unwrap();
    let mut transaction = Some(transaction);
    let transaction = std::cell::RefCell::new(&mut transaction);
    let found = last(&|| transaction.borrow_mut().take().unwrap().commit().unwrap());
    assert!(found.iter().any(|it| (it.0, &it.2[..]) == (CallKind::Write, "t")), "{found:?}");
}

#[test]
fn the_limit_is_listed_and_counted() {
    let (db, keyspace, _clock) = open(small());
    let limit = || {
        let settings = db.settings().unwrap();
        let found = settings.into_iter().find(|it| it.name == "slow_call").unwrap();
        (found.value, found.is_persisted)
    };
    assert_eq!(limit(), ("off".to_owned(), false));
    db.set(&"slow_call=1ms".parse().unwrap()).unwrap();
    assert_eq!(limit(), ("1ms".to_owned(), false));
    (0..100).for_each(|n| keyspace.put(key(n), "").unwrap());
    assert_eq!((db.stats().slow_calls, slow(db.events(0)).len()), (100, 64));
    assert!(db.set(&"slow_call=0ms".parse().unwrap()).is_err());
}
