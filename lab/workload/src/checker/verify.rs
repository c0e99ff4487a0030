//! Reads, writes and scans at random, every read judged.
//!
//! Each thread writes its own share of the keys (those whose number, modulo the number of threads,
//! is the thread's) and reads everybody's. A scan judges absent keys as well as present ones.

use super::{Ledger, MIN_VALUE_BYTES, Version, Write, read_stamp, write_stamp};
use crate::distributions::{Distribution, Uniform};
use crate::{KeyBuffer, OperationKind, Step, Worker, Workload};
use esker_api::{KeyRange, Ordered, WriteBatch};
use esker_base::{Result, Rng};
use std::sync::{Mutex, PoisonError};

/// The length of keys.
const KEY_BYTES: usize = 12;

/// The longest value, so that values of all sizes up to a table block's occur.
const MAX_VALUE_BYTES: u64 = 400;

/// The most keys that one scan covers, and the most entries of a batch.
const MAX_SPAN: u64 = 32;
const MAX_BATCH: u64 = 4;

/// A read that no correct store can have answered so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The key's number.
    pub number: u64,
    /// The version that had been acknowledged before the read.
    pub floor: Version,
    /// What was read.
    pub seen: Seen,
}

/// What a read of a key gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// No value.
    Absent,
    /// A whole value of the key.
    Version(Version),
    /// A value that was never written to this key.
    Damaged,
    /// An entry outside the range or out of order.
    Misplaced,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Violation { number, floor, seen } = self;
        write!(f, "key {number} had version {} acknowledged, and a read gave ", floor.0)?;
        match seen {
            Seen::Absent => f.write_str("nothing"),
            Seen::Version(version) => write!(f, "version {}", version.0),
            Seen::Damaged => f.write_str("a value that was never written to it"),
            Seen::Misplaced => f.write_str("it out of place in a scan"),
        }
    }
}

/// The verifying workload over one store that starts empty.
#[derive(Debug)]
pub struct Verify {
    ledger: Ledger,
    threads: u64,
    operations: u64,
    violations: Mutex<Vec<Violation>>,
}

impl Verify {
    /// For `keys` keys and `threads` threads of `operations` operations each.
    pub fn new(keys: u64, threads: usize, operations: u64) -> Self {
        let threads = threads as u64;
        assert!(keys >= threads && threads > 0, "each thread needs a key of its own");
        Verify { ledger: Ledger::new(keys), threads, operations, violations: Mutex::default() }
    }

    /// What was read that should not have been, in no order.
    pub fn violations(&self) -> Vec<Violation> {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The versions written, to go on checking with.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn judge(&self, number: u64, floor: Version, seen: Seen) {
        let is_allowed = match seen {
            Seen::Absent => self.ledger.allows(number, floor, None),
            Seen::Version(version) => self.ledger.allows(number, floor, Some(version)),
            Seen::Damaged | Seen::Misplaced => false,
        };
        if !is_allowed {
            let mut violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
            violations.push(Violation { number, floor, seen });
        }
    }
}

impl Workload for Verify {
    fn worker<'a>(
        &'a self,
        store: &'a dyn Ordered,
        thread: usize,
        rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        assert!((thread as u64) < self.threads, "there are {} threads", self.threads);
        Ok(Box::new(Verifier {
            verify: self,
            store,
            thread: thread as u64,
            rng,
            batch: WriteBatch::new(),
            begun: Vec::new(),
            value: Vec::new(),
        }))
    }

    fn operations(&self) -> u64 {
        self.operations
    }

    fn endless(&self) -> bool {
        true
    }

    fn looks_up(&self) -> bool {
        false
    }

    fn writes(&self) -> bool {
        true
    }
}

struct Verifier<'a> {
    verify: &'a Verify,
    store: &'a dyn Ordered,
    thread: u64,
    rng: Rng,
    batch: WriteBatch,
    begun: Vec<(u64, Version)>,
    value: Vec<u8>,
}

