//! A batch that reads its own writes, over a store. It is no transaction: it locks nothing, and
//! checks nothing when it is written.

use crate::cursor::TransactionCursor;
use crate::write_set::{Place, WriteSet};
use esker_api::{Cursor, KeyRange, KeyspaceRef, Keyspaces, Value, WriteBatch};
use esker_base::Result;

/// A batch over the store that `S` is, or is a handle to. See the file's head.
pub struct StoreBatch<S: Keyspaces> {
    store: S,
    writes: WriteSet,
}

impl<S: Keyspaces> StoreBatch<S> {
    /// Returns an empty batch over `store`.
    pub fn new(store: S) -> Self {
        StoreBatch { store, writes: WriteSet::default() }
    }

    /// The store that it reads.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Its writes.
    pub fn batch(&self) -> &WriteBatch {
        self.writes.batch()
    }

    /// Changes its writes by `change`, which only adds to them.
    pub fn add(&mut self, change: impl FnOnce(&mut WriteBatch)) {
        change(self.writes.batch_mut());
    }

    /// Removes all writes and savepoints.
    pub fn clear(&mut self) {
        self.writes = WriteSet::default();
    }

    /// The value of `key`: that of the batch, or the newest of the store.
    ///
    /// # Errors
    /// Those of the store.
    pub fn get(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        let keyspace = self.store.resolve(keyspace)?;
        let Some((place, encoded)) = self.writes.find(keyspace, key) else {
            return self.store.get(keyspace, key);
        };
        match place {
            Place::Put(value) => Ok(Some(Value::from(&encoded[value.clone()]))),
            Place::Deleted => Ok(None),
            Place::Merged(merges) => {
                let stored = self.store.get(keyspace, key)?;
                let merge = |base: Option<&[u8]>, operands: &[&[u8]]| {
                    self.store.merged(keyspace, key, base, operands)
                };
                Ok(Some(merges.value(encoded, stored.as_deref(), merge)?.into()))
            }
        }
    }

    /// A cursor over `range` in the store at a new snapshot, with the batch's writes so far.
    ///
    /// # Errors
    /// Those of the store.
    pub fn cursor(
        &mut self,
        keyspace: KeyspaceRef,
        range: KeyRange,
    ) -> Result<Box<dyn Cursor + Send + '_>> {
        let keyspace = self.store.resolve(keyspace)?;
        let theirs = self.store.cursor_at(keyspace, range.clone(), &self.store.snapshot())?;
        match self.writes.of(keyspace) {
            None => Ok(theirs),
            own => {
                let store = &self.store;
                let merge = move |key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]| {
                    store.merged(keyspace, key, base, operands)
                };
                let cursor = TransactionCursor::new(theirs, own, range, None);
                Ok(Box::new(cursor.merging_by(Box::new(merge))))
            }
        }
    }

    /// Sets a savepoint.
    pub fn set_savepoint(&mut self) {
        self.writes.set_savepoint();
    }

    /// Undoes all writes since the last savepoint, and removes it.
    ///
    /// # Errors
    /// [`Error::NoSavepoint`](esker_base::Error::NoSavepoint) if there is none.
    pub fn rollback_to_savepoint(&mut self) -> Result<()> {
        self.writes.rollback_to_savepoint()
    }
}

impl<S: Keyspaces> std::fmt::Debug for StoreBatch<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreBatch").field("writes", &self.batch().len()).finish_non_exhaustive()
    }
}
