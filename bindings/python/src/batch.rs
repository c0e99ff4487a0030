//! Batches of writes.

use crate::handle::Keyspace;
use crate::input::{Bounds, Input, Seconds};
use crate::open::Open;
use esker::WriteBatch;
use esker::api::KeyspaceRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::sync::Arc;

/// Writes that are applied together, also to several keyspaces.
///
/// Leaving the `with` block writes them. After an exception in the block nothing is written.
///
/// >>> users, log = db.keyspace("users"), db.keyspace("log")
/// >>> with users.batch() as batch:
/// ...     batch[b"ada"] = b"analyst"
/// ...     batch.put(b"1", b"ada joined", keyspace=log)
/// >>> log[b"1"]
/// b'ada joined'
#[pyclass(module = "esker")]
pub(crate) struct Batch {
    open: Arc<Open>,
    default: KeyspaceRef,
    batch: WriteBatch,
}

impl Batch {
    pub(crate) fn new(keyspace: &Keyspace, sync: bool) -> Self {
        let mut batch = WriteBatch::new();
        batch.set_sync(sync);
        Batch { open: keyspace.open.clone(), default: (&keyspace.keyspace).into(), batch }
    }

    fn of(&self, keyspace: Option<Bound<'_, Keyspace>>) -> KeyspaceRef {
        keyspace.map_or(self.default, |keyspace| (&keyspace.get().keyspace).into())
    }
}

#[pymethods]
impl Batch {
    /// Adds a write that sets `key` to `value`, for the time `ttl` if it is given.
    #[pyo3(signature = (key, value, *, ttl = None, keyspace = None))]
    fn put(
        &mut self,
        key: Input<'_>,
        value: Input<'_>,
        ttl: Option<Seconds>,
        keyspace: Option<Bound<'_, Keyspace>>,
    ) {
        let keyspace = self.of(keyspace);
        match ttl {
            None => self.batch.put(keyspace, &*key, &*value),
            Some(Seconds(ttl)) => self.batch.put_with_ttl(keyspace, &*key, &*value, ttl),
        }
    }

    /// Adds a write that merges `operand` into the value of `key`.
    #[pyo3(signature = (key, operand, *, keyspace = None))]
    fn merge(&mut self, key: Input<'_>, operand: Input<'_>, keyspace: Option<Bound<'_, Keyspace>>) {
        self.batch.merge(self.of(keyspace), &*key, &*operand);
    }

    /// Adds a write that deletes `key`.
    #[pyo3(signature = (key, *, keyspace = None))]
    fn delete(&mut self, key: Input<'_>, keyspace: Option<Bound<'_, Keyspace>>) {
        self.batch.delete(self.of(keyspace), &*key);
    }

    /// Adds a write that deletes the keys of a range: see `Keyspace.delete_range`.
    #[pyo3(signature = (*, prefix = None, start = None, end = None, keyspace = None))]
    fn delete_range(
        &mut self,
        prefix: Option<Input<'_>>,
        start: Option<Input<'_>>,
        end: Option<Input<'_>>,
        keyspace: Option<Bound<'_, Keyspace>>,
    ) {
        let range = Bounds(prefix, start, end).range();
        self.batch.delete_range(self.of(keyspace), range);
    }

    /// Adds the writes of another batch.
    fn append(&mut self, other: PyRef<'_, Self>) {
        other.batch.iter().for_each(|entry| self.batch.push_stored(entry));
    }

    /// Writes the batch. It can be written again, or cleared for other writes.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        self.open.with(py, |db| db.write(&self.batch))
    }

    /// Removes all writes from the batch.
    fn clear(&mut self) {
        let sync = self.batch.wants_sync();
        self.batch.clear();
        self.batch.set_sync(sync);
    }

    /// How many bytes the writes need in the log, without a few bytes of header.
    #[getter]
    fn nbytes(&self) -> usize {
        self.batch.encoded().len()
    }

    #[getter]
    fn _is_closed(&self) -> bool {
        self.open.is_closed()
    }

    fn __len__(&self) -> usize {
        self.batch.len()
    }

    /// A batch without writes is a batch.
    fn __bool__(&self) -> bool {
        true
    }

    fn __setitem__(&mut self, key: Input<'_>, value: Input<'_>) {
        self.put(key, value, None, None);
    }

    fn __delitem__(&mut self, key: Input<'_>) {
        self.delete(key, None);
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __exit__(
        &mut self,
        py: Python<'_>,
        class: Option<Bound<'_, PyType>>,
        _error: Option<Bound<'_, PyAny>>,
        _trace: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        if class.is_none() {
            self.write(py)?;
        }
        self.clear();
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<esker.Batch of {} writes>", self.batch.len())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a batch cannot be pickled: fill it where it is written"))
    }
}
