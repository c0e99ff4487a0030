//! A small engine around a DRAMTable: MemTables that are lists, tables that are maps, views that
//! are replaced as a whole, and every rule that the DRAMTable asks of its callers kept. It remembers
//! all that was ever written, so that it can say what each key was at each seqno.
#![allow(dead_code, reason = "each test file uses its part")]

use esker_base::{KeyspaceId, Seqno, hash64};
use esker_memtable::{DramTable, Forwarding};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use sync::{AtomicU64, Mutex, Ordering, lock};

#[cfg(not(loom))]
mod sync {
    pub use parking_lot::Mutex;
    pub use std::sync::atomic::{AtomicU64, Ordering};

    pub fn lock<T>(mutex: &Mutex<T>) -> parking_lot::MutexGuard<'_, T> {
        mutex.lock()
    }
}

#[cfg(loom)]
mod sync {
    pub use loom::sync::Mutex;
    pub use loom::sync::atomic::{AtomicU64, Ordering};

    pub fn lock<T>(mutex: &Mutex<T>) -> loom::sync::MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }
}

/// A key.
pub type K = u8;

pub const KS: KeyspaceId = KeyspaceId(3);

/// What is written.
#[derive(Clone, Debug)]
pub enum Op {
    Put(K, Vec<u8>),
    Delete(K),
    /// From a key up to, not including, another.
    DeleteRange(K, K),
}

/// Versions by key, newest first, and range deletes.
#[derive(Clone, Default, Debug)]
pub struct Versions {
    points: BTreeMap<(K, Reverse<Seqno>), Option<Vec<u8>>>,
    ranges: Vec<(K, K, Seqno)>,
}

impl Versions {
    fn add(&mut self, seqno: Seqno, op: &Op) {
        match op {
            Op::Put(key, value) => {
                self.points.insert((*key, Reverse(seqno)), Some(value.clone()));
            }
            Op::Delete(key) => {
                self.points.insert((*key, Reverse(seqno)), None);
            }
            Op::DeleteRange(start, end) => self.ranges.push((*start, *end, seqno)),
        }
    }

    fn newest(&self, key: K, snapshot: Seqno) -> Option<(Seqno, Option<&[u8]>)> {
        let mut versions = self.points.range((key, Reverse(snapshot))..=(key, Reverse(0)));
        versions.next().map(|((_, seqno), value)| (seqno.0, value.as_deref()))
    }

    /// The newest range delete over `key`, or 0.
    fn covering(&self, key: K, snapshot: Seqno) -> Seqno {
        let over = self
            .ranges
            .iter()
            .filter(|&&(start, end, seqno)| (start..end).contains(&key) && seqno <= snapshot);
        over.map(|range| range.2).max().unwrap_or(0)
    }

    /// The value of `key` at `snapshot`, if these are all versions there are.
    fn at(&self, key: K, snapshot: Seqno) -> Option<Vec<u8>> {
        let (seqno, value) = self.newest(key, snapshot)?;
        value.filter(|_| seqno >= self.covering(key, snapshot)).map(<[u8]>::to_vec)
    }
}

/// A MemTable.
struct Mem {
    versions: Mutex<Versions>,
    /// The last seqno given out.
    last: AtomicU64,
}

impl Mem {
    fn new(last: Seqno) -> Arc<Mem> {
        Arc::new(Mem { versions: Mutex::default(), last: AtomicU64::new(last) })
    }
}

#[derive(Clone)]
struct View {
    /// Newest first.
    mems: Vec<Arc<Mem>>,
    tables: Arc<Versions>,
}

/// What writers hold.
struct Tail {
    active: Arc<Mem>,
    next: Seqno,
    history: Versions,
}

/// See the file's head.
pub struct World {
    pub dram: DramTable,
    view: Mutex<Arc<View>>,
    visible: AtomicU64,
    tail: Mutex<Tail>,
    flushing: Mutex<()>,
}

impl World {
    pub fn new(bytes: usize, forwarding: Forwarding) -> World {
        let active = Mem::new(0);
        let view = View { mems: vec![active.clone()], tables: Arc::default() };
        World {
            dram: DramTable::new(bytes, forwarding),
            view: Mutex::new(Arc::new(view)),
            visible: AtomicU64::new(0),
            tail: Mutex::new(Tail { active, next: 1, history: Versions::default() }),
            flushing: Mutex::new(()),
        }
    }

    pub fn visible(&self) -> Seqno {
        self.visible.load(Ordering::Acquire)
    }

    /// Writes, publishes, and forwards: before it publishes if `early`, else whenever it gets there.
    pub fn write(&self, op: &Op, early: bool) -> Seqno {
        let mut tail = lock(&self.tail);
        let seqno = tail.next;
        tail.next += 1;
        tail.history.add(seqno, op);
        tail.active.last.store(seqno, Ordering::Release);
        lock(&tail.active.versions).add(seqno, op);
        if early {
            self.forward(seqno, op);
        }
        self.visible.store(seqno, Ordering::Release);
        drop(tail);
        if !early {
            self.forward(seqno, op);
        }
        seqno
    }

