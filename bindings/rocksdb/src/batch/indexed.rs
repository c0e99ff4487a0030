//! The writes of a batch or of a transaction, by key, for reads.

use super::wire::{Record, Wire};
use crate::border::{Result, Status};
use crate::merge::Operator;
use esker::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// The writes to one column family, by key, and how often they changed.
#[derive(Default)]
pub struct Writes {
    /// What becomes of each key.
    pub keys: BTreeMap<Vec<u8>, Pending>,
    /// Counts changes, so that an iterator notices them.
    pub changes: u64,
}

/// The writes to one column family. Iterators share them, and so see later ones.
#[derive(Clone, Default)]
pub struct SharedWrites(Arc<RwLock<Writes>>);

impl SharedWrites {
    /// The writes, which nothing changes meanwhile.
    pub fn read(&self) -> RwLockReadGuard<'_, Writes> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<Vec<u8>, Pending>)) {
        let mut writes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        writes.changes += 1;
        change(&mut writes.keys);
    }
}

/// What a batch does to a key: all of its records of the key in one.
#[derive(Clone, Debug)]
pub struct Pending {
    base: Base,
    /// Operands on the base, oldest first.
    operands: Vec<Vec<u8>>,
}

/// What the last put or delete of the key left.
#[derive(Clone, Debug)]
enum Base {
    /// There was none: the value of the database.
    Stored,
    Deleted,
    Value(Vec<u8>),
}

impl Pending {
    /// Whether the value depends on that of the database.
    pub fn needs_stored(&self) -> bool {
        matches!(self.base, Base::Stored)
    }

    /// The value of the key, if `stored` is that of the database.
    ///
    /// # Errors
    /// If there are operands, and the operator is missing or fails.
    pub fn value(
        &self,
        key: &[u8],
        stored: Option<&[u8]>,
        merge: Option<&Operator>,
    ) -> Result<Option<Value>> {
        let base = match &self.base {
            Base::Stored => stored,
            Base::Deleted => None,
            Base::Value(value) => Some(&value[..]),
        };
        if self.operands.is_empty() {
            return Ok(base.map(Value::from));
        }
        let operands: Vec<&[u8]> = self.operands.iter().map(Vec::as_slice).collect();
        let merged = merge.ok_or_else(Status::no_operator)?.full(key, base, &operands);
        let failed =
            |error| Status::new(crate::border::Code::Corruption, format!("merge: {error}"));
        merged.map(|value| Some(value.into())).map_err(failed)
    }
}

/// RocksDB's `rocksdb_writebatch_wi_t`, and the writes of a transaction.
#[derive(Default)]
pub struct Indexed {
    wire: Wire,
    families: BTreeMap<u32, SharedWrites>,
}

impl Indexed {
    /// The batch.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Adds a record. A range of keys cannot be deleted: RocksDB's batches with an index do not, either.
    pub fn push(&mut self, family: u32, record: Record<'_>) {
        if matches!(record, Record::DeleteRange(..)) {
            return;
        }
        self.wire.push(family, record);
        self.index(family, record);
    }

    /// Notes a record of a column family with timestamps, which no batch with an index can write: its write fails.
    pub fn push_impossible(&mut self) {
        self.wire.lacks_stamps = true;
    }

    fn index(&mut self, family: u32, record: Record<'_>) {
        let base_of = |base| Pending { base, operands: Vec::new() };
        self.families.entry(family).or_default().change(|keys| match record {
            Record::Put(key, value) => {
                keys.insert(key.to_vec(), base_of(Base::Value(value.to_vec())));
            }
            Record::Delete(key) | Record::SingleDelete(key) => {
                keys.insert(key.to_vec(), base_of(Base::Deleted));
            }
            Record::Merge(key, operand) => {
                let pending = keys.entry(key.to_vec()).or_insert_with(|| base_of(Base::Stored));
                pending.operands.push(operand.to_vec());
            }
            Record::DeleteRange(..) | Record::LogData(_) => {}
        });
    }

    /// Replaces all records by those of `wire`.
    ///
    /// # Errors
    /// If its bytes are damaged.
    pub fn replace(&mut self, wire: Wire) -> Result<()> {
        self.forget_keys();
        let mut records = wire.records();
        records.try_for_each(|record| record.map(|(family, record)| self.index(family, record)))?;
        drop(records);
        self.wire = wire;
        Ok(())
    }

    /// Removes all records and savepoints.
    pub fn clear(&mut self) {
        self.forget_keys();
        self.wire = Wire::default();
    }

    /// Empties the maps. They stay the same, because iterators share them.
    fn forget_keys(&self) {
        self.families.values().for_each(|writes| writes.change(BTreeMap::clear));
    }

    /// Sets a savepoint.
    pub fn set_savepoint(&mut self) {
        self.wire.set_savepoint();
    }

    /// Removes the records since the last savepoint, and the savepoint.
    ///
    /// # Errors
    /// If there is none.
    pub fn rollback_to_savepoint(&mut self) -> Result<()> {
        self.wire.rollback_to_savepoint()?;
        self.replace(self.wire.clone())
    }

    /// What the batch does to a key, if it does anything.
    pub fn find(&self, family: u32, key: &[u8]) -> Option<Pending> {
        self.families.get(&family)?.read().keys.get(key).cloned()
    }

    /// The writes to a column family, those that come later included.
    pub fn writes(&mut self, family: u32) -> SharedWrites {
        self.families.entry(family).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(batch: &Indexed, key: &[u8], stored: Option<&[u8]>) -> Option<Vec<u8>> {
        let operator = Operator::add_u64();
        let found = batch.find(0, key).expect("the batch has the key");
        found.value(key, stored, Some(&operator)).unwrap().map(Value::into_vec)
    }

    #[test]
    fn the_last_write_of_a_key_counts() {
        let mut batch = Indexed::default();
        batch.push(0, Record::Put(b"a", b"1"));
        batch.push(0, Record::Put(b"a", b"2"));
        batch.push(1, Record::Delete(b"a"));
        assert_eq!(value(&batch, b"a", None), Some(b"2".to_vec()));
        batch.set_savepoint();
        batch.push(0, Record::Delete(b"a"));
        assert_eq!(value(&batch, b"a", Some(b"9")), None);
        batch.rollback_to_savepoint().unwrap();
        assert_eq!((value(&batch, b"a", None), batch.wire().count()), (Some(b"2".to_vec()), 3));
        assert!(batch.find(0, b"b").is_none());
    }

    #[test]
    fn operands_are_merged_into_what_is_below() {
        let number = |number: u64| number.to_le_bytes();
        let mut batch = Indexed::default();
        batch.push(0, Record::Merge(b"a", &number(1)));
        batch.push(0, Record::Merge(b"a", &number(2)));
        assert_eq!(value(&batch, b"a", Some(&number(4))), Some(number(7).to_vec()));
        batch.push(0, Record::Delete(b"a"));
        batch.push(0, Record::Merge(b"a", &number(8)));
        assert_eq!(value(&batch, b"a", Some(&number(4))), Some(number(8).to_vec()));
        assert!(batch.find(0, b"a").unwrap().value(b"a", None, None).is_err(), "no operator");
    }
}
