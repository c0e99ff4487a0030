//! A model whose answers can be spoilt.

use crate::Model;
use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::Result;

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
    /// A scan gives the same pair again.
    Repeats,
}

pub(super) struct Faulty {
    pub(super) model: Model,
    pub(super) fault: Fault,
}

impl Faulty {
    fn spoil(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let mut value = value.to_vec();
        match self.fault {
            Fault::None | Fault::Repeats => {}
            Fault::FlipsBits => *value.last_mut()? ^= 4,
            Fault::Truncates => drop(value.pop()),
            Fault::MixesKeys => value = self.model.pairs().into_iter().find(|p| p.0 != key)?.1,
            Fault::LosesRecords => return None,
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
        if self.store.fault != Fault::Repeats {
            self.inner.next()?;
        }
        self.take();
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
