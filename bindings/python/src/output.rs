//! What Python gets.

use esker::Value;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// The value as `bytes`, or `default`, or `None`.
#[inline]
pub(crate) fn or_default<'py>(
    py: Python<'py>,
    value: Option<Value>,
    default: Option<Bound<'py, PyAny>>,
) -> Bound<'py, PyAny> {
    match value {
        Some(value) => PyBytes::new(py, &value).into_any(),
        None => default.unwrap_or_else(|| py.None().into_bound(py)),
    }
}

/// The value as `bytes`, or a `KeyError`.
#[inline]
pub(crate) fn or_key_error<'py>(
    py: Python<'py>,
    value: Option<Value>,
    key: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    match value {
        Some(value) => Ok(PyBytes::new(py, &value)),
        None => Err(PyKeyError::new_err(PyBytes::new(py, key).unbind())),
    }
}

/// A list of `bytes` and `None`.
pub(crate) fn list<'py>(
    py: Python<'py>,
    values: Vec<Option<Value>>,
) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, values.into_iter().map(|value| value.map(|value| PyBytes::new(py, &value))))
}
