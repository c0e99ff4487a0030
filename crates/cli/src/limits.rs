//! What a database would refuse, refused before there is a database.
//!
//! A command that creates the database checks its input first: a refusal leaves nothing behind.

use crate::failure::Outcome;
use esker::{Error, Settings, WriteBatch};
use esker_base::{KeyspaceId, MAX_KEY_BYTES};

/// Fails if a database with these settings can't take this pair.
pub fn check_pair(settings: &Settings, key: &[u8], value: &[u8]) -> Outcome {
    if key.is_empty() {
        return Err(Error::EmptyKey.into());
    }
    if key.len() > MAX_KEY_BYTES {
        return Err(Error::KeyTooLong { bytes: key.len() }.into());
    }
    check_sizes(settings, key.len(), value.len(), 1)
}

/// Fails if a database with these settings can't take batches of `count` pairs of these sizes.
pub fn check_sizes(
    settings: &Settings,
    key_bytes: usize,
    value_bytes: usize,
    count: u64,
) -> Outcome {
    let limit = settings.max_batch_bytes();
    if value_bytes > limit {
        return Err(Error::ValueTooLarge { bytes: value_bytes, limit }.into());
    }
    let mut batch = WriteBatch::new();
    batch.put(KeyspaceId::DEFAULT, &vec![0; key_bytes], &vec![0; value_bytes]);
    let bytes = batch.encoded().len();
    if bytes > limit {
        return Err(Error::ValueTooLarge { bytes: value_bytes, limit }.into());
    }
    let entries = usize::try_from(count).unwrap_or(usize::MAX);
    let (bytes, entries_limit) = (entries.saturating_mul(bytes), settings.max_batch_entries());
    if bytes > limit || entries > entries_limit {
        return Err(Error::BatchTooLarge { bytes, limit, entries, entries_limit }.into());
    }
    Ok(())
}
