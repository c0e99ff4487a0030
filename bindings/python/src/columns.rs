//! Chunks as the buffers of Apache Arrow's binary arrays.

use crate::chunk::{Chunk, Column};
use crate::view::{Bytes, View};
use pyo3::prelude::*;

/// Offsets and data of a column.
pub(crate) type Buffers = (Py<View>, Py<View>);

fn buffers(py: Python<'_>, column: Column) -> PyResult<Buffers> {
    let (offsets, data) = column.into_parts();
    let view = |bytes| Py::new(py, View::new(bytes));
    Ok((view(Bytes::Offsets(offsets))?, view(Bytes::Vec(data))?))
}

/// The number of entries, how many of them to skip, and the buffers of the keys and of the values.
pub(crate) type Columns = (usize, usize, Buffers, Option<Buffers>);

pub(crate) fn columns(
    py: Python<'_>,
    (chunk, passed): (Chunk, usize),
    with_values: bool,
) -> PyResult<Columns> {
    let rows = chunk.len();
    let values = with_values.then(|| buffers(py, chunk.values)).transpose()?;
    Ok((rows - passed, passed, buffers(py, chunk.keys)?, values))
}
