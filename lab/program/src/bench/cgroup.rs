//! A limit of memory for worker processes, the page cache of their files included: a control group
//! (cgroup) below the one of this process.
//!
//! Version 2 needs a directory that belongs to the user, with the memory controller in it, such as
//! that of `systemd-run --user --scope -p Delegate=yes`. A group with processes has no controllers
//! for the groups below it. So this process moves to a group of its own first, if it is alone in its
//! group. Where the memory controller is in a hierarchy of version 1, as a rule only root may use
//! it. All that is made here is undone when the group is dropped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The group of a process without the path of the mounted hierarchy.
const OWN_GROUP: &str = "/proc/self/cgroup";
const MOUNTS: &str = "/proc/self/mountinfo";
const PROCESSES: &str = "cgroup.procs";
const CONTROLLERS: &str = "cgroup.controllers";
const CONTROLLERS_BELOW: &str = "cgroup.subtree_control";

/// A group that limits the memory of the processes in it.
pub struct Cgroup {
    parent: PathBuf,
    dir: PathBuf,
    /// The group that this process has moved to.
    moved_to: Option<PathBuf>,
}

impl Cgroup {
    /// A group with so many bytes of memory, below that of this process. Fails with the reason.
    pub fn create(memory_bytes: u64) -> Result<Cgroup, String> {
        let read = |file| fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
        let (own, mounts) = (read(OWN_GROUP)?, read(MOUNTS)?);
        // The controller is in one hierarchy only.
        if let Some(parent) = own_dir(&own, &mounts, Version::One) {
            return Cgroup::create_in_version_1(parent, memory_bytes, std::process::id());
        }
        let parent = own_dir(&own, &mounts, Version::Two);
        let parent = parent.ok_or("there is no hierarchy of cgroups with the memory controller")?;
        Cgroup::create_in(parent, memory_bytes, std::process::id())
    }

    /// The same below the group `parent` of a hierarchy of version 1, which may have processes.
    fn create_in_version_1(parent: PathBuf, memory_bytes: u64, own: u32) -> Result<Cgroup, String> {
        let group = Cgroup { dir: parent.join(own_name(own)), parent, moved_to: None };
        let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        fs::create_dir(&group.dir).map_err(|error| failed(&group.dir, error))?;
        let limit = group.dir.join("memory.limit_in_bytes");
        fs::write(&limit, memory_bytes.to_string()).map_err(|error| failed(&limit, error))?;
        // Memory and swap together. Absent where the system does not count swap: then there may be swap
        // beside the limit.
        let _ = fs::write(group.dir.join("memory.memsw.limit_in_bytes"), memory_bytes.to_string());
        Ok(group)
    }

    /// The same below the group `parent`, of the process with the ID `own`.
    fn create_in(parent: PathBuf, memory_bytes: u64, own: u32) -> Result<Cgroup, String> {
        let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        let list = |file: &str| {
            let path = parent.join(file);
            fs::read_to_string(&path).map_err(|error| failed(&path, error))
        };
        if !has_memory(&list(CONTROLLERS)?) {
            return Err(format!("{} has no memory controller", parent.display()));
        }
        let mut group = Cgroup { dir: parent.join(own_name(own)), parent, moved_to: None };
        if !has_memory(&list_of(&group.parent, CONTROLLERS_BELOW)) {
            group.enable(own)?;
        }
        fs::create_dir(&group.dir).map_err(|error| failed(&group.dir, error))?;
        let limit = group.dir.join("memory.max");
        fs::write(&limit, memory_bytes.to_string()).map_err(|error| failed(&limit, error))?;
        // Absent where the system has no swap.
        let _ = fs::write(group.dir.join("memory.swap.max"), "0");
        Ok(group)
    }

    /// Gives groups below the parent the memory controller.
    fn enable(&mut self, own: u32) -> Result<(), String> {
        let file = self.parent.join(CONTROLLERS_BELOW);
        if fs::write(&file, "+memory").is_ok() {
            return Ok(());
        }
        let beside = self.parent.join(format!("esker-lab-{own}-self"));
        let failed = |error: io::Error| format!("{}: {error}", beside.display());
        fs::create_dir(&beside).map_err(failed)?;
        self.moved_to = Some(beside.clone());
        fs::write(beside.join(PROCESSES), own.to_string()).map_err(failed)?;
        fs::write(&file, "+memory").map_err(|error| {
            format!("{}: {error}; other processes may be in this group", file.display())
        })
    }

    /// Moves a process into the group.
    pub fn take_in(&self, process: u32) -> io::Result<()> {
        fs::write(self.dir.join(PROCESSES), process.to_string())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The group may not be there yet, and what is left of it does no harm.
        let _ = fs::remove_dir(&self.dir);
        if let Some(beside) = &self.moved_to {
            let _ = fs::write(self.parent.join(CONTROLLERS_BELOW), "-memory");
            let _ = fs::write(self.parent.join(PROCESSES), std::process::id().to_string());
            let _ = fs::remove_dir(beside);
        }
    }
}

