//! What the handles of a database share.

use crate::errors::OrRaise;
use esker::{Db, Error};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// A database until it is closed.
pub(crate) struct Open {
    db: RwLock<Option<Db>>,
    is_closed: AtomicBool,
    pub(crate) path: PathBuf,
}

impl Open {
    pub(crate) fn new(db: Db, path: PathBuf) -> Self {
        Open { db: RwLock::new(Some(db)), is_closed: AtomicBool::new(false), path }
    }

    /// Whether it is closed, for handles that would still answer from memory.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    pub(crate) fn db(&self) -> esker::Result<Db> {
        let db = self.db.read().unwrap_or_else(PoisonError::into_inner);
        db.clone().ok_or(Error::Closed)
    }

    /// Runs `work`, which may wait, without the interpreter lock.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Db) -> esker::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| work(&self.db()?)).or_raise()
    }

    /// Closes the database. Does nothing if it is closed.
    pub(crate) fn close(&self) -> esker::Result<()> {
        let db = self.db.write().unwrap_or_else(PoisonError::into_inner).take();
        self.is_closed.store(true, Ordering::Release);
        db.map_or(Ok(()), Db::close)
    }
}
