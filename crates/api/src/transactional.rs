//! Transactions. The traits stand here so that workloads can be written against them; the
//! transactions over Esker's own store arrive with their crate.

use crate::{Ordered, Value};
use esker_base::Result;

/// A store that runs transactions.
pub trait Transactional: Ordered {
    /// Starts a transaction.
    fn begin(&self) -> Result<Box<dyn Transaction + '_>>;
}

/// Reads and writes that commit together, isolated from others, or not at all. Dropping it rolls
/// it back.
pub trait Transaction {
    /// The value of `key` as this transaction sees it.
    fn get(&mut self, key: &[u8]) -> Result<Option<Value>>;
    /// Like `get`, and others may not change `key` until the end.
    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Value>>;
    /// Sets `key` to `value`.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Removes `key`.
    fn delete(&mut self, key: &[u8]) -> Result<()>;
    /// Makes all writes visible and durable together.
    fn commit(self: Box<Self>) -> Result<()>;
}
