//! What every store of these traits refuses, asked before a peer sees it, so that the peers refuse
//! the same things as Esker; and a peer's own errors in our words.

use esker_api::{Kv, WriteBatch};
use esker_base::{Error, KeyspaceId, MAX_KEY_BYTES, Result};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Refuses a key that no store takes.
#[inline]
pub(crate) fn key(key: &[u8]) -> Result<()> {
    match key.len() {
        1..=MAX_KEY_BYTES => Ok(()),
        0 => Err(Error::EmptyKey),
        bytes => Err(Error::KeyTooLong { bytes }),
    }
}

/// Refuses a batch with entries that no store takes.
pub(crate) fn entries(batch: &WriteBatch) -> Result<()> {
    if batch.has_empty_key() {
        return Err(Error::EmptyKey);
    }
    if batch.longest_key() > MAX_KEY_BYTES {
        return Err(Error::KeyTooLong { bytes: batch.longest_key() });
    }
    if batch.has_empty_range() {
        return Err(Error::EmptyRange);
    }
    if batch.has_merges() {
        return Err(Error::NotOffered {
            store: "a peer",
            what: "merge",
            instead: "read the value and put it",
        });
    }
    if batch.has_ttl() {
        return Err(Error::NotOffered {
            store: "a peer",
            what: "put values that expire",
            instead: "put without a time to live",
        });
    }
    Ok(())
}

/// Refuses a batch that `store`, of one keyspace, does not take.
pub(crate) fn batch(store: &impl Kv, batch: &WriteBatch) -> Result<()> {
    entries(batch)?;
    let own = store.keyspace_ref().id;
    match batch.keyspaces().find(|keyspace: &KeyspaceId| *keyspace != own) {
        Some(other) => Err(Error::UnknownKeyspace { name: other.to_string() }),
        None => Ok(()),
    }
}

/// A peer's error as an I/O error about its directory. A full disk is recognized by its message, because
/// the peers hand on no number.
pub(crate) fn foreign(action: &'static str, dir: &Path, message: impl ToString) -> Error {
    let message = message.to_string();
    let kind = match &message {
        message if message.contains("No space left on device") => ErrorKind::StorageFull,
        message if message.contains("Permission denied") => ErrorKind::PermissionDenied,
        message if message.contains("Corruption") => ErrorKind::InvalidData,
        _ => ErrorKind::Other,
    };
    Error::io(action, dir.display().to_string(), io::Error::new(kind, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_known_by_its_message() {
        let error = foreign("write to", Path::new("d"), "IO error: No space left on device: d/1");
        assert!(error.is_out_of_space());
        assert!(!foreign("write to", Path::new("d"), "IO error: d/1").is_out_of_space());
    }

    #[test]
    fn keys_that_no_store_takes_are_refused() {
        assert!(matches!(key(b""), Err(Error::EmptyKey)));
        assert!(matches!(key(&[0; MAX_KEY_BYTES + 1]), Err(Error::KeyTooLong { .. })));
        assert!(key(&[0; MAX_KEY_BYTES]).is_ok());
    }
}
