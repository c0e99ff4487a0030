//! Point reads of keys with operands: folds the versions of a key in MemTables and tables.
//!
//! A get comes here once it meets an operand, and begins anew. A note of [`hot`](crate::fold::hot)
//! ends the search in MemTables.

use super::expiring::keep_expiries;
use super::get::may_contain;
use super::lookup::{LookupKey, ReadTier};
use super::separated::TieredValues;
use crate::fold::expiry::ExpiryClock;
use crate::fold::hot::{HotValue, MANY, looks};
use crate::fold::key_fold::Fold;
use crate::fold::values::NoValueFiles;
use crate::fold::{Verdict, verdict};
use crate::tree::Tree;
use crate::version::readers::super_version::SuperVersion;
use crate::version::{KeyspaceVersion, Run, ValueFiles};
use esker_api::{Value, WriteBatch};
use esker_base::operation_cost::count;
use esker_base::{Error, KeyspaceId, Kind, Result, Seqno, hash64};
use esker_table::BlockReadStats;
use std::ops::ControlFlow;

/// The value of a key with operands.
#[cold]
pub(super) fn merged_get(
    tree: &Tree,
    view: &SuperVersion,
    keyspace: &KeyspaceVersion,
    sought: LookupKey<'_>,
    patience: ReadTier,
) -> Result<Option<Value>> {
    let merger = tree.merger(keyspace);
    let (key, snapshot) = (sought.key(), sought.snapshot());
    let tables_through = view.version.tables_through;
    let note = tree.merges.hot.get(keyspace.id, key, (tables_through, snapshot), &*tree.time);
    let mut fold = Fold::new();
    fold_memtables(tree, view, sought, note.as_ref(), &mut fold)?;
    let in_memtables = fold.operands();
    for run in keyspace.levels.iter().flat_map(|level| &level.runs) {
        if fold.is_done() {
            break;
        }
        fold_run(tree, (run, &view.version.values), sought, patience, &mut fold)?;
    }
    keep_expiries(tree, patience)?;
    let until = fold.until();
    let value = fold.finish(&merger, key)?.map(Value::from);
    // Another process may write other operands with the same seqnos once it has recovered.
    let stays = !tree.filters.changes(keyspace.id) && tree.follows.is_none();
    if in_memtables >= MANY && snapshot >= tables_through && stays {
        let note = HotValue { seqno: snapshot, value: value.clone(), until };
        tree.merges.hot.note(keyspace.id, key, note, || tree.snapshots.list());
    }
    Ok(value)
}

