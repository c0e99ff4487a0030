//! Keeps what a recovery does not use: the bytes of logs that may hold writes, and files of unknown
//! content.
//!
//! A file of unknown content is renamed. A log is removed or recycled once its accepted writes are
//! in tables. So its content is copied before to a separate file, which nothing reads and only an
//! operator removes.

use super::file_names::lost_name;
use crate::recovery::replay::Rejected;
use esker_base::{FileKind, Result, WriteHint};
use esker_storage::Storage;

/// Renames a file so that nothing reads it. Returns its new name.
pub(crate) fn set_aside(storage: &dyn Storage, name: &str) -> Result<String> {
    let mut number = 1;
    while storage.exists(&lost_name(name, number))? {
        number += 1;
    }
    let lost = lost_name(name, number);
    storage.rename(name, &lost)?;
    Ok(lost)
}

/// Copies the logs to files of `storage`, durably. Returns the names of the files.
pub(crate) fn keep(storage: &dyn Storage, rejected: &[Rejected]) -> Result<Vec<String>> {
    let kept: Result<Vec<_>> = rejected.iter().map(|log| keep_one(storage, log)).collect();
    storage.sync_names()?;
    kept
}

/// Copies one log, unless an open that failed afterwards has done so.
fn keep_one(storage: &dyn Storage, log: &Rejected) -> Result<String> {
    let mut number = 1;
    let mut name = lost_name(&log.name, number);
    while storage.exists(&name)? {
        if holds(storage, &name, &log.bytes)? {
            return Ok(name);
        }
        number += 1;
        name = lost_name(&log.name, number);
    }
    let mut file = storage.create(&name, WriteHint::of(FileKind::Log))?;
    match file.append(&log.bytes).and_then(|()| file.sync()) {
        Ok(()) => Ok(name),
        Err(error) => {
            // On a full disk every further try would take more.
            drop(file);
            let _ = storage.remove(&name);
            Err(error)
        }
    }
}

/// Whether the file `name` holds just these bytes.
fn holds(storage: &dyn Storage, name: &str, bytes: &[u8]) -> Result<bool> {
    let file = storage.open(name)?;
    if file.len()? != bytes.len() as u64 {
        return Ok(false);
    }
    let mut found = vec![0; bytes.len()];
    file.read_exact_at(0, &mut found)?;
    Ok(found == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::unlisted_files::file_names::name_before;
    use esker_storage::MemoryStorage;

    #[test]
    fn nothing_that_was_kept_is_overwritten_and_nothing_is_kept_twice() {
        let storage = MemoryStorage::new();
        let log = |bytes: &[u8]| Rejected { name: "00000001.log".into(), bytes: bytes.to_vec() };
        let keep = |bytes| keep(&storage, &[log(bytes)]).unwrap();
        assert_eq!(keep(b"one"), ["lost-00000001.log"]);
        assert_eq!(keep(b"two"), ["lost-2-00000001.log"]);
        assert_eq!(keep(b"one"), ["lost-00000001.log"]);
        assert_eq!(keep(b"two"), ["lost-2-00000001.log"]);
        assert!(holds(&storage, "lost-00000001.log", b"one").unwrap());

        storage.create("00000001.log", WriteHint::of(FileKind::Log)).unwrap();
        assert_eq!(set_aside(&storage, "00000001.log").unwrap(), "lost-3-00000001.log");
        assert_eq!(name_before("lost-3-00000001.log"), Some("00000001.log"));
        assert_eq!(name_before("lost-00000001.log"), Some("00000001.log"));
        assert_eq!(name_before("00000001.log"), None);
    }
}
