//! The checker is quiet about a correct store and loud about each kind of wrong one.

use super::*;
use crate::{Model, stream};
use esker_api::{Cursor, Kv, Snapshot, Value};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A correct store that a fault is put over.
struct Faulty {
    model: Model,
    fault: Fault,
    calls: AtomicU64,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Acknowledges a write that it drops.
    LosesWrites,
    /// Forgets deletes.
    LosesDeletes,
    /// Answers with another key's value.
    MixesKeys,
    /// Flips a bit of a value.
    FlipsBits,
    /// Leaves entries out of scans.
    SkipsInScans,
    /// Lets scans run past their range.
    IgnoresRanges,
}

impl Faulty {
    fn new(fault: Fault) -> Self {
        Faulty { model: Model::new(), fault, calls: AtomicU64::new(0) }
    }

    /// Whether `fault` strikes this call: now and then, as real ones do.
    fn strikes(&self, fault: Fault) -> bool {
        self.fault == fault && self.calls.fetch_add(1, Relaxed) % 100 == 99
    }
}

impl Kv for Faulty {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let mut value = self.model.get(key)?;
        if self.strikes(Fault::FlipsBits) {
            value = value.map(|value| {
                let mut bytes = value.into_vec();
                *bytes.last_mut().unwrap() ^= 1;
                bytes.into()
            });
        }
        if self.strikes(Fault::MixesKeys) {
            value = self.model.pairs().into_iter().find(|pair| pair.0 != key).map(|p| p.1.into());
        }
        Ok(value)
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        if self.strikes(Fault::LosesWrites) {
            return Ok(());
        }
        if self.fault == Fault::LosesDeletes {
            let mut puts = WriteBatch::new();
            for entry in batch.iter().filter(|entry| entry.kind == esker_base::Kind::Put) {
                puts.put(entry.keyspace, entry.key, entry.value);
            }
            return self.model.write(&puts);
        }
        self.model.write(batch)
    }
}

impl Ordered for Faulty {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let range = if self.fault == Fault::IgnoresRanges { KeyRange::all() } else { range };
        let inner = self.model.cursor(range)?;
        let is_skipping = self.fault == Fault::SkipsInScans;
        Ok(if is_skipping { Box::new(Skipping(inner)) } else { inner })
    }

    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        self.model.cursor_at(range, snapshot)
    }

    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        self.model.get_at(key, snapshot)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        self.model.snapshot()
    }
}

/// Goes two entries on instead of one.
struct Skipping<'a>(Box<dyn Cursor + 'a>);

impl Cursor for Skipping<'_> {
    fn seek_first(&mut self) -> Result<()> {
        self.0.seek_first()
    }
    fn seek_last(&mut self) -> Result<()> {
        self.0.seek_last()
    }
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.0.seek(key)
    }
    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        self.0.seek_back(key)
    }
    fn next(&mut self) -> Result<()> {
        self.0.next()?;
        self.0.next()
    }
    fn prev(&mut self) -> Result<()> {
        self.0.prev()?;
        self.0.prev()
    }
    fn current(&self) -> Option<(&[u8], &[u8])> {
        self.0.current()
    }
}

fn violations(store: &dyn Ordered, threads: usize) -> Vec<Violation> {
    let verify = Verify::new(200, threads, 3_000);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let verify = &verify;
            scope.spawn(move || {
                let rng = stream(9, "verify", thread as u64);
                let mut worker = verify.worker(store, thread, rng).unwrap();
                for _ in 0..verify.operations() {
                    worker.step().unwrap();
                }
            });
        }
    });
    verify.violations()
}

#[test]
fn a_correct_store_passes_with_one_thread_and_with_several() {
    for threads in [1, 3] {
        let store = Faulty::new(Fault::None);
        assert_eq!(violations(&store, threads), []);
        assert!(store.model.writes() > 1_000, "something was written");
    }
}

#[test]
fn lost_writes_are_found() {
    let found = violations(&Faulty::new(Fault::LosesWrites), 1);
    assert!(found.iter().any(|v| matches!(v.seen, Seen::Version(seen) if seen < v.floor)));
}

#[test]
fn values_that_outlive_their_delete_are_found() {
    let found = violations(&Faulty::new(Fault::LosesDeletes), 1);
    assert!(found.iter().any(|v| !v.floor.is_put() && v.seen != Seen::Absent), "{found:?}");
}

#[test]
fn values_of_other_keys_and_flipped_bits_are_found() {
    for fault in [Fault::MixesKeys, Fault::FlipsBits] {
        let found = violations(&Faulty::new(fault), 1);
        assert!(found.iter().any(|v| v.seen == Seen::Damaged), "{found:?}");
    }
}

#[test]
fn pairs_missing_from_a_scan_are_found() {
    let found = violations(&Faulty::new(Fault::SkipsInScans), 1);
    assert!(found.iter().any(|v| v.floor.is_put() && v.seen == Seen::Absent), "{found:?}");
}

#[test]
fn scans_that_leave_their_range_are_found() {
    let found = violations(&Faulty::new(Fault::IgnoresRanges), 1);
    assert!(found.iter().any(|v| v.seen == Seen::Misplaced), "{found:?}");
}

#[test]
fn a_violation_says_what_was_acknowledged_and_what_was_read() {
    let violation = Violation { number: 4, floor: Version(3), seen: Seen::Version(Version(1)) };
    let text = violation.to_string();
    assert_eq!(text, "key 4 had version 3 acknowledged, and a read gave version 1");
}
