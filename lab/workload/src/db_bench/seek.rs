//! Seeks.

use super::Options;
use crate::distributions::{Distribution, Uniform};
use crate::{KeyBuffer, OperationKind, Step, Worker};
use esker_api::{KeyRange, Ordered};
use esker_base::{Result, Rng};

/// Opens a cursor, seeks to a random key and reads some entries from there.
pub(super) struct Seek<'a> {
    store: &'a dyn Ordered,
    rng: Rng,
    num: u64,
    nexts: u64,
    key: KeyBuffer,
}

impl<'a> Seek<'a> {
    pub(super) fn new(store: &'a dyn Ordered, options: &Options, rng: Rng) -> Self {
        let key = KeyBuffer::new(options.key_bytes);
        Seek { store, rng, num: options.num, nexts: options.seek_nexts, key }
    }
}

impl Worker for Seek<'_> {
    fn step(&mut self) -> Result<Step> {
        let key = self.key.set(Uniform.next(&mut self.rng, self.num));
        let mut cursor = self.store.cursor(KeyRange::all())?;
        cursor.seek(key)?;
        let found = cursor.current().is_some_and(|(at, _)| at == key);
        let mut bytes = 0;
        for _ in 0..self.nexts {
            let Some((key, value)) = cursor.current() else { break };
            bytes += key.len() + value.len();
            cursor.next()?;
        }
        Ok(Step {
            kind: OperationKind::Scan,
            operations: 1,
            found: u64::from(found),
            bytes: bytes as u64,
            ..Step::END
        })
    }
}
