//! Whether LevelDB has a compaction to do, from the sizes of its levels.
//!
//! LevelDB compacts a level when its score reaches 1: level 0 by files, the others by bytes
//! (`VersionSet::Finalize` and `doc/impl.md`, Compactions). The property `leveldb.sstables` lists the
//! files of each level, ` number:bytes[smallest .. largest]`, keys escaped.

/// Files in level 0 that bring about a compaction.
const LEVEL_0_FILES: usize = 4;
/// Bytes that level 1 may have; each level after it may have ten times as many.
const LEVEL_1_BYTES: u64 = 10 << 20;
/// The last level, which is never too large.
const LAST_LEVEL: u32 = 6;

/// Whether some level of those that `sstables` lists is due.
pub(super) fn compaction_is_due(sstables: &str) -> bool {
    let mut level = 0;
    let (mut files, mut bytes) = (0, 0);
    for line in sstables.lines() {
        let heading = line.strip_prefix("--- level ").and_then(|rest| rest.split(' ').next());
        if let Some(number) = heading {
            if is_due(level, files, bytes) {
                return true;
            }
            level = number.parse().unwrap_or(LAST_LEVEL);
            (files, bytes) = (0, 0);
        } else {
            files += 1;
            bytes += file_bytes(line).unwrap_or(0);
        }
    }
    is_due(level, files, bytes)
}

fn is_due(level: u32, files: usize, bytes: u64) -> bool {
    match level {
        0 => files >= LEVEL_0_FILES,
        1..LAST_LEVEL => bytes >= LEVEL_1_BYTES * 10u64.pow(level - 1),
        _ => false,
    }
}

fn file_bytes(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(':')?;
    rest.split('[').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_files_in_level_0_are_due() {
        let files = |count| " 5:100['a' @ 1 : 1 .. 'b' @ 2 : 1]\n".repeat(count);
        assert!(!compaction_is_due(&format!("--- level 0 ---\n{}--- level 1 ---\n", files(3))));
        assert!(compaction_is_due(&format!("--- level 0 ---\n{}--- level 1 ---\n", files(4))));
    }

    #[test]
    fn a_level_over_its_size_is_due() {
        let level = |level, bytes| format!("--- level {level} ---\n 9:{bytes}['[:' .. 'b']\n");
        assert!(!compaction_is_due(&level(1, (10 << 20) - 1)));
        assert!(compaction_is_due(&level(1, 10 << 20)));
        assert!(!compaction_is_due(&level(2, 10 << 20)));
        assert!(compaction_is_due(&level(2, 100 << 20)));
        assert!(!compaction_is_due(&level(6, u64::MAX)));
    }
}
