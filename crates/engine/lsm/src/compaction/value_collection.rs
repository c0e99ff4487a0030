//! Decides which value files compactions collect, without I/O.
//!
//! A compaction that drops the place of a value leaves obsolete data in a value file, and counts it. A
//! file without live values is removed. If the files of a keyspace hold more obsolete data than
//! [`OBSOLETE_PARTS`] allows, those with the largest part of it are collected: each compaction writes the
//! live values that it meets anew, so that the file has fewer, and none in the end. If that is too
//! slow, tables that refer to these files are rewritten in their places ([`pick`]).
//!
//! A compaction also collects small files if it meets all of their live values ([`joined`]). Then it
//! writes fewer files than it empties. A full compaction collects files that are encrypted with an old key.

use super::in_progress::InProgressCompactions;
use super::plan::{CompactionInput, CompactionPlan, CompactionReason};
use crate::options::sizes::SizeTargets;
use crate::version::{KeyspaceVersion, ListedValueFile, TableMeta, ValueFiles, ValueSums};
use esker_base::KeyspaceId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Obsolete data may be one part in so many of the value files of a keyspace. Once compactions have caught
/// up, the files take at most half as much again as their live values.
const OBSOLETE_PARTS: u64 = 3;

/// A value file below this size is small, in bytes.
const SMALL_BYTES: u64 = 8 << 20;

/// A compaction joins so many small files at least.
const JOINED_MIN: usize = 4;

/// Beyond this share of obsolete data, tables are rewritten only to collect value files.
const OVERDUE_PARTS: u64 = 2;
const OVERDUE_DIVISOR: u64 = 5;

/// The files of `keyspace` whose live values compactions write anew.
pub(crate) fn collected(files: &ValueFiles, keyspace: KeyspaceId) -> BTreeSet<u64> {
    let mut own: Vec<&ListedValueFile> =
        files.of(keyspace).filter(|listed| listed.file.is_readable()).collect();
    let (mut bytes, mut obsolete) = sums(own.iter().copied());
    // Those with the least live values for their bytes first.
    own.sort_by(|a, b| {
        let (of_a, of_b) = (a.live_bytes, b.live_bytes);
        let [a_scaled, b_scaled] = [(of_a, b), (of_b, a)]
            .map(|(live, other)| u128::from(live) * u128::from(other.meta.value_bytes));
        a_scaled.cmp(&b_scaled).then(a.meta.file.cmp(&b.meta.file))
    });
    let mut chosen = BTreeSet::new();
    for listed in own {
        if obsolete * OBSOLETE_PARTS <= bytes || obsolete_in(listed) == 0 {
            break;
        }
        chosen.insert(listed.meta.file);
        obsolete -= obsolete_in(listed);
        bytes -= obsolete_in(listed);
    }
    chosen
}

/// The same, if the files of `keyspace` hold so much obsolete data that compactions are made for that.
pub(crate) fn overdue(files: &ValueFiles, keyspace: KeyspaceId) -> BTreeSet<u64> {
    let ValueSums { value_bytes, live_bytes } = files.sums_of(keyspace);
    match (value_bytes - live_bytes) * OVERDUE_DIVISOR > value_bytes * OVERDUE_PARTS {
        true => collected(files, keyspace),
        false => BTreeSet::new(),
    }
}

/// The small files that a compaction of `tables` in `parts` parts joins. Each part writes at least one.
pub(crate) fn joined<'a>(
    files: &ValueFiles,
    tables: impl Iterator<Item = &'a TableMeta>,
    parts: usize,
) -> BTreeSet<u64> {
    let mut met: BTreeMap<u64, u64> = BTreeMap::new();
    for of in tables.flat_map(|meta| &meta.value_files) {
        *met.entry(of.file).or_default() += of.values;
    }
    met.retain(|file, values| {
        files.get(*file).is_some_and(|listed| {
            listed.meta.bytes < SMALL_BYTES
                && !listed.meta.in_blocks
                && listed.live_values == *values
                && listed.file.is_readable()
        })
    });
    match met.len() >= JOINED_MIN.max(2 * parts) {
        true => met.into_keys().collect(),
        false => BTreeSet::new(),
    }
}

