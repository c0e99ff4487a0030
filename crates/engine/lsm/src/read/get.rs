//! Point reads: MemTables newest first, then each level's runs newest first.
//!
//! The versions of a key are folded from newest to oldest. The highest range tombstone found so far
//! is tracked, and a version counts only if it is not older. Each place has newer versions of the
//! key than the next, so the first version found decides.
//!
//! The optional DRAMTable is between the MemTables and the tables. It may answer a key that is in
//! no MemTable of the view, and results from the tables are inserted into it. [`DramTable`] defines
//! the rules for correctness; the names R1, R3 and R4 below are theirs.

use super::expiring::living;
pub(crate) use super::lookup::ReadTier;
use super::lookup::{LookupKey, TableLookup};
use super::merged_get::merged_get;
use super::separated::{LargeValue, TieredValues};
use crate::fold::expiry::BEHIND_EXPIRY;
use crate::fold::values::Values;
use crate::fold::{Verdict, verdict};
use crate::stats::table_reads::ReadCost;
use crate::tree::Tree;
use crate::version::readers::super_version::SuperVersion;
use crate::version::{KeyspaceVersion, Run, ValueFiles};
use esker_api::Value;
use esker_base::operation_cost::count;
use esker_base::{EntryCursor, Error, KeyspaceId, Result, Seqno, hash64};
use esker_memtable::{DramTable, LookupOutcome, MemTable};
use esker_table::{PinnedValue, Table};
use std::ops::Range;
use std::sync::Arc;

/// What a get returns may keep a block in memory that is so many times as long. A shorter value is
/// copied, which costs less than a count that all readers of the block share.
const SHARED_BLOCK_PART: usize = 8;

/// What memory says of a key.
pub(super) enum InMemory {
    /// Its value.
    Decided(Option<Value>),
    /// Its newest version is an operand.
    Operand,
    /// Tables decide. Versions older than this are deleted.
    Below(Seqno),
}

/// The value of the user's `key` at `snapshot`, or at the end of the view if that is earlier.
#[inline]
pub(crate) fn get(
    tree: &Tree,
    view: &SuperVersion,
    keyspace: KeyspaceId,
    key: &[u8],
    snapshot: Seqno,
    patience: ReadTier,
) -> Result<Option<Value>> {
    let stored = tree.keys.stored(key);
    let key = &*stored;
    let tables = view.version.keyspaces.get(&keyspace).ok_or_else(|| tree.unknown(keyspace))?;
    let sought = LookupKey::new(view, keyspace, key, snapshot).of_aging(tables.expired());
    match get_from_memory(tree, view, sought, patience)? {
        InMemory::Decided(value) => Ok(value),
        InMemory::Operand => merged_get(tree, view, tables, sought, patience),
        InMemory::Below(deleted_below) => {
            let tables_of = (&**tables, &view.version.values);
            match get_from_tables(tree, tables_of, sought, deleted_below, patience)? {
                InTables::Decided(found) => Ok(fill(tree, view, sought, found)),
                InTables::Expiring(value) => Ok(value),
                InTables::Large(large) => large.load(patience).map(Some),
                InTables::Operand => merged_get(tree, view, tables, sought, patience),
            }
        }
    }
}

/// What the MemTables and the DRAMTable say of the key.
#[inline]
pub(super) fn get_from_memory(
    tree: &Tree,
    view: &SuperVersion,
    sought: LookupKey<'_>,
    patience: ReadTier,
) -> Result<InMemory> {
    let LookupKey { keyspace, key, hash, snapshot, expired } = sought;
    let mut deleted_below = 0;
    let memtables = || view.memtables.iter().filter(|one| one.has_entries_through(snapshot));
    // Each is a cache miss; so they are waited for together.
    memtables().for_each(|memtable| memtable.prefetch(keyspace, hash));
    for memtable in memtables() {
        count(|cost| cost.memtables += 1);
        if let Some(tombstones) = memtable.range_tombstones(keyspace) {
            deleted_below = deleted_below.max(tombstones.covering(key, snapshot));
        }
        let answer =
            get_from_memtable(tree, memtable, sought, deleted_below.max(expired.below), patience);
        memtable.sound()?;
        if let Some(answer) = answer {
            return answer;
        }
    }
    let Some(dram_table) = &tree.dram_table else { return Ok(InMemory::Below(deleted_below)) };
    match dram_table.get(keyspace, key, hash, snapshot, |value| Value::from(value)) {
        // R4.
        Some(hit) => {
            count(|cost| cost.dram_table_hits += 1);
            let lives = hit.seqno >= deleted_below.max(expired.below);
            Ok(InMemory::Decided(lives.then_some(hit.value)))
        }
        None => Ok(InMemory::Below(deleted_below)),
    }
}

