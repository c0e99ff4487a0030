//! How many bytes of large values newer tables may hide.
//!
//! A large value has a file of its own, and its table is tiny: levels that are compacted by the bytes of
//! their tables may keep a file of gigabytes that no reader needs. So `tombstones` counts such files.
//!
//! This reads no keys. A newer table hides an older one of the same single key. Otherwise a large value is
//! presumed to replace another, and deletes to hit all entries alike: they count once they are enough to
//! hit a large value.

use crate::version::key_bounds::KeyBounds;
use crate::version::{KeyspaceVersion, TableHandle, TableMeta, blocks};

/// A value is large if it is alone in its file, as far as the table says, and has so many bytes at least.
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
    if large + meta.deletes == 0 && !has_one_key(meta) {
        return 0;
    }
    let span = KeyBounds::of_table(meta);
    let (mut known, mut entries, mut older_large, mut bytes) = (0, 0, 0, 0);
    for (at, runs) in keyspace.levels.iter().enumerate().skip(level) {
        let older = runs.runs.iter().flat_map(|run| span.tables_of(run));
        // Runs of level 0 overlap each other.
        for older in older.filter(|it| at > level || it.meta.max_seqno < meta.min_seqno) {
            let (values, value_bytes) = large_values(&older.meta);
            if has_one_key(meta) && has_one_key(&older.meta) {
                known += value_bytes;
                continue;
            }
            entries += older.meta.entries;
            older_large += values;
            bytes += value_bytes;
        }
    }
    if older_large == 0 {
        return known;
    }
    let deleted = older_large as f64 * meta.deletes as f64 / entries as f64;
    let hidden = large as f64 + deleted;
    let share = if hidden < 1.0 { 0.0 } else { (hidden / older_large as f64).min(1.0) };
    known + (bytes as f64 * share) as u64
}

fn has_one_key(meta: &TableMeta) -> bool {
    meta.smallest == meta.largest && !meta.largest_is_exclusive
}
