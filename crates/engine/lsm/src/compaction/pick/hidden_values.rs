//! How many bytes of large values newer tables may hide.
//!
//! A large value has a file of its own, and its table is tiny: levels that are compacted by the bytes of
//! their tables may keep a file of gigabytes that no reader needs. So `tombstones` counts such files.
//! It does not read keys. It presumes that a newer large value, or a delete, hides an older value.

use crate::version::key_bounds::KeyBounds;
use crate::version::{KeyspaceVersion, TableHandle, TableMeta, blocks};

/// Alone in its file as far as the table says, and of so many bytes at least.
const LARGE_BYTES: u64 = blocks::BLOCK_BYTES as u64;

/// The number of the large values of a table, and their bytes.
pub(super) fn large_values(meta: &TableMeta) -> (u64, u64) {
    let uses = meta.value_files.iter().filter(|of| of.values == 1 && of.bytes >= LARGE_BYTES);
    uses.fold((0, 0), |(values, bytes), of| (values + 1, bytes + of.bytes))
}

/// About how many bytes of large values under `table`, of `level`, are overwritten or deleted by it.
pub(super) fn hidden_by(keyspace: &KeyspaceVersion, level: usize, table: &TableHandle) -> u64 {
    let meta = &table.meta;
    let large = large_values(meta).0;
    if large + meta.deletes == 0 {
        return 0;
    }
    let span = KeyBounds::of_table(meta);
    let (mut entries, mut older_large, mut bytes) = (0, 0, 0);
    for (at, runs) in keyspace.levels.iter().enumerate().skip(level) {
        let older = runs.runs.iter().flat_map(|run| span.tables_of(run));
        // Runs of level 0 overlap each other.
        for older in older.filter(|it| at > level || it.meta.max_seqno < meta.min_seqno) {
            let (values, value_bytes) = large_values(&older.meta);
            entries += older.meta.entries;
            older_large += values;
            bytes += value_bytes;
        }
    }
    if older_large == 0 {
        return 0;
    }
    let overwritten = large as f64 / older_large as f64;
    let deleted = meta.deletes as f64 / entries as f64;
    (bytes as f64 * (overwritten + deleted).min(1.0)) as u64
}