    fn forward(&self, seqno: Seqno, op: &Op) {
        match op {
            _ if !self.dram.wants_puts() => {}
            Op::Put(key, value) => self.dram.put(KS, &[*key], hash64(&[*key]), seqno, Some(value)),
            Op::Delete(key) => self.dram.put(KS, &[*key], hash64(&[*key]), seqno, None),
            Op::DeleteRange(..) => {}
        }
    }

    /// Seals the active MemTable and begins another.
    pub fn rotate(&self) {
        let mut tail = lock(&self.tail);
        tail.active = Mem::new(tail.next - 1);
        let active = tail.active.clone();
        self.change(|view| view.mems.insert(0, active));
    }

    /// Flushes the oldest immutable MemTable.
    pub fn flush(&self) -> bool {
        let _one_at_a_time = lock(&self.flushing);
        let view = self.pin();
        let (Some(oldest), true) = (view.mems.last(), view.mems.len() > 1) else { return false };
        let versions = lock(&oldest.versions).clone();
        self.pass(&versions, oldest.last.load(Ordering::Acquire));
        self.change(|view| {
            view.mems.pop();
            let mut tables = Versions::clone(&view.tables);
            tables.points.extend(versions.points);
            tables.ranges.extend(versions.ranges);
            view.tables = Arc::new(tables);
        });
        true
    }

    /// R2.
    fn pass(&self, versions: &Versions, through: Seqno) {
        if let Some(newest) = versions.ranges.iter().map(|range| range.2).max() {
            self.dram.raise_invalidation_floor(KS, newest);
        }
        let mut last = None;
        for ((key, seqno), value) in &versions.points {
            if last.replace(*key) != Some(*key) {
                let lives = seqno.0 >= versions.covering(*key, through);
                let value = value.as_deref().filter(|_| lives);
                self.dram.pass(KS, &[*key], hash64(&[*key]), seqno.0, value, through);
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut View)) {
        let mut current = lock(&self.view);
        let mut view = View::clone(&current);
        change(&mut view);
        *current = Arc::new(view);
    }

    fn pin(&self) -> Arc<View> {
        lock(&self.view).clone()
    }

    /// The values of `keys` now, all at one point in time.
    pub fn get(&self, keys: &[K]) -> Vec<Option<Vec<u8>>> {
        let view = self.pin();
        let visible = self.visible();
        // R1.
        let complete_to = view.mems[0].last.load(Ordering::Acquire);
        keys.iter().map(|&key| self.read(&view, key, visible.min(complete_to))).collect()
    }

    /// The value of `key` at a snapshot taken before.
    pub fn get_at(&self, key: K, snapshot: Seqno) -> Option<Vec<u8>> {
        self.read(&self.pin(), key, snapshot)
    }

    fn read(&self, view: &View, key: K, snapshot: Seqno) -> Option<Vec<u8>> {
        let (bytes, hash) = ([key], hash64(&[key]));
        let mut deleted_below = 0;
        for mem in &view.mems {
            let versions = lock(&mem.versions);
            deleted_below = versions.covering(key, snapshot).max(deleted_below);
            if let Some((seqno, value)) = versions.newest(key, snapshot) {
                let value = value.filter(|_| seqno >= deleted_below)?.to_vec();
                drop(versions);
                match self.dram.get_exact(KS, &bytes, hash, seqno, <[u8]>::to_vec) {
                    Some(copy) => assert_eq!(copy, value, "a copy of another version"),
                    None => self.dram.record_pmem_read(KS, &bytes, hash, seqno, &value),
                }
                return Some(value);
            }
        }
        if let Some(hit) = self.dram.get(KS, &bytes, hash, snapshot, <[u8]>::to_vec) {
            // R4.
            return (hit.seqno >= deleted_below).then_some(hit.value);
        }
        let (seqno, value) = view.tables.newest(key, snapshot)?;
        deleted_below = view.tables.covering(key, snapshot).max(deleted_below);
        // R3.
        let value = value.filter(|_| seqno >= deleted_below)?;
        self.dram.fill(KS, &bytes, hash, seqno, value, snapshot);
        Some(value.to_vec())
    }

    /// What `key` was at `snapshot`.
    pub fn truth(&self, key: K, snapshot: Seqno) -> Option<Vec<u8>> {
        lock(&self.tail).history.at(key, snapshot)
    }

    /// Asserts that `values` are what `keys` were at one point in time between two seqnos.
    pub fn assert_at_one_moment(
        &self,
        keys: &[K],
        values: &[Option<Vec<u8>>],
        between: std::ops::RangeInclusive<Seqno>,
    ) {
        let tail = lock(&self.tail);
        let history = &tail.history;
        let matches = |seqno: Seqno| {
            keys.iter().zip(values).all(|(&key, value)| history.at(key, seqno) == *value)
        };
        assert!(
            between.clone().any(matches),
            "{keys:?} never were {values:?} at once in {between:?}"
        );
    }

    /// Reads `keys` and checks what came.
    pub fn check(&self, keys: &[K]) {
        let from = self.visible();
        let values = self.get(keys);
        self.assert_at_one_moment(keys, &values, from..=self.visible());
    }
}
