//! Large values under numbered keys: what a storage node is compared by.
//!
//! After Y. Park et al., *Design and Implementation of a Storage Server-based Key-Value Store in a Storage
//! Disaggregation Environment*: `db_bench`'s `fillseq` from several threads, of which the paper does not say whether
//! they all write the same keys, as `db_bench`'s do, or each its own. So there are both, and the reads that the paper
//! leaves to later.

use crate::distributions::{Distribution, Uniform};
use crate::{KeyBuffer, OperationKind, Step, ValuePool, Values, Worker, Workload, stream};
use esker_api::Ordered;
use esker_base::{Result, Rng};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Every thread writes all keys, in order.
    FillSame,
    /// Every thread writes its own range of the keys, in order.
    FillOwn,
    /// The threads together write all keys, in order: what reads are to find, soon there.
    FillTogether,
    /// Reads of random keys.
    Read,
    /// Half reads, half writes, of random keys.
    Half,
}

/// How much is done.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// What.
    pub access: Access,
    /// Keys that there are.
    pub keys: u64,
    /// The length of a key, which must hold so many numbers.
    pub key_bytes: usize,
    /// The length of a value.
    pub value_bytes: usize,
    /// Threads.
    pub threads: usize,
    /// The seed of all randomness.
    pub seed: u64,
}

/// The workload.
pub struct Shelf {
    options: Options,
    pool: ValuePool,
    /// The key to be written next, of those who write together.
    next: AtomicU64,
}

impl Shelf {
    /// The workload of `options`.
    pub fn new(options: &Options) -> Self {
        let pool = ValuePool::new(options.value_bytes, &mut stream(options.seed, "values", 0));
        Shelf { options: options.clone(), pool, next: AtomicU64::new(0) }
    }
}

impl Workload for Shelf {
    fn worker<'a>(
        &'a self,
        store: &'a dyn Ordered,
        thread: usize,
        rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        let Options { access, keys, key_bytes, threads, .. } = self.options;
        let together = &self.next;
        let next = match access {
            Access::FillOwn => thread as u64 * (keys / threads as u64),
            _ => 0,
        };
        let key = KeyBuffer::new(key_bytes);
        let values = self.pool.values();
        Ok(Box::new(Reacher { store, access, keys, next, together, key, values, rng }))
    }

    fn operations(&self) -> u64 {
        let Options { access, keys, threads, .. } = self.options;
        match access {
            // Of those who write together, one may come to write them all.
            Access::FillSame | Access::FillTogether => keys,
            Access::FillOwn | Access::Read | Access::Half => keys / threads as u64,
        }
    }

    fn endless(&self) -> bool {
        matches!(self.options.access, Access::Read | Access::Half)
    }

    fn looks_up(&self) -> bool {
        self.endless()
    }

    fn writes(&self) -> bool {
        self.options.access != Access::Read
    }
}

struct Reacher<'a> {
    store: &'a dyn Ordered,
    access: Access,
    keys: u64,
    /// The key to be written next, of those who write in order.
    next: u64,
    together: &'a AtomicU64,
    key: KeyBuffer,
    values: Values<'a>,
    rng: Rng,
}

impl Reacher<'_> {
    fn put(&mut self, number: u64) -> Result<Step> {
        let (key, value) = (self.key.set(number), self.values.next_value());
        self.store.put(key, value)?;
        let bytes = (key.len() + value.len()) as u64;
        Ok(Step { kind: OperationKind::Update, operations: 1, bytes, ..Step::END })
    }

    fn get(&mut self, number: u64) -> Result<Step> {
        let key = self.key.set(number);
        let value = self.store.get(key)?;
        let found = value.is_some().into();
        let bytes = value.map_or(0, |value| (key.len() + value.len()) as u64);
        Ok(Step { kind: OperationKind::Read, operations: 1, found, bytes, ..Step::END })
    }
}

impl Worker for Reacher<'_> {
    fn step(&mut self) -> Result<Step> {
        match self.access {
            Access::FillSame | Access::FillOwn => {
                self.next += 1;
                self.put(self.next - 1)
            }
            Access::FillTogether => match self.together.fetch_add(1, Relaxed) {
                number if number < self.keys => self.put(number),
                _ => Ok(Step::END),
            },
            Access::Half if self.rng.below(2) == 0 => {
                let number = Uniform.next(&mut self.rng, self.keys);
                self.put(number)
            }
            Access::Read | Access::Half => {
                let number = Uniform.next(&mut self.rng, self.keys);
                self.get(number)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;
    use esker_api::Kv;

    fn run(access: Access, model: &Model) -> u64 {
        let options =
            Options { access, keys: 30, key_bytes: 4, value_bytes: 100, threads: 3, seed: 1 };
        let shelf = Shelf::new(&options);
        let mut operations = 0;
        for thread in 0..3 {
            let mut worker = shelf.worker(model, thread, Rng::new(thread as u64)).unwrap();
            for _ in 0..shelf.operations() {
                let step = worker.step().unwrap();
                operations += step.operations;
                assert!(step.bytes == 104 * step.operations, "a read finds what a fill wrote");
            }
        }
        operations
    }

    #[test]
    fn all_fills_leave_the_same_keys() {
        for (access, operations) in
            [(Access::FillSame, 90), (Access::FillOwn, 30), (Access::FillTogether, 30)]
        {
            let model = Model::default();
            assert_eq!(run(access, &model), operations);
            for number in 0..30u32 {
                assert!(model.get(&number.to_be_bytes()).unwrap().is_some(), "{number}");
            }
            assert!(model.get(&30u32.to_be_bytes()).unwrap().is_none());
            run(Access::Read, &model);
            run(Access::Half, &model);
        }
    }
}
