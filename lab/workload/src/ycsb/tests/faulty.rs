//! A model whose answers can be spoilt.

use crate::Model;
use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::Result;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

/// What becomes of an answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Fault {
    None,
    /// A bit of the value is flipped.
    FlipsBits,
    /// The value is cut short.
    Truncates,
    /// The value is another key's.
    MixesKeys,
    /// There is none.
    LosesRecords,
    /// There is none of records that were not there in the beginning.
    LosesInserts,
    /// Writes of records that are there are dropped.
    LosesUpdates,
    /// The value is the one that the last write replaced.
    ServesPrevious,
    /// A scan gives one entry.
    EndsEarly,
    /// A scan gives every other entry.
    Skips,
    /// A scan gives the same entry again.
    Repeats,
}

pub(super) struct Faulty {
    pub(super) model: Model,
    fault: Fault,
    loaded: HashSet<Vec<u8>>,
    /// The values that writes replaced.
    previous: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
}

impl Faulty {
    pub(super) fn new(model: Model, fault: Fault) -> Self {
        let loaded = model.pairs().into_iter().map(|pair| pair.0).collect();
        Faulty { model, fault, loaded, previous: Mutex::default() }
    }

    fn spoil(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let mut value = value.to_vec();
        match self.fault {
            Fault::None | Fault::Repeats | Fault::EndsEarly | Fault::Skips => {}
            Fault::LosesUpdates => {}
            Fault::ServesPrevious => {
                value = self.previous.lock().unwrap().get(key).cloned().unwrap_or(value);
            }
            Fault::LosesInserts if self.loaded.contains(key) => {}
            Fault::FlipsBits => *value.last_mut()? ^= 4,
            Fault::Truncates => drop(value.pop()),
            Fault::MixesKeys => value = self.model.pairs().into_iter().find(|p| p.0 != key)?.1,
            Fault::LosesRecords | Fault::LosesInserts => return None,
        }
        Some(value)
    }
}

impl Kv for Faulty {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let value = self.model.get(key)?;
        Ok(value.and_then(|value| self.spoil(key, &value)).map(Value::from))
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        for entry in batch.iter() {
            let Some(value) = self.model.get(entry.key)? else { continue };
            if self.fault == Fault::LosesUpdates {
                return Ok(());
            }
            self.previous.lock().unwrap().insert(entry.key.to_vec(), value.to_vec());
        }
        self.model.write(batch)
    }
}

impl Ordered for Faulty {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let inner = self.model.cursor(range)?;
        Ok(Box::new(FaultyCursor { store: self, inner, current: None }))
    }

    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        self.model.cursor_at(range, snapshot)
    }

    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        self.model.get_at(key, snapshot)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        self.model.snapshot()
    }
}

struct FaultyCursor<'a> {
    store: &'a Faulty,
    inner: Box<dyn Cursor + 'a>,
    current: Option<(Vec<u8>, Vec<u8>)>,
}

impl FaultyCursor<'_> {
    fn take(&mut self) {
        self.current = self.inner.current().and_then(|(key, value)| {
            let spoilt = self.store.spoil(key, value)?;
            Some((key.to_vec(), spoilt))
        });
    }
}

impl Cursor for FaultyCursor<'_> {
    fn seek_first(&mut self) -> Result<()> {
        self.inner.seek_first()?;
        self.take();
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        self.inner.seek_last()?;
        self.take();
        Ok(())
    }
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.inner.seek(key)?;
        self.take();
        Ok(())
    }
    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        self.inner.seek_back(key)?;
        self.take();
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        let steps = match self.store.fault {
            Fault::Repeats => 0,
            Fault::Skips => 2,
            _ => 1,
        };
        for _ in 0..steps {
            self.inner.next()?;
        }
        self.take();
        if self.store.fault == Fault::EndsEarly {
            self.current = None;
        }
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        self.inner.prev()?;
        self.take();
        Ok(())
    }
    fn current(&self) -> Option<(&[u8], &[u8])> {
        self.current.as_ref().map(|(key, value)| (&key[..], &value[..]))
    }
}