/// Offers what tables said of the key to the DRAMTable, and returns the value. A value that is a
/// good part of its block is offered only if the block cache is too small for all blocks.
#[inline]
pub(super) fn fill(
    tree: &Tree,
    view: &SuperVersion,
    sought: LookupKey<'_>,
    found: Option<(Seqno, Value)>,
) -> Option<Value> {
    let (seqno, value) = found?;
    // What the block cache has and keeps would only be in memory twice.
    let is_held = value.is_shared() && !tree.cache.has_evicted();
    let takes = !is_held && !tree.filters.changes(sought.keyspace);
    if let Some(dram_table) = tree.dram_table.as_ref().filter(|_| takes) {
        let LookupKey { keyspace, key, hash, snapshot, expired } = sought;
        // It would be younger in the DRAMTable than it is.
        if seqno == 0 && expired.keeps_seqnos {
            return Some(value);
        }
        // R3: what is returned, and nothing else, is offered.
        let seqno = if seqno == 0 { written_by(view) } else { seqno };
        if seqno <= snapshot {
            dram_table.fill(keyspace, key, hash, seqno, &value, snapshot);
        }
    }
    Some(value)
}

/// A seqno for a version whose own was set to zero, as no snapshot needs it any more: what is in tables was
/// written by then. With the zero, the DRAMTable would serve it to readers of an older view, at a snapshot from
/// before it was written.
fn written_by(view: &SuperVersion) -> Seqno {
    view.version.tables_through
}

/// What `memtable` says of the key, if anything.
#[inline]
fn get_from_memtable(
    tree: &Tree,
    memtable: &MemTable,
    sought: LookupKey<'_>,
    deleted_below: Seqno,
    patience: ReadTier,
) -> Option<Result<InMemory>> {
    let LookupKey { keyspace, key, hash, snapshot, .. } = sought;
    // A copy in DRAM spares reading persistent memory, and nothing else.
    let copies = tree.dram_table.as_ref().filter(|table| {
        memtable.is_in_pmem() && table.wants_puts() && !tree.filters.changes(keyspace)
    });
    let Some(copies) = copies else {
        let found = memtable.get(keyspace, key, hash, snapshot)?;
        return Some(Ok(match verdict(found.kind, || found.seqno < deleted_below) {
            Verdict::Value => InMemory::Decided(Some(Value::from(found.value))),
            Verdict::Absent | Verdict::Separated => InMemory::Decided(None),
            Verdict::Operand => InMemory::Operand,
            Verdict::Expiring => return Some(expiring(tree, found.value, patience)),
        }));
    };
    let copy_of = |seqno| {
        let copy = copies.get_exact(keyspace, key, hash, seqno, |value| Value::from(value));
        copy.map(|value| (seqno, value))
    };
    Some(Ok(match memtable.get_or_cached(keyspace, key, hash, snapshot, copy_of)? {
        LookupOutcome::Copy((seqno, value)) => {
            InMemory::Decided((seqno >= deleted_below).then_some(value))
        }
        LookupOutcome::Here(found) => match verdict(found.kind, || found.seqno < deleted_below) {
            Verdict::Value => {
                copies.record_pmem_read(keyspace, key, hash, found.seqno, found.value);
                InMemory::Decided(Some(Value::from(found.value)))
            }
            Verdict::Absent | Verdict::Separated => InMemory::Decided(None),
            Verdict::Operand => InMemory::Operand,
            Verdict::Expiring => return Some(expiring(tree, found.value, patience)),
        },
    }))
}

/// What an expiring put says, of which a MemTable has the `stored` value.
#[cold]
fn expiring(tree: &Tree, stored: &[u8], patience: ReadTier) -> Result<InMemory> {
    Ok(InMemory::Decided(living(tree, stored, patience)?.map(Value::from)))
}

