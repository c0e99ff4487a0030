//! Writes alone, each key many times over: the load of the paper on level deduplication, which wrote
//! every key once and then nine times more on average.
//!
//! The threads first insert all keys, each taking the next one, and go on to updates of those that
//! are in the store, so its content stays the same size while the obsolete data in it grows. Keys are
//! scattered over the key space, in the order of their arrival as well as in that of their access frequency.
//! Threads **divide** the work, and workers that are made later go on where earlier ones stopped.
//!
//! * [`reads`]: what reads find afterwards, or meanwhile;
//! * `skew`: what dividing keys by access frequency can save; [`LimitLine`]: what such updates cost at least.

mod options;
pub mod reads;
mod scatter;
mod skew;

pub use esker_base::limit_line::{self, LimitLine};
pub use options::{Heat, Options};
pub use reads::Reads;

use crate::distributions::Distribution;
use crate::sequence::{Insert, InsertSequence};
use crate::worker::share_of;
use crate::{KeyBuffer, OperationKind, Step, ValuePool, Values, Worker, Workload, stream};
use esker_api::{KeyspaceRef, Ordered, WriteBatch};
use esker_base::{Result, Rng};
use scatter::Scatter;

/// Inserts, and updates after them.
#[derive(Debug)]
pub struct Updates {
    options: Options,
    pool: ValuePool,
    inserts: InsertSequence,
}

impl Updates {
    /// The load of `options`, which must have passed [`Options::check`].
    pub fn new(options: &Options) -> Self {
        let pool = ValuePool::new(options.value_bytes, &mut stream(options.seed, "values", 0));
        Updates { options: options.clone(), pool, inserts: InsertSequence::new(0) }
    }

    fn updater<'a>(&'a self, store: &'a dyn Ordered, thread: usize, rng: Rng) -> Updater<'a> {
        let options = &self.options;
        Updater {
            store,
            keyspace: store.keyspace_ref(),
            rng,
            heat: options.heat.distribution(),
            records: options.records,
            inserts: &self.inserts,
            values: self.pool.values_of(thread, options.threads),
            scatter: Scatter::new(options.key_bytes),
            key: KeyBuffer::new(options.key_bytes),
            batch: WriteBatch::new(),
        }
    }

    /// How many keys are in the store.
    fn inserted(&self) -> u64 {
        self.inserts.limit()
    }
}

impl Workload for Updates {
    fn worker<'a>(
        &'a self,
        store: &'a dyn Ordered,
        thread: usize,
        rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        Ok(Box::new(self.updater(store, thread, rng)))
    }

    fn operations(&self) -> u64 {
        self.share(0)
    }

    fn share(&self, thread: usize) -> u64 {
        share_of(self.options.writes(), self.options.threads, thread)
    }

    fn live_bytes(&self, _operations: u64) -> Option<u64> {
        Some(self.inserted() * self.options.pair_bytes())
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

struct Updater<'a> {
    store: &'a dyn Ordered,
    keyspace: KeyspaceRef,
    rng: Rng,
    heat: Box<dyn Distribution>,
    records: u64,
    inserts: &'a InsertSequence,
    values: Values<'a>,
    scatter: Scatter,
    key: KeyBuffer,
    batch: WriteBatch,
}

/// What comes next.
enum Next<'a> {
    Insert(Insert<'a>),
    Update(u64),
}

impl<'a> Updater<'a> {
    #[inline]
    fn next(&mut self) -> Next<'a> {
        if let Some(insert) = self.inserts.take_below(self.records) {
            return Next::Insert(insert);
        }
        // Others may still be at the last inserts. With very few keys those may be all there are.
        let mut there = self.inserts.limit();
        while there == 0 {
            std::thread::yield_now();
            there = self.inserts.limit();
        }
        Next::Update(self.heat.next(&mut self.rng, there))
    }
}

impl Worker for Updater<'_> {
    fn step(&mut self) -> Result<Step> {
        let next = self.next();
        let (kind, number) = match &next {
            Next::Insert(insert) => (OperationKind::Insert, insert.number),
            Next::Update(number) => (OperationKind::Update, *number),
        };
        let key = self.key.set(self.scatter.of(number));
        let value = self.values.next_value();
        self.batch.clear();
        self.batch.put(self.keyspace, key, value);
        self.store.write(&self.batch)?;
        if let Next::Insert(insert) = next {
            insert.done();
        }
        Ok(Step {
            kind,
            operations: 1,
            found: 0,
            bytes: (key.len() + value.len()) as u64,
            ..Step::END
        })
    }
}

#[cfg(test)]
mod tests;
