//! One thread's access to the records of a store: an operation each, by record number.

use super::record::Records;
use super::{Options, RecordKey, Update};
use crate::{OperationKind, Step, ValuePool};
use esker_api::{KeyRange, Ordered, Value, WriteBatch};
use esker_base::{KeyspaceId, Result, Rng};

/// A record to operate on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// Its number.
    pub(super) number: u64,
    /// Whether it must be in the store.
    pub(super) is_there: bool,
}

/// A store as its client sees it.
pub(super) struct Client<'a> {
    store: &'a dyn Ordered,
    keyspace: KeyspaceId,
    update: Update,
    fields: u64,
    key: RecordKey,
    records: Records<'a>,
    batch: WriteBatch,
    /// The key that a verified scan stood on before.
    before: Vec<u8>,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        store: &'a dyn Ordered,
        options: &Options,
        pool: &'a ValuePool,
        first_version: u64,
    ) -> Self {
        Client {
            store,
            keyspace: store.keyspace_id(),
            update: options.update,
            fields: options.fields as u64,
            key: RecordKey::new(options.key_order, options.key_digits),
            records: Records::new(options, pool, first_version),
            batch: WriteBatch::new(),
            before: Vec::new(),
        }
    }

    /// Writes a record that is not there.
    #[inline]
    pub(super) fn insert(&mut self, number: u64) -> Result<Step> {
        self.key.set(number);
        let bytes = self.put_whole()?;
        Ok(step(OperationKind::Insert, false, bytes))
    }

    /// Reads a record.
    #[inline]
    pub(super) fn read(&mut self, target: Target) -> Result<Step> {
        self.key.set(target.number);
        let value = self.get(target)?;
        Ok(step(OperationKind::Read, value.is_some(), self.pair_bytes(&value)))
    }

    /// Writes a record that is there.
    #[inline]
    pub(super) fn update(&mut self, target: Target, rng: &mut Rng) -> Result<Step> {
        self.key.set(target.number);
        let bytes = match self.update {
            Update::Whole => self.put_whole()?,
            Update::Field => self.get_and_put(target, rng)?.1,
        };
        Ok(step(OperationKind::Update, false, bytes))
    }

    /// Reads a record and writes it back, changed.
    #[inline]
    pub(super) fn read_modify_write(&mut self, target: Target, rng: &mut Rng) -> Result<Step> {
        self.key.set(target.number);
        let (found, bytes) = self.get_and_put(target, rng)?;
        Ok(step(OperationKind::ReadModifyWrite, found, bytes))
    }

    /// Reads `len` records in key order, starting with the one that is asked for.
    pub(super) fn scan(&mut self, target: Target, len: u64) -> Result<Step> {
        let start = self.key.set(target.number);
        let mut cursor = self.store.cursor(KeyRange::all())?;
        cursor.seek(start)?;
        let found = cursor.current().is_some_and(|(key, _)| key == start);
        if !found && target.is_there {
            self.records.check_absent(start)?;
        }
        let mut bytes = 0;
        for at in 0..len {
            if at > 0 {
                cursor.next()?;
            }
            let Some((key, value)) = cursor.current() else { break };
            if self.records.verifies() {
                self.records.check(key, value)?;
                if at > 0 {
                    self.records.check_order(&self.before, key)?;
                }
                self.before.clear();
                self.before.extend_from_slice(key);
            }
            bytes += key.len() + value.len();
        }
        Ok(step(OperationKind::Scan, found, bytes))
    }

    fn get(&self, target: Target) -> Result<Option<Value>> {
        let key = self.key.bytes();
        let value = self.store.get(key)?;
        match &value {
            Some(value) => self.records.check(key, value)?,
            None if target.is_there => self.records.check_absent(key)?,
            None => {}
        }
        Ok(value)
    }

    /// Whether the record was there, and the bytes that were moved. Nothing is written if not.
    fn get_and_put(&mut self, target: Target, rng: &mut Rng) -> Result<(bool, usize)> {
        let old = self.get(target)?;
        let read = self.pair_bytes(&old);
        let Some(old) = old else { return Ok((false, 0)) };
        let written = match self.update {
            Update::Whole => self.put_whole()?,
            Update::Field => {
                let field = rng.below(self.fields) as usize;
                let value = self.records.with_field(self.key.bytes(), &old, field);
                put(self.store, &mut self.batch, self.keyspace, self.key.bytes(), value)?
            }
        };
        Ok((true, read + written))
    }

    #[inline]
    fn put_whole(&mut self) -> Result<usize> {
        let value = self.records.whole(self.key.bytes());
        put(self.store, &mut self.batch, self.keyspace, self.key.bytes(), value)
    }

    fn pair_bytes(&self, value: &Option<Value>) -> usize {
        value.as_ref().map_or(0, |value| self.key.bytes().len() + value.len())
    }
}

#[inline]
fn put(
    store: &dyn Ordered,
    batch: &mut WriteBatch,
    keyspace: KeyspaceId,
    key: &[u8],
    value: &[u8],
) -> Result<usize> {
    batch.clear();
    batch.put(keyspace, key, value);
    store.write(batch)?;
    Ok(key.len() + value.len())
}

#[inline]
fn step(kind: OperationKind, found: bool, bytes: usize) -> Step {
    Step { kind, operations: 1, found: u64::from(found), bytes: bytes as u64 }
}
