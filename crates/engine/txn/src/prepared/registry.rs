//! The prepared transactions of a store that is open, by their ids.
//!
//! An id is **busy** while a thread writes its record or its outcome. No other thread can use it
//! then: one that wants to decide it waits, and one that wants to prepare another transaction under
//! it fails. So each record is written once, and decided once.

use crate::committing::WriteFootprint;
use crate::locks::ParkedLocks;
use esker_api::WriteBatch;
use esker_base::{Error, PreparedError, Result};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the file's head.
#[derive(Default)]
pub(crate) struct Registry {
    ids: Mutex<BTreeMap<Box<[u8]>, Slot>>,
    /// Notified when an id is busy no more.
    settled: Condvar,
}

enum Slot {
    Busy,
    Prepared(Box<Prepared>),
}

/// A prepared transaction.
pub(crate) struct Prepared {
    /// Its writes.
    pub(crate) writes: WriteBatch,
    /// Entries of its record.
    pub(crate) parts: u32,
    /// Its locks.
    pub(crate) locks: ParkedLocks,
    /// Its place among serializable commits, if its reads were checked.
    pub(crate) entered: Option<Arc<WriteFootprint>>,
    /// Why it cannot be committed. Then it has no writes and no locks.
    pub(crate) damage: Option<Error>,
}

impl Registry {
    /// Makes `id` busy, for a transaction that is about to be prepared.
    pub(crate) fn reserve<'a>(&'a self, id: &'a [u8]) -> Result<Reservation<'a>> {
        let mut ids = self.ids.lock();
        if ids.contains_key(id) {
            return Err(Error::Prepared(PreparedError::IdInUse {
                id: id.escape_ascii().to_string(),
            }));
        }
        ids.insert(id.into(), Slot::Busy);
        Ok(Reservation { registry: self, id, outcome: None })
    }

    /// Takes the transaction prepared under `id`, to decide it. The id is busy until then.
    pub(crate) fn take<'a>(&'a self, id: &'a [u8]) -> Result<(Reservation<'a>, Box<Prepared>)> {
        let mut ids = self.ids.lock();
        loop {
            match ids.get_mut(id) {
                None => {
                    let id = id.escape_ascii().to_string();
                    return Err(Error::Prepared(PreparedError::Unknown { id }));
                }
                Some(Slot::Busy) => self.settled.wait(&mut ids),
                Some(slot) => match std::mem::replace(slot, Slot::Busy) {
                    Slot::Prepared(prepared) => {
                        return Ok((Reservation { registry: self, id, outcome: None }, prepared));
                    }
                    Slot::Busy => unreachable!("it was just seen"),
                },
            }
        }
    }

    /// What `describe` makes of each prepared transaction, ordered by id.
    pub(crate) fn list<T>(&self, describe: impl Fn(&[u8], &Prepared) -> T) -> Vec<T> {
        let ids = self.ids.lock();
        let prepared = ids.iter().filter_map(|(id, slot)| match slot {
            Slot::Busy => None,
            Slot::Prepared(prepared) => Some(describe(id, prepared)),
        });
        prepared.collect()
    }
}

/// An id that is busy. Dropping it frees the id, unless [`Reservation::fill`] has filled it.
pub(crate) struct Reservation<'a> {
    registry: &'a Registry,
    id: &'a [u8],
    outcome: Option<Box<Prepared>>,
}

impl Reservation<'_> {
    /// The id is that of `prepared` from now on.
    pub(crate) fn fill(mut self, prepared: Box<Prepared>) {
        self.outcome = Some(prepared);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut ids = self.registry.ids.lock();
        match self.outcome.take() {
            Some(prepared) => ids.insert(self.id.into(), Slot::Prepared(prepared)),
            None => ids.remove(self.id),
        };
        drop(ids);
        self.registry.settled.notify_all();
    }
}
