//! Who has a file locked, as Linux reports in `/proc/locks` (proc(5)): a line a lock, with its kind, the process, and the
//! file's device, in hexadecimal, and inode.

use rustix::fs::{fstat, major, minor};
use std::fs::File;

/// The id of the process that has `file` locked by `flock`, or `unknown`.
pub(crate) fn holder(file: &File) -> String {
    let Ok(stat) = fstat(file) else { return "unknown".to_owned() };
    let place = format!("{:02x}:{:02x}:{}", major(stat.st_dev), minor(stat.st_dev), stat.st_ino);
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    find(&locks, &place).unwrap_or("unknown").to_owned()
}

/// The process in the line of the lock at `place`. Lines of those that wait for it have an arrow in front of the kind.
fn find<'a>(locks: &'a str, place: &str) -> Option<&'a str> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_lock = words.next()? == "FLOCK";
        let pid = words.nth(2)?;
        let is_here = words.next()? == place;
        let is_known = pid.parse::<u32>().is_ok_and(|pid| pid > 0);
        (is_lock && is_here && is_known).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_by_the_files_place() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 fe:00:8 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fe:00:7 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 14 fe:00:7 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE -1 fe:00:9 0 EOF\n";
        assert_eq!(find(locks, "fe:00:7"), Some("14"));
        assert_eq!(find(locks, "fe:00:9"), None, "a process that can't be seen from here");
        assert_eq!(find(locks, "fe:01:7"), None);
    }
}
