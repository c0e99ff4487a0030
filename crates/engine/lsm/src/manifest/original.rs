//! The database that another one is a copy of.
//!
//! A copy has an identity of its own: a checkpoint, a restored backup, what follows a primary over a network. A
//! file of text says of which database it is a copy. If the copy takes the place of the original, a local follower of
//! the original goes on with it. Nothing else depends on the file.

use esker_base::checksum::crc32c;
use esker_base::{FileKind, Result, WriteHint};
use esker_storage::Storage;

/// The name of the file.
pub(crate) const ORIGINAL: &str = "ORIGINAL";
const PARTIAL: &str = "ORIGINAL.new";

const MAGIC: &str = "esker-original 1";

/// No such file is longer.
const BYTES_MAX: u64 = 100;

/// Notes that the database in `storage` is a copy of the one with this identity. The note survives a power loss
/// once the names in `storage` are synced.
///
/// # Errors
/// [`Error::Io`](esker_base::Error::Io) if the file exists or cannot be written.
pub fn note_original(storage: &dyn Storage, database: u64) -> Result<()> {
    note_as(storage, ORIGINAL, database)
}

/// Writes the file under another name, from which it is renamed.
pub(crate) fn note_as(storage: &dyn Storage, name: &str, database: u64) -> Result<()> {
    let mut file = storage.create(name, WriteHint::of(FileKind::Meta))?;
    file.append(encode(database).as_bytes())?;
    file.sync()
}

/// The database that the one in `storage` is a copy of, if that was noted. What is damaged was not.
pub(crate) fn original(storage: &dyn Storage) -> Result<Option<u64>> {
    if !storage.exists(ORIGINAL)? {
        return Ok(None);
    }
    let file = storage.open(ORIGINAL)?;
    let mut bytes = vec![0; file.len()?.min(BYTES_MAX) as usize];
    match file.read_exact_at(0, &mut bytes) {
        Err(error) if error.io_kind().is_some() => Err(error),
        Err(_) => Ok(None),
        Ok(()) => Ok(parse(&String::from_utf8_lossy(&bytes))),
    }
}

/// Writes the file again if it is encrypted with an old key.
pub(crate) fn renew(storage: &dyn Storage) -> Result<()> {
    if !storage.exists(ORIGINAL)? || !storage.has_old_key(ORIGINAL)? {
        return Ok(());
    }
    let Some(database) = original(storage)? else { return Ok(()) };
    if storage.exists(PARTIAL)? {
        storage.remove(PARTIAL)?;
    }
    note_as(storage, PARTIAL, database)?;
    storage.rename(PARTIAL, ORIGINAL)?;
    storage.sync_names()
}

fn encode(database: u64) -> String {
    let line = format!("{MAGIC} {database:016x}");
    format!("{line} {:08x}\n", crc32c(line.as_bytes()))
}

fn parse(text: &str) -> Option<u64> {
    let (line, crc) = text.strip_suffix('\n')?.rsplit_once(' ')?;
    let database = line.strip_prefix(MAGIC)?.strip_prefix(' ')?;
    let is_right = crc == format!("{:08x}", crc32c(line.as_bytes()));
    is_right.then(|| u64::from_str_radix(database, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_storage::MemoryStorage;

    #[test]
    fn an_original_reads_back_and_no_changed_byte_passes() {
        let storage = MemoryStorage::new();
        assert_eq!(original(&storage).unwrap(), None);
        note_original(&storage, 0x12).unwrap();
        assert_eq!(original(&storage).unwrap(), Some(0x12));
        let text = encode(0x12);
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let damaged = MemoryStorage::new();
            let hint = WriteHint::of(FileKind::Meta);
            damaged.create(ORIGINAL, hint).unwrap().append(&bytes).unwrap();
            assert_eq!(original(&damaged).unwrap(), None, "byte {at}");
        }
    }
}
