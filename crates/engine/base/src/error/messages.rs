//! Parts of messages that depend on what an error holds.

use super::LockWait;

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

/// A damaged pool, and what to do.
pub(super) fn pool_damaged(pool: &str, offset: u64, what: &str) -> String {
    format!(
        "{}; writes that no table has yet are in \
         it alone, all others are safe; run `esker pmem check` to see how far it goes; restore the \
         pool from a copy, or else `esker repair DB --pool FILE` mends what it says of its extents, if \
         its header is sound, and `esker repair DB --give-up-logs`, without `--pool`, goes on with what \
         is in tables",
        damaged(pool, offset, what)
    )
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

/// A lock that was held for too long, and what to do.
pub(super) fn lock_timeout(key: &str, holder: &str, waited: std::time::Duration) -> String {
    format!(
        "key {key} was locked by {holder} for longer than the lock timeout of {waited:?}; run the \
         transaction again, or allow it more time"
    )
}

/// The cycle of a deadlock, which `key` closed: which transaction waits for which key of which other.
pub(super) fn cycle(key: &str, waits: &[LockWait]) -> String {
    let holders = waits.iter().cycle().skip(1);
    let wait = |(wait, holder): (&LockWait, &LockWait)| {
        let LockWait { transaction, key } = wait;
        let key = if key.is_empty() { "a range".to_owned() } else { format!("key {key}") };
        format!("transaction {transaction} waits for {key} of transaction {}", holder.transaction)
    };
    let waits: Vec<_> = waits.iter().zip(holders).map(wait).collect();
    let cycle = if waits.is_empty() { String::new() } else { format!(" ({})", waits.join(", ")) };
    format!(" when it asked for key {key}{cycle}; roll back and run it again")
}
