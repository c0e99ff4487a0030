//! Values of any size: written from a function of the caller, and read a part at a time.

use crate::border::{Failure, bytes, given, handle_slot, quietly, slot};
use crate::error::esker_error;
use crate::keyspace::esker_keyspace;
use crate::snapshot::esker_snapshot;
use crate::status::esker_status;
use esker::large_value::ValueReader;
use std::ffi::c_void;
use std::io::{Read, Seek, SeekFrom};

/// Of `esker_put_reader`: puts the next bytes of a value into `buffer`, at most `capacity`, and returns
/// their number: 0 at the end, and less than 0 if it fails. `context` is what the caller gave. It must
/// return, and not by `longjmp` or an exception.
pub type esker_read_fn =
    Option<unsafe extern "C" fn(context: *mut c_void, buffer: *mut u8, capacity: usize) -> isize>;

/// A position in a value that is read a part at a time. One thread at once may use it.
///
/// What it reads never changes, also if the key is overwritten or deleted meanwhile: the file of the
/// value stays until the reader is freed. It holds 256 KiB of a large value.
pub struct esker_value_reader {
    reader: ValueReader,
}

/// The function of the caller as a reader, and how it failed.
struct Callback {
    read: unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> isize,
    context: *mut c_void,
    failure: Option<Failure>,
}

impl Read for Callback {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        // SAFETY: the function is the caller's, and the buffer has as many bytes as it is told.
        let count = unsafe { (self.read)(self.context, to.as_mut_ptr(), to.len()) };
        match usize::try_from(count) {
            Ok(count) if count <= to.len() => return Ok(count),
            Ok(count) => {
                self.failure = Some(Failure::invalid(format!(
                    "the function that reads the value returned {count}, and its buffer has {} bytes",
                    to.len()
                )));
            }
            Err(_) => {
                self.failure = Some(Failure::new(
                    esker_status::ESKER_IO,
                    format!("the function that reads the value failed: it returned {count}"),
                ));
            }
        }
        Err(std::io::ErrorKind::Other.into())
    }
}

/// A failed read of a value.
fn failure_of(error: std::io::Error) -> Failure {
    let of_engine = error.get_ref().and_then(|source| source.downcast_ref::<esker::Error>());
    match of_engine {
        Some(error) => error.clone().into(),
        None => Failure::new(esker_status::ESKER_IO, error.to_string()),
    }
}

/// Sets `key` to all that `read` returns up to its end, at most 4 GiB. Sets `*len_out` to how many bytes
/// that is; `len_out` may be NULL.
///
/// A value that is too large for the log is written to a file of its own, a part at a time, and becomes
/// visible at once. It survives power loss when this returns. `ESKER_IO` if `read` fails,
/// `ESKER_INVALID_ARGUMENT` if it returns more than `capacity`; `ESKER_TOO_LARGE` if the value is larger
/// than 4 GiB, or the keyspace takes no large values; otherwise the errors of `esker_put`. After an error
/// the key is as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_put_reader(
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    read: esker_read_fn,
    context: *mut c_void,
    len_out: *mut u64,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = match len_out.is_null() {
            true => None,
            false => Some(slot(len_out, 0, "the length")?),
        };
        let keyspace = &given(keyspace, "keyspace")?.keyspace;
        let key = bytes(key, key_len)?;
        let mut callback = Callback { read: given(read, "read")?, context, failure: None };
        let written = keyspace.put_reader(key, &mut callback);
        if let Some(failure) = callback.failure {
            return Err(failure);
        }
        let len = written?;
        if let Some(out) = out {
            out.put(len);
        }
        Ok(())
    })
}

/// Makes a reader of the value of `key`, at its start. The caller frees it with
/// `esker_value_reader_free`. A large value is not read into memory. Errors: those of `esker_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_get_reader(
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    reader_out: *mut *mut esker_value_reader,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(reader_out, "the reader")?;
        let keyspace = &given(keyspace, "keyspace")?.keyspace;
        let reader = keyspace.get_reader(bytes(key, key_len)?)?.ok_or_else(Failure::not_found)?;
        out.put_handle(esker_value_reader { reader });
        Ok(())
    })
}

/// Makes a reader of the value that `key` had at the snapshot. It may outlive the snapshot. Errors: those
/// of `esker_snapshot_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_snapshot_get_reader(
    snapshot: Option<&esker_snapshot>,
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    reader_out: *mut *mut esker_value_reader,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(reader_out, "the reader")?;
        let (snapshot, keyspace) = (given(snapshot, "snapshot")?, given(keyspace, "keyspace")?);
        let reader = snapshot.snapshot.get_reader(&keyspace.keyspace, bytes(key, key_len)?)?;
        out.put_handle(esker_value_reader { reader: reader.ok_or_else(Failure::not_found)? });
        Ok(())
    })
}

/// Returns the length of the value, in bytes. 0 if `reader` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_value_reader_len(reader: Option<&esker_value_reader>) -> u64 {
    reader.map_or(0, |reader| reader.reader.len())
}

/// Reads the next bytes of the value into `buffer`, and sets `*read_out` to their number: `capacity`, or
/// fewer at the end of the value. `buffer` may be NULL if `capacity` is 0.
///
/// `ESKER_CORRUPTION` or `ESKER_IO` if they cannot be read, `ESKER_CLOSED`. After an error the position is
/// as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_value_reader_read(
    reader: Option<&mut esker_value_reader>,
    buffer: *mut u8,
    capacity: usize,
    read_out: *mut usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = slot(read_out, 0, "the number of bytes")?;
        let reader = &mut given(reader, "reader")?.reader;
        // What the caller's buffer holds may be uninitialised, so it is written by copies only.
        let mut part = [0; 8192];
        if buffer.is_null() && capacity > 0 {
            return Err(Failure::invalid("buffer is NULL"));
        }
        let start = reader.stream_position().map_err(failure_of)?;
        let mut read = 0;
        while read < capacity {
            let most = part.len().min(capacity - read);
            let count = match reader.read(&mut part[..most]) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) => {
                    reader.seek(SeekFrom::Start(start)).map_err(failure_of)?;
                    return Err(failure_of(error));
                }
            };
            // The buffer is the caller's, and has `capacity` bytes.
            buffer.add(read).copy_from_nonoverlapping(part.as_ptr(), count);
            read += count;
        }
        out.put(read);
        Ok(())
    })
}

/// Moves the reader to the byte `offset` of the value. Behind the end there is nothing to read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_value_reader_seek(
    reader: Option<&mut esker_value_reader>,
    offset: u64,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let reader = &mut given(reader, "reader")?.reader;
        reader.seek(SeekFrom::Start(offset)).map_err(failure_of)?;
        Ok(())
    })
}

/// Frees a reader. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn esker_value_reader_free(reader: Option<Box<esker_value_reader>>) {
    quietly((), || drop(reader));
}
