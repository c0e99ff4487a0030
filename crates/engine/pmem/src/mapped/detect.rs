//! What kind of memory a mapped file is.

use crate::domain::{Accept, Domain};
use esker_base::{Error, Result};
use rustix::fs::{Mode, OFlags, fstatfs, open};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const TMPFS: u64 = 0x0102_1994;

/// Where the kernel says what a block device is on.
const DEVICES: &str = "/sys/dev/block";

/// The domain of a file that could be mapped with `MAP_SYNC`.
pub(super) fn persistence(file: &File) -> Domain {
    let caches_survive = file.metadata().is_ok_and(|metadata| {
        let device = metadata.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        caches_survive(&Path::new(DEVICES).join(format!("{major}:{minor}")))
    });
    if caches_survive { Domain::Eadr } else { Domain::MapSync }
}

/// Whether the caches in front of a block device survive power loss, as far as the kernel says so: for
/// a device made of others, all of them must.
fn caches_survive(device: &Path) -> bool {
    let Ok(device) = device.canonicalize() else { return false };
    let parts: Vec<PathBuf> = match device.join("slaves").read_dir() {
        Ok(parts) => parts.filter_map(|part| Some(part.ok()?.path())).collect(),
        Err(_) => Vec::new(),
    };
    if !parts.is_empty() {
        return parts.iter().all(|part| caches_survive(part));
    }
    let domain = device
        .ancestors()
        .find_map(|folder| std::fs::read_to_string(folder.join("persistence_domain")).ok());
    domain.is_some_and(|domain| domain.trim() == "cpu_cache")
}

/// Whether memory of this domain keeps what is stored by this processor, whose flushes `reach_medium` or
/// are not known here. Caches that survive would need no flush, but a fence that waits for them.
pub(super) fn durable_stores(path: &Path, domain: Domain, reach_medium: bool) -> Result<()> {
    if domain == Domain::Emulated || reach_medium {
        return Ok(());
    }
    Err(Error::PoolRefused {
        pool: path.display().to_string(),
        reason:
            "this program can't flush this kind of processor's caches, so its stores may not reach \
                 persistent memory; use a log file"
                .into(),
    })
}

/// What a file that can't be mapped with `MAP_SYNC` may replace, if for anything: on tmpfs for
/// persistent memory, if that is asked for by name; elsewhere, as long as it is only inspected, for the pool
/// that it is a copy of.
pub(super) fn stand_in(
    path: &Path,
    file_system: u64,
    accept: Accept,
    writable: bool,
) -> Result<Domain> {
    let refuse = |reason: &str| {
        Err(Error::PoolRefused { pool: path.display().to_string(), reason: reason.into() })
    };
    match (file_system == TMPFS, accept) {
        (true, Accept::Emulated) => Ok(Domain::Emulated),
        (true, Accept::Persistent) => refuse(
            "it is on tmpfs, which is DRAM, so nothing in it survives power loss; ask for an \
             emulated pool by name if that will do, or put it on a DAX file system",
        ),
        (false, _) if !writable => Ok(Domain::Copy),
        (false, _) => refuse(
            "its file system can't be mapped with MAP_SYNC, so a store could be lost though it was \
             flushed; put the pool on a file system mounted with DAX on persistent memory, or, as \
             an emulation that survives no power loss, on tmpfs such as /dev/shm",
        ),
    }
}

