//! The machine that the program runs on.

/// The system's host name. Empty where it is not known.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
