//! The process that holds a `flock`, from the kernel's list of locks.

use rustix::fs::{major, minor};

/// Returns the process that has the whole file `inode` on `device` locked, from the text of
/// `/proc/locks`: lines such as `7: FLOCK  ADVISORY  WRITE 4711 00:1a:42 0 EOF`. The kernel shows a
/// process of another pid namespace as zero or less; then this returns `None`.
pub fn lock_holder(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let file = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    locks.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, _, pid, at, ..] if at == file => {
                pid.parse().ok().filter(|&pid| pid > 0)
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_told_from_those_of_other_files_and_of_other_kinds() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 00:1a:42 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 8 00:1a:421 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 9 00:1a:42 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 0 00:1b:42 0 EOF\n";
        let device = |minor| rustix::fs::makedev(0, minor);
        assert_eq!(lock_holder(locks, device(0x1a), 42), Some(9));
        assert_eq!(lock_holder(locks, device(0x1b), 42), None, "of another namespace");
        assert_eq!(lock_holder(locks, device(0x1a), 43), None);
    }
}
