//! Records into write batches.

use super::Record;
use crate::failure::Outcome;
use esker::{Db, Error, Keyspace, WriteBatch};
use esker_base::MAX_KEY_BYTES;

/// More than an entry's encoding adds to its key and value; and so much that a batch of an eighth of a
/// segment has no more entries than a batch may.
const ENTRY_OVERHEAD_BYTES: usize = 32;

/// Collects records and commits them batch by batch.
pub struct Sink<'a> {
    db: &'a Db,
    keyspace: &'a Keyspace,
    batch: WriteBatch,
    /// By the same account as `batch_bytes`.
    bytes: usize,
    batch_bytes: usize,
    committed: u64,
}

impl<'a> Sink<'a> {
    /// A sink into `keyspace` whose batches end at `batch_bytes`, an eighth of a segment at most.
    pub fn new(db: &'a Db, keyspace: &'a Keyspace, batch_bytes: usize) -> Self {
        Sink { db, keyspace, batch: WriteBatch::new(), bytes: 0, batch_bytes, committed: 0 }
    }

    /// Takes a record. The inner error says why the record can't be stored; nothing of it is.
    pub fn add(&mut self, record: &Record) -> Outcome<Result<(), String>> {
        let (key, value) = (&record.key[..], &record.value[..]);
        if key.is_empty() && !self.db.takes_empty_key() {
            return Ok(Err(Error::EmptyKey.to_string()));
        }
        if key.len() > MAX_KEY_BYTES {
            return Ok(Err(Error::KeyTooLong { bytes: key.len() }.to_string()));
        }
        let bytes = key.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        if self.bytes + bytes > self.batch_bytes {
            self.commit()?;
        }
        self.batch.put(self.keyspace, key, value);
        self.bytes += bytes;
        if bytes <= self.batch_bytes {
            return Ok(Ok(()));
        }
        // Alone in its batch, a large record is refused for itself.
        match self.db.write(&self.batch) {
            Ok(()) => {
                self.committed += 1;
                self.clear();
                Ok(Ok(()))
            }
            Err(error @ (Error::ValueTooLarge { .. } | Error::BatchTooLarge { .. })) => {
                self.clear();
                Ok(Err(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.bytes = 0;
    }

    fn commit(&mut self) -> Outcome {
        if !self.batch.is_empty() {
            self.db.write(&self.batch)?;
            self.committed += self.batch.len() as u64;
            self.clear();
        }
        Ok(())
    }

    /// Commits what is left and has all of it survive power loss. Says how many records went in, also if not all
    /// did.
    pub fn finish(mut self) -> (u64, Outcome) {
        let ended = self.commit().and_then(|()| Ok(self.db.sync()?));
        (self.committed, ended)
    }
}
