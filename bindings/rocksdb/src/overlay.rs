//! A cursor over a database with the writes of a batch or of a transaction on top.
//!
//! Each move sees the writes as they are then, but none beyond the last of those that the cursor had
//! reached: for them it has to seek. The current entry stays as it was until the next move.

use crate::batch::indexed::SharedWrites;
use crate::border::Status;
use crate::database::Family;
use esker::{Cursor, Error, KeyRange, Result, Value};
use std::ops::Bound;
use std::sync::Arc;

/// Where the cursor is.
enum Position {
    Nowhere,
    /// At the entry of the database.
    Base,
    /// At a key that the writes change.
    Own(Vec<u8>, Value),
}

/// A cursor over `C`, whose entries the writes replace, delete or add to.
pub struct Overlay<C> {
    base: C,
    writes: SharedWrites,
    /// How often the writes had changed when `own` was found.
    changes: u64,
    range: KeyRange,
    family: Arc<Family>,
    /// The key of the writes that comes next in the direction, if there is one.
    own: Option<Vec<u8>>,
    is_forward: bool,
    position: Position,
}

impl<C: Cursor> Overlay<C> {
    /// Returns a cursor over `base`, which has the entries of `range`.
    pub fn new(base: C, writes: SharedWrites, range: KeyRange, family: Arc<Family>) -> Self {
        let (position, changes) = (Position::Nowhere, 0);
        Overlay { base, writes, changes, range, family, own: None, is_forward: true, position }
    }

    /// The first key of the writes at or after `from`, within the range.
    fn own_from(&self, from: Bound<&[u8]>) -> Option<Vec<u8>> {
        let writes = self.writes.read();
        let mut keys = writes.keys.range::<[u8], _>((from, Bound::Unbounded));
        let key = keys.find(|(key, _)| !self.range.starts_after(key)).map(|(key, _)| key)?;
        (!self.range.ends_before(key)).then(|| key.clone())
    }

    /// The last key of the writes up to `to`, within the range.
    fn own_to(&self, to: Bound<&[u8]>) -> Option<Vec<u8>> {
        let writes = self.writes.read();
        let mut keys = writes.keys.range::<[u8], _>((Bound::Unbounded, to)).rev();
        let key = keys.find(|(key, _)| !self.range.ends_before(key)).map(|(key, _)| key)?;
        (!self.range.starts_after(key)).then(|| key.clone())
    }

    fn step_own(&self, key: &[u8]) -> Option<Vec<u8>> {
        match self.is_forward {
            true => self.own_from(Bound::Excluded(key)),
            false => self.own_to(Bound::Excluded(key)),
        }
    }

    fn step_base(&mut self) -> Result<()> {
        if self.is_forward { self.base.next() } else { self.base.prev() }
    }

    /// Takes the next of both sides that has a value. Both are at or beyond it.
    fn settle(&mut self) -> Result<()> {
        self.position = Position::Nowhere;
        loop {
            let base = self.base.current();
            let Some(own) = &self.own else {
                self.position = if base.is_some() { Position::Base } else { Position::Nowhere };
                return Ok(());
            };
            let order = base.map(|(key, _)| match self.is_forward {
                true => key.cmp(own),
                false => own[..].cmp(key),
            });
            if order == Some(std::cmp::Ordering::Less) {
                self.position = Position::Base;
                return Ok(());
            }
            let stored = base.filter(|_| order == Some(std::cmp::Ordering::Equal));
            let stored = stored.map(|(_, value)| value);
            let (own, has_base) = (own.clone(), stored.is_some());
            let merge = self.family.merge.as_deref();
            // A copy: the merge operator may call this library, which may write.
            let pending = self.writes.read().keys.get(&own).cloned();
            let value = match pending {
                Some(pending) => {
                    pending.value(&own, stored, merge).map_err(|error| self.failed(&own, &error))?
                }
                // It was removed since.
                None => stored.map(Value::from),
            };
            match value {
                Some(value) => {
                    self.position = Position::Own(own, value);
                    return Ok(());
                }
                None => {
                    if has_base {
                        self.step_base()?;
                    }
                    self.own = self.step_own(&own);
                }
            }
        }
    }

    fn failed(&self, key: &[u8], error: &Status) -> Error {
        Error::MergeFailed {
            key: key.escape_ascii().to_string(),
            keyspace: self.family.name().to_owned(),
            what: error.message().to_owned(),
        }
    }

    /// Moves by one in a direction.
    fn step(&mut self, is_forward: bool) -> Result<()> {
        let Some((key, _)) = self.current() else { return Ok(()) };
        let key = key.to_vec();
        let changes = self.writes.read().changes;
        let is_changed = std::mem::replace(&mut self.changes, changes) != changes;
        if self.is_forward != is_forward {
            // The sides are beyond the entry in the other direction.
            self.is_forward = is_forward;
            self.position = Position::Nowhere;
            if is_forward {
                self.base.seek(&key)?;
                self.own = self.own_from(Bound::Included(&key));
            } else {
                self.base.seek_back(&key)?;
                self.own = self.own_to(Bound::Included(&key));
            }
        }
        if self.base.current().is_some_and(|(base, _)| base == key) {
            self.step_base()?;
        }
        // As in RocksDB, a side that has ended stays ended: writes beyond its end need a seek.
        if self.own.as_ref().is_some_and(|own| is_changed || *own == key) {
            self.own = self.step_own(&key);
        }
        self.settle()
    }

    fn go(
        &mut self,
        is_forward: bool,
        base: impl FnOnce(&mut C) -> Result<()>,
        own: impl FnOnce(&Self) -> Option<Vec<u8>>,
    ) -> Result<()> {
        (self.is_forward, self.position) = (is_forward, Position::Nowhere);
        self.changes = self.writes.read().changes;
        base(&mut self.base)?;
        self.own = own(self);
        self.settle()
    }
}

impl<C: Cursor> Cursor for Overlay<C> {
    fn seek_first(&mut self) -> Result<()> {
        self.go(true, C::seek_first, |own| own.own_from(Bound::Unbounded))
    }

    fn seek_last(&mut self) -> Result<()> {
        self.go(false, C::seek_last, |own| own.own_to(Bound::Unbounded))
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.go(true, |base| base.seek(key), |own| own.own_from(Bound::Included(key)))
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        self.go(false, |base| base.seek_back(key), |own| own.own_to(Bound::Included(key)))
    }

    fn next(&mut self) -> Result<()> {
        self.step(true)
    }

    fn prev(&mut self) -> Result<()> {
        self.step(false)
    }

    fn current(&self) -> Option<(&[u8], &[u8])> {
        match &self.position {
            Position::Nowhere => None,
            Position::Base => self.base.current(),
            Position::Own(key, value) => Some((key, value)),
        }
    }
}
