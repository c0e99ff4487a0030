//! The state of a transaction.

use crate::errors::OrRaise;
use crate::input::Seconds;
use crate::open::Open;
use esker::transaction::Concurrency;
use esker::{Error, Transaction, TransactionOptions};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A transaction that its iterators share.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) open: Arc<Open>,
    /// Counts writes and the end, so that an iterator notices that it read ahead of one.
    changes: AtomicU64,
}

#[expect(clippy::large_enum_variant, reason = "each is by itself in the memory of its transaction")]
enum State {
    Active(Transaction),
    Ended(&'static str),
}

impl Shared {
    pub(crate) fn new(transaction: Transaction, open: Arc<Open>) -> Self {
        let state = Mutex::new(State::Active(transaction));
        Shared { state, open, changes: AtomicU64::new(0) }
    }

    /// Says that a write follows.
    pub(crate) fn change(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// How it ended, or `None`. None, too, while another thread waits for a lock with it.
    pub(crate) fn ended(&self) -> Option<&'static str> {
        match self.state.try_lock().as_deref() {
            Ok(State::Ended(how)) => Some(how),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    pub(crate) fn with<T>(
        &self,
        step: impl FnOnce(&mut Transaction) -> esker::Result<T>,
    ) -> esker::Result<T> {
        if self.open.is_closed() {
            return Err(Error::Closed);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            State::Active(transaction) => step(transaction),
            State::Ended(how) => Err(Error::TransactionEnded { how }),
        }
    }

    pub(crate) fn end(
        &self,
        how: &'static str,
        end: impl FnOnce(Transaction) -> esker::Result<()>,
    ) -> esker::Result<()> {
        self.change();
        let ended = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            match &*state {
                State::Active(_) => std::mem::replace(&mut *state, State::Ended(how)),
                State::Ended(how) => return Err(Error::TransactionEnded { how }),
            }
        };
        match ended {
            State::Active(transaction) => end(transaction),
            State::Ended(_) => Ok(()),
        }
    }
}

pub(crate) fn options(
    isolation: &str,
    optimistic: bool,
    lock_timeout: Option<Seconds>,
) -> PyResult<TransactionOptions> {
    let options = TransactionOptions::default().isolation(isolation.parse().or_raise()?);
    let concurrency = if optimistic { Concurrency::Optimistic } else { Concurrency::Pessimistic };
    let lock_timeout = lock_timeout.map_or(options.lock_timeout, |Seconds(time)| time);
    Ok(options.concurrency(concurrency).lock_timeout(lock_timeout))
}
