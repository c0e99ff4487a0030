//! One thread's access to the records of a store: an operation each, by record number.

use super::history::Before;
use super::record::{Records, wrong_answer};
use super::scan_check::ScanCheck;
use super::verification::Verification;
use super::{Options, RecordKey, Update};
use crate::checker::Version;
use crate::{OperationKind, Step, ValuePool};
use esker_api::{KeyRange, KeyspaceRef, Ordered, Value, WriteBatch};
use esker_base::{Result, Rng};

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
    keyspace: KeyspaceRef,
    update: Update,
    fields: u64,
    key: RecordKey,
    records: Records<'a>,
    batch: WriteBatch,
    verification: Option<&'a Verification>,
    scan_check: Option<ScanCheck<'a>>,
}

/// The version of every record's first write. There is one load, and a run's versions are others.
const LOADED: Version = Version(1);

impl<'a> Client<'a> {
    pub(super) fn new(
        store: &'a dyn Ordered,
        options: &Options,
        pool: &'a ValuePool,
        thread: usize,
        verification: Option<&'a Verification>,
    ) -> Self {
        Client {
            store,
            keyspace: store.keyspace_ref(),
            update: options.update,
            fields: options.fields as u64,
            key: RecordKey::new(options.key_order, options.key_digits),
            records: Records::new(options, pool, thread),
            batch: WriteBatch::new(),
            verification,
            scan_check: verification.and_then(|found| found.scan_check(options)),
        }
    }

    /// Writes a record that is not there.
    #[inline]
    pub(super) fn insert(&mut self, number: u64) -> Result<Step> {
        self.key.set(number);
        let bytes = self.put_whole(number)?;
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
            Update::Whole => self.put_whole(target.number)?,
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
        if let Some(check) = &mut self.scan_check {
            check.begin(start, len);
        }
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
            let Some((key, value)) = cursor.current() else {
                if let Some(check) = &mut self.scan_check {
                    check.end()?;
                }
                break;
            };
            if let Some(check) = &mut self.scan_check {
                check.pair(key, self.records.version(key, value)?)?;
            }
            bytes += key.len() + value.len();
        }
        Ok(step(OperationKind::Scan, found, bytes))
    }

    fn get(&self, target: Target) -> Result<Option<Value>> {
        let key = self.key.bytes();
        let verification = self.verification;
        let before = verification.and_then(|found| found.history.before_read(target.number));
        let value = self.store.get(key)?;
        match &value {
            Some(value) => self.check(target.number, before, value)?,
            None if target.is_there => self.records.check_absent(key)?,
            None => {}
        }
        Ok(value)
    }

    /// Fails if a read of record `number`, which has just ended, can't have given `value`.
    #[inline]
    fn check(&self, number: u64, before: Option<Before>, value: &[u8]) -> Result<()> {
        let Some(verification) = self.verification else { return Ok(()) };
        let key = self.key.bytes();
        let version = self.records.version(key, value)?;
        let Some(before) = before else { return Ok(()) };
        let judged = verification.history.judge(number, before, version);
        judged.map_err(|stale| wrong_answer(key, &stale.to_string()))
    }

    /// Whether the record was there, and the bytes that were moved. Nothing is written if not.
    fn get_and_put(&mut self, target: Target, rng: &mut Rng) -> Result<(bool, usize)> {
        let old = self.get(target)?;
        let read = self.pair_bytes(&old);
        let Some(old) = old else { return Ok((false, 0)) };
        let written = match self.update {
            Update::Whole => self.put_whole(target.number)?,
            Update::Field => {
                let field = rng.below(self.fields) as usize;
                let version = self.begin_write(target.number);
                let value = self.records.with_field(self.key.bytes(), &old, field, version);
                let written =
                    put(self.store, &mut self.batch, self.keyspace, self.key.bytes(), value)?;
                self.end_write(target.number);
                written
            }
        };
        Ok((true, read + written))
    }

    #[inline]
    fn put_whole(&mut self, number: u64) -> Result<usize> {
        let version = self.begin_write(number);
        let value = self.records.whole(self.key.bytes(), version);
        let written = put(self.store, &mut self.batch, self.keyspace, self.key.bytes(), value)?;
        self.end_write(number);
        Ok(written)
    }

    #[inline]
    fn begin_write(&self, number: u64) -> Version {
        self.verification.map_or(LOADED, |verification| verification.history.begin(number))
    }

    /// Only where the write was acknowledged.
    #[inline]
    fn end_write(&self, number: u64) {
        if let Some(verification) = self.verification {
            verification.history.end(number);
        }
    }

    fn pair_bytes(&self, value: &Option<Value>) -> usize {
        value.as_ref().map_or(0, |value| self.key.bytes().len() + value.len())
    }
}

#[inline]
fn put(
    store: &dyn Ordered,
    batch: &mut WriteBatch,
    keyspace: KeyspaceRef,
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
    Step { kind, operations: 1, found: u64::from(found), bytes: bytes as u64, ..Step::END }
}
