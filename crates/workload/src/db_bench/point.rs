//! Gets.

use crate::distributions::{Distribution, Uniform};
use crate::{KeyBuffer, Step, Worker};
use esker_api::Ordered;
use esker_base::{Result, Rng};

/// Gets random keys.
pub(super) struct Get<'a> {
    store: &'a dyn Ordered,
    rng: Rng,
    num: u64,
    key: KeyBuffer,
}

impl<'a> Get<'a> {
    pub(super) fn new(store: &'a dyn Ordered, num: u64, key_bytes: usize, rng: Rng) -> Self {
        Get { store, rng, num, key: KeyBuffer::new(key_bytes) }
    }
}

impl Worker for Get<'_> {
    fn step(&mut self) -> Result<Step> {
        let key = self.key.set(Uniform.next(&mut self.rng, self.num));
        Ok(match self.store.get(key)? {
            Some(value) => {
                Step { operations: 1, found: 1, bytes: (key.len() + value.len()) as u64 }
            }
            None => Step { operations: 1, found: 0, bytes: 0 },
        })
    }
}
