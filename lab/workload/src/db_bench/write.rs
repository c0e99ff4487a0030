//! Puts and deletes.

use super::Options;
use crate::distributions::{Distribution, Uniform};
use crate::{KeyBuffer, OperationKind, Step, Values, Worker};
use esker_api::{KeyspaceRef, Ordered, WriteBatch};
use esker_base::{Result, Rng};

/// Puts keys in the order that `D` chooses, some to a batch.
pub(super) struct Put<'a, D> {
    store: &'a dyn Ordered,
    keyspace: KeyspaceRef,
    values: Values<'a>,
    rng: Rng,
    order: D,
    num: u64,
    entries: u64,
    key: KeyBuffer,
    batch: WriteBatch,
}

impl<'a, D: Distribution> Put<'a, D> {
    pub(super) fn new(
        store: &'a dyn Ordered,
        options: &Options,
        values: Values<'a>,
        rng: Rng,
        order: D,
    ) -> Self {
        Put {
            store,
            keyspace: store.keyspace_ref(),
            values,
            rng,
            order,
            num: options.num,
            entries: options.batch,
            key: KeyBuffer::new(options.key_bytes),
            batch: WriteBatch::new(),
        }
    }
}

impl<D: Distribution> Worker for Put<'_, D> {
    fn step(&mut self) -> Result<Step> {
        self.batch.clear();
        let mut bytes = 0;
        for _ in 0..self.entries {
            let key = self.key.set(self.order.next(&mut self.rng, self.num));
            let value = self.values.next_value();
            self.batch.put(self.keyspace, key, value);
            bytes += key.len() + value.len();
        }
        self.store.write(&self.batch)?;
        Ok(Step {
            kind: OperationKind::Update,
            operations: self.entries,
            found: 0,
            bytes: bytes as u64,
            ..Step::END
        })
    }
}

/// Deletes random keys, some to a batch.
pub(super) struct Delete<'a> {
    store: &'a dyn Ordered,
    keyspace: KeyspaceRef,
    rng: Rng,
    num: u64,
    entries: u64,
    key: KeyBuffer,
    batch: WriteBatch,
}

impl<'a> Delete<'a> {
    pub(super) fn new(store: &'a dyn Ordered, options: &Options, rng: Rng) -> Self {
        Delete {
            store,
            keyspace: store.keyspace_ref(),
            rng,
            num: options.num,
            entries: options.batch,
            key: KeyBuffer::new(options.key_bytes),
            batch: WriteBatch::new(),
        }
    }
}

impl Worker for Delete<'_> {
    fn step(&mut self) -> Result<Step> {
        self.batch.clear();
        for _ in 0..self.entries {
            let key = self.key.set(Uniform.next(&mut self.rng, self.num));
            self.batch.delete(self.keyspace, key);
        }
        self.store.write(&self.batch)?;
        let bytes = self.entries * self.key.bytes().len() as u64;
        Ok(Step {
            kind: OperationKind::Update,
            operations: self.entries,
            found: 0,
            bytes,
            ..Step::END
        })
    }
}
