//! Reads a damaged keyspace without changing it.

use super::salvage::told;
use super::sources::{Merged, Source, Version};
use super::{Inspector, path, places};
use crate::fold::Merges;
use crate::fold::expiry::At;
use crate::fold::key_fold::Fold;
use crate::fold::operators::MergeOperators;
use crate::manifest::manifest_state::ManifestState;
use crate::recovery::replay;
use crate::recovery::replay::RecoveredState;
use crate::version::aging::Expired;
use crate::version::{TableHandle, ValueFiles, table_file_name};
use esker_api::KeyRange;
use esker_base::{EntryCursor, Error, KeyspaceId, Kind, RangeTombstone, Result, Seqno};
use esker_base::{FragmentedTombstones, MAX_SEQNO};
use esker_table::LostKeys;
use std::ops::Bound;
use std::sync::Arc;

/// Damage that a read skipped.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Skipped {
    /// The path of the damaged file.
    pub file: String,
    /// The range of keys in which versions are missing, and the error.
    pub keys: LostKeys,
    /// Whether range deletes are missing. Then reads return entries that these had deleted.
    pub are_range_deletes: bool,
}

impl Skipped {
    /// Returns the damage of `file` through which versions in the range `keys` are missing.
    pub fn new(file: impl Into<String>, keys: LostKeys) -> Self {
        Skipped { file: file.into(), keys, are_range_deletes: false }
    }
}

/// The sources of a keyspace, the oldest first, each with its file; and all range tombstones.
#[derive(Default)]
struct Sources {
    files: Vec<String>,
    sources: Vec<Source>,
    tombstones: Vec<RangeTombstone>,
}

impl Inspector {
    /// Reads the entries of a keyspace in `range`, in key order, and skips damage.
    ///
    /// `visit` gets each entry and returns whether to continue. At the end, `skipped` gets each
    /// skipped damage. An entry whose newest version is damaged may be missing, may have an older
    /// value, or may reappear after a delete. An entry that has expired may still be returned, if the
    /// database did not record that time had passed. The writer's lock is held meanwhile.
    ///
    /// # Errors
    /// * The error of `visit`.
    /// * [`Error::UnknownKeyspace`] if there is no such keyspace.
    /// * [`Error::Corruption`] if the manifest is damaged.
    /// * [`Error::Locked`] if the database is open for writing.
    /// * Every error that is not damage, such as [`Error::Io`].
    pub fn read_around<E: From<Error>>(
        &self,
        keyspace: &str,
        range: &KeyRange,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, E>,
        skipped: &mut dyn FnMut(Skipped),
    ) -> Result<(), E> {
        self.current()?;
        let _lock = self.storage.lock()?;
        let (identity, state) = self.state()?;
        self.check_log_directory(identity)?;
        let _log_lock = self.lock_logs()?;
        let manifest = self.manifest()?;
        let cut_off = self.torn_tail_offset(&manifest)?;
        self.presume_states(&state, cut_off.is_none())?;
        self.check_logs_place(&state, cut_off.is_none())?;
        let found = state.version.keyspaces.values().find(|found| found.name == keyspace);
        let Some(found) = found else {
            return Err(Error::UnknownKeyspace { name: keyspace.to_owned() }.into());
        };
        let (id, keys, expired) = (found.id, state.keys, found.expired());
        let merges = Merges::new(MergeOperators::default(), keys);
        let merger = merges.merger(keyspace, found.settings.merge);
        let range = &keys.range(range.clone());
        let skipped = &mut |skip: Skipped| {
            let keys = told(keys, &skip.keys);
            skipped(Skipped { keys, ..skip });
        };
        let (found, recovered) = self.sources_of(&state, id, range, skipped)?;
        self.skip_lost_edits(identity, &state, &manifest.name, recovered.as_ref(), skipped)?;
        let Sources { files, sources, tombstones } = found;
        let deletes = FragmentedTombstones::new(tombstones);
        let now = At(state.expiry_mark.unwrap_or(0));
        let mut merged = Merged::new(sources)?;
        while merged.valid() && !range.ends_before(merged.key()) {
            let key = merged.key().to_vec();
            let fold = fold_key(&mut merged, &deletes, (now, expired, &state.version.values));
            if !begins_at(range, &key) {
                continue;
            }
            match fold.and_then(|fold| fold.finish(&merger, &key)) {
                Ok(Some(value)) if !visit(&keys.user(&key), &value)? => break,
                Ok(_) => {}
                Err(error @ Error::Io { .. }) => return Err(error.into()),
                Err(error) => {
                    let to = Some([&key[..], &[0]].concat());
                    let lost = LostKeys::new(key, to, error.to_string());
                    let file = format!("keyspace {keyspace:?}");
                    skipped(Skipped { file, keys: lost, are_range_deletes: false });
                }
            }
        }
        for (file, source) in files.iter().zip(merged.into_sources()) {
            if let Source::Table(cursor, _) = source {
                for keys in cursor.lost().iter().cloned() {
                    skipped(Skipped { file: file.clone(), keys, are_range_deletes: false });
                }
            }
        }
        Ok(())
    }

