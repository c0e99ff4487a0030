//! Rows read and written within one transaction.

use super::rows::Row;
use super::tables::{Table, Tables};
use esker_api::{KeyRange, Transaction};
use esker_base::{Error, Result};

/// A transaction that knows tables.
pub(super) struct Session<'s, 't> {
    transaction: &'s mut (dyn Transaction + 't),
    tables: &'s Tables,
    value: Vec<u8>,
}

impl<'s, 't> Session<'s, 't> {
    pub(super) fn new(transaction: &'s mut (dyn Transaction + 't), tables: &'s Tables) -> Self {
        Session { transaction, tables, value: Vec::new() }
    }

    /// A row that may not be there.
    pub(super) fn find<R: Row>(&mut self, key: &[u8]) -> Result<Option<R>> {
        let value = self.transaction.get(self.tables.id(R::TABLE), key)?;
        value.map(|value| decode(key, &value)).transpose()
    }

    /// A row.
    pub(super) fn read<R: Row>(&mut self, key: &[u8]) -> Result<R> {
        self.find(key)?.ok_or_else(|| missing(R::TABLE, key))
    }

    /// A row that is going to be changed.
    pub(super) fn lock<R: Row>(&mut self, key: &[u8]) -> Result<R> {
        let value = self.transaction.get_for_update(self.tables.id(R::TABLE), key)?;
        decode(key, &value.ok_or_else(|| missing(R::TABLE, key))?)
    }

    /// Whether an entry without fields is there; it is going to be changed.
    pub(super) fn lock_entry(&mut self, table: Table, key: &[u8]) -> Result<bool> {
        Ok(self.transaction.get_for_update(self.tables.id(table), key)?.is_some())
    }

    pub(super) fn write<R: Row>(&mut self, key: &[u8], row: &R) -> Result<()> {
        row.encode(&mut self.value);
        self.transaction.put(self.tables.id(R::TABLE), key, &self.value)
    }

    /// Writes an entry that has no fields.
    pub(super) fn write_entry(&mut self, table: Table, key: &[u8]) -> Result<()> {
        self.transaction.put(self.tables.id(table), key, b"")
    }

    pub(super) fn delete(&mut self, table: Table, key: &[u8]) -> Result<()> {
        self.transaction.delete(self.tables.id(table), key)
    }

    /// The first keys with this prefix, in order, up to `most`.
    pub(super) fn keys(
        &mut self,
        table: Table,
        prefix: &[u8],
        most: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let mut cursor =
            self.transaction.cursor(self.tables.id(table), KeyRange::prefix(prefix))?;
        let mut keys = Vec::new();
        cursor.seek_first()?;
        while keys.len() < most
            && let Some((key, _)) = cursor.current()
        {
            keys.push(key.to_vec());
            cursor.next()?;
        }
        Ok(keys)
    }

    /// Calls `visit` with every row from key `start` up to, not including, `end`.
    pub(super) fn scan<R: Row>(
        &mut self,
        start: &[u8],
        end: &[u8],
        mut visit: impl FnMut(&[u8], R),
    ) -> Result<()> {
        let range = KeyRange::of(start..end);
        let mut cursor = self.transaction.cursor(self.tables.id(R::TABLE), range)?;
        cursor.seek_first()?;
        while let Some((key, value)) = cursor.current() {
            visit(key, decode(key, value)?);
            cursor.next()?;
        }
        Ok(())
    }
}

/// The row that `value` is.
pub(super) fn decode<R: Row>(key: &[u8], value: &[u8]) -> Result<R> {
    R::decode(value).ok_or_else(|| Error::WrongAnswer {
        key: key.escape_ascii().to_string(),
        what: format!("its value is no row of table {}", R::TABLE.name()),
    })
}

fn missing(table: Table, key: &[u8]) -> Error {
    Error::WrongAnswer {
        key: key.escape_ascii().to_string(),
        what: format!("table {} has no such row; was it loaded with these options?", table.name()),
    }
}
