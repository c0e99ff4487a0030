//! Detects that a directory is encrypted, or is not, before a repair takes its files for damaged ones.

use crate::log::wal_files::parse_log_file_name;
use crate::manifest::manifest_file::{CURRENT, parse_manifest_file_name};
use crate::version::parse_table_file_name;
use esker_base::{EncryptionError, Result};
use esker_storage::{ENCRYPTED_MAGIC, Storage};

/// Fails if files in `storage` are encrypted and were opened without a key, or if none of them is encrypted and
/// they were opened with one.
pub(super) fn check(storage: &dyn Storage) -> Result<()> {
    let is_ours = |name: &String| {
        name == CURRENT
            || parse_manifest_file_name(name).is_some()
            || parse_table_file_name(name).is_some()
            || parse_log_file_name(name).is_some()
    };
    let stored = storage.encrypted().unwrap_or(storage);
    let mut names = stored.list()?.into_iter().filter(is_ours).peekable();
    let has_files = names.peek().is_some();
    let mut are_encrypted = names.map(|name| is_encrypted(stored, &name));
    let is_any_encrypted = are_encrypted.try_fold(false, |any, it| it.map(|it| any || it))?;
    let place = storage.describe();
    match (storage.encryption(), is_any_encrypted) {
        (None, true) => Err(EncryptionError::KeyNeeded { place }.into()),
        (Some(_), false) if has_files => Err(EncryptionError::NotEncrypted { place }.into()),
        _ => Ok(()),
    }
}

fn is_encrypted(storage: &dyn Storage, name: &str) -> Result<bool> {
    let file = storage.open(name)?;
    let mut magic = [0; ENCRYPTED_MAGIC.len()];
    if file.len()? < magic.len() as u64 {
        return Ok(false);
    }
    file.read_exact_at(0, &mut magic)?;
    Ok(magic == ENCRYPTED_MAGIC)
}
