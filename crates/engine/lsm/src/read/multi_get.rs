//! Point reads of many keys, whose data blocks are read at once.
//!
//! ```text
//! each key:       MemTables, DRAMTable, then runs newest first, until a block or a part of an index is missing
//! all keys:       read what is missing in one wide read
//! waiting keys:   go on in the run that they wait in
//! ```
//!
//! Each key is searched by the same functions as in [`get`](super::get), so both find the same.

use super::get::{InMemory, InTables, TableSearch, fill, get, get_from_memory};
use super::lookup::{LookupKey, ReadTier};
use super::merged_get::merged_get;
use crate::tree::Tree;
use crate::version::readers::super_version::SuperVersion;
use crate::version::{KeyspaceVersion, Run};
use esker_api::Value;
use esker_base::{Error, KeyspaceId, Result, Seqno};
use esker_table::WideLookup;
use std::sync::Arc;

/// Keys that are searched together. Their blocks are in memory until the last is found.
const KEYS: usize = 512;

/// A key that waits for a block, or for a part of an index.
struct Waiting<'a> {
    /// Its place among the results.
    at: usize,
    sought: LookupKey<'a>,
    search: TableSearch<'a>,
    /// The runs that are passed.
    passed: usize,
}

/// The values of the user's `keys` at `snapshot`, or at the end of the view if that is earlier. If keys
/// cannot be read, the error is that of the first of them.
pub(crate) fn multi_get<K: AsRef<[u8]>>(
    tree: &Tree,
    view: &SuperVersion,
    keyspace: KeyspaceId,
    keys: &[K],
    snapshot: Seqno,
) -> Result<Vec<Option<Value>>> {
    if let [key] = keys {
        let value = get(tree, view, keyspace, key.as_ref(), snapshot, ReadTier::MayBlock)?;
        return Ok(vec![value]);
    }
    let tables = view.version.keyspaces.get(&keyspace).ok_or_else(|| tree.unknown(keyspace))?;
    let runs: Vec<_> = tables.levels.iter().flat_map(|level| &level.runs).collect();
    let mut values = Vec::with_capacity(keys.len());
    for keys in keys.chunks(KEYS) {
        let stored: Vec<_> = keys.iter().map(|key| tree.keys.stored(key.as_ref())).collect();
        let sought = |key| LookupKey::new(view, keyspace, key, snapshot);
        let sought = stored.iter().map(|key| sought(key).of_aging(tables.expired()));
        for value in get_group(tree, view, tables, &runs, sought) {
            values.push(value?);
        }
    }
    Ok(values)
}

fn get_group<'a>(
    tree: &Tree,
    view: &'a SuperVersion,
    tables: &KeyspaceVersion,
    runs: &[&Arc<Run>],
    keys: impl Iterator<Item = LookupKey<'a>>,
) -> Vec<Result<Option<Value>>> {
    let (mut results, mut waiting) = (Vec::new(), Vec::new());
    for (at, sought) in keys.enumerate() {
        results.push(match get_from_memory(tree, view, sought, ReadTier::MayBlock) {
            Ok(InMemory::Decided(value)) => Ok(value),
            Ok(InMemory::Operand) => merged_get(tree, view, tables, sought, ReadTier::MayBlock),
            Ok(InMemory::Below(deleted_below)) => {
                let search = TableSearch::new(deleted_below, &view.version.values);
                waiting.push(Waiting { at, sought, search, passed: 0 });
                // Until a table says more.
                Ok(None)
            }
            Err(error) => Err(error),
        });
    }
    let mut lookup = WideLookup::default();
    loop {
        waiting.retain_mut(|key| match key.go_on(tree, runs, &mut lookup) {
            Err(Error::WouldBlock) => true,
            found => {
                results[key.at] = found.and_then(|found| match found {
                    InTables::Decided(found) => Ok(fill(tree, view, key.sought, found)),
                    InTables::Expiring(value) => Ok(value),
                    InTables::Large(large) => large.load(ReadTier::MayBlock).map(Some),
                    InTables::Operand => {
                        merged_get(tree, view, tables, key.sought, ReadTier::MayBlock)
                    }
                });
                false
            }
        });
        if waiting.is_empty() {
            return results;
        }
        debug_assert!(lookup.has_noted(), "a key waits for no block");
        lookup.read(tree.cache.reader());
    }
}

impl Waiting<'_> {
    /// Searches the runs that are left. Fails with [`Error::WouldBlock`] where a block or a part is missing.
    fn go_on(
        &mut self,
        tree: &Tree,
        runs: &[&Arc<Run>],
        lookup: &mut WideLookup,
    ) -> Result<InTables> {
        while let Some(run) = runs.get(self.passed) {
            // What a visit counts that ends at a missing block, its repetition counts again.
            let mut search = self.search;
            let found = search.visit(tree, run, self.sought, ReadTier::MayBlock, lookup)?;
            if let Some(found) = found {
                return Ok(found);
            }
            (self.search, self.passed) = (search, self.passed + 1);
        }
        self.search.end(tree);
        Ok(InTables::Decided(None))
    }
}
