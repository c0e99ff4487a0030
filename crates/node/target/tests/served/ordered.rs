//! A store of `esker_api` behind workers.

use crate::aborts::{ABORTED, abort, expect_done};
use crate::wire::{Wire, in_capsule, key_command, pattern, u32_at};
use crate::{Access, start, subsystem, wait_until};
use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::{Error, Kind, Result, Threads};
use esker_target::{Namespace, OrderedKeys, Target};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// A map that counts its writes, and fails or would block or waits when the test says so.
#[derive(Default)]
struct Store {
    pairs: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    writes: AtomicUsize,
    full: AtomicBool,
    /// What writes, and reads past memory, fail with.
    broken: Mutex<Option<Error>>,
    in_memory: AtomicBool,
    waits: AtomicUsize,
    /// The longest batch that it takes; 0 is any.
    batch_bytes_max: AtomicUsize,
    /// Held, it stops writes.
    gate: Mutex<()>,
}

impl Kv for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.waits.fetch_add(1, SeqCst);
        self.broken.lock().unwrap().clone().map_or(Ok(()), Err)?;
        Ok(self.pairs.lock().unwrap().get(key).cloned().map(Value::from))
    }

    fn try_get(&self, key: &[u8]) -> Result<Option<Value>> {
        if !self.in_memory.load(SeqCst) {
            return Err(Error::WouldBlock);
        }
        Ok(self.pairs.lock().unwrap().get(key).cloned().map(Value::from))
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        if self.full.load(SeqCst) {
            return Err(Error::io("write", "x", std::io::ErrorKind::StorageFull.into()));
        }
        self.broken.lock().unwrap().clone().map_or(Ok(()), Err)?;
        self.writes.fetch_add(1, SeqCst);
        let _open = self.gate.lock().unwrap();
        let (bytes, limit) = (batch.encoded().len(), self.batch_bytes_max.load(SeqCst));
        if limit > 0 && bytes > limit {
            let (entries, entries_limit) = (batch.len(), usize::MAX);
            return Err(Error::BatchTooLarge { bytes, limit, entries, entries_limit });
        }
        let mut pairs = self.pairs.lock().unwrap();
        for entry in batch.iter() {
            match entry.kind {
                Kind::Put => pairs.insert(entry.key.to_vec(), entry.value.to_vec()),
                _ => pairs.remove(entry.key),
            };
        }
        Ok(())
    }
}

struct Walk(Vec<(Vec<u8>, Vec<u8>)>, usize);

impl Cursor for Walk {
    fn seek_first(&mut self) -> Result<()> {
        self.1 = 0;
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        unimplemented!("lists go forward")
    }
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.1 = self.0.partition_point(|pair| &pair.0[..] < key);
        Ok(())
    }
    fn seek_back(&mut self, _key: &[u8]) -> Result<()> {
        unimplemented!("lists go forward")
    }
    fn next(&mut self) -> Result<()> {
        self.1 += 1;
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        unimplemented!("lists go forward")
    }
    fn current(&self) -> Option<(&[u8], &[u8])> {
        self.0.get(self.1).map(|pair| (&pair.0[..], &pair.1[..]))
    }
}

impl Ordered for Store {
    fn cursor(&self, _range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let pairs = self.pairs.lock().unwrap();
        Ok(Box::new(Walk(pairs.clone().into_iter().collect(), 0)))
    }
    fn cursor_at<'a>(&'a self, _: KeyRange, _: &'a dyn Snapshot) -> Result<Box<dyn Cursor + 'a>> {
        unimplemented!("no snapshots are used")
    }
    fn get_at(&self, _key: &[u8], _snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        unimplemented!("no snapshots are used")
    }
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        unimplemented!("no snapshots are used")
    }
}

fn served() -> (Arc<Store>, Target) {
    let (store, _, target) = served_with_namespace();
    (store, target)
}

fn served_with_namespace() -> (Arc<Store>, Arc<OrderedKeys>, Target) {
    let store = Arc::new(Store::default());
    let mut subsystem = subsystem(Access::Anyone);
    let namespace = OrderedKeys::new([3; 16], 1 << 30, store.clone(), &Threads).unwrap();
    let namespace = Arc::new(namespace);
    subsystem.namespaces[0] = namespace.clone();
    (store, namespace, start(subsystem))
}

#[test]
fn what_fails_in_the_store_is_told_to_those_who_look_after_it() {
    let (store, namespace, target) = served_with_namespace();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let failures = namespace.failures().unwrap();
    store.full.store(true, SeqCst);
    assert_eq!(io.store(b"k", b"v").status, 0x81);
    assert!(failures.reasons().is_empty(), "a full store is none");
    store.full.store(false, SeqCst);
    let damage = Error::corruption("a file", 9, "a bad block");
    *store.broken.lock().unwrap() = Some(damage.clone());
    assert_eq!(io.retrieve(b"k", 9).1.status, 0x88);
    assert_eq!((failures.faults(), failures.has_stopped()), (1, false));
    *store.broken.lock().unwrap() = Some(Error::LogFailed { cause: Arc::new(damage) });
    assert_eq!(io.store(b"k", b"v").status, 0x06);
    assert!(failures.has_stopped());
    let [stop, fault] = &failures.reasons()[..] else { panic!("{failures:?}") };
    assert!(stop.contains("the log failed") && fault.contains("a bad block"));
}