pub(super) fn get_from_tables(
    tree: &Tree,
    (keyspace, values): (&KeyspaceVersion, &ValueFiles),
    sought: LookupKey<'_>,
    deleted_below: Seqno,
    patience: ReadTier,
) -> Result<InTables> {
    let mut search = TableSearch::new(deleted_below, values);
    for run in keyspace.levels.iter().flat_map(|level| &level.runs) {
        if let Some(found) = search.visit(tree, run, sought, patience, &mut { patience })? {
            return Ok(found);
        }
    }
    search.end(tree);
    Ok(InTables::Decided(None))
}

/// Whether a key may be in `table`, a run's table whose bounds include the key.
#[inline]
pub(super) fn may_contain(
    table: &Table,
    (key, hash, snapshot): (&[u8], u64, Seqno),
    tier: ReadTier,
) -> Result<bool> {
    let may_contain = table.may_contain(key, hash, snapshot, tier.patience())?;
    count(|cost| {
        cost.runs += 1;
        cost.filters += u64::from(table.has_filter());
        cost.filters_excluded += u64::from(!may_contain);
    });
    Ok(may_contain)
}

/// What tables say of a key.
pub(super) enum InTables {
    /// Its newest version, or `None` if it has no value.
    Decided(Option<(Seqno, Value)>),
    /// The value of its newest version, an expiring put, unless it has expired. It is not offered to the
    /// DRAMTable, which has no times.
    Expiring(Option<Value>),
    /// Its newest version is a large value, which was not read. It is not offered to the DRAMTable.
    Large(LargeValue),
    /// Its newest version is an operand.
    Operand,
}

/// The search for a key in run after run, newest first.
#[derive(Clone, Copy)]
pub(super) struct TableSearch<'a> {
    /// Versions older than this are deleted.
    deleted_below: Seqno,
    cost: ReadCost,
    values: &'a ValueFiles,
}

impl<'a> TableSearch<'a> {
    #[inline]
    pub(super) fn new(deleted_below: Seqno, values: &'a ValueFiles) -> Self {
        TableSearch { deleted_below, cost: ReadCost::default(), values }
    }

    /// Looks for the key in `run`. Returns `Some` if the run decides. `lookup` asks its table.
    #[inline]
    pub(super) fn visit(
        &mut self,
        tree: &Tree,
        run: &Run,
        sought: LookupKey<'_>,
        patience: ReadTier,
        lookup: &mut impl TableLookup,
    ) -> Result<Option<InTables>> {
        let LookupKey { key, snapshot, expired, .. } = sought;
        let Some(handle) = run.table_for(key) else { return Ok(None) };
        self.cost.runs += 1;
        let table = match (handle.opened(), patience) {
            (Some(table), _) => table,
            (None, ReadTier::MayBlock) => handle.reader(&tree.cache)?,
            (None, ReadTier::MemoryOnly) => return Err(Error::WouldBlock),
        };
        if handle.meta.range_tombstones > 0 {
            let newest = table.tombstones().covering(key, snapshot);
            self.deleted_below = self.deleted_below.max(newest);
        }
        self.cost.filters += u64::from(table.has_filter());
        if !lookup.may_contain(table, sought)? {
            return Ok(None);
        }
        let found = lookup.find(table, sought, &mut self.cost.loaded)?;
        self.cost.reads += 1;
        let Some(found) = found else { return Ok(None) };
        self.count(tree, true);
        let is_covered = || found.seqno < self.deleted_below || expired.has(found.seqno);
        Ok(Some(match verdict(found.kind, is_covered) {
            Verdict::Value => InTables::Decided(Some((found.seqno, value_of(found.value)))),
            Verdict::Separated => {
                if let Some(large) = LargeValue::of(self.values, found.value.bytes())? {
                    return Ok(Some(InTables::Large(large)));
                }
                let values = TieredValues { values: self.values, patience };
                let value = values.read(found.value.bytes())?;
                InTables::Decided(Some((found.seqno, value.into())))
            }
            Verdict::Absent => InTables::Decided(None),
            Verdict::Operand => InTables::Operand,
            Verdict::Expiring => {
                let mut value = found.value;
                let lives = living(tree, value.bytes(), patience)?.is_some();
                value.skip(BEHIND_EXPIRY);
                InTables::Expiring(lives.then(|| value_of(value)))
            }
        }))
    }

