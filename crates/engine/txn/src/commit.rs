//! A commit: lock what is not locked yet, test what has to be tested, write.

use crate::committing::WriteFootprint;
use crate::locks::LockKey;
use crate::transaction::{StoreTransaction, conflict};
use esker_api::{Concurrency, KeyRange, Keyspaces};
use esker_base::{Error, Result};
use std::ops::Bound;
use std::sync::Arc;

impl<S: Keyspaces> StoreTransaction<S> {
    /// Commits, up to giving back what is held.
    pub(crate) fn write_all(&mut self) -> Result<()> {
        self.check_writes()?;
        let store = &self.store;
        let batch = self.writes.batch();
        if self.reads.is_empty() {
            return if batch.is_empty() { Ok(()) } else { store.write(batch) };
        }
        let on_its_way = self.held.table().in_flight().enter(WriteFootprint::of(batch));
        self.validate_reads(&on_its_way.earlier)?;
        if batch.is_empty() { Ok(()) } else { store.write(batch) }
    }

    /// Holds the locks on all that is written, and knows that no other transaction has changed it.
    pub(crate) fn check_writes(&mut self) -> Result<()> {
        if self.options.concurrency == Concurrency::Optimistic {
            self.lock_writes()?;
            self.validate_writes()?;
        }
        Ok(())
    }

    /// Locks what an optimistic transaction wrote, and what it read for update.
    fn lock_writes(&mut self) -> Result<()> {
        let guarded = self.guarded.iter();
        let more = guarded.map(|(keyspace, key, _)| LockKey::new(*keyspace, key));
        self.held.lock_batch(self.writes.batch(), more, self.options.lock_timeout)
    }

    /// No other transaction has written what this transaction writes since its point in time, if it has one, nor what it read
    /// for update since it did.
    fn validate_writes(&self) -> Result<()> {
        let store = &self.store;
        if let Some(moment) = &self.moment {
            for entry in self.writes.batch().iter() {
                if store.changed_since(entry.keyspace, entry.key, moment)? {
                    return Err(conflict(entry.key));
                }
            }
        }
        for (keyspace, key, moment) in &self.guarded {
            if store.changed_since(*keyspace, key, moment)? {
                return Err(conflict(key));
            }
        }
        Ok(())
    }

    /// No other transaction has written what this transaction read since its point in time; see `in_flight`.
    pub(crate) fn validate_reads(&self, earlier: &[Arc<WriteFootprint>]) -> Result<()> {
        let store = &self.store;
        let moment = self.moment.as_ref().expect("reads have a snapshot");
        for (keyspace, key) in self.reads.keys() {
            if earlier.iter().any(|other| other.has_key(keyspace, key))
                || store.changed_since(keyspace, key, moment)?
            {
                return Err(conflict(key));
            }
        }
        for (keyspace, range) in self.reads.ranges() {
            if earlier.iter().any(|other| other.has_key_in(keyspace, range))
                || store.range_changed_since(keyspace, range, moment)?
            {
                return Err(range_conflict(range));
            }
        }
        Ok(())
    }
}

#[cold]
fn range_conflict(range: &KeyRange) -> Error {
    let end = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.escape_ascii().to_string(),
        Bound::Unbounded => String::new(),
    };
    Error::Conflict { key: format!("range {}..{}", end(&range.start), end(&range.end)) }
}