/// Those of `wanted` that can be collected.
pub(crate) fn readable(files: &ValueFiles, wanted: &BTreeSet<u64>) -> BTreeSet<u64> {
    let is_readable = |id: &&u64| files.get(**id).is_some_and(|listed| listed.file.is_readable());
    wanted.iter().filter(is_readable).copied().collect()
}

/// The bytes of the values in files, and those that are obsolete.
fn sums<'a>(files: impl Iterator<Item = &'a ListedValueFile>) -> (u64, u64) {
    files.fold((0, 0), |(bytes, obsolete), listed| {
        (bytes + listed.meta.value_bytes, obsolete + obsolete_in(listed))
    })
}

/// The bytes of values in a file that no table refers to.
fn obsolete_in(listed: &ListedValueFile) -> u64 {
    listed.meta.value_bytes - listed.live_bytes
}

/// The rewrite of the table of `keyspace` that refers to most bytes of `files`.
pub(crate) fn pick(
    keyspace: &KeyspaceVersion,
    files: &BTreeSet<u64>,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let bytes_of = |meta: &TableMeta| -> u64 {
        let uses = meta.value_files.iter().filter(|of| files.contains(&of.file));
        uses.map(|of| of.bytes).sum()
    };
    let tables =
        keyspace.tables().map(|(level, run, table)| (bytes_of(&table.meta), level, run, table));
    let mut tables: Vec<_> =
        tables.filter(|(bytes, .., it)| *bytes > 0 && !busy.holds(it)).collect();
    tables.sort_by_key(|(bytes, ..)| Reverse(*bytes));
    let mut plans = tables.into_iter().filter_map(|(_, level, run, table)| {
        let input = CompactionInput { level, run, tables: vec![table.clone()] };
        let reason = CompactionReason::ObsoleteData;
        CompactionPlan::new(keyspace, vec![input], level, run, reason, sizes)
    });
    plans.find(|plan| !plan.takes_unreadable() && busy.permits(plan))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::ValueFileMeta;
    use esker_storage::{MemoryStorage, Storage};
    use esker_table::ValueFileUse;
    use std::sync::Arc;

    const KEYSPACE: KeyspaceId = KeyspaceId(1);

    /// Files of 100 values of 10 bytes, of which as many are live.
    fn files(live: &[u64]) -> ValueFiles {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let mut files = ValueFiles::default();
        for (file, &values) in (1..).zip(live) {
            let (bytes, value_bytes) = (1_100, 1_000);
            let meta =
                ValueFileMeta { values: 100, value_bytes, ..ValueFileMeta::new(file, bytes) };
            files.add(KEYSPACE, meta, &storage).unwrap();
            let of = ValueFileUse { file, values, bytes: 10 * values };
            files.count(KEYSPACE, &[of]).unwrap();
        }
        files
    }

    fn chosen(live: &[u64]) -> Vec<u64> {
        collected(&files(live), KEYSPACE).into_iter().collect()
    }

    #[test]
    fn a_third_of_obsolete_data_is_left_alone() {
        assert_eq!(chosen(&[]), []);
        assert_eq!(chosen(&[100, 100]), []);
        assert_eq!(chosen(&[100, 34]), []);
    }

    #[test]
    fn the_files_with_the_least_live_values_are_collected_until_less_is_left() {
        assert_eq!(chosen(&[100, 33]), [2]);
        assert_eq!(chosen(&[10, 90, 40]), [1]);
        assert_eq!(chosen(&[30, 30, 30, 90]), [1, 2]);
    }

    #[test]
    fn obsolete_data_of_another_keyspace_does_not_count() {
        assert!(collected(&files(&[1, 1]), KeyspaceId(2)).is_empty());
    }
}
