//! What Python passes.

use crate::errors::invalid;
use esker::KeyRange;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes};
use std::ops::{Bound as End, Deref};
use std::time::Duration;

/// Bytes. Those of a `bytes` object never change, so they are borrowed. Those of another buffer are
/// copied: another thread may change them once the interpreter lock is released.
pub(crate) enum Input<'a> {
    Lent(&'a [u8]),
    Copied(Vec<u8>),
}

impl Deref for Input<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Input::Lent(bytes) => bytes,
            Input::Copied(bytes) => bytes,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Input<'a> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.cast::<PyBytes>() {
            Ok(_) => Ok(Input::Lent(object.extract()?)),
            Err(_) => copy(object),
        }
    }
}

#[cold]
fn copy<'a>(object: Borrowed<'_, '_, PyAny>) -> PyResult<Input<'a>> {
    let py = object.py();
    let buffer = PyBuffer::<u8>::get(&object).map_err(|_| {
        let kind = object.get_type();
        let hint = match kind.name() {
            Ok(name) if name == "str" => ": encode the text",
            Ok(name) if name == "memoryview" || name == "array" => {
                " of other items: cast it to bytes"
            }
            _ => "",
        };
        PyTypeError::new_err(format!(
            "keys and values are bytes or buffers of bytes, not {kind}{hint}"
        ))
    })?;
    Ok(Input::Copied(buffer.to_vec(py)?))
}

/// A time: a `timedelta`, or a number of seconds.
pub(crate) struct Seconds(pub(crate) Duration);

impl<'a, 'py> FromPyObject<'a, 'py> for Seconds {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Some(duration) = duration(&object)? {
            return Ok(Seconds(duration));
        }
        let is_bool = object.is_instance_of::<PyBool>();
        let seconds = object.extract::<f64>().ok().filter(|_| !is_bool).ok_or_else(|| {
            let kind = object.get_type();
            PyTypeError::new_err(format!(
                "a time is a number of seconds or a timedelta, not {kind}"
            ))
        })?;
        let duration = Duration::try_from_secs_f64(seconds);
        Ok(Seconds(duration.map_err(|why| PyValueError::new_err(format!("{seconds} s: {why}")))?))
    }
}

/// The time of a `timedelta`, or `None` if it is none.
fn duration(object: &Borrowed<'_, '_, PyAny>) -> PyResult<Option<Duration>> {
    match object.extract::<Duration>() {
        Ok(duration) => Ok(Some(duration)),
        Err(error) if error.is_instance_of::<PyValueError>(object.py()) => {
            Err(PyValueError::new_err(format!("a time cannot be negative, as {} is", **object)))
        }
        Err(_) => Ok(None),
    }
}

/// The keys that start with `prefix`, from `start` on, up to and without `end`.
fn range(prefix: Option<&[u8]>, start: Option<&[u8]>, end: Option<&[u8]>) -> KeyRange {
    let mut range = prefix.map_or_else(KeyRange::all, KeyRange::prefix);
    if let Some(start) = start
        && !range.starts_after(start)
    {
        range.start = End::Included(start.to_vec());
    }
    if let Some(end) = end
        && !matches!(&range.end, End::Excluded(of_prefix) if end > &of_prefix[..])
    {
        range.end = End::Excluded(end.to_vec());
    }
    range
}

/// The optional bounds of a range.
pub(crate) struct Bounds<'a>(
    pub(crate) Option<Input<'a>>,
    pub(crate) Option<Input<'a>>,
    pub(crate) Option<Input<'a>>,
);

impl Bounds<'_> {
    pub(crate) fn range(&self) -> KeyRange {
        let Bounds(prefix, start, end) = self;
        range(prefix.as_deref(), start.as_deref(), end.as_deref())
    }
}

/// The keys of an iterable.
pub(crate) fn keys_of<'py>(keys: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    keys.try_iter()?.collect()
}

/// Whether no key is in the range.
pub(crate) fn is_empty(range: &KeyRange) -> bool {
    match (&range.start, &range.end) {
        (End::Included(start), End::Excluded(end)) => start >= end,
        (End::Unbounded, End::Excluded(end)) => end.is_empty(),
        _ => false,
    }
}

/// A setting as text: `True` is `true`, `None` is `none`, and a time is in the largest unit that is
/// exact. A number that the setting cannot have is refused with its text.
pub(crate) fn setting(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_none() {
        return Ok("none".to_owned());
    }
    if let Ok(flag) = value.extract::<bool>() {
        return Ok(flag.to_string());
    }
    if let Ok(number) = value.extract::<u64>() {
        return Ok(number.to_string());
    }
    if let Ok(number) = value.extract::<i64>() {
        return Ok(number.to_string());
    }
    if let Ok(text) = value.extract::<String>() {
        return Ok(text);
    }
    if let Ok(number) = value.extract::<f64>() {
        return Ok(number.to_string());
    }
    match duration(&value.as_borrowed())? {
        Some(time) if time.subsec_micros() % 1000 == 0 => Ok(format!("{}ms", time.as_millis())),
        Some(time) => Ok(format!("{}us", time.as_micros())),
        None => {
            let kind = value.get_type();
            Err(invalid(
                value.py(),
                format!("{name} is a text, a number or a timedelta, not {kind}"),
            ))
        }
    }
}
