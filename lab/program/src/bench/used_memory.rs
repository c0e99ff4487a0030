//! Memory that is in use when a case begins, as a server's is.
//!
//! What a page costs at its first touch depends on what was there: where a hypervisor takes free memory back, a free
//! page costs many times what one costs that held a file's clean copy. Stores that have just been removed leave
//! free memory, as much as they were large, and an engine that grows before it cleans up pays for what others
//! left. So free memory is filled with clean pages, which the system takes for others as it needs them.
//!
//! It can't be filled so everywhere: what is read of a file in memory (tmpfs) takes no new pages, and a process with a
//! limit gives its own pages up for others. So what is free afterwards is inspected, and reported.

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use esker_bench::Machine;
use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The part of all memory that may stay free, an eighth: nothing waits for the system to clean up, and little is new.
const FREE_SHARE: u64 = 8;

/// What is read between two inspects what is free, and at the user's wish to stop.
const PIECE_BYTES: usize = 64 << 20;

/// A file as large as memory, without a name and without a block on its disk, whose pages fill memory.
pub struct UsedMemory {
    file: File,
    bytes: u64,
    /// Where the next page is read: those before it were read last, and if they are still in memory, to read them once
    /// more would have the system keep them.
    at: Cell<u64>,
    /// How many bytes of memory are free.
    free_bytes: fn() -> u64,
    /// The most that stayed free.
    most_free_bytes: Cell<u64>,
}

impl UsedMemory {
    /// Fills nothing yet. The file is in `dir`.
    pub fn new(dir: &Path) -> Outcome<UsedMemory> {
        UsedMemory::of(dir, Machine::of(dir).memory_bytes, Machine::free_memory_bytes)
    }

    fn of(dir: &Path, bytes: u64, free_bytes: fn() -> u64) -> Outcome<UsedMemory> {
        let failed = |error| Failure::io("create a file in", dir.display().to_string(), error);
        let file = tempfile::tempfile_in(dir).map_err(failed)?;
        file.set_len(bytes).map_err(failed)?;
        let (at, most_free_bytes) = Default::default();
        Ok(UsedMemory { file, bytes, at, free_bytes, most_free_bytes })
    }

    /// Reads the file until little memory is free, and then `store`'s files: what is used again stays, and the file's
    /// pages go before the store's.
    pub fn fill(&self, store: &Path, interrupt: &Interrupt) -> Outcome {
        let mut piece = vec![0; PIECE_BYTES];
        self.take_what_is_free(&mut piece, interrupt)?;
        read_files(store, &mut piece, interrupt)?;
        Ok(())
    }

    /// What memory was like when it had been filled, at the worst.
    pub fn told(&self) -> String {
        let eighths = (self.most_free_bytes.get() * FREE_SHARE).div_ceil(self.bytes.max(1));
        match eighths {
            _ if self.bytes == 0 => "as it is: the system does not tell what is free".to_owned(),
            ..=1 => USED.to_owned(),
            free => format!("{free} eighths of it free: {UNFILLED}"),
        }
    }

    fn take_what_is_free(&self, piece: &mut [u8], interrupt: &Interrupt) -> Outcome {
        let mut left = self.bytes;
        loop {
            let free = (self.free_bytes)();
            if left == 0 || free <= self.bytes / FREE_SHARE {
                self.most_free_bytes.set(self.most_free_bytes.get().max(free));
                return Ok(());
            }
            check(interrupt)?;
            let read = self.file.read_at(piece, self.at.get());
            let read = read.map_err(|error| Failure::io("read", "a file without blocks", error))?;
            // Nothing is read at the file's end, from where it goes on at its beginning.
            self.at.set(if read == 0 { 0 } else { self.at.get() + read as u64 });
            left = left.saturating_sub(read.max(1) as u64);
        }
    }
}

/// What memory is like before a case, if it could be filled.
const USED: &str =
    "in use but for an eighth, by clean pages of a file that give way to others, as a server's is";

/// Why it could not.
const UNFILLED: &str =
    "a file's pages did not fill it, as in a directory in memory (tmpfs), or below a limit";

fn check(interrupt: &Interrupt) -> Outcome {
    match interrupt.is_set() {
        true => Err(Failure::Interrupted("interrupted while memory was filled".to_owned())),
        false => Ok(()),
    }
}

/// Reads all files in `dir`, those in directories in it, too. Returns their bytes.
fn read_files(dir: &Path, piece: &mut [u8], interrupt: &Interrupt) -> Outcome<u64> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        |error| Failure::io("read", path, error)
    };
    let mut bytes = 0;
    for entry in dir.read_dir().map_err(failed(dir))? {
        let entry = entry.map_err(failed(dir))?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed(dir))?);
        if kind.is_dir() {
            bytes += read_files(&path, piece, interrupt)?;
        } else if kind.is_file() {
            let mut file = File::open(&path).map_err(failed(&path))?;
            loop {
                check(interrupt)?;
                match file.read(piece).map_err(failed(&path))? {
                    0 => break,
                    read => bytes += read as u64,
                }
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 8 << 20;

    /// What is notified of memory of which so much is free whatever is read.
    fn told(free_bytes: fn() -> u64) -> String {
        let dir = tempfile::tempdir().unwrap();
        let memory = UsedMemory::of(dir.path(), BYTES, free_bytes).unwrap();
        memory.fill(dir.path(), &Interrupt::default()).unwrap();
        memory.told()
    }

    #[test]
    fn memory_that_could_not_be_filled_is_told_as_free_and_how_much_of_it() {
        assert!(told(|| BYTES / 8).starts_with("in use but for an eighth"));
        assert!(told(|| BYTES / 8 + 1).starts_with("2 eighths of it free"));
        assert!(told(|| BYTES).starts_with("8 eighths of it free"));
    }

    #[test]
    fn the_worst_of_several_cases_is_told() {
        thread_local!(static FREE: Cell<u64> = const { Cell::new(0) });
        let dir = tempfile::tempdir().unwrap();
        let memory = UsedMemory::of(dir.path(), BYTES, || FREE.get()).unwrap();
        for free in [1, BYTES / 2, 1] {
            FREE.set(free);
            memory.fill(dir.path(), &Interrupt::default()).unwrap();
        }
        assert!(memory.told().starts_with("4 eighths of it free"), "{}", memory.told());
    }

    #[test]
    fn a_system_that_does_not_tell_what_is_free_is_not_said_to_have_memory_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let memory = UsedMemory::of(dir.path(), 0, || 0).unwrap();
        memory.fill(dir.path(), &Interrupt::default()).unwrap();
        assert!(memory.told().starts_with("as it is"), "{}", memory.told());
    }

    #[test]
    fn files_in_directories_of_a_store_are_read_too() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("logs/old")).unwrap();
        for (name, bytes) in [("table", 100), ("logs/1", 20), ("logs/old/2", 3)] {
            std::fs::write(dir.path().join(name), vec![1; bytes]).unwrap();
        }
        let read = read_files(dir.path(), &mut [0; 64], &Interrupt::default());
        assert_eq!(read.unwrap(), 123);
    }
}
