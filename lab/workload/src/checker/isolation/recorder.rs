//! Runs transactions and notes what they do.

use super::{Action, History, Key, Operation, Outcome, Recorded, WriteId};
use esker_api::{KeyRange, KeyspaceRef, Transaction, TransactionOptions, Transactional, Value};
use esker_base::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Collects what the transactions of many threads do. See the [module](super).
pub struct Recorder {
    keyspace: KeyspaceRef,
    clock: AtomicU64,
    writes: AtomicU64,
    done: Mutex<Vec<Recorded>>,
}

/// A transaction that is being recorded. Dropping it rolls it back.
pub struct Recording<'a> {
    recorder: &'a Recorder,
    transaction: Box<dyn Transaction + 'a>,
    recorded: Recorded,
    over: bool,
}

impl Recorder {
    /// For transactions on `keyspace`, which is empty.
    pub fn new(keyspace: KeyspaceRef) -> Self {
        let (clock, writes) = (AtomicU64::new(0), AtomicU64::new(0));
        Recorder { keyspace, clock, writes, done: Mutex::default() }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Begins a transaction on `store`.
    pub fn begin<'a>(
        &'a self,
        store: &'a dyn Transactional,
        options: &TransactionOptions,
    ) -> Result<Recording<'a>> {
        let begun = self.tick();
        let recorded = Recorded {
            isolation: options.isolation,
            begun,
            operations: Vec::new(),
            ending: begun,
            ended: begun,
            outcome: Outcome::Aborted,
        };
        let transaction = store.begin(options)?;
        Ok(Recording { recorder: self, transaction, recorded, over: false })
    }

    /// What was recorded, once every transaction is over.
    pub fn into_history(self) -> History {
        History { transactions: self.done.into_inner().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Recording<'_> {
    fn note(&mut self, key: Key, action: Action) {
        let at = self.recorder.tick();
        self.recorded.operations.push(Operation { at, key, action });
    }

    /// Reads `key`.
    pub fn read(&mut self, key: Key) -> Result<Option<WriteId>> {
        let value = self.transaction.get(self.recorder.keyspace, &key.to_be_bytes())?;
        let seen = write_id(key, value)?;
        self.note(key, Action::Read(seen));
        Ok(seen)
    }

    /// Reads `key` for update.
    pub fn read_for_update(&mut self, key: Key) -> Result<Option<WriteId>> {
        let value = self.transaction.get_for_update(self.recorder.keyspace, &key.to_be_bytes())?;
        let seen = write_id(key, value)?;
        self.note(key, Action::ReadForUpdate(seen));
        Ok(seen)
    }

    /// Reads all keys from `first` up to, not including, `end`, by a cursor; backward if asked.
    pub fn scan(&mut self, first: Key, end: Key, back: bool) -> Result<()> {
        let range = KeyRange::of::<[u8; 8]>(&first.to_be_bytes()..&end.to_be_bytes());
        let mut seen = vec![None; (end - first) as usize];
        {
            let mut cursor = self.transaction.cursor(self.recorder.keyspace, range)?;
            if back {
                cursor.seek_last()?
            } else {
                cursor.seek_first()?
            };
            while let Some((key, value)) = cursor.current() {
                let key = Key::from_be_bytes(key.try_into().map_err(|_| wrong(first))?);
                let place = key.checked_sub(first).and_then(|at| seen.get_mut(at as usize));
                *place.ok_or_else(|| wrong(key))? = write_id(key, Some(value.into()))?;
                if back {
                    cursor.prev()?
                } else {
                    cursor.next()?
                };
            }
        }
        for (key, seen) in (first..end).zip(seen) {
            self.note(key, Action::Read(seen));
        }
        Ok(())
    }

    /// Writes `key`, with a value that names this write.
    pub fn write(&mut self, key: Key) -> Result<()> {
        let id = self.recorder.writes.fetch_add(1, Ordering::Relaxed) + 1;
        self.transaction.put(self.recorder.keyspace, &key.to_be_bytes(), &id.to_be_bytes())?;
        self.note(key, Action::Write(id));
        Ok(())
    }

    /// Commits.
    pub fn commit(mut self) -> Result<()> {
        self.recorded.ending = self.recorder.tick();
        self.over = true;
        let committed = self.transaction.commit();
        self.recorded.outcome = match &committed {
            Ok(()) => Outcome::Committed,
            Err(error) if error.is_transient() => Outcome::Aborted,
            Err(_) => Outcome::Unknown,
        };
        committed
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.recorded.ending = self.recorder.tick();
            // If that fails, it had ended by itself.
            let _ = self.transaction.rollback();
        }
        self.recorded.ended = self.recorder.tick();
        let mut done = self.recorder.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.push(self.recorded.clone());
    }
}

/// The write that a value names.
fn write_id(key: Key, value: Option<Value>) -> Result<Option<WriteId>> {
    let id = |value: Value| <[u8; 8]>::try_from(&value[..]).map(WriteId::from_be_bytes);
    value.map(id).transpose().map_err(|_| wrong(key))
}

fn wrong(key: Key) -> Error {
    Error::WrongAnswer { key: key.to_string(), what: "a pair that nobody wrote".to_owned() }
}