impl Verifier<'_> {
    /// Writes some of this thread's keys in one batch.
    fn write(&mut self) -> Result<()> {
        self.batch.clear();
        self.begun.clear();
        for _ in 0..=self.rng.below(MAX_BATCH) {
            let number = self.own_key();
            if self.begun.iter().any(|&(begun, _)| begun == number) {
                // The earlier of two versions in one batch must never be seen, and the ledger
                // could not tell.
                continue;
            }
            self.push(number);
        }
        self.store.write(&self.batch)?;
        for &(number, version) in &self.begun {
            self.verify.ledger.acknowledge(number, version);
        }
        Ok(())
    }

    fn own_key(&mut self) -> u64 {
        let (keys, threads) = (self.verify.ledger.keys(), self.verify.threads);
        let own = (keys - self.thread).div_ceil(threads);
        self.thread + threads * self.rng.below(own)
    }

    fn push(&mut self, number: u64) {
        let write = if self.rng.one_in(5) { Write::Delete } else { Write::Put };
        let version = self.verify.ledger.begin(number, write);
        self.begun.push((number, version));
        let mut key = KeyBuffer::new(KEY_BYTES);
        let key = key.set(number);
        match write {
            Write::Delete => self.batch.delete(self.store.keyspace_ref(), key),
            Write::Put => {
                let filler = self.rng.below(MAX_VALUE_BYTES - MIN_VALUE_BYTES as u64) as usize;
                self.value.resize(MIN_VALUE_BYTES + filler, 0);
                write_stamp(key, version, &mut self.value);
                self.batch.put(self.store.keyspace_ref(), key, &self.value);
            }
        }
    }

    /// Reads any key.
    fn get(&mut self) -> Result<()> {
        let number = Uniform.next(&mut self.rng, self.verify.ledger.keys());
        let mut key = KeyBuffer::new(KEY_BYTES);
        let key = key.set(number);
        let floor = self.verify.ledger.floor(number);
        let seen = match self.store.get(key)? {
            Some(value) => seen(key, &value),
            None => Seen::Absent,
        };
        self.verify.judge(number, floor, seen);
        Ok(())
    }

    /// Reads a range of keys through a cursor, in either direction.
    fn scan(&mut self) -> Result<()> {
        let keys = self.verify.ledger.keys();
        let start = self.rng.below(keys);
        let end = keys.min(start + 1 + self.rng.below(MAX_SPAN));
        let floors: Vec<_> = (start..end).map(|number| self.verify.ledger.floor(number)).collect();
        let found = self.read_range(start, end)?;
        let mut expected = (start..end).collect::<Vec<_>>();
        if found.is_down {
            expected.reverse();
        }
        let mut found = found.pairs.into_iter().peekable();
        for number in expected {
            let seen = found.next_if(|pair| pair.0 == number).map_or(Seen::Absent, |pair| pair.1);
            self.verify.judge(number, floors[(number - start) as usize], seen);
        }
        // Whatever is left was not where its order puts it.
        for (number, _) in found {
            self.verify.judge(number, Version::default(), Seen::Misplaced);
        }
        Ok(())
    }

    fn read_range(&mut self, start: u64, end: u64) -> Result<Found> {
        let (mut low, mut high) = (KeyBuffer::new(KEY_BYTES), KeyBuffer::new(KEY_BYTES));
        let range = KeyRange::of(low.set(start)..high.set(end));
        let mut cursor = self.store.cursor(range)?;
        let is_down = self.rng.one_in(2);
        if is_down {
            cursor.seek_last()?
        } else {
            cursor.seek_first()?
        }
        let mut pairs = Vec::new();
        // One pair more than fit, at most: a cursor that goes in circles is found out as well.
        while pairs.len() <= MAX_SPAN as usize
            && let Some((key, value)) = cursor.current()
        {
            pairs.push((KeyBuffer::number(key).unwrap_or(u64::MAX), seen(key, value)));
            if is_down { cursor.prev()? } else { cursor.next()? }
        }
        Ok(Found { is_down, pairs })
    }
}

/// What a scan read, in the order it came.
struct Found {
    is_down: bool,
    pairs: Vec<(u64, Seen)>,
}

fn seen(key: &[u8], value: &[u8]) -> Seen {
    read_stamp(key, value).map_or(Seen::Damaged, Seen::Version)
}

impl Worker for Verifier<'_> {
    fn step(&mut self) -> Result<Step> {
        let kind = match self.rng.below(10) {
            0..5 => {
                self.write()?;
                OperationKind::Update
            }
            5..9 => {
                self.get()?;
                OperationKind::Read
            }
            _ => {
                self.scan()?;
                OperationKind::Scan
            }
        };
        Ok(Step { kind, operations: 1, found: 0, ..Step::END })
    }
}

#[cfg(test)]
mod tests;
