//! The load phase: every record once.

use super::Options;
use super::client::Client;
use crate::worker::share_of;
use crate::{Step, ValuePool, Worker, Workload, stream};
use esker_api::Ordered;
use esker_base::{Result, Rng};
use std::ops::Range;

/// Writes the records that a run starts with. Threads take turns in the order of the numbers.
#[derive(Debug)]
pub struct Load {
    options: Options,
    pool: ValuePool,
}

impl Load {
    /// The load of `options`, which must have passed [`Options::check`].
    pub fn new(options: &Options) -> Self {
        let pool =
            ValuePool::new(options.value_bytes(), &mut stream(options.seed, "load values", 0));
        Load { options: options.clone(), pool }
    }

    fn count(&self) -> u64 {
        let Range { start, end } = self.options.loaded();
        end - start
    }
}

impl Workload for Load {
    fn worker<'a>(
        &'a self,
        store: &'a dyn Ordered,
        thread: usize,
        _rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        let Range { start, end } = self.options.loaded();
        let client = Client::new(store, &self.options, &self.pool, thread, None);
        let step = self.options.threads as u64;
        Ok(Box::new(Loader { client, next: start + thread as u64, step, end }))
    }

    fn operations(&self) -> u64 {
        self.share(0)
    }

    fn share(&self, thread: usize) -> u64 {
        share_of(self.count(), self.options.threads, thread)
    }

    fn live_bytes(&self, operations: u64) -> Option<u64> {
        Some((operations as f64 * self.options.record_bytes()) as u64)
    }

    fn endless(&self) -> bool {
        false
    }

    fn looks_up(&self) -> bool {
        false
    }

    fn writes(&self) -> bool {
        true
    }
}

struct Loader<'a> {
    client: Client<'a>,
    next: u64,
    step: u64,
    end: u64,
}

impl Worker for Loader<'_> {
    fn step(&mut self) -> Result<Step> {
        if self.next >= self.end {
            return Ok(Step::END);
        }
        let number = self.next;
        self.next += self.step;
        self.client.insert(number)
    }
}
