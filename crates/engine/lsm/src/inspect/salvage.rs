//! Writes what can be read of a damaged table into a new one.
//!
//! A dry run reads the table before anything is written. The new table takes the place of the damaged
//! one in its run. A file is renamed as a whole, so the intact tables in it are written anew too.

use super::Inspector;
use super::sources::{Merged, Source};
use super::{path, places};
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::settings_code::settings_property;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::output::output_files::table_meta;
use crate::user_keys::KeyFormat;
use crate::version::{KeyspaceVersion, TableId, TableMeta, table_file_name};
use esker_base::{EntryCursor, Error, KeyspaceId, Kind, RangeTombstone, Result, WriteHint};
use esker_table::{LostKeys, Origin, PartLimits, SalvagedTable, TableOptions, TableWriter};
use std::sync::Arc;

/// A table that could not be kept as it was.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DroppedTable {
    /// The file of the table.
    pub file: String,
    /// What is wrong with it.
    pub error: String,
    /// The smallest key that it may have held.
    pub smallest: Vec<u8>,
    /// The largest key that it may have held.
    pub largest: Vec<u8>,
    /// The number of its versions that a new table keeps.
    pub kept: u64,
    /// The ranges of keys in which versions are lost, if some versions are kept.
    ///
    /// An older version of such a key, or a deleted one, may reappear.
    pub lost_keys: Vec<LostKeys>,
    /// Whether its range deletes are lost, so that entries that they had deleted may reappear.
    pub lost_range_deletes: bool,
}

/// A table to be written anew.
pub(super) struct Rewrite {
    pub(super) keyspace: KeyspaceId,
    pub(super) level: usize,
    pub(super) run: u64,
    pub(super) meta: TableMeta,
}

impl Inspector {
    /// What can be read of a table of which `error` is damaged. Reads all of it.
    pub(super) fn salvage(
        &self,
        state: &ManifestState,
        meta: &TableMeta,
        error: &Error,
    ) -> Result<DroppedTable> {
        let keys = state.keys;
        let file = path(&*self.storage, &table_file_name(meta.id.file));
        let mut lost = DroppedTable {
            file,
            error: error.fact(),
            smallest: keys.user(&meta.smallest).into_owned(),
            largest: keys.user(&meta.largest).into_owned(),
            kept: 0,
            lost_keys: Vec::new(),
            lost_range_deletes: false,
        };
        let Some(table) = self.salvaged(meta)? else { return Ok(lost) };
        let mut cursor = table.cursor();
        let mut values = Vec::new();
        while cursor.advance()? {
            match lost_value(state, cursor.kind(), cursor.value())? {
                None => lost.kept += 1,
                Some(error) => {
                    let (key, to) = (cursor.key().to_vec(), [cursor.key(), &[0]].concat());
                    values.push(told(keys, &LostKeys::new(key, Some(to), error.fact())));
                }
            }
        }
        lost.lost_keys = cursor.lost().iter().map(|lost| told(keys, lost)).chain(values).collect();
        lost.lost_range_deletes = meta.range_tombstones > 0 && table.tombstones().is_none();
        Ok(lost)
    }

    /// The table, as far as it can be read. `None` if its file is missing.
    pub(super) fn salvaged(&self, meta: &TableMeta) -> Result<Option<Arc<SalvagedTable>>> {
        let TableId { file, offset } = meta.id;
        let name = table_file_name(file);
        if !self.storage.exists(&name)? {
            return Ok(None);
        }
        let readable = self.storage.open(&name)?;
        SalvagedTable::open_ingested(readable, file, offset, meta.bytes, meta.global_seqno)
            .map(Some)
    }

