//! What the machine has space for: what a full size is derived from.

use crate::bench::pool::PoolSettings;
use crate::failure::{Failure, Outcome};
use std::path::Path;

/// Space on this machine, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// All of its memory.
    pub memory_bytes: u64,
    /// Free where the stores will be.
    pub disk_bytes: u64,
    /// Free where the pools will be.
    pub pool_bytes: u64,
}

impl Room {
    /// For stores in `dir`, or in a temporary directory.
    pub fn of(dir: Option<&Path>) -> Outcome<Room> {
        let temporary = std::env::temp_dir();
        let dir = std::path::absolute(dir.unwrap_or(&temporary))
            .map_err(|error| Failure::io("find", "the directory of the stores", error))?;
        Ok(Room {
            memory_bytes: esker_bench::Machine::of(&dir).memory_bytes,
            disk_bytes: free_bytes(&dir)?,
            pool_bytes: free_bytes(&PoolSettings::default().pool_dir)?,
        })
    }
}

/// What is free on the file system of `dir`, or of the directory that it would be made in.
fn free_bytes(dir: &Path) -> Outcome<u64> {
    let there = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let found = rustix::fs::statvfs(there)
        .map_err(|error| Failure::io("measure", there.display().to_string(), error.into()))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_there_yet_has_the_room_of_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_bytes(&dir.path().join("a/b")).unwrap() > 0);
        assert!(!dir.path().join("a").exists());
        assert!(Room::of(Some(dir.path())).unwrap().memory_bytes > 0);
    }
}
