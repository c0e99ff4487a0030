//! What a database says of its background work.

use crate::support::{key, small};
use esker_base::Rng;
use esker_base::background::Stepped;
use esker_lsm::stats::{Event, EventKind};
use esker_lsm::{Db, Env, SettingChange};
use esker_storage::{FaultStorage, MemoryStorage};
use std::sync::Arc;

fn open(storage: Arc<dyn esker_storage::Storage>) -> Db {
    Db::open_with(Env::over(storage).background(Arc::new(Stepped)), small()).unwrap()
}

fn write(db: &Db) {
    let keyspace = db.default_keyspace();
    (0..100).for_each(|n| keyspace.put(key(n), [7; 500]).unwrap());
}

#[test]
fn flushes_compactions_checkpoints_and_changes_are_events() {
    let db = open(Arc::new(MemoryStorage::new()));
    assert!(db.events(0).is_empty());
    for _ in 0..8 {
        write(&db);
        db.flush().unwrap();
    }
    db.compact().unwrap();
    db.set(&"background_write_rate=1M".parse::<SettingChange>().unwrap()).unwrap();
    db.checkpoint_to(&MemoryStorage::new()).unwrap();
    let (events, stats) = (db.events(0), db.stats());
    let mut flushed = 0;
    let mut compacted = (0, 0);
    let mut others = Vec::new();
    for Event { kind, .. } in &events {
        match kind {
            EventKind::Flush { bytes, .. } => flushed += bytes,
            EventKind::Compaction { keyspace, read_bytes, written_bytes, .. } => {
                assert_eq!(keyspace, "default");
                compacted = (compacted.0 + read_bytes, compacted.1 + written_bytes);
            }
            // A writer may have waited for a segment.
            EventKind::Stall { .. } => {}
            other => others.push(other),
        }
    }
    assert_eq!(flushed, stats.flush_bytes);
    assert_eq!(compacted, (stats.compaction_read_bytes, stats.compaction_bytes));
    assert!(compacted.0 > 0);
    let [EventKind::SettingChanged { change }, EventKind::Checkpoint { .. }] = others[..] else {
        panic!("{others:?}")
    };
    assert_eq!(change, "background_write_rate=1MiB");
    assert_eq!(stats.job_times.flushes.count(), stats.flushes);
    assert_eq!(stats.job_times.compactions.count(), stats.compactions);
    let last = events.last().unwrap().number;
    assert_eq!(last, events.len() as u64);
    assert_eq!(db.events(last - 1).len(), 1);
}

#[test]
fn a_job_that_fails_is_an_event_once() {
    let disk = FaultStorage::new(Rng::new(1));
    let db = open(Arc::new(disk.clone()));
    write(&db);
    disk.set_space_limit(Some(disk.used_bytes()));
    (0..3).for_each(|_| assert!(db.flush().is_err()));
    let errors = |events: Vec<Event>| {
        let kinds = events.into_iter().map(|event| event.kind);
        kinds.filter(|kind| matches!(kind, EventKind::BackgroundError { job: "flush", .. })).count()
    };
    assert_eq!(errors(db.events(0)), 1);
    disk.set_space_limit(None);
    db.flush().unwrap();
    assert!(matches!(db.events(0).last().unwrap().kind, EventKind::Flush { .. }));
}
