//! Writes alone, each key many times over: the load of the paper on level deduplication, which wrote
//! every key once and then nine times more on average.
//!
//! Each thread first inserts its share of the keys and then goes on to updates of anybody's, so the
//! store's content stays the same size while the garbage in it grows. Keys lie scattered over the
//! key space, in the order of their arrival as well as in that of their heat. Threads **divide** the
//! work.

mod options;
mod scatter;

pub use options::{Heat, Options};

use crate::distributions::{Distribution, Uniform, YCSB_THETA, Zipfian};
use crate::worker::share_of;
use crate::{KeyBuffer, OperationKind, Step, ValuePool, Values, Worker, Workload, stream};
use esker_api::{Ordered, WriteBatch};
use esker_base::{KeyspaceId, Result, Rng};
use scatter::Scatter;

/// Inserts, and updates after them.
#[derive(Debug)]
pub struct Updates {
    options: Options,
    pool: ValuePool,
}

impl Updates {
    /// The load of `options`, which must have passed [`Options::check`].
    pub fn new(options: &Options) -> Self {
        let pool = ValuePool::new(options.value_bytes, &mut stream(options.seed, "values", 0));
        Updates { options: options.clone(), pool }
    }

    fn updater<'a>(&'a self, store: &'a dyn Ordered, thread: usize, rng: Rng) -> Updater<'a> {
        let options = &self.options;
        Updater {
            store,
            keyspace: store.keyspace_id(),
            rng,
            heat: match options.heat {
                Heat::Uniform => Box::new(Uniform),
                Heat::Zipfian => Box::new(Zipfian::new(YCSB_THETA)),
            },
            records: options.records,
            values: self.pool.values(),
            next_insert: thread as u64,
            threads: options.threads as u64,
            scatter: Scatter::new(options.key_bytes),
            key: KeyBuffer::new(options.key_bytes),
            batch: WriteBatch::new(),
        }
    }

    fn inserts_of(&self, thread: usize) -> u64 {
        share_of(self.options.records, self.options.threads, thread)
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
        // Both remainders fall to the first threads.
        self.share(0)
    }

    fn share(&self, thread: usize) -> u64 {
        self.inserts_of(thread) + share_of(self.options.updates(), self.options.threads, thread)
    }

    fn live_bytes(&self, operations: u64) -> Option<u64> {
        let pair = (self.options.key_bytes + self.options.value_bytes) as u64;
        Some(operations.min(self.options.records) * pair)
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
    keyspace: KeyspaceId,
    rng: Rng,
    heat: Box<dyn Distribution>,
    records: u64,
    values: Values<'a>,
    next_insert: u64,
    threads: u64,
    scatter: Scatter,
    key: KeyBuffer,
    batch: WriteBatch,
}

impl Updater<'_> {
    #[inline]
    fn next(&mut self) -> (OperationKind, u64) {
        let number = self.next_insert;
        if number < self.records {
            self.next_insert += self.threads;
            return (OperationKind::Insert, number);
        }
        (OperationKind::Update, self.heat.next(&mut self.rng, self.records))
    }
}

impl Worker for Updater<'_> {
    fn step(&mut self) -> Result<Step> {
        let (kind, number) = self.next();
        let key = self.key.set(self.scatter.of(number));
        let value = self.values.next_value();
        self.batch.clear();
        self.batch.put(self.keyspace, key, value);
        self.store.write(&self.batch)?;
        Ok(Step { kind, operations: 1, found: 0, bytes: (key.len() + value.len()) as u64 })
    }
}

#[cfg(test)]
mod tests;