    /// Writes what can be read of a table into a file of its own, and gives the edit that puts it in the other's place.
    pub(super) fn rewrite(
        &self,
        rewrite: &Rewrite,
        file_id: u64,
        identity: u64,
        edits: u64,
        state: &ManifestState,
    ) -> Result<VersionEdit> {
        let Rewrite { keyspace, level, run, meta } = rewrite;
        let mut edit =
            VersionEdit::of([VersionChange::RemoveTable { keyspace: *keyspace, id: meta.id }]);
        let (Some(table), Some(version)) =
            (self.salvaged(meta)?, state.version.keyspaces.get(keyspace))
        else {
            return Ok(edit);
        };
        let options = options_for(version, *level, file_id);
        let origin = origin_for(version, state.keys, identity, edits);
        let name = table_file_name(file_id);
        let mut file = self.storage.create(&name, WriteHint::table(options.level))?;
        let mut writer = TableWriter::new(&mut *file, options).with_origin(Some(origin));
        let mut merged = Merged::new(vec![Source::table(table.cursor())])?;
        let mut last = Vec::new();
        while merged.valid() {
            if lost_value(state, merged.kind(), merged.value())?.is_none() {
                writer.add(merged.key(), merged.seqno(), merged.kind(), merged.value())?;
                last.clear();
                last.extend_from_slice(merged.key());
            }
            merged.next()?;
        }
        let tombstones: Vec<RangeTombstone> =
            table.tombstones().map(|list| list.tombstones().collect()).unwrap_or_default();
        tombstones.into_iter().for_each(|tombstone| writer.add_range_tombstone(tombstone));
        if writer.is_empty() {
            drop(writer);
            drop(file);
            self.storage.remove(&name)?;
            return Ok(edit);
        }
        let written = table_meta(writer.finish()?, &last);
        file.sync()?;
        edit.changes.push(VersionChange::AddTable {
            keyspace: *keyspace,
            level: *level,
            run: *run,
            meta: written,
        });
        Ok(edit)
    }

    /// The tables to be written anew so that no file with one of `damaged` is needed any more.
    pub(super) fn rewrites(&self, state: &ManifestState, damaged: &[TableId]) -> Vec<Rewrite> {
        let is_in_file =
            |meta: &TableMeta| damaged.iter().any(|damaged| damaged.file == meta.id.file);
        let all = places(state).filter(|(_, _, _, table)| is_in_file(&table.meta));
        all.map(|(keyspace, level, run, table)| Rewrite {
            keyspace,
            level,
            run,
            meta: table.meta.clone(),
        })
        .collect()
    }
}

/// The damage of the value of a version, if it is in a value file and cannot be read.
pub(super) fn lost_value(
    state: &ManifestState,
    kind: Kind,
    stored: &[u8],
) -> Result<Option<Error>> {
    if kind != Kind::Separated {
        return Ok(None);
    }
    match state.version.values.check(stored) {
        Ok(()) => Ok(None),
        Err(error) if error.is_corruption() => Ok(Some(error)),
        Err(error) => Err(error),
    }
}

/// How a table of `keyspace` is written by a repair.
pub(super) fn options_for(keyspace: &KeyspaceVersion, level: usize, file_id: u64) -> TableOptions {
    TableOptions {
        keyspace: keyspace.id,
        compression: keyspace.settings.compression,
        fingerprint_bits: keyspace.settings.filter_bits,
        level: level as u8,
        file_id,
        sample_level: 0,
        parts: PartLimits::default(),
    }
}

/// Lost keys, as users know them.
pub(super) fn told(keys: KeyFormat, lost: &LostKeys) -> LostKeys {
    let to = lost.to.as_ref().map(|to| keys.user(to).into_owned());
    LostKeys::new(keys.user(&lost.from).into_owned(), to, lost.error.clone())
}

/// What such a table says of where it comes from.
pub(super) fn origin_for(
    keyspace: &KeyspaceVersion,
    keys: KeyFormat,
    database: u64,
    edits: u64,
) -> Arc<Origin> {
    let settings = settings_property(&keyspace.settings, keys);
    Arc::new(Origin { database, edits, name: keyspace.name.clone(), settings, ..Origin::default() })
}