/// Adds what MemTables have, or a note knows, of the key.
fn fold_memtables(
    tree: &Tree,
    view: &SuperVersion,
    sought: LookupKey<'_>,
    note: Option<&HotValue>,
    fold: &mut Fold,
) -> Result<()> {
    let LookupKey { keyspace, key, hash, snapshot, .. } = sought;
    for memtable in &view.memtables {
        count(|cost| cost.memtables += 1);
        if let Some(tombstones) = memtable.range_tombstones(keyspace) {
            fold.delete_below(tombstones.covering(key, snapshot));
        }
        let mut added = Ok(());
        memtable.visit_versions(keyspace, key, hash, snapshot, |found| {
            added = match note.filter(|note| found.seqno <= note.seqno) {
                Some(note) => add_note(fold, note, &tree.time),
                None => fold.add(found.seqno, found.kind, found.value, &*tree.time, &NoValueFiles),
            };
            match fold.is_done() || added.is_err() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        added?;
        memtable.sound()?;
        if fold.is_done() {
            return Ok(());
        }
    }
    note.map_or(Ok(()), |note| add_note(fold, note, &tree.time))
}

/// Adds the fold of all versions up to a note.
pub(super) fn add_note(fold: &mut Fold, note: &HotValue, time: &ExpiryClock) -> Result<()> {
    match &note.value {
        Some(value) => fold.add(note.seqno, Kind::Put, value, time, &NoValueFiles)?,
        None => fold.add(note.seqno, Kind::Delete, b"", time, &NoValueFiles)?,
    }
    fold.expire_at(note.until);
    Ok(())
}

/// Adds what `run` has of the key.
fn fold_run(
    tree: &Tree,
    (run, values): (&Run, &ValueFiles),
    sought: LookupKey<'_>,
    patience: ReadTier,
    fold: &mut Fold,
) -> Result<()> {
    let LookupKey { key, hash, snapshot, .. } = sought;
    let Some(handle) = run.table_for(key) else { return Ok(()) };
    let table = match (handle.opened(), patience) {
        (Some(table), _) => table,
        (None, ReadTier::MayBlock) => handle.reader(&tree.cache)?,
        (None, ReadTier::MemoryOnly) => return Err(Error::WouldBlock),
    };
    if handle.meta.range_tombstones > 0 {
        fold.delete_below(table.tombstones().covering(key, snapshot));
    }
    if !may_contain(table, (key, hash, snapshot), patience)? {
        return Ok(());
    }
    let mut through = snapshot;
    loop {
        let found = match patience {
            ReadTier::MayBlock => table.find(key, through, &mut BlockReadStats::default())?,
            ReadTier::MemoryOnly => table.try_find(key, through)?,
        };
        let Some(found) = found else { return Ok(()) };
        let values = TieredValues { values, patience };
        fold.add(found.seqno, found.kind, found.value.bytes(), &*tree.time, &values)?;
        match found.seqno.checked_sub(1) {
            Some(older) if !fold.is_done() => through = older,
            _ => return Ok(()),
        }
    }
}

/// After the merges of `batch`, which has stored keys, became visible: reads some of the keys, if
/// they have many operands since their last note. A read leaves a note. If it fails, it fails again for
/// the next reader.
#[cold]
pub(crate) fn look_at_merges(
    tree: &Tree,
    (view, visible): (&SuperVersion, Seqno),
    batch: &WriteBatch,
    last_seqno: Seqno,
) {
    let first_seqno = last_seqno + 1 - batch.len() as u64;
    for (seqno, entry) in (first_seqno..).zip(batch.iter()) {
        let is_operand = verdict(entry.kind, || false) == Verdict::Operand;
        if is_operand && looks(seqno) {
            look_at_key(tree, view, entry.keyspace, entry.key, visible);
        }
    }
}

fn look_at_key(
    tree: &Tree,
    view: &SuperVersion,
    keyspace: KeyspaceId,
    stored_key: &[u8],
    visible: Seqno,
) {
    if tree.filters.changes(keyspace) {
        return;
    }
    let sought = LookupKey::new(view, keyspace, stored_key, visible);
    let (snapshot, hot) = (sought.snapshot(), &tree.merges.hot);
    if hot.rests(keyspace, stored_key, snapshot) {
        return;
    }
    let least = view.version.tables_through;
    let last_note = || hot.get(keyspace, stored_key, (least, snapshot), &*tree.time);
    let noted = last_note().map_or(0, |note| note.seqno);
    let (hash, mut operands) = (hash64(stored_key), 0);
    for memtable in &view.memtables {
        let mut is_end = false;
        memtable.visit_versions(keyspace, stored_key, hash, snapshot, |found| {
            let is_operand = verdict(found.kind, || false) == Verdict::Operand;
            is_end = !is_operand || found.seqno <= noted;
            operands += usize::from(!is_end);
            match is_end || operands >= MANY {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        if is_end || operands >= MANY {
            break;
        }
    }
    if operands >= MANY
        && let Some(found) = view.version.keyspaces.get(&keyspace)
    {
        let _ = merged_get(tree, view, found, sought, ReadTier::MayBlock);
        hot.was_read(
            keyspace,
            stored_key,
            snapshot,
            last_note().is_some_and(|note| note.seqno > noted),
        );
    }
}
