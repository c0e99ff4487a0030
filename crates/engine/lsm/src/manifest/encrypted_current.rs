//! Reads `CURRENT`, the first file that an open reads. It shows whether the database is encrypted.

use esker_base::{EncryptionError, Result};
use esker_storage::{ENCRYPTED_MAGIC, Storage};

/// The bytes of `CURRENT`, whose name is `name`. Fails if the database is encrypted and `storage` is not, or the
/// other way around.
pub(super) fn read(storage: &dyn Storage, name: &str) -> Result<Vec<u8>> {
    let bytes = match (read_file(storage, name), storage.encrypted()) {
        (Err(error), Some(below)) if error.is_corruption() => {
            let is_plain = read_file(below, name).is_ok_and(|bytes| is_text(&bytes));
            let place = storage.describe();
            return Err(match is_plain {
                true => EncryptionError::NotEncrypted { place }.into(),
                false => error,
            });
        }
        (read, _) => read?,
    };
    match storage.encrypted() {
        None if bytes.starts_with(&ENCRYPTED_MAGIC) => {
            Err(EncryptionError::KeyNeeded { place: storage.describe() }.into())
        }
        _ => Ok(bytes),
    }
}

/// Whether this is what `CURRENT` has in a database that is not encrypted: lines of text.
fn is_text(bytes: &[u8]) -> bool {
    bytes.ends_with(b"\n")
        && bytes.iter().all(|byte| byte.is_ascii_graphic() || b" \n".contains(byte))
}

fn read_file(storage: &dyn Storage, name: &str) -> Result<Vec<u8>> {
    let file = storage.open(name)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}