fn list_of(dir: &Path, file: &str) -> String {
    fs::read_to_string(dir.join(file)).unwrap_or_default()
}

fn has_memory(controllers: &str) -> bool {
    controllers.split_whitespace().any(|name| name == "memory")
}

fn own_name(own: u32) -> String {
    format!("esker-lab-{own}")
}

/// A kind of hierarchy. Each hierarchy of the first has controllers of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    One,
    Two,
}

/// The directory of this process's group in the hierarchy that may have the memory controller, by the
/// contents of `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn own_dir(own: &str, mounts: &str, version: Version) -> Option<PathBuf> {
    let has = |list: &str| list.split(',').any(|name| name == "memory");
    let path = own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let is_own = match version {
            Version::One => has(controllers),
            Version::Two => line.starts_with("0::"),
        };
        is_own.then_some(path)
    })?;
    let mounted = mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let (mut fields, mut kind) = (mount.split(' '), kind.split(' '));
        let is_own = match version {
            Version::One => kind.next() == Some("cgroup") && kind.nth(1).is_some_and(has),
            Version::Two => kind.next() == Some("cgroup2"),
        };
        is_own.then(|| (fields.nth(3), fields.next()))
    });
    let (Some(root), Some(at)) = mounted? else { return None };
    let below = Path::new(path).strip_prefix(root).ok()?;
    Some(Path::new(at).join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with files as a group has them.
    fn group(controllers: &str, below: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(CONTROLLERS), controllers).unwrap();
        fs::write(dir.path().join(CONTROLLERS_BELOW), below).unwrap();
        dir
    }

    #[test]
    fn the_group_of_a_process_is_below_the_mounted_hierarchy() {
        let mounts = "31 24 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      42 31 0:39 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let own = "4:memory:/other\n0::/user/app\n";
        let dir_2 = |own, mounts| own_dir(own, mounts, Version::Two);
        let expected = Path::new("/sys/fs/cgroup/unified/user/app");
        assert_eq!(dir_2(own, mounts).as_deref(), Some(expected));
        let of_container = mounts.replace("0:39 / ", "0:39 /user ");
        let expected = Path::new("/sys/fs/cgroup/unified/app");
        assert_eq!(dir_2(own, &of_container).as_deref(), Some(expected));
        assert_eq!(dir_2("4:memory:/other\n", mounts), None);
        assert_eq!(dir_2(own, "31 24 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"), None);
    }

    #[test]
    fn where_memory_has_a_hierarchy_of_its_own_the_group_is_below_that() {
        let mounts = "34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      42 31 0:39 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "5:cpu,cpuacct:/elsewhere\n4:memory:/user/app\n0::/other\n";
        let expected = Path::new("/sys/fs/cgroup/memory/user/app");
        assert_eq!(own_dir(own, mounts, Version::One).as_deref(), Some(expected));
        let without = mounts.replace("rw,memory", "rw,pids");
        assert_eq!(own_dir(own, &without, Version::One), None);
        assert_eq!(own_dir("0::/other\n", mounts, Version::One), None);
    }

    #[test]
    fn a_process_in_a_group_of_version_1_has_its_limit_with_swap() {
        let dir = tempfile::tempdir().unwrap();
        let made = Cgroup::create_in_version_1(dir.path().to_owned(), 12_345, 77).unwrap();
        made.take_in(99).unwrap();
        let written = |file: &str| list_of(&dir.path().join("esker-lab-77"), file);
        assert_eq!(written("memory.limit_in_bytes"), "12345");
        assert_eq!(written("memory.memsw.limit_in_bytes"), "12345");
        assert_eq!(written(PROCESSES), "99");
    }

    #[test]
    fn a_process_in_a_group_has_its_limit() {
        let dir = group("cpu memory pids\n", "memory\n");
        let made = Cgroup::create_in(dir.path().to_owned(), 12_345, 77).unwrap();
        made.take_in(99).unwrap();
        let written = |file: &str| list_of(&dir.path().join("esker-lab-77"), file);
        assert_eq!((&written("memory.max")[..], &written(PROCESSES)[..]), ("12345", "99"));
        assert!(made.moved_to.is_none());
    }

    #[test]
    fn a_group_without_the_controller_is_refused_and_left_alone() {
        let dir = group("cpu pids\n", "");
        let refused = Cgroup::create_in(dir.path().to_owned(), 1, 77).err().unwrap();
        assert!(refused.contains("no memory controller"), "{refused}");
        assert_eq!(dir.path().read_dir().unwrap().count(), 2);
    }

    #[test]
    fn the_controller_is_enabled_where_it_is_not() {
        let dir = group("memory\n", "");
        let made = Cgroup::create_in(dir.path().to_owned(), 1, 77).unwrap();
        assert_eq!(list_of(dir.path(), CONTROLLERS_BELOW), "+memory");
        drop(made);
        assert!(!dir.path().join("esker-lab-77-self").exists());
    }
}
