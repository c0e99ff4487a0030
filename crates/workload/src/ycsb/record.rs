//! The values of records, and the check of those that are read.
//!
//! A value is its fields back to back. Without verification it is a slice of the pool, as it lies
//! there. With it, it is a copy under a stamp: whole, for this key, and of one write.

use super::Options;
use crate::checker::{Version, read_stamp, seal_stamp};
use crate::{ValuePool, Values};
use esker_base::{Error, Result};

/// How much of a wrong value an error shows.
const SHOWN_BYTES: usize = 32;

/// One thread's values.
#[derive(Clone, Debug)]
pub(super) struct Records<'a> {
    values: Values<'a>,
    value_bytes: usize,
    field_bytes: usize,
    verify: bool,
    next_version: u64,
    changed: Vec<u8>,
}

impl<'a> Records<'a> {
    /// Values out of `pool`. Writes are numbered from `first_version` on, which is told apart from
    /// other threads' numbers by its high bits.
    pub(super) fn new(options: &Options, pool: &'a ValuePool, first_version: u64) -> Self {
        Records {
            values: pool.values(),
            value_bytes: options.value_bytes(),
            field_bytes: options.field_bytes,
            verify: options.verify,
            next_version: first_version,
            changed: Vec::with_capacity(options.value_bytes()),
        }
    }

    /// A new value for `key`.
    #[inline]
    pub(super) fn whole(&mut self, key: &[u8]) -> &[u8] {
        let value = self.values.next_value();
        if !self.verify {
            return value;
        }
        self.changed.clear();
        self.changed.extend_from_slice(value);
        self.seal(key);
        &self.changed
    }

    /// The value `old` of `key` with new content in field number `field`.
    #[inline]
    pub(super) fn with_field(&mut self, key: &[u8], old: &[u8], field: usize) -> &[u8] {
        self.changed.clear();
        self.changed.extend_from_slice(old);
        // A record that was loaded with another length gets the right one.
        self.changed.resize(self.value_bytes, b' ');
        let start = field * self.field_bytes;
        let content = &self.values.next_value()[start..start + self.field_bytes];
        self.changed[start..start + self.field_bytes].copy_from_slice(content);
        if self.verify {
            self.seal(key);
        }
        &self.changed
    }

    fn seal(&mut self, key: &[u8]) {
        seal_stamp(key, Version(self.next_version), &mut self.changed);
        self.next_version += 1;
    }

    /// Fails if `value`, which was read for `key`, was never written to it.
    #[inline]
    pub(super) fn check(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.verify && read_stamp(key, value).is_none() {
            Err(wrong(key, value))
        } else {
            Ok(())
        }
    }

    /// Fails: `key` is in the store, and a read gave nothing.
    #[inline]
    pub(super) fn check_absent(&self, key: &[u8]) -> Result<()> {
        if self.verify {
            return Err(wrong_answer(key, "it gave nothing, and the record was written"));
        }
        Ok(())
    }

    /// Fails if a scan that stood on `before` went on to `key`, which does not come after it.
    #[inline]
    pub(super) fn check_order(&self, before: &[u8], key: &[u8]) -> Result<()> {
        if self.verify && key <= before {
            let what = format!("a scan gave it after key {}", before.escape_ascii());
            return Err(wrong_answer(key, &what));
        }
        Ok(())
    }

    pub(super) fn verifies(&self) -> bool {
        self.verify
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

#[cold]
fn wrong_answer(key: &[u8], what: &str) -> Error {
    Error::WrongAnswer { key: key.escape_ascii().to_string(), what: what.to_owned() }
}
