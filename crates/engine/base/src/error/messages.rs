//! Parts of messages that depend on what an error holds.

/// The holder of a lock, and what to do.
pub(super) fn holder(pid: &str) -> String {
    match pid == std::process::id().to_string() {
        true => "this process; close its other handles first, or use one of them".to_owned(),
        false => format!("process {pid}; close it there first"),
    }
}

pub(super) fn damaged(of: &str, offset: u64, what: &str) -> String {
    format!("{of} is damaged at offset {offset}: {what}")
}

/// What to do about an error of the system, if the engine knows.
pub(super) fn advice(source: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; free some space and try again; nothing acknowledged is lost"
        }
        ErrorKind::PermissionDenied => "; check the owner and mode of the path",
        _ => "",
    }
}
