//! A batch as `esker.Batch` encodes it, so that it crosses to the library in one call.
//!
//! ```text
//! operation   u8: 0 put, 1 delete, 2 delete range, 3 merge, 4 put with a time to live
//! keyspace    i64
//! lengths     i32 and i32: of key and value, or of start and end, where -1 is an open end
//! ttl         i64 in milliseconds, of operation 4 only
//! bytes
//! ```
//!
//! Numbers are big-endian.

use crate::border::Failure;
use crate::table::KEYSPACES;
use esker::{KeyRange, Keyspace, WriteBatch};
use jni::sys::jlong;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Failure> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| Failure::invalid("the batch ends early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        Ok(self.take(N)?.try_into().expect("taken with this length"))
    }

    /// Bytes of a length; `None` for an open end.
    fn bytes(&mut self, length: i32) -> Result<Option<&'a [u8]>, Failure> {
        usize::try_from(length).ok().map(|length| self.take(length)).transpose()
    }
}

pub fn decode(bytes: &[u8]) -> Result<WriteBatch, Failure> {
    let mut input = Input { rest: bytes };
    let mut batch = WriteBatch::new();
    batch.reserve(bytes.len());
    // Most batches write to one keyspace.
    let mut last: Option<(jlong, Arc<Keyspace>)> = None;
    while !input.rest.is_empty() {
        let [operation] = input.array()?;
        let handle = jlong::from_be_bytes(input.array()?);
        let lengths = [i32::from_be_bytes(input.array()?), i32::from_be_bytes(input.array()?)];
        let ttl = match operation {
            4 => u64::from_be_bytes(input.array()?),
            _ => 0,
        };
        let (key, value) = (input.bytes(lengths[0])?, input.bytes(lengths[1])?);
        let keyspace = match &last {
            Some((of, keyspace)) if *of == handle => keyspace.clone(),
            _ => last.insert((handle, KEYSPACES.get(handle)?)).1.clone(),
        };
        let (start, end) = (key, value);
        let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
        match operation {
            0 => batch.put(&*keyspace, key, value),
            1 => batch.delete(&*keyspace, key),
            2 => {
                let start = start.map_or(Bound::Unbounded, Bound::Included);
                let end = end.map_or(Bound::Unbounded, Bound::Excluded);
                batch.delete_range(&*keyspace, KeyRange::from((start, end)));
            }
            3 => batch.merge(&*keyspace, key, value),
            4 => batch.put_with_ttl(&*keyspace, key, value, Duration::from_millis(ttl)),
            _ => return Err(Failure::invalid("unknown operation in a batch")),
        };
    }
    Ok(batch)
}
