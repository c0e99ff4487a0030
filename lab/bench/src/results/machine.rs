//! The machine, as the system's own files describe it. What they do not say stays empty.

use super::Machine;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

impl Machine {
    /// This machine, with the device that `dir` is on.
    pub fn of(dir: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (filesystem, disk) = mount(dir);
        let name = rustix::system::uname();
        let words = [name.sysname(), name.release(), name.machine()];
        Machine {
            cpu: value_of(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes(&read("/proc/meminfo"), "MemTotal"),
            kernel: words.map(|word| word.to_string_lossy().into_owned()).join(" "),
            filesystem,
            disk,
            os: os_name(&read("/etc/os-release")),
        }
    }

    /// Bytes of memory that nothing is in, not even a file's pages. 0 where the system does not report.
    pub fn free_memory_bytes() -> u64 {
        memory_bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), "MemFree")
    }

    /// Names what `other` has different compared with this.
    pub(super) fn append(&mut self, other: &Machine) {
        let fields = [
            (&mut self.cpu, &other.cpu),
            (&mut self.kernel, &other.kernel),
            (&mut self.filesystem, &other.filesystem),
            (&mut self.disk, &other.disk),
            (&mut self.os, &other.os),
        ];
        for (own, other) in fields {
            *own = super::merge::join(own, other, " | ");
        }
        self.cores = self.cores.max(other.cores);
        self.memory_bytes = self.memory_bytes.max(other.memory_bytes);
    }
}

/// The value of the first line `key : value`.
fn value_of(text: &str, key: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
}

fn memory_bytes(meminfo: &str, name: &str) -> u64 {
    let kib = value_of(meminfo, name);
    let kib = kib.and_then(|value| value.strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

fn os_name(os_release: &str) -> String {
    let mut names = os_release.lines().filter_map(|line| line.strip_prefix("PRETTY_NAME="));
    names.next().unwrap_or_default().trim_matches('"').to_owned()
}

/// The type of the file system that `dir` is on, and its device.
fn mount(dir: &Path) -> (String, String) {
    let Ok(metadata) = fs::metadata(dir) else { return Default::default() };
    let device = metadata.dev();
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let Some((filesystem, source)) = mount_of(&mounts, &number) else {
        return Default::default();
    };
    (filesystem.to_owned(), format!("{source}{}", disk_model(&number)))
}

/// The type and the source of the mounted file system that has this device number. A line of the
/// file is `id parent major:minor root place options … - type source options`.
fn mount_of<'a>(mountinfo: &'a str, number: &str) -> Option<(&'a str, &'a str)> {
    mountinfo.lines().find_map(|line| {
        let (place, device) = line.split_once(" - ")?;
        let mut device = device.split(' ');
        (place.split(' ').nth(2)? == number).then_some((device.next()?, device.next()?))
    })
}

/// The model of a block device, and whether it spins, after a comma. Nothing for what is none.
fn disk_model(number: &str) -> String {
    let block = format!("/sys/dev/block/{number}");
    // A partition has no entry for these, but its disk, the directory above, has.
    let read = |name: &str| {
        let paths = [format!("{block}/{name}"), format!("{block}/../{name}")];
        paths.iter().find_map(|path| fs::read_to_string(path).ok()).unwrap_or_default()
    };
    let model = read("device/model").trim().to_owned();
    let kind = match read("queue/rotational").trim() {
        "0" => "not rotational",
        "1" => "rotational",
        _ => "",
    };
    let known = [&model[..], kind].into_iter().filter(|text| !text.is_empty());
    known.map(|text| format!(", {text}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_found_in_the_systems_files() {
        let cpus =
            "processor\t: 0\nmodel name\t: Fast: 9000\nprocessor\t: 1\nmodel name\t: other\n";
        assert_eq!(value_of(cpus, "model name").as_deref(), Some("Fast: 9000"));
        let meminfo = "MemTotal:       2048 kB\nMemFree: 1 kB\n";
        assert_eq!(memory_bytes(meminfo, "MemTotal"), 2 << 20);
        assert_eq!(memory_bytes(meminfo, "MemFree"), 1 << 10);
        assert_eq!(os_name("ID=x\nPRETTY_NAME=\"System 1\"\n"), "System 1");
    }

    #[test]
    fn files_that_say_nothing_leave_nothing() {
        assert_eq!(value_of("", "model name"), None);
        assert_eq!((memory_bytes("MemTotal: lots", "MemTotal"), os_name("")), (0, String::new()));
        assert_eq!(mount_of("garbage\n1 2 - x", "0:1"), None);
    }

    #[test]
    fn the_mount_is_found_by_its_device_number() {
        let mounts = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                      30 22 0:5 / /tmp rw - tmpfs tmpfs rw\n";
        assert_eq!(mount_of(mounts, "0:5"), Some(("tmpfs", "tmpfs")));
        assert_eq!(mount_of(mounts, "8:1"), Some(("ext4", "/dev/sda1")));
        assert_eq!(mount_of(mounts, "8:2"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_a_kernel_and_memory() {
        let machine = Machine::of(Path::new("/"));
        assert!(machine.kernel.starts_with("Linux") && machine.memory_bytes > 0);
        assert!(machine.cores > 0);
    }
}