    /// Notes that no run decided.
    pub(super) fn end(self, tree: &Tree) {
        self.count(tree, false);
    }

    /// Counts the search, which may have begun anew in a run: what it searched twice counts once.
    #[inline]
    fn count(&self, tree: &Tree, was_found: bool) {
        tree.counters.table_gets.count(was_found, self.cost);
        let ReadCost { runs, filters, reads, .. } = self.cost;
        count(|cost| {
            cost.runs += runs;
            cost.filters += filters;
            cost.filters_excluded += runs - reads;
        });
    }
}

/// The value, in the memory of its block if it is a good part of it.
#[inline]
fn value_of(found: PinnedValue) -> Value {
    let is_part =
        |(block, range): (&Arc<[u8]>, Range<usize>)| range.len() >= block.len() / SHARED_BLOCK_PART;
    match found.shared().is_some_and(is_part) {
        true => found
            .into_shared()
            .map_or_else(Value::default, |(block, range)| Value::part_of(block, range)),
        false => Value::copy_of(found.bytes()),
    }
}

/// Notifies the DRAMTable that `memtable` is about to leave the view (R2).
pub(crate) fn pass(tree: &Tree, view: &SuperVersion, memtable: &Arc<MemTable>) -> Result<()> {
    let Some(dram_table) = &tree.dram_table else { return Ok(()) };
    let through = memtable.last_seqno();
    for keyspace in memtable.keyspaces() {
        let is_there = view.version.keyspaces.contains_key(&keyspace);
        if is_there && !tree.filters.changes(keyspace) {
            pass_keyspace(dram_table, memtable, keyspace, through)?;
        }
    }
    Ok(())
}

