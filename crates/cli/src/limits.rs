//! What a database would refuse, refused before there is a database.
//!
//! A command that creates the database checks its input first: a refusal leaves nothing behind. And what
//! can't be stored is not read to its end, which it may not have.

use crate::failure::{Failure, Outcome};
use crate::form::Notation;
use crate::units;
use esker::{Error, Settings, WriteBatch};
use esker_base::{KeyspaceId, MAX_KEY_BYTES};
use std::ffi::OsString;
use std::io::Read;

/// The value that `argument` stands for, `-` being the bytes of standard input: at most `limit` of them,
/// because of `why`. In escaped form `-` is a value, as `esker scan` prints it.
pub fn value(argument: OsString, form: Notation, limit: usize, why: &str) -> Outcome<Vec<u8>> {
    if argument == "-" && form != Notation::Escaped {
        read_within(std::io::stdin().lock(), limit, why)
    } else {
        form.parse(argument)
    }
}

fn read_within(input: impl Read, limit: usize, why: &str) -> Outcome<Vec<u8>> {
    let mut value = Vec::new();
    let read = input.take(limit as u64 + 1).read_to_end(&mut value);
    read.map_err(|error| Failure::io("read", "standard input", error))?;
    if value.len() > limit {
        let limit = units::counted(limit as u64, "byte");
        let message = format!("standard input holds more than {limit}, {why}");
        return Err(Failure::Usage(message));
    }
    Ok(value)
}

/// Fails if no database can have this key.
pub fn check_key(key: &[u8]) -> Outcome {
    match key.len() {
        bytes if bytes > MAX_KEY_BYTES => Err(Error::KeyTooLong { bytes }.into()),
        _ => Ok(()),
    }
}

/// Fails if a database with these settings can't take this entry.
pub fn check_pair(settings: &Settings, key: &[u8], value: &[u8]) -> Outcome {
    check_key(key)?;
    check_sizes(settings, key.len(), value.len(), 1)
}

/// Fails if a database with these settings can't take batches of `count` entries of these sizes.
pub fn check_sizes(
    settings: &Settings,
    key_bytes: usize,
    value_bytes: usize,
    count: u64,
) -> Outcome {
    let limit = settings.max_entry_bytes();
    let too_large = |entry_bytes| {
        Error::ValueTooLarge { bytes: value_bytes, key_bytes, entry_bytes, limit }.into()
    };
    // Before so much is encoded.
    if value_bytes > limit {
        return Err(too_large(key_bytes.saturating_add(value_bytes)));
    }
    let mut batch = WriteBatch::new();
    batch.put(KeyspaceId::DEFAULT, vec![0; key_bytes], vec![0; value_bytes]);
    let bytes = batch.encoded().len();
    if bytes > limit {
        return Err(too_large(bytes));
    }
    let entries = usize::try_from(count).unwrap_or(usize::MAX);
    let (bytes, entries_limit) = (entries.saturating_mul(bytes), settings.max_batch_entries());
    let limit = settings.max_batch_bytes();
    if bytes > limit || entries > entries_limit {
        return Err(Error::BatchTooLarge { bytes, limit, entries, entries_limit }.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_read_to_its_end_or_one_byte_beyond_the_limit() {
        assert_eq!(read_within(&b"abc"[..], 3, "").unwrap(), b"abc");
        let mut input = std::io::Cursor::new([0; 100]);
        assert!(matches!(read_within(&mut input, 3, ""), Err(Failure::Usage(_))));
        assert_eq!(input.position(), 4);
    }
}
