//! Detects that a directory is encrypted, or is not, before a repair takes its files for damaged ones.

use crate::log::wal_files::parse_log_file_name;
use crate::manifest::manifest_file::{CURRENT, parse_manifest_file_name};
use crate::version::parse_data_file_name;
use esker_base::{EncryptionError, Result};
use esker_storage::{ENCRYPTED_MAGIC, Storage};

/// Fails if files in `storage` are encrypted and were opened without a key, or if none of them is encrypted and
/// they were opened with one.
pub(super) fn check(storage: &dyn Storage) -> Result<()> {
    let is_ours = |name: &String| {
        name == CURRENT
            || parse_manifest_file_name(name).is_some()
            || parse_data_file_name(name).is_some()
            || parse_log_file_name(name).is_some()
    };
    let stored = storage.encrypted().unwrap_or(storage);
    let ours = stored.list()?.into_iter().filter(is_ours);
    let are_encrypted: Vec<bool> = ours.filter_map(|name| is_encrypted(stored, &name)).collect();
    let place = storage.describe();
    match (storage.encryption(), are_encrypted.contains(&true)) {
        (None, true) => Err(EncryptionError::KeyNeeded { place }.into()),
        (Some(_), false) if !are_encrypted.is_empty() => {
            Err(EncryptionError::NotEncrypted { place }.into())
        }
        _ => Ok(()),
    }
}

/// `None`: the file cannot be read, and may be either.
fn is_encrypted(storage: &dyn Storage, name: &str) -> Option<bool> {
    let file = storage.open(name).ok()?;
    let mut magic = [0; ENCRYPTED_MAGIC.len()];
    if file.len().ok()? < magic.len() as u64 {
        return Some(false);
    }
    file.read_exact_at(0, &mut magic).ok()?;
    Some(magic == ENCRYPTED_MAGIC)
}
