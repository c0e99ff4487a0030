//! Gets.

use crate::distributions::{Distribution, Uniform};
use crate::{KeyBuffer, OperationKind, Step, Worker};
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
        let (found, bytes) = match self.store.get(key)? {
            Some(value) => (1, key.len() + value.len()),
            None => (0, 0),
        };
        Ok(Step {
            kind: OperationKind::Read,
            operations: 1,
            found,
            bytes: bytes as u64,
            ..Step::END
        })
    }
}