    fn sources_of(
        &self,
        state: &ManifestState,
        id: KeyspaceId,
        range: &KeyRange,
        skipped: &mut dyn FnMut(Skipped),
    ) -> Result<(Sources, Option<RecoveredState>)> {
        let mut found = Sources::default();
        let mut tables: Vec<&Arc<TableHandle>> = places(state)
            .filter(|(keyspace, _, _, table)| *keyspace == id && table.meta.meets(range))
            .map(|(_, _, _, table)| table)
            .collect();
        // Levels and runs are listed from new to old.
        tables.reverse();
        for table in tables {
            let file = path(&*self.storage, &table_file_name(table.meta.id.file));
            let (smallest, largest) = (&table.meta.smallest, &table.meta.largest);
            let lost =
                |error: &str| LostKeys::new(smallest.clone(), Some(largest.clone()), error.into());
            let mut skip = |keys, are_range_deletes| {
                skipped(Skipped { file: file.clone(), keys, are_range_deletes });
            };
            let Some(salvaged) = self.salvaged(&table.meta)? else {
                skip(lost("the file is missing"), false);
                continue;
            };
            match salvaged.tombstones() {
                Some(list) => found.tombstones.extend(list.tombstones()),
                None if table.meta.range_tombstones == 0 => {}
                None => skip(lost("the range deletes are corrupt"), true),
            }
            found.sources.push(Source::table(salvaged.cursor()));
            found.files.push(file);
        }
        let recovered = match replay::read_logs(&self.log_source(), state) {
            Ok(recovered) => recovered,
            Err(error) if error.is_corruption() => {
                skipped(all_keys(self.log_storage.describe(), error.fact()));
                return Ok((found, None));
            }
            Err(error) => return Err(error),
        };
        let mut versions = Vec::new();
        for memtable in &recovered.memtables {
            let last: Seqno = memtable.last_seqno();
            memtable.sort_through(last);
            found.tombstones.extend(memtable.range_deletes_in(id));
            let mut cursor = memtable.cursor(id, last);
            cursor.seek_first()?;
            while cursor.valid() {
                versions.push(version_at(&cursor));
                cursor.next()?;
            }
        }
        found.sources.push(Source::list(versions));
        found.files.push(self.log_storage.describe());
        if let Some(torn) = recovered.torn.as_ref().filter(|torn| torn.may_reject_acknowledged()) {
            skipped(all_keys(torn.path.clone(), torn.refusal().fact()));
        }
        Ok((found, Some(recovered)))
    }

    /// Reports edits that the manifest has lost. Their keys are unknown.
    fn skip_lost_edits(
        &self,
        identity: u64,
        state: &ManifestState,
        manifest: &str,
        recovered: Option<&RecoveredState>,
        skipped: &mut dyn FnMut(Skipped),
    ) -> Result<()> {
        let (fates, fates_elsewhere) = self.fates(identity, state, manifest, recovered)?;
        let mut losses = Vec::new();
        losses.extend(self.loss_in(fates.values().chain(fates_elsewhere.values()), manifest)?);
        let mut report = |error| losses.push(error);
        if let Err(error) = self.check_age(state) {
            report(error);
        }
        if let Some(offset) = self.torn_tail_offset(&self.read_manifest(manifest)?)? {
            self.check_unlisted_logs(state, manifest, offset, &mut report)?;
        }
        let file = path(&*self.storage, manifest);
        losses.into_iter().for_each(|error| skipped(all_keys(file.clone(), error.fact())));
        Ok(())
    }
}

/// Folds the versions of the key at `merged` at a time, and goes to the next key.
fn fold_key(
    merged: &mut Merged,
    deletes: &FragmentedTombstones,
    (now, expired, values): (At, Expired, &ValueFiles),
) -> Result<Fold> {
    let (key, mut newer) = (merged.key().to_vec(), None);
    let mut fold = Fold::new();
    fold.delete_below(deletes.covering(&key, MAX_SEQNO));
    let mut added = Ok(());
    while merged.valid() && merged.key() == key {
        // A damaged table and a log may have the same version.
        let seqno = merged.seqno();
        if added.is_ok() && !fold.is_done() && newer.replace(seqno) != Some(seqno) {
            let kind = if expired.has(seqno) { Kind::Delete } else { merged.kind() };
            added = fold.add(seqno, kind, merged.value(), &now, values);
        }
        merged.next()?;
    }
    added.map(|()| fold)
}

/// Reports that versions are missing, of unknown keys.
fn all_keys(file: String, error: String) -> Skipped {
    let keys = LostKeys::new(Vec::new(), None, error);
    Skipped::new(file, keys)
}

fn version_at(cursor: &impl EntryCursor) -> Version {
    (cursor.key().to_vec(), cursor.seqno(), cursor.kind(), cursor.value().to_vec())
}

fn begins_at(range: &KeyRange, key: &[u8]) -> bool {
    match &range.start {
        Bound::Included(start) => key >= &start[..],
        Bound::Excluded(start) => key > &start[..],
        Bound::Unbounded => true,
    }
}
