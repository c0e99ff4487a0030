//! Iterators over entries.

use crate::columns::{Columns, columns};
use crate::errors::OrRaise;
use crate::handle::Keyspace;
use crate::input::{Input, is_empty};
use crate::scan::{Scan, Source};
use crate::transaction_state::Shared;
use esker::KeyRange;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};
use std::sync::Arc;

/// What an iterator yields.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Items,
    Keys,
    Values,
    /// `None` for each entry.
    Nothing,
}

/// An iterator over the entries of a range, at a snapshot.
///
/// It can also go back, and be placed at a key. Its position is a gap between two entries: `next(it)`
/// returns the entry after the gap, and `it.prev()` the entry before it.
///
/// >>> for name in (b"ada", b"bob", b"eve"):
/// ...     db[name] = b""
/// >>> it = db.keys()
/// >>> next(it), next(it), it.prev()
/// (b'ada', b'bob', b'bob')
/// >>> it.seek(b"c")
/// >>> next(it)
/// b'eve'
///
/// It reads ahead, some entries at first and then more. In a transaction it sees the writes that the
/// transaction makes meanwhile.
#[pyclass(module = "esker", name = "Items")]
pub(crate) struct Items {
    /// `None` once it is closed.
    scan: Option<Scan>,
    what: What,
    is_reverse: bool,
}

impl Items {
    /// Over the entries of `source` in `range`.
    pub(crate) fn new(
        py: Python<'_>,
        (source, keyspace): (From<'_>, &Keyspace),
        range: KeyRange,
        (what, is_reverse): (What, bool),
    ) -> PyResult<Self> {
        let source = match source {
            _ if is_empty(&range) => Source::Nothing,
            From::Transaction(shared) => Source::Transaction {
                shared: shared.clone(),
                keyspace: (&keyspace.keyspace).into(),
                range,
                changes: shared.changes(),
            },
            From::Newest => {
                let cursor = py.detach(|| keyspace.keyspace.cursor(range)).or_raise()?;
                Source::Database(Box::new(cursor))
            }
            From::Snapshot(snapshot) => {
                let cursor = py.detach(|| snapshot.cursor(&keyspace.keyspace, range)).or_raise()?;
                Source::Database(Box::new(cursor))
            }
        };
        let with_values = matches!(what, What::Items | What::Values);
        let scan = Scan::new(source, keyspace.open.clone(), is_reverse, with_values);
        Ok(Items { scan: Some(scan), what, is_reverse })
    }

    /// Leaves `prefix` out of the keys, which all start with it.
    pub(crate) fn without_prefix(mut self, prefix: Vec<u8>) -> Self {
        self.scan = self.scan.map(|scan| scan.without_prefix(prefix));
        self
    }

    #[inline]
    fn scan(&mut self) -> PyResult<&mut Scan> {
        match &mut self.scan {
            Some(scan) => Ok(scan),
            None => Err(crate::errors::closed("the iterator is closed")),
        }
    }

    #[inline]
    fn step<'py>(&mut self, py: Python<'py>, is_back: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        let what = self.what;
        let scan = self.scan()?;
        let at = match scan.step_in_chunk(is_back).or_raise()? {
            Some(at) => at,
            None => match py.detach(|| scan.step(is_back)).or_raise()? {
                Some(at) => at,
                None => return Ok(None),
            },
        };
        let bytes = |bytes| PyBytes::new(py, bytes).into_any();
        Ok(Some(match what {
            What::Items => {
                PyTuple::new(py, [bytes(scan.key(at)), bytes(scan.value(at))])?.into_any()
            }
            What::Keys => bytes(scan.key(at)),
            What::Values => bytes(scan.value(at)),
            What::Nothing => py.None().into_bound(py),
        }))
    }
}

/// What an iterator reads.
pub(crate) enum From<'a> {
    Newest,
    Snapshot(&'a esker::Snapshot),
    Transaction(&'a Arc<Shared>),
}

#[pymethods]
impl Items {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[inline]
    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.step(py, self.is_reverse)
    }

    /// Returns the entry before the position, and moves before it. Raises `StopIteration` if there is
    /// none.
    fn prev<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let entry = self.step(py, !self.is_reverse)?;
        entry.ok_or_else(|| pyo3::exceptions::PyStopIteration::new_err(()))
    }

    /// Moves before the first entry whose key is `key` or after it, also if the iterator is reversed.
    fn seek(&mut self, key: Input<'_>) -> PyResult<()> {
        self.scan()?.seek(&key);
        Ok(())
    }

    /// Moves before the first entry of the range.
    fn seek_to_start(&mut self) -> PyResult<()> {
        self.scan()?.seek_start();
        Ok(())
    }

    /// Moves after the last entry of the range.
    fn seek_to_stop(&mut self) -> PyResult<()> {
        self.scan()?.seek_stop();
        Ok(())
    }

    /// Returns a list of the next entries, at most `count`. It is empty at the end.
    ///
    /// >>> db[b"ada"], db[b"bob"], db[b"eve"] = b"1", b"2", b"3"
    /// >>> it = db.values()
    /// >>> it.fetch(2)
    /// [b'1', b'2']
    /// >>> it.fetch(2)
    /// [b'3']
    fn fetch<'py>(&mut self, py: Python<'py>, count: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut entries = Vec::new();
        while entries.len() < count
            && let Some(entry) = self.step(py, self.is_reverse)?
        {
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Returns the rest as a `pyarrow.RecordBatchReader`, with the columns `key` and `value`.
    ///
    /// A batch has at most `batch_size` rows, and fewer if they have more than 64 MiB. Its memory is
    /// that of the engine: nothing is copied for Arrow. `pyarrow` has to be installed.
    ///
    /// >>> db[b"ada"], db[b"bob"] = b"analyst", b"builder"
    /// >>> db.items().to_arrow().read_all().column("key").to_pylist()
    /// [b'ada', b'bob']
    #[pyo3(signature = (batch_size = 65536))]
    fn to_arrow<'py>(slf: Bound<'py, Self>, batch_size: usize) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("esker._arrow")?.call_method1("reader", (slf, batch_size))
    }

    /// Raises `ClosedError` if the iterator or the database is closed.
    fn _check_open(&mut self) -> PyResult<()> {
        self.scan()?.check_open().or_raise()
    }

    #[getter]
    fn _has(&self) -> (bool, bool) {
        (self.what != What::Values, matches!(self.what, What::Items | What::Values))
    }

    fn _columns(&mut self, py: Python<'_>, rows: usize) -> PyResult<Columns> {
        let is_reverse = self.is_reverse;
        let with_values = self._has().1;
        let scan = self.scan()?;
        let taken = py.detach(|| scan.take(is_reverse, rows.max(1))).or_raise()?;
        columns(py, taken, with_values)
    }

    /// `Items[bytes]`, for annotations.
    #[classmethod]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        yielded: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        class.py().import("types")?.getattr("GenericAlias")?.call1((class, yielded))
    }

    /// Frees what the iterator holds. Further calls raise `ClosedError`.
    fn close(&mut self) {
        self.scan = None;
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __exit__(
        &mut self,
        _class: Option<Bound<'_, PyType>>,
        _error: Option<Bound<'_, PyAny>>,
        _trace: Option<Bound<'_, PyAny>>,
    ) {
        self.close();
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("an iterator cannot be pickled: pass a list of its entries"))
    }
}
