//! Snapshots.

use crate::errors::{OrRaise, closed};
use crate::handle::Keyspace;
use crate::input::{Bounds, Input, keys_of};
use crate::items::{From, Items, What};
use crate::output::{list, or_default, or_key_error};
use crate::reader::RawReader;
use esker::Value;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyType};
use pyo3::{PyTraverseError, PyVisit};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A consistent view of a database.
///
/// Its reads are of the keyspace that it was taken from, unless they name another. Close it, or leave its
/// `with` block, when it is no longer needed: compaction keeps what it sees.
#[pyclass(frozen, module = "esker")]
pub(crate) struct Snapshot {
    /// `None` once it is closed. A read that is in progress keeps its own.
    snapshot: Mutex<Option<Arc<esker::Snapshot>>>,
    keyspace: Py<Keyspace>,
}

impl Snapshot {
    pub(crate) fn new(keyspace: Bound<'_, Keyspace>) -> PyResult<Self> {
        let snapshot = keyspace.get().open.db().or_raise()?.snapshot();
        let snapshot = Mutex::new(Some(Arc::new(snapshot)));
        Ok(Snapshot { snapshot, keyspace: keyspace.unbind() })
    }

    /// Held for the time of a copy or an exchange only.
    fn held(&self) -> MutexGuard<'_, Option<Arc<esker::Snapshot>>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn at(&self) -> PyResult<Arc<esker::Snapshot>> {
        match &*self.held() {
            _ if self.keyspace.get().open.is_closed() => Err(closed("the database is closed")),
            Some(snapshot) => Ok(snapshot.clone()),
            None => Err(closed("the snapshot is closed")),
        }
    }

    fn read(
        &self,
        py: Python<'_>,
        key: &[u8],
        keyspace: Option<Bound<'_, Keyspace>>,
    ) -> PyResult<Option<Value>> {
        let (snapshot, keyspace) =
            (self.at()?, &Keyspace::chosen(&keyspace, &self.keyspace).keyspace);
        py.detach(|| snapshot.get(keyspace, key)).or_raise()
    }

    fn iterate(
        &self,
        py: Python<'_>,
        what: What,
        bounds: Bounds<'_>,
        reverse: bool,
        keyspace: Option<Bound<'_, Keyspace>>,
    ) -> PyResult<Items> {
        let snapshot = self.at()?;
        let from = (From::Snapshot(&snapshot), Keyspace::chosen(&keyspace, &self.keyspace));
        Items::new(py, from, bounds.range(), (what, reverse))
    }
}

#[pymethods]
impl Snapshot {
    /// Returns the value of `key`, or `default` if the key does not exist.
    #[pyo3(signature = (key, default = None, *, keyspace = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Input<'_>,
        default: Option<Bound<'py, PyAny>>,
        keyspace: Option<Bound<'py, Keyspace>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(or_default(py, self.read(py, &key, keyspace)?, default))
    }

    /// Returns the values of `keys` in their order, with `None` for each key that does not exist.
    #[pyo3(signature = (keys, *, keyspace = None))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: Bound<'py, PyAny>,
        keyspace: Option<Bound<'py, Keyspace>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let objects = keys_of(&keys)?;
        let keys: Vec<Input<'_>> =
            objects.iter().map(|key| key.extract()).collect::<PyResult<_>>()?;
        let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        let (snapshot, keyspace) =
            (self.at()?, &Keyspace::chosen(&keyspace, &self.keyspace).keyspace);
        list(py, py.detach(|| snapshot.multi_get(keyspace, keys)).or_raise()?)
    }

    /// Returns the value of `key` as a file that is open for reading, or `None`: see
    /// `Keyspace.get_reader`. The file may outlive the snapshot.
    #[pyo3(signature = (key, *, keyspace = None))]
    fn get_reader<'py>(
        &self,
        py: Python<'py>,
        key: Input<'_>,
        keyspace: Option<Bound<'py, Keyspace>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (snapshot, key) = (self.at()?, &*key);
        let keyspace = &Keyspace::chosen(&keyspace, &self.keyspace).keyspace;
        RawReader::over(py, py.detach(|| snapshot.get_reader(keyspace, key)).or_raise()?)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Input<'_>) -> PyResult<Bound<'py, PyBytes>> {
        or_key_error(py, self.read(py, &key, None)?, &key)
    }

    fn __contains__(&self, py: Python<'_>, key: Input<'_>) -> PyResult<bool> {
        Ok(self.read(py, &key, None)?.is_some())
    }

    /// Iterates over the keys.
    fn __iter__(&self, py: Python<'_>) -> PyResult<Items> {
        self.iterate(py, What::Keys, Bounds(None, None, None), false, None)
    }

    /// Iterates over entries: see `Keyspace.items`.
    #[pyo3(signature = (*, prefix = None, start = None, end = None, reverse = false, keyspace = None))]
    fn items(
        &self,
        py: Python<'_>,
        prefix: Option<Input<'_>>,
        start: Option<Input<'_>>,
        end: Option<Input<'_>>,
        reverse: bool,
        keyspace: Option<Bound<'_, Keyspace>>,
    ) -> PyResult<Items> {
        self.iterate(py, What::Items, Bounds(prefix, start, end), reverse, keyspace)
    }

    /// Iterates over keys: see `Keyspace.items`.
    #[pyo3(signature = (*, prefix = None, start = None, end = None, reverse = false, keyspace = None))]
    fn keys(
        &self,
        py: Python<'_>,
        prefix: Option<Input<'_>>,
        start: Option<Input<'_>>,
        end: Option<Input<'_>>,
        reverse: bool,
        keyspace: Option<Bound<'_, Keyspace>>,
    ) -> PyResult<Items> {
        self.iterate(py, What::Keys, Bounds(prefix, start, end), reverse, keyspace)
    }

    /// Iterates over values: see `Keyspace.items`.
    #[pyo3(signature = (*, prefix = None, start = None, end = None, reverse = false, keyspace = None))]
    fn values(
        &self,
        py: Python<'_>,
        prefix: Option<Input<'_>>,
        start: Option<Input<'_>>,
        end: Option<Input<'_>>,
        reverse: bool,
        keyspace: Option<Bound<'_, Keyspace>>,
    ) -> PyResult<Items> {
        self.iterate(py, What::Values, Bounds(prefix, start, end), reverse, keyspace)
    }

    /// Lets the snapshot go. Further calls raise `ClosedError`.
    fn close(&self) {
        let held = self.held().take();
        drop(held);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.keyspace)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        _class: Option<Bound<'_, PyType>>,
        _error: Option<Bound<'_, PyAny>>,
        _trace: Option<Bound<'_, PyAny>>,
    ) {
        self.close();
    }

    fn __repr__(&self) -> String {
        let closed = if self.held().is_none() { ", closed" } else { "" };
        format!("<esker.Snapshot of {:?}{closed}>", self.keyspace.get().open.path)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a snapshot cannot be pickled: it is of an open database"))
    }
}
