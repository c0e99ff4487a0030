//! Memory of the engine that Python reads without a copy.

use esker::Value;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use std::ffi::c_int;

/// Bytes that never change, as a read-only buffer. They live as long as this object.
#[pyclass(frozen, module = "esker._esker")]
pub(crate) struct View {
    bytes: Bytes,
}

pub(crate) enum Bytes {
    Value(Value),
    Vec(Vec<u8>),
    /// Numbers as Arrow has them: in the byte order of the machine.
    Offsets(Vec<i32>),
}

impl View {
    pub(crate) fn new(bytes: Bytes) -> Self {
        View { bytes }
    }

    /// A memoryview over the value.
    pub(crate) fn over(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyMemoryView>> {
        let view = Bound::new(py, View::new(Bytes::Value(value)))?;
        PyMemoryView::from(view.as_any())
    }

    fn parts(&self) -> (*const u8, usize) {
        match &self.bytes {
            Bytes::Value(value) => (value.as_ptr(), value.len()),
            Bytes::Vec(bytes) => (bytes.as_ptr(), bytes.len()),
            Bytes::Offsets(offsets) => (offsets.as_ptr().cast(), size_of_val(&offsets[..])),
        }
    }
}

#[pymethods]
impl View {
    /// Lends the bytes.
    ///
    /// # Safety
    /// `view` is a buffer that Python wants filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (data, len) = slf.get().parts();
        // SAFETY: the bytes are in an object that does not move, is never changed, and is kept alive by
        // the reference that this call stores in `view`. They are lent read-only.
        let failed = unsafe {
            let object = slf.as_ptr();
            ffi::PyBuffer_FillInfo(view, object, data.cast_mut().cast(), len as isize, 1, flags)
        };
        match failed {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