#[test]
fn all_five_commands_reach_the_store() {
    let (store, target) = served();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let value = pattern(32_768, 2);
    assert_eq!(io.store(b"b", &value).status, 0);
    assert_eq!(io.store(b"a", b"1").status, 0);
    assert_eq!(store.get(b"b").unwrap().unwrap(), value[..]);
    assert!(io.retrieve(b"b", 1 << 20).0 == value);
    assert_eq!(io.plain(key_command(0x14, b"a", 0, 0)).status, 0);
    store.put(b"a key beyond sixteen bytes", b"x").unwrap();
    let (list, _) = io.reading(key_command(0x06, b"", 64, 0), 64);
    assert_eq!(list, [2, 0, 0, 0, 1, 0, b'a', 0, 1, 0, b'b', 0], "what the set can name");
    assert_eq!(u32_at(&io.reading(key_command(0x06, b"aa", 64, 0), 64).0, 0), 1);
    assert_eq!(io.plain(key_command(0x10, b"a", 0, 0)).status, 0);
    assert_eq!(io.plain(key_command(0x10, b"a", 0, 0)).status, 0x87);
    assert_eq!(store.get(b"a").unwrap(), None);
}

#[test]
fn stores_can_depend_on_the_key() {
    let (_store, target) = served();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let mut store = |options, value: &[u8]| {
        io.with_data(key_command(0x01, b"k", value.len() as u32, options), value).status
    };
    assert_eq!(
        (store(1, b"x"), store(2, b"1"), store(2, b"x"), store(1, b"2")),
        (0x87, 0, 0x89, 0)
    );
    assert_eq!(io.retrieve(b"k", 9).0, b"2");
}

#[test]
fn of_many_hosts_that_create_a_key_one_does() {
    let (_store, target) = served();
    for round in 0..20u8 {
        let won: usize = std::thread::scope(|scope| {
            let create = |n: u8| {
                let address = target.address();
                move || {
                    let (_admin, mut io) = Wire::queues(address, 0);
                    io.with_data(key_command(0x01, &[round], 1, 2), &[n]).status
                }
            };
            let hosts: Vec<_> = (0..4).map(|n| scope.spawn(create(n))).collect();
            hosts.into_iter().map(|host| host.join().unwrap()).filter(|&s| s == 0).count()
        });
        assert_eq!(won, 1);
    }
}

#[test]
fn what_memory_can_answer_does_not_wait_for_a_worker() {
    let (store, target) = served();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    io.store(b"k", b"v");
    store.in_memory.store(true, SeqCst);
    let before = store.waits.load(SeqCst);
    assert_eq!(io.retrieve(b"k", 9).0, b"v");
    assert_eq!(io.retrieve(b"none", 9).1.status, 0x87);
    assert_eq!(store.waits.load(SeqCst), before);
}

#[test]
fn a_full_store_is_capacity_exceeded() {
    let (store, target) = served();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    store.full.store(true, SeqCst);
    assert_eq!(io.store(b"k", b"v").status, 0x81);
    store.full.store(false, SeqCst);
    assert_eq!(io.store(b"k", b"v").status, 0);
    assert_eq!(store.writes.load(SeqCst), 1);
}

#[test]
fn commands_that_wait_for_a_worker_are_aborted_and_what_it_has_begun_is_not() {
    let (store, target) = served();
    let (mut admin, mut io) = Wire::queues(target.address(), 0);
    store.in_memory.store(true, SeqCst);
    let gate = store.gate.lock().unwrap();
    // One key has one worker.
    let mut send = |value: &[u8]| {
        let mut sqe = key_command(0x01, b"k", value.len() as u32, 0);
        in_capsule(&mut sqe, value.len());
        io.send(&mut sqe, value)
    };
    let begun = send(b"first");
    wait_until("the worker has the first", || store.writes.load(SeqCst) > 0);
    let waiting = send(b"second");
    // Answered at once, when the other waits for its worker.
    assert_eq!(io.retrieve(b"none", 9).1.status, 0x87);
    assert!(!abort(&mut admin, 1, begun), "its worker has it");
    assert!(abort(&mut admin, 1, waiting));
    expect_done(&mut io, waiting, ABORTED);
    drop(gate);
    expect_done(&mut io, begun, 0);
    assert_eq!(io.retrieve(b"k", 9).0, b"first", "the other was never done");
}

/// Its space was taken before, and nothing is written to it again: to make space is of no use.
#[test]
fn a_log_that_finds_its_device_full_has_failed() {
    let (store, namespace, target) = served_with_namespace();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let cause = Error::io("write", "a log", std::io::ErrorKind::StorageFull.into());
    *store.broken.lock().unwrap() = Some(Error::LogFailed { cause: Arc::new(cause) });
    assert_eq!(io.store(b"k", b"v").status, 0x06, "not capacity exceeded");
    assert!(namespace.failures().unwrap().has_stopped());
}

#[test]
fn of_stores_that_wait_together_only_what_the_store_does_not_take_fails() {
    let (store, target) = served();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    store.batch_bytes_max.store(1000, SeqCst);
    store.in_memory.store(true, SeqCst);
    let gate = store.gate.lock().unwrap();
    // One key has one worker.
    for bytes in [1, 600, 2000, 700] {
        let mut sqe = key_command(0x01, b"k", bytes, 0);
        in_capsule(&mut sqe, bytes as usize);
        io.send(&mut sqe, &pattern(bytes as usize, 0));
        while store.writes.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
    }
    // Answered at once, when the others wait for their worker.
    assert_eq!(io.retrieve(b"none", 9).1.status, 0x87);
    drop(gate);
    let statuses = [(); 4].map(|()| io.completion().status);
    assert_eq!(statuses, [0, 0, 0x85, 0], "the third is too large by itself");
    assert!(io.retrieve(b"k", 1 << 10).0 == pattern(700, 0));
    assert_eq!(store.writes.load(SeqCst), 1 + 1 + 3, "alone, together, one by one");
}
