//! Values of any size: put from a file of Python, and read a part at a time.

use crate::errors::{OrRaise, raised};
use crate::input::Input;
use esker::large_value::ValueReader;
use pyo3::exceptions::{PyIOError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::{Read, Seek, SeekFrom};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many bytes are read at once when all of a value is asked for.
const PART_BYTES: usize = 1 << 20;

/// Puts a value from `file`, by `put`.
pub(crate) fn put_from(
    py: Python<'_>,
    file: Bound<'_, PyAny>,
    put: impl FnOnce(&mut dyn Read) -> esker::Result<u64> + Send,
) -> PyResult<u64> {
    let mut from = Source { file: file.unbind(), failure: None };
    let written = py.detach(|| put(&mut from));
    match from.failure {
        Some(failure) => Err(failure),
        None => written.or_raise(),
    }
}

/// An object with a method `read`, as files have, and the exception that it raised.
struct Source {
    file: Py<PyAny>,
    failure: Option<PyErr>,
}

impl Source {
    fn next(&self, to: &mut [u8]) -> PyResult<usize> {
        Python::attach(|py| {
            let read = self.file.bind(py).call_method1("read", (to.len(),))?;
            let bytes: Input<'_> = read.extract()?;
            let part = to.get_mut(..bytes.len()).ok_or_else(|| {
                PyValueError::new_err("the file returned more bytes than it was asked for")
            })?;
            part.copy_from_slice(&bytes);
            Ok(bytes.len())
        })
    }
}

impl Read for Source {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        self.next(to).map_err(|failure| {
            self.failure = Some(failure);
            std::io::ErrorKind::Other.into()
        })
    }
}

/// What `esker.ValueReader` reads.
#[pyclass(frozen, module = "esker._esker")]
pub(crate) struct RawReader {
    /// The length of the value.
    #[pyo3(get)]
    size: u64,
    /// Waited for only without the interpreter's lock: another thread may be reading.
    reader: Mutex<ValueReader>,
}

impl RawReader {
    /// An `esker.ValueReader` over the value, or `None`.
    pub(crate) fn over(
        py: Python<'_>,
        reader: Option<ValueReader>,
    ) -> PyResult<Option<Bound<'_, PyAny>>> {
        let Some(reader) = reader else { return Ok(None) };
        let class = py.import("esker._reader")?.getattr("ValueReader")?;
        let raw = RawReader { size: reader.len(), reader: Mutex::new(reader) };
        Ok(Some(class.call1((raw,))?))
    }

    fn held(&self) -> MutexGuard<'_, ValueReader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The exception of a read that failed.
fn failed(error: std::io::Error) -> PyErr {
    let of_engine = error.get_ref().and_then(|source| source.downcast_ref::<esker::Error>());
    match of_engine {
        Some(error) => raised(error.clone()),
        None => PyIOError::new_err(error.to_string()),
    }
}

#[pymethods]
impl RawReader {
    /// Reads `size` bytes, or fewer at the end; without `size` all that are left.
    #[pyo3(signature = (size = None))]
    fn read<'py>(&self, py: Python<'py>, size: Option<usize>) -> PyResult<Bound<'py, PyBytes>> {
        let read = || {
            let mut reader = self.held();
            let start = reader.stream_position()?;
            let left = usize::try_from(reader.len().saturating_sub(start)).unwrap_or(usize::MAX);
            let size = left.min(size.unwrap_or(usize::MAX));
            let mut bytes = Vec::with_capacity(size.min(PART_BYTES));
            let taken = Read::take(&mut *reader, size as u64).read_to_end(&mut bytes);
            // After an exception the position is as it was.
            taken.inspect_err(|_| drop(reader.seek(SeekFrom::Start(start))))?;
            Ok(bytes)
        };
        Ok(PyBytes::new(py, &py.detach(read).map_err(failed)?))
    }

    /// Goes to a byte of the value.
    fn seek(&self, py: Python<'_>, offset: u64) -> PyResult<()> {
        py.detach(|| self.held().seek(SeekFrom::Start(offset))).map_err(failed)?;
        Ok(())
    }

    /// Returns the position.
    fn tell(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.held().stream_position()).map_err(failed)
    }
}
