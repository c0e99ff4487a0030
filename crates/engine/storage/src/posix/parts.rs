//! Gives back a part of a file whose other parts are in use.

use super::directory::Directory;
use super::fadvise::{Punched, punch_hole};
use rustix::fs::{FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is freed begins and ends at a multiple of this: file systems free whole blocks only, and write zeros into the
/// rest, for which they would have to read it.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// Frees the blocks of the file `name` that are wholly in `part`. Returns their bytes: none if the file has another name,
/// which may be of a checkpoint, or if a process that only reads has it open, and so [locked](super::reader). Sets
/// `is_unable` if the file system can do nothing of the kind.
pub(super) fn free(
    directory: &Directory,
    name: &str,
    part: Range<u64>,
    is_unable: &AtomicBool,
) -> u64 {
    let Ok(file) = directory.open_file(name, OFlags::RDWR) else { return 0 };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        // Then a reader could not lock it either.
        Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => {
            is_unable.store(true, Ordering::Relaxed);
            return 0;
        }
        Err(_) => return 0,
    }
    // Only now: a reader may have linked it.
    let Ok(found) = fstat(&file) else { return 0 };
    let end = part.end.min(found.st_size as u64) / BLOCK_BYTES * BLOCK_BYTES;
    let blocks = part.start.next_multiple_of(BLOCK_BYTES)..end;
    if found.st_nlink != 1 || blocks.is_empty() {
        return 0;
    }
    match punch_hole(&file, blocks.clone()) {
        Punched::Freed => blocks.end - blocks.start,
        Punched::Failed => 0,
        Punched::Unsupported => {
            is_unable.store(true, Ordering::Relaxed);
            0
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use crate::{PosixStorage, Storage};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    const BYTES: usize = 64 << 10;

    fn with_file() -> (tempfile::TempDir, PosixStorage) {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), [7; BYTES]).unwrap();
        let storage = PosixStorage::open(place.path()).unwrap();
        (place, storage)
    }

    fn blocks_of(file: &Path) -> u64 {
        std::fs::metadata(file).unwrap().blocks() * 512
    }

    #[test]
    fn whole_blocks_are_freed_and_the_rest_is_untouched() {
        let (place, storage) = with_file();
        let file = place.path().join("file");
        let before = blocks_of(&file);
        assert_eq!(storage.free_part("file", 1..(16 << 10) - 1), 8 << 10);
        assert!(blocks_of(&file) < before);
        let bytes = std::fs::read(&file).unwrap();
        let (freed, mut rest) = (4 << 10..12 << 10, bytes.clone());
        assert!(rest.drain(freed).all(|byte| byte == 0));
        assert!(rest.iter().all(|byte| *byte == 7) && bytes.len() == BYTES);
    }

    #[test]
    fn a_file_with_another_name_keeps_its_bytes_as_long_as_it_has_it() {
        let (place, storage) = with_file();
        let other = place.path().join("other");
        std::fs::hard_link(place.path().join("file"), &other).unwrap();
        assert_eq!(storage.free_part("file", 0..BYTES as u64), 0);
        assert_eq!(std::fs::read(&other).unwrap(), [7; BYTES]);
        std::fs::remove_file(&other).unwrap();
        assert_eq!(storage.free_part("file", 0..BYTES as u64), BYTES as u64);
    }

    #[test]
    fn a_file_keeps_its_bytes_as_long_as_a_reader_shares_it() {
        let (place, storage) = with_file();
        for is_direct in [false, true] {
            let reading = PosixStorage::open(place.path()).unwrap();
            let reading = reading.with_shared_files().with_direct_reads(is_direct);
            for open in [Storage::open, Storage::open_for_caching] {
                let reader = open(&reading, "file").unwrap();
                assert_eq!(storage.free_part("file", 0..BYTES as u64), 0, "{is_direct}");
                drop(reader);
            }
        }
        let own = storage.open("file").unwrap();
        assert_eq!(storage.free_part("file", 0..BYTES as u64), BYTES as u64);
        drop(own);
    }
}
