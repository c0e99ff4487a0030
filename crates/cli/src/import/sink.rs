//! Records into a keyspace: in write batches, or as tables that become visible at once.

use super::record::Record;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use esker::ingest::{BulkLoader, Ingested, SortedWriter};
use esker::{Db, Error, Keyspace, WriteBatch};
use esker_base::MAX_KEY_BYTES;

/// More than an entry's encoding adds to its key and value; and so much that a batch of an eighth of a
/// segment has no more entries than a batch may.
const ENTRY_OVERHEAD_BYTES: usize = 32;

/// How records get into the keyspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Batches are committed as they fill.
    Batches,
    /// The records are in order of their keys, and become visible at the end.
    Sorted,
    /// The records are sorted first, and become visible at the end.
    Bulk,
}

/// Collects records and commits them.
pub enum Sink<'a> {
    Batches(Batches<'a>),
    Sorted(Box<SortedWriter>),
    Bulk(BulkLoader),
}

impl<'a> Sink<'a> {
    /// A sink into `keyspace` whose batches end at `batch_bytes`, an eighth of a segment at most.
    pub fn new(way: Way, db: &'a Db, keyspace: &'a Keyspace, batch_bytes: usize) -> Outcome<Self> {
        Ok(match way {
            Way::Batches => Sink::Batches(Batches {
                db,
                keyspace,
                batch: WriteBatch::new(),
                bytes: 0,
                batch_bytes,
                committed: 0,
            }),
            Way::Sorted => Sink::Sorted(Box::new(db.sorted_writer(keyspace)?)),
            Way::Bulk => Sink::Bulk(db.bulk_loader(keyspace)?),
        })
    }

    /// Takes a record. The inner error says why the record can't be stored; nothing of it is.
    pub fn add(&mut self, record: &Record) -> Outcome<Result<(), String>> {
        let (key, value) = (&record.key[..], &record.value[..]);
        let added = match self {
            Sink::Batches(batches) => return batches.add(key, value),
            Sink::Sorted(writer) => writer.put(key, value),
            Sink::Bulk(loader) => loader.put(key, value),
        };
        match added {
            Err(
                error @ (Error::ValueTooLarge { .. }
                | Error::KeyTooLong { .. }
                | Error::EmptyKey
                | Error::NotSorted { .. }),
            ) => Ok(Err(error.to_string())),
            added => Ok(Ok(added?)),
        }
    }

    /// Commits what is left and has all of it survive power loss. Says how many records went in, also if not all
    /// did. Tables are ingested only if the input `is_complete`.
    pub fn finish(self, is_complete: bool, interrupt: &Interrupt) -> (u64, Outcome) {
        if let Sink::Batches(batches) = self {
            return batches.finish();
        }
        if !is_complete {
            return (0, Ok(()));
        }
        let ingest = || match self {
            Sink::Batches(_) => Ok(Ingested::default()),
            Sink::Sorted(writer) => writer.ingest(),
            Sink::Bulk(loader) => loader.ingest_while(&mut |_| !interrupt.is_set()),
        };
        match Progress::during("writing tables", ingest) {
            Ok(ingested) => (ingested.entries, Ok(())),
            Err(Error::Cancelled { .. }) => {
                (0, Err(Failure::Interrupted("interrupted; nothing was imported".into())))
            }
            Err(error) => (0, Err(error.into())),
        }
    }
}

/// Commits batch by batch.
pub struct Batches<'a> {
    db: &'a Db,
    keyspace: &'a Keyspace,
    batch: WriteBatch,
    /// By the same account as `batch_bytes`.
    bytes: usize,
    batch_bytes: usize,
    committed: u64,
}

impl Batches<'_> {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Outcome<Result<(), String>> {
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
            Err(
                error @ (Error::ValueTooLarge { .. }
                | Error::LargeValue(_)
                | Error::BatchTooLarge { .. }),
            ) => {
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

    fn finish(mut self) -> (u64, Outcome) {
        let ended = self.commit().and_then(|()| Ok(self.db.sync()?));
        (self.committed, ended)
    }
}