fn pass_keyspace(
    dram_table: &DramTable,
    memtable: &Arc<MemTable>,
    keyspace: KeyspaceId,
    through: Seqno,
) -> Result<()> {
    let tombstones = memtable.range_tombstones(keyspace);
    let mut cursor = memtable.cursor(keyspace, through).for_sequential_scan();
    cursor.seek_first()?;
    let mut last: Vec<u8> = Vec::new();
    while cursor.valid() {
        let (key, seqno) = (cursor.key(), cursor.seqno());
        // A key's newest version comes first, and keys are never empty.
        if key != &last[..] {
            let found = verdict(cursor.kind(), || {
                tombstones.as_ref().is_some_and(|list| list.covering(key, through) > seqno)
            });
            let value = (found == Verdict::Value).then(|| cursor.value());
            dram_table.pass(keyspace, key, hash64(key), seqno, value, through);
            last.clear();
            last.extend_from_slice(key);
        }
        cursor.next()?;
    }
    let newest = memtable.range_deletes_in(keyspace).iter().map(|one| one.seqno).max();
    if let Some(seqno) = newest {
        dram_table.raise_invalidation_floor(keyspace, seqno);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Env, Settings};
    use esker_base::background::Stepped;
    use esker_storage::MemoryStorage;

    /// R1: what such a reader finds in its tables is older than what has left the MemTables since.
    #[test]
    fn a_reader_whose_view_is_old_fills_in_nothing_outdated() {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings::default()).unwrap();
        let (keyspace, inner) = (db.default_keyspace(), db.inner());
        db.put(&keyspace, b"k", b"old").unwrap();
        db.flush().unwrap();
        let view = inner.tree.view.load();
        db.put(&keyspace, b"k", b"new").unwrap();
        db.flush().unwrap();
        let now = inner.commit.visible();
        let found = get(&inner.tree, &view, keyspace.id(), b"k", now, ReadTier::MayBlock).unwrap();
        assert_eq!(found.as_deref(), Some(&b"old"[..]), "all that its view has");
        assert_eq!(db.get(&keyspace, b"k").unwrap().as_deref(), Some(&b"new"[..]));
    }

    #[test]
    fn the_first_entry_of_a_memtable_is_found_and_no_earlier_reader_finds_it() {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings::default()).unwrap();
        let (keyspace, inner) = (db.default_keyspace(), db.inner());
        let before = inner.commit.visible();
        db.put(&keyspace, b"k", b"v").unwrap();
        let view = inner.tree.view.load();
        let get_at = |seqno| {
            get(&inner.tree, &view, keyspace.id(), b"k", seqno, ReadTier::MayBlock).unwrap()
        };
        assert_eq!(get_at(inner.commit.visible()).as_deref(), Some(&b"v"[..]));
        assert_eq!(get_at(before), None);
    }

    #[test]
    fn the_dram_table_takes_large_values_once_the_block_cache_has_evicted() {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings::default()).unwrap();
        let (keyspace, tree) = (db.default_keyspace(), &db.inner().tree);
        let fills_after_get = |key: &[u8], value: &[u8]| {
            assert_eq!(db.get(&keyspace, key).unwrap().as_deref(), Some(value));
            tree.dram_table.as_ref().unwrap().stats().fills
        };
        let (small, large) = ([1; 10], [2; 1000]);
        for (key, value) in [(b"small", &small[..]), (b"large", &large[..])] {
            db.put(&keyspace, key, value).unwrap();
        }
        db.flush().unwrap();
        assert_eq!(fills_after_get(b"large", &large), 0);
        assert_eq!(fills_after_get(b"large", &large), 0, "from the cache");
        assert_eq!(fills_after_get(b"small", &small), 1);
        tree.cache.set_capacity(0);
        assert_eq!(fills_after_get(b"large", &large), 2);
    }

    /// R1 for a batch over two MemTables, of which the view has the first.
    #[test]
    fn a_reader_whose_view_is_old_sees_all_of_a_large_batch_or_nothing() {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let settings = Settings::default().segment_bytes(64 << 10).memory_bytes(4 << 20);
        let db = Db::open_with(env, settings).unwrap();
        let (keyspace, inner) = (db.default_keyspace(), db.inner());
        for filler in 0..60_u8 {
            db.put(&keyspace, [1, filler], [0; 4_000]).unwrap();
        }
        let keys: Vec<[u8; 2]> = (0..10).map(|number| [2, number]).collect();
        keys.iter().for_each(|key| db.put(&keyspace, key, b"old").unwrap());
        // The next segment is prepared, and then one is flushed. The segment after the next gets its
        // memory, and so is whole.
        while db.run_background_job() {}
        db.flush().unwrap();
        for filler in 0..9_u8 {
            db.put(&keyspace, [1, filler], [0; 4_000]).unwrap();
        }
        while db.run_background_job() {}
        let view = inner.tree.view.load();
        let mut batch = db.batch();
        keys.iter().for_each(|key| batch.put(&keyspace, key, [2; 4_000]));
        db.write(&batch).unwrap();
        assert!(view.memtables[0].ends_in_batch(), "the batch begins in the view");
        let now = inner.commit.visible();
        for key in &keys {
            let found =
                get(&inner.tree, &view, keyspace.id(), key, now, ReadTier::MayBlock).unwrap();
            assert_eq!(found.as_deref(), Some(&b"old"[..]), "{key:?}");
        }
    }

    /// A compaction zeroes the seqnos of versions that all snapshots may see. A reader at an older point in time
    /// without a snapshot, such as `multi_get`, may not see all of them.
    #[test]
    fn a_copy_whose_seqno_was_forgotten_is_not_served_to_readers_of_an_earlier_moment() {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings::default()).unwrap();
        let (keyspace, inner) = (db.default_keyspace(), db.inner());
        db.put(&keyspace, b"k", b"old").unwrap();
        db.flush().unwrap();
        let (view, now) = (inner.tree.view.load(), inner.commit.visible());
        db.put(&keyspace, b"k", b"new").unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        assert_eq!(db.get(&keyspace, b"k").unwrap().as_deref(), Some(&b"new"[..]));
        let dram_table = inner.tree.dram_table.as_ref().unwrap();
        assert_eq!(dram_table.stats().fills, 1, "the read was offered");
        let found = get(&inner.tree, &view, keyspace.id(), b"k", now, ReadTier::MayBlock).unwrap();
        assert_eq!(found.as_deref(), Some(&b"old"[..]));
        db.get(&keyspace, b"k").unwrap();
        assert_eq!(dram_table.stats().hits, 1, "whoever reads at present is served");
    }
}
