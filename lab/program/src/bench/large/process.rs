//! What the operating system says of this process: memory, descriptors, reads.

use crate::failure::{Failure, Outcome};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Reads of this process so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reads {
    /// Calls that read a file, a pipe or a socket. Reads of mapped files are not among them.
    pub(super) calls: u64,
    /// Bytes that came from devices, and not from the page cache.
    pub(super) device_bytes: u64,
}

/// Resident memory of this process, in bytes, mapped files included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Resident {
    pub(super) now: u64,
    pub(super) peak: u64,
}

impl Reads {
    /// `None` where the system does not report.
    pub(super) fn now() -> Option<Reads> {
        Reads::parse(&std::fs::read_to_string("/proc/self/io").ok()?)
    }

    fn parse(io: &str) -> Option<Reads> {
        Some(Reads { calls: number(io, "syscr:")?, device_bytes: number(io, "read_bytes:")? })
    }
}

impl Resident {
    /// `None` where the system does not report.
    pub(super) fn now() -> Option<Resident> {
        Resident::parse(&std::fs::read_to_string("/proc/self/status").ok()?)
    }

    fn parse(status: &str) -> Option<Resident> {
        let bytes = |name| number(status, name).map(|kib| kib << 10);
        Some(Resident { now: bytes("VmRSS:")?, peak: bytes("VmHWM:")? })
    }
}

/// The number of a line `NAME NUMBER`, whatever follows it.
fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// How many descriptors are open. `None` where the system does not report.
pub(super) fn descriptors() -> Option<u64> {
    // One of them is that of the directory that is read.
    Some((std::fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
}

/// Allows this process so many descriptors, and no more later on.
pub(super) fn limit_descriptors(most: u64) -> Outcome {
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::Nofile, limit)
        .map_err(|error| Failure::io("limit", "the descriptors of a process", error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_memory_are_found_by_their_names() {
        let io = "rchar: 9\nwchar: 8\nsyscr: 70\nsyscw: 6\nread_bytes: 4096\nwrite_bytes: 5\n";
        assert_eq!(Reads::parse(io), Some(Reads { calls: 70, device_bytes: 4_096 }));
        assert_eq!(Reads::parse("rchar: 9\nread_bytes: 4096\n"), None);
        let status = "Name:\tx\nVmPeak:\t 900 kB\nVmHWM:\t   12 kB\nVmRSS:\t   11 kB\n";
        assert_eq!(Resident::parse(status), Some(Resident { now: 11 << 10, peak: 12 << 10 }));
        assert_eq!(Resident::parse("VmRSS:\t many kB\n"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_system_reports_this_process() {
        let before = Reads::now().unwrap();
        assert!(Reads::now().unwrap().calls > before.calls, "the file was read");
        let resident = Resident::now().unwrap();
        assert!(resident.now > 0 && resident.peak >= resident.now);
        assert!(descriptors().unwrap() > 0);
    }
}
