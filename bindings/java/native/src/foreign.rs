//! The functions that Java 22 and later calls by its Foreign Function and Memory API: see
//! `esker.Calls` in `src/main/java22`.
//!
//! The last arguments of each are a buffer and its capacity. Keys and values are passed in it, one
//! after another, and their lengths are arguments. The answer is a number:
//!
//! ```text
//! n >= 0    n bytes, from the buffer's start; of `contains`, whether the key exists
//! -1        nothing: null
//! -2        bytes for which the buffer is too small: the buffer has the fields of `Elsewhere`
//! -3 - n    a failure of kind n, whose text is as for -2
//! ```

use crate::batch;
use crate::border::{Failure, guarded};
use crate::calls;
use esker::{KeyRange, WriteBatch};
use std::ops::Bound;

const NOTHING: i64 = -1;
const ELSEWHERE: i64 = -2;
const FAILED: i64 = -3;

type Owner = Box<dyn AsRef<[u8]>>;

/// Bytes in memory of the library. [`esker_java_free`] frees them.
#[repr(C)]
struct Elsewhere {
    bytes: *const u8,
    length: i64,
    owner: *mut Owner,
}

/// The buffer of a call.
struct Buffer {
    start: *mut u8,
    capacity: usize,
}

impl Buffer {
    /// # Safety
    /// `start` is that of `capacity` bytes, which the call has for itself until it returns.
    unsafe fn new(start: *mut u8, capacity: i32) -> Self {
        let capacity = usize::try_from(capacity).unwrap_or_default();
        assert!(capacity >= size_of::<Elsewhere>(), "the buffer is too small");
        Buffer { start, capacity }
    }

    /// What the buffer has: `lengths` are those of the parts, where a negative one is `None`.
    fn parts<const N: usize>(&self, lengths: [i32; N]) -> Result<[Option<&[u8]>; N], Failure> {
        // SAFETY: `new` has the promise, and what writes to the buffer takes `self`.
        let mut rest = unsafe { std::slice::from_raw_parts(self.start, self.capacity) };
        let mut parts = [None; N];
        for (part, length) in parts.iter_mut().zip(lengths) {
            let Ok(length) = usize::try_from(length) else { continue };
            let split = rest.split_at_checked(length);
            let split = split.ok_or_else(|| Failure::invalid("the buffer ends early"))?;
            *part = Some(split.0);
            rest = split.1;
        }
        Ok(parts)
    }

    fn bytes<const N: usize>(&self, lengths: [i32; N]) -> Result<[&[u8]; N], Failure> {
        Ok(self.parts(lengths)?.map(Option::unwrap_or_default))
    }

    fn put(self, bytes: impl AsRef<[u8]> + 'static) -> i64 {
        let slice = bytes.as_ref();
        if slice.len() > self.capacity {
            return self.put_elsewhere(bytes, ELSEWHERE);
        }
        // SAFETY: `new` has the promise, and the buffer is large enough. `bytes` are not in it, as no
        // answer borrows from a buffer.
        unsafe { self.start.copy_from_nonoverlapping(slice.as_ptr(), slice.len()) };
        slice.len() as i64
    }

    fn put_elsewhere(self, bytes: impl AsRef<[u8]> + 'static, answer: i64) -> i64 {
        // Short bytes are in the object itself, so their address is taken when it has its place.
        let owner: Box<Owner> = Box::new(Box::new(bytes));
        let slice = (**owner).as_ref();
        let (bytes, length) = (slice.as_ptr(), slice.len() as i64);
        let elsewhere = Elsewhere { bytes, length, owner: Box::into_raw(owner) };
        // SAFETY: `new` has the promise, and has checked that there is space.
        unsafe { self.start.cast::<Elsewhere>().write_unaligned(elsewhere) };
        answer
    }
}

/// What a call answers.
trait Answer {
    fn put(self, buffer: Buffer) -> i64;
}

impl Answer for () {
    fn put(self, _: Buffer) -> i64 {
        0
    }
}

impl Answer for bool {
    fn put(self, _: Buffer) -> i64 {
        self.into()
    }
}

impl<T: AsRef<[u8]> + 'static> Answer for Option<T> {
    fn put(self, buffer: Buffer) -> i64 {
        match self {
            Some(bytes) => buffer.put(bytes),
            None => NOTHING,
        }
    }
}

