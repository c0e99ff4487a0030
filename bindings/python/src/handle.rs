//! The handle of a keyspace. Its methods for Python are in `keyspace`.

use crate::errors::OrRaise;
use crate::open::Open;
use esker::{Error, Value, WriteBatch};
use pyo3::prelude::*;
use std::sync::Arc;

/// An ordered set of keys with values, in a database.
///
/// It can be used like a dictionary. Keys and values are `bytes`; other buffers are copied. Threads may
/// share it. It does not keep the database open.
///
/// >>> users = db.keyspace("users")
/// >>> users[b"ada"] = b"analyst"
/// >>> users[b"ada"]
/// b'analyst'
/// >>> b"bob" in users
/// False
/// >>> users.get(b"bob", b"none")
/// b'none'
/// >>> del users[b"ada"]
/// >>> list(users)
/// []
#[pyclass(frozen, subclass, module = "esker")]
pub(crate) struct Keyspace {
    pub(crate) open: Arc<Open>,
    pub(crate) keyspace: esker::Keyspace,
}

impl Keyspace {
    /// The keyspace that a call names, or `own`.
    pub(crate) fn chosen<'a>(named: &'a Option<Bound<'_, Self>>, own: &'a Py<Self>) -> &'a Self {
        named.as_ref().map_or(own.get(), |named| named.get())
    }

    /// Reads `key`. What memory answers is read with the interpreter lock held.
    #[inline]
    pub(crate) fn read(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Value>> {
        match self.keyspace.try_get(key) {
            Err(Error::WouldBlock) => py.detach(|| self.keyspace.get(key)).or_raise(),
            answer => answer.or_raise(),
        }
    }

    pub(crate) fn write(
        &self,
        py: Python<'_>,
        sync: bool,
        fill: impl FnOnce(&mut WriteBatch),
    ) -> PyResult<()> {
        let mut batch = WriteBatch::new();
        fill(&mut batch);
        batch.set_sync(sync);
        self.open.with(py, |db| db.write(&batch))
    }

    pub(crate) fn put_synced(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: &[u8],
        sync: bool,
    ) -> PyResult<()> {
        match sync {
            false => py.detach(|| self.keyspace.put(key, value)).or_raise(),
            true => self.write(py, true, |batch| batch.put(&self.keyspace, key, value)),
        }
    }

    pub(crate) fn delete_synced(&self, py: Python<'_>, key: &[u8], sync: bool) -> PyResult<()> {
        match sync {
            false => py.detach(|| self.keyspace.delete(key)).or_raise(),
            true => self.write(py, true, |batch| batch.delete(&self.keyspace, key)),
        }
    }
}