/// Refuses to make a pool at `path` where none can be, before anything is taken for it. Tries a file of one
/// page that has no name. What can't be detected this way is not refused here.
pub(super) fn place(path: &Path, accept: Accept) -> Result<()> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let Ok(file) = open(directory, flags, Mode::RUSR | Mode::WUSR) else { return Ok(()) };
    let file = File::from(file);
    const BYTES: usize = 4096;
    if file.set_len(BYTES as u64).is_err() {
        return Ok(());
    }
    let (protection, flags) = (ProtFlags::READ, MapFlags::SHARED_VALIDATE | MapFlags::SYNC);
    // SAFETY: the system chooses an address where nothing is mapped.
    match unsafe { mmap(std::ptr::null_mut(), BYTES, protection, flags, &file, 0) } {
        Ok(base) => {
            // SAFETY: it was just mapped, and nobody else knows where.
            let _ = unsafe { munmap(base, BYTES) };
            Ok(())
        }
        Err(Errno::OPNOTSUPP | Errno::INVAL) => match fstatfs(&file) {
            Ok(kind) => stand_in(path, kind.f_type as u64, accept, true).map(drop),
            Err(_) => Ok(()),
        },
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A device as the kernel shows it: a block device in a region, the domain a property of that.
    fn device(dir: &Path, name: &str, domain: Option<&str>) -> PathBuf {
        let region = dir.join("devices/ndbus0").join(format!("region-{name}"));
        let block = region.join("namespace0.0/block").join(name);
        fs::create_dir_all(&block).unwrap();
        if let Some(domain) = domain {
            fs::write(region.join("persistence_domain"), format!("{domain}\n")).unwrap();
        }
        let link = dir.join(name);
        std::os::unix::fs::symlink(&block, &link).unwrap();
        link
    }

    #[test]
    fn caches_survive_only_where_the_kernel_says_so() {
        let dir = tempfile::tempdir().unwrap();
        for (name, domain, expected) in [
            ("pmem0", Some("cpu_cache"), true),
            ("pmem1", Some("memory_controller"), false),
            ("pmem2", Some(""), false),
            ("pmem3", None, false),
        ] {
            assert_eq!(caches_survive(&device(dir.path(), name, domain)), expected, "{name}");
        }
        assert!(!caches_survive(&dir.path().join("missing")));
    }

    #[test]
    fn of_a_device_made_of_others_all_must_say_so() {
        let dir = tempfile::tempdir().unwrap();
        let safe = device(dir.path(), "pmem0", Some("cpu_cache"));
        let other = device(dir.path(), "pmem1", Some("memory_controller"));
        for (name, parts, expected) in
            [("dm-0", &[&safe][..], true), ("dm-1", &[&safe, &other], false)]
        {
            let slaves = dir.path().join(name).join("slaves");
            fs::create_dir_all(&slaves).unwrap();
            for part in parts {
                let link = slaves.join(part.file_name().unwrap());
                std::os::unix::fs::symlink(part, link).unwrap();
            }
            assert_eq!(caches_survive(&dir.path().join(name)), expected, "{name}");
        }
    }

    #[test]
    fn a_processor_whose_flushes_are_not_known_has_emulated_pools_only() {
        let path = Path::new("pool");
        for domain in [Domain::MapSync, Domain::Eadr, Domain::Emulated] {
            assert!(durable_stores(path, domain, true).is_ok(), "{domain}");
            let found = durable_stores(path, domain, false);
            assert_eq!(found.is_ok(), domain == Domain::Emulated, "{domain}");
        }
    }

    #[test]
    fn only_tmpfs_is_an_emulation_and_only_when_asked_for() {
        const EXT4: u64 = 0xef53;
        let path = Path::new("pool");
        for writable in [false, true] {
            let found = stand_in(path, TMPFS, Accept::Emulated, writable);
            assert_eq!(found.unwrap(), Domain::Emulated);
            let error = stand_in(path, TMPFS, Accept::Persistent, writable).unwrap_err();
            assert!(error.to_string().contains("by name"), "{error}");
        }
        // Ramfs can allocate nothing, so it is refused for what it is not.
        const RAMFS: u64 = 0x8584_58f6;
        for (file_system, accept, says) in [
            (EXT4, Accept::Persistent, "MAP_SYNC"),
            (EXT4, Accept::Emulated, "/dev/shm"),
            (RAMFS, Accept::Emulated, "/dev/shm"),
        ] {
            let error = stand_in(path, file_system, accept, true).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn on_any_other_file_system_a_copy_may_be_looked_at() {
        for accept in [Accept::Persistent, Accept::Emulated] {
            assert_eq!(stand_in(Path::new("pool"), 0xef53, accept, false).unwrap(), Domain::Copy);
        }
    }

    #[test]
    fn a_place_is_judged_before_anything_is_made_there() {
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        let pool = memory.path().join("pool");
        assert!(place(&pool, Accept::Emulated).is_ok());
        let refused = place(&pool, Accept::Persistent).unwrap_err();
        assert!(refused.to_string().contains("by name"), "{refused}");
        // Where nothing can be told, creating says what is wrong.
        assert!(place(&memory.path().join("missing/pool"), Accept::Persistent).is_ok());
        assert_eq!(memory.path().read_dir().unwrap().count(), 0);
    }
}
