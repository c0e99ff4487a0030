//! Memory that is in use when a case begins, as a server's is.
//!
//! What a page costs at its first touch depends on what was there: where a hypervisor takes free memory back, a free
//! page costs many times what one costs that held a file's clean copy. Stores that have just been removed leave
//! free memory, as much as they were large, and an engine that grows before it cleans up pays for what others
//! left. So free memory is filled with clean pages, which the system takes for others as it needs them.

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use esker_bench::Machine;
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The part of all memory that may stay free, an eighth: nothing waits for the system to clean up, and little is new.
const FREE_SHARE: u64 = 8;

/// What is read between two looks at what is free, and at the user's wish to stop.
const PIECE_BYTES: usize = 64 << 20;

/// A file as large as memory, without a name and without a block on its disk, whose pages fill memory.
pub struct UsedMemory {
    file: File,
    bytes: u64,
    /// Where the next page is read: those before it were read last, and if they are still in memory, to read them once
    /// more would have the system keep them.
    at: Cell<u64>,
}

impl UsedMemory {
    /// Fills nothing yet. The file lies in `dir`; of a file system in memory its pages would be none.
    pub fn new(dir: &Path) -> Outcome<UsedMemory> {
        let failed = |error| Failure::io("create a file in", dir.display().to_string(), error);
        let file = tempfile::tempfile_in(dir).map_err(failed)?;
        let bytes = Machine::of(dir).memory_bytes;
        file.set_len(bytes).map_err(failed)?;
        Ok(UsedMemory { file, bytes, at: Cell::new(0) })
    }

    /// Reads the file until little memory is free, and then `store`'s files: what is used again stays, and the file's
    /// pages go before the store's.
    pub fn fill(&self, store: &Path, interrupt: &Interrupt) -> Outcome {
        self.take_what_is_free(interrupt)?;
        let failed = |error| Failure::io("read", store.display().to_string(), error);
        for entry in store.read_dir().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type().map_err(failed)?.is_file() {
                let mut file = File::open(entry.path()).map_err(failed)?;
                std::io::copy(&mut file, &mut std::io::sink()).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn take_what_is_free(&self, interrupt: &Interrupt) -> Outcome {
        let mut piece = vec![0; PIECE_BYTES];
        let mut left = self.bytes;
        while left > 0 && Machine::free_memory_bytes() > self.bytes / FREE_SHARE {
            if interrupt.is_set() {
                return Err(Failure::Interrupted("interrupted while memory was filled".to_owned()));
            }
            let read = self.file.read_at(&mut piece, self.at.get());
            let read = read.map_err(|error| Failure::io("read", "a file without blocks", error))?;
            // Nothing is read at the file's end, from where it goes on at its beginning.
            self.at.set(if read == 0 { 0 } else { self.at.get() + read as u64 });
            left = left.saturating_sub(read.max(1) as u64);
        }
        Ok(())
    }
}
