//! What each peer keeps after a crash, as it is configured here.

/// What survives a crash of the process, and a power loss, of the writes that the peer `name` has
/// acknowledged. The peer need not be built in.
pub fn after_a_crash(name: &str) -> &'static str {
    match name {
        "rocksdb-wal-sync" => "process: all; power: all",
        "rocksdb-nolog" => "process and power: what was flushed",
        "lmdb" => {
            "process: all; power: the last writes are lost, or the store is corrupt if the file \
             system reorders writes"
        }
        "redb" => "process and power: what the last flush made durable",
        "bf-tree" => "process and power: nothing since the last snapshot, which flush writes",
        "tidesdb" => "process: all; power: all but the last second",
        // RocksDB, LevelDB and fjall: a log that is written and not synced.
        _ => "process: all; power: a prefix of the writes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_promise_says_what_both_kinds_of_crash_leave() {
        for name in crate::NAMES {
            let promise = after_a_crash(name);
            assert!(promise.contains("process") && promise.contains("power"), "{name}: {promise}");
        }
    }
}