impl<T: Answer> Answer for Result<T, Failure> {
    fn put(self, buffer: Buffer) -> i64 {
        match self {
            Ok(answer) => answer.put(buffer),
            Err(failure) => {
                let (kind, text) = failure.into_parts();
                buffer.put_elsewhere(text, FAILED - kind as i64)
            }
        }
    }
}

/// Defines functions that Java calls.
macro_rules! foreign {
    ($($name:ident($buffer:ident $(, $argument:ident: $type:ty)*) $body:block)*) => {
        $(
            /// # Safety
            /// The last two arguments are a buffer that the call has for itself until it returns.
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments, reason = "Java passes no structures")]
            pub unsafe extern "C" fn $name(
                $($argument: $type,)*
                start: *mut u8,
                capacity: i32,
            ) -> i64 {
                // SAFETY: the caller promises it.
                let $buffer = unsafe { Buffer::new(start, capacity) };
                guarded(|| $body).put($buffer)
            }
        )*
    };
}

foreign! {
    esker_java_get(buffer, keyspace: i64, key: i32) {
        let [key] = buffer.bytes([key])?;
        calls::get(keyspace, key)
    }

    esker_java_contains(buffer, keyspace: i64, key: i32) {
        let [key] = buffer.bytes([key])?;
        calls::contains(keyspace, key)
    }

    esker_java_put(buffer, keyspace: i64, key: i32, value: i32) {
        let [key, value] = buffer.bytes([key, value])?;
        calls::put(keyspace, key, value)
    }

    esker_java_delete(buffer, keyspace: i64, key: i32) {
        let [key] = buffer.bytes([key])?;
        calls::delete(keyspace, key)
    }

    esker_java_snapshot_get(buffer, snapshot: i64, keyspace: i64, key: i32) {
        let [key] = buffer.bytes([key])?;
        calls::snapshot_get(snapshot, keyspace, key)
    }

    esker_java_scan(
        buffer, keyspace: i64, snapshot: i64, start: i32, start_inclusive: bool,
        end: i32, end_inclusive: bool, backward: bool, max_bytes: i32
    ) {
        let [start, end] = buffer.parts([start, end])?;
        let bound = |key: Option<&[u8]>, inclusive| match key {
            None => Bound::Unbounded,
            Some(key) if inclusive => Bound::Included(key.to_vec()),
            Some(key) => Bound::Excluded(key.to_vec()),
        };
        let range = KeyRange::from((bound(start, start_inclusive), bound(end, end_inclusive)));
        let started = calls::scan(keyspace, snapshot, range, backward, max_bytes)?;
        Ok(started.map(|started| started.bytes))
    }

    esker_java_fetch(_buffer, scan: i64, backward: bool, max_bytes: i32) {
        calls::fetch(scan, backward, max_bytes)
    }
}

/// Frees bytes for which a buffer was too small.
///
/// # Safety
/// `owner` is that of an answer, and is freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_java_free(owner: *mut Owner) {
    // SAFETY: `put_elsewhere` has made it, and the caller promises the rest.
    drop(unsafe { Box::from_raw(owner) });
}

/// A batch that is decoded, or what is wrong with it.
pub struct Decoded(Result<WriteBatch, Failure>);

/// Decodes a batch. It is a call of its own because it waits for nothing: Java makes it critical, so
/// `operations` are bytes on its heap, and no garbage collection starts before this returns.
///
/// # Safety
/// `operations` are `length` bytes that do not change meanwhile. The result is passed to
/// [`esker_java_write`] once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_java_decode(operations: *const u8, length: i32) -> *mut Decoded {
    let length = usize::try_from(length).unwrap_or_default();
    // SAFETY: the caller promises it.
    let operations = unsafe { std::slice::from_raw_parts(operations, length) };
    Box::into_raw(Box::new(Decoded(guarded(|| batch::decode(operations)))))
}

/// Applies a batch.
///
/// # Safety
/// `batch` is of [`esker_java_decode`] and is passed once. The last two arguments are a buffer that the
/// call has for itself until it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_java_write(
    db: i64,
    batch: *mut Decoded,
    sync: bool,
    start: *mut u8,
    capacity: i32,
) -> i64 {
    // SAFETY: the caller promises both.
    let (batch, buffer) = unsafe { (Box::from_raw(batch), Buffer::new(start, capacity)) };
    guarded(|| calls::write(db, batch.0, sync)).put(buffer)
}
