//! The values of records, and the check of values that are read.
//!
//! A value is its fields, concatenated. Without verification it is a slice of the pool. With it, it
//! is a copy with a stamp, which shows that it is intact, belongs to this key, and is of one write.

use super::Options;
use crate::checker::{Version, read_stamp, seal_stamp};
use crate::{ValuePool, Values, stream};
use esker_base::{Error, Result, Rng};

/// How much of a wrong value an error shows.
const SHOWN_BYTES: usize = 32;

/// One thread's values.
#[derive(Clone, Debug)]
pub(super) struct Records<'a> {
    values: Values<'a>,
    value_bytes: usize,
    field_bytes: usize,
    verify: bool,
    changed: Vec<u8>,
    /// If they differ.
    lengths: Option<Lengths>,
}

/// Lengths of values, uniform in their logarithms.
#[derive(Clone, Debug)]
struct Lengths {
    rng: Rng,
    least: f64,
    most: f64,
}

impl Lengths {
    #[inline]
    fn next(&mut self) -> usize {
        (self.least * (self.most / self.least).powf(self.rng.unit())) as usize
    }
}

impl<'a> Records<'a> {
    /// Values of thread number `thread` out of `pool`.
    pub(super) fn new(options: &Options, pool: &'a ValuePool, thread: usize) -> Self {
        Records {
            values: pool.values_of(thread, options.threads),
            value_bytes: options.value_bytes(),
            field_bytes: options.field_bytes,
            verify: options.verify,
            changed: Vec::with_capacity(options.value_bytes()),
            lengths: options.least_value_bytes.map(|least| Lengths {
                rng: stream(options.seed, "value lengths", thread as u64),
                least: least as f64,
                most: options.value_bytes() as f64,
            }),
        }
    }

    /// A new value for `key`, by the write that has `version`.
    #[inline]
    pub(super) fn whole(&mut self, key: &[u8], version: Version) -> &[u8] {
        let value = match &mut self.lengths {
            Some(lengths) => self.values.next_of(lengths.next()),
            None => self.values.next_value(),
        };
        if !self.verify {
            return value;
        }
        self.changed.clear();
        self.changed.extend_from_slice(value);
        seal_stamp(key, version, &mut self.changed);
        &self.changed
    }

    /// The value `old` of `key` with new content in field number `field`, by the write that has
    /// `version`.
    #[inline]
    pub(super) fn with_field(
        &mut self,
        key: &[u8],
        old: &[u8],
        field: usize,
        version: Version,
    ) -> &[u8] {
        self.changed.clear();
        self.changed.extend_from_slice(old);
        // A record that was loaded with another length gets the right one.
        self.changed.resize(self.value_bytes, b' ');
        let start = field * self.field_bytes;
        let content = &self.values.next_value()[start..start + self.field_bytes];
        self.changed[start..start + self.field_bytes].copy_from_slice(content);
        if self.verify {
            seal_stamp(key, version, &mut self.changed);
        }
        &self.changed
    }

    /// Which write gave `key` the `value` that was read for it. Fails if none did.
    #[inline]
    pub(super) fn version(&self, key: &[u8], value: &[u8]) -> Result<Version> {
        read_stamp(key, value).ok_or_else(|| wrong(key, value))
    }

    /// Fails: `key` is in the store, and a read gave nothing.
    #[inline]
    pub(super) fn check_absent(&self, key: &[u8]) -> Result<()> {
        if self.verify {
            return Err(wrong_answer(key, "it gave nothing, and the record was written"));
        }
        Ok(())
    }
}

#[cold]
fn wrong(key: &[u8], value: &[u8]) -> Error {
    let start = &value[..value.len().min(SHOWN_BYTES)];
    let len = value.len();
    let what = format!(
        "it gave {len} bytes that no write of this key has, starting with \"{}\"; \
         they are damaged, another key's, or from a load that was not made to be verified",
        start.escape_ascii()
    );
    wrong_answer(key, &what)
}

/// The error of a read of `key`.
#[cold]
pub(super) fn wrong_answer(key: &[u8], what: &str) -> Error {
    Error::WrongAnswer { key: key.escape_ascii().to_string(), what: what.to_owned() }
}
