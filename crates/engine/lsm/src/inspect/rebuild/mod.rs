//! Rebuilds a lost manifest from tables and logs.
//!
//! A table records its database, keyspace and settings. The order of tables is not recorded, but each
//! version has its sequence number:
//!
//! 1. The tables of each keyspace are ranked from old to new: the deepest level first, then by their
//!    highest sequence number.
//! 2. All versions are read in key order. The files stay unchanged, in runs of level 0, if all tables
//!    are intact, each version with a higher sequence number is in a table with a higher rank, and
//!    no operand of a merge is in two.
//! 3. Otherwise what can be read is merged into new tables, by sequence number. The deepest level
//!    stores the sequence number 0, so two versions may have the same: the newer table's counts.
//!
//! The output of a compaction records which tables it replaces in which key range. Such a table may
//! still be in a file that it shares with others. It is left out, as far as it is replaced.
//!
//! Writes in logs that no table has become tables too, as far as they follow each other without a
//! gap. Only intact files hide writes of logs or other tables: an interrupted flush or compaction left
//! its inputs in place.
//!
//! The newest manifest whose first edit can be read lists the keyspaces. What no file records is
//! assumed, and the report says so.

mod gather;
mod gathered;
mod log_groups;
mod unfinished;

use crate::inspect::Inspector;
use crate::inspect::repair::RepairReport;
use crate::inspect::repair::{set_aside, values_first};
use crate::inspect::salvage::{options_for, origin_for};
use crate::inspect::sources::{Hidden, Merged, Source};
use crate::manifest::invariants;
use crate::manifest::manifest_file::{Author, PreparedManifest};
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::options::settings::DEFAULT_KEYSPACE;
use crate::options::settings::KeyspaceSettings;
use crate::output::output_files::{OutputFile, write_cut_tables};
use crate::output::value_output::ValueOutput;
use crate::output::version_filter::VersionFilter;
use crate::recovery::replay;
use crate::recovery::unlisted_files::quarantine;
use crate::user_keys::KeyFormat;
use crate::version::{
    KeyspaceVersion, TableMeta, ValueFileMeta, describe_value_file, parse_data_file_name,
    table_file_name, value_file_name,
};
use esker_base::{
    EntryCursor, Error, FragmentedTombstones, KeyspaceId, Kind, RangeTombstone, Result, Seqno,
    WriteHint,
};
use esker_table::Origin;
use gathered::{Found, Gathered, Part};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The bytes of keys and values after which a new table begins.
const TABLE_BYTES: u64 = 64 << 20;

impl Inspector {
    /// Makes a database of the tables and logs there are. `damage` is why no manifest can be gone by.
    pub(super) fn rebuild(&self, damage: &[Error]) -> Result<RepairReport> {
        let mut gathered = Gathered::default();
        gathered.repaired.given_up_manifests = damage.iter().map(Error::fact).collect();
        gathered.repaired.mended_pool = self.pool_problems();
        self.gather_manifests(&mut gathered)?;
        self.gather_tables(&mut gathered)?;
        let identity = self.identity_of(&mut gathered);
        self.check_log_directory(identity)?;
        let _log_lock = self.lock_logs()?;
        self.check_logs_place(&gathered.flushed(), false)?;
        let obsolete = gathered.obsolete();
        gathered.parts.values_mut().for_each(|part| leave_out_replaced(part, &obsolete));
        self.gather_logs(&mut gathered)?;
        name_keyspaces(&mut gathered);
        self.write_rebuilt(gathered, identity)
    }

    fn write_rebuilt(&self, mut gathered: Gathered, identity: u64) -> Result<RepairReport> {
        let first_file = self.next_file_seen()?.max(gathered.next_file);
        let prepared = self.prepare_rebuilt(&mut gathered, identity, first_file);
        let (manifest, needed) = prepared.inspect_err(|_| self.remove_new_tables(first_file))?;
        let mut unneeded = self.storage.list()?;
        unneeded.retain(|name| parse_data_file_name(name).is_some() && !needed.contains(name));
        unneeded.sort();
        let mut repaired = gathered.repaired;
        repaired.set_aside.extend(set_aside(&*self.storage, values_first(unneeded))?);
        if self.pool.is_none() {
            let logs = gathered.logs_aside;
            repaired.set_aside.extend(set_aside(&*self.log_storage, logs)?);
        }
        let manifest = manifest.install(&*self.storage)?;
        // Only now: until then the next repair needs what they say.
        let manifests = gathered.manifests_aside;
        repaired.set_aside.extend(set_aside(&*self.storage, manifests)?);
        repaired.manifest = manifest.name().to_owned();
        repaired.rebuilt.push(format!("rebuilt the manifest from {}", self.storage.describe()));
        repaired.last_seqno = gathered.last_seqno;
        Ok(repaired)
    }

    /// Writes all that is new: tables from `first_file` on, copies of logs, and the manifest. Returns the
    /// manifest and the files with tables or values that it lists.
    fn prepare_rebuilt(
        &self,
        gathered: &mut Gathered,
        identity: u64,
        first_file: u64,
    ) -> Result<(PreparedManifest, BTreeSet<String>)> {
        let mut id = first_file;
        let numbered = VersionChange::Numbered { edits: gathered.edits + 1, first_file };
        // New databases map keys.
        let keys = gathered.keys.unwrap_or(KeyFormat::Mapped);
        let mut changes = vec![
            VersionChange::KeyFormat(keys),
            numbered,
            VersionChange::NextKeyspace(gathered.next_keyspace.max(1)),
            VersionChange::FlushedThrough(gathered.last_seqno),
        ];
        let mut logged = gathered.parts.values().flat_map(|part| &part.versions);
        if logged.any(|(_, _, kind, _)| *kind == Kind::ExpiringPut) {
            gathered.expiry_mark.get_or_insert(0);
        }
        changes.extend(gathered.expiry_mark.map(VersionChange::ExpiryMark));
        for (keyspace, part) in std::mem::take(&mut gathered.parts) {
            let (name, settings) = part.name.clone().expect("every keyspace was named");
            changes.push(VersionChange::CreateKeyspace {
                id: keyspace,
                name: name.clone(),
                settings,
                retention_seqno: None,
            });
            changes.extend(part.aging.iter().cloned());
            let version = KeyspaceVersion::new(keyspace, name, settings);
            // Not the edit to come: if this repair is interrupted, no table may name an edit that never was.
            let origin = origin_for(&version, keys, identity, gathered.edits);
            let runs = self.runs_of(part, &gathered.damaged, &version, &origin, &mut id)?;
            for meta in self.value_files_of(runs.iter().flatten(), &mut gathered.repaired)? {
                changes.push(VersionChange::AddValueFile { keyspace, meta });
            }
            for (run, tables) in runs.into_iter().enumerate() {
                // Above every run of before, and below every run to come.
                let run = first_file + run as u64;
                let add = |meta| VersionChange::AddTable { keyspace, level: 0, run, meta };
                changes.extend(tables.into_iter().map(add));
            }
        }
        self.storage.sync_names()?;
        let most_runs = changes.len() as u64;
        let next_file = id.max(first_file + most_runs);
        changes.push(VersionChange::NextFile(next_file + 1));
        let mut state = ManifestState::default();
        let applied = state.apply(&VersionEdit::of(changes), &self.storage);
        applied.map_err(|what| Error::corruption(self.storage.describe(), 0, what))?;
        invariants::check(&state.version)
            .map_err(|what| Error::corruption(self.storage.describe(), 0, what))?;
        replay::check_table_files(&*self.storage, &state)?;
        gathered.repaired.kept_logs = quarantine::keep(&*self.storage, &gathered.rejected)?;
        self.mend_pool()?;
        let snapshot = state.snapshot();
        let author = Author::of(identity);
        let manifest = PreparedManifest::write(&*self.storage, next_file, author, &snapshot)?;
        Ok((manifest, state.file_names().into_iter().collect()))
    }

    /// The value files that tables refer to, with all that is in them. One that is missing fails the reads of
    /// its values.
    fn value_files_of<'a>(
        &self,
        tables: impl Iterator<Item = &'a TableMeta>,
        repaired: &mut RepairReport,
    ) -> Result<Vec<ValueFileMeta>> {
        let mut live: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for of in tables.flat_map(|meta| &meta.value_files) {
            let (values, bytes) = live.entry(of.file).or_default();
            (*values, *bytes) = (*values + of.values, *bytes + of.bytes);
        }
        let describe = |(file, (values, bytes))| {
            let name = value_file_name(file);
            let meta = match self.storage.exists(&name)? {
                true => describe_value_file(&*self.storage, file)?,
                false => {
                    repaired.rebuilt.push(format!("{name} is missing, with {values} values"));
                    ValueFileMeta::new(file, 0)
                }
            };
            // If it was cut off, it has fewer than tables refer to.
            let (values, value_bytes) = (meta.values.max(values), meta.value_bytes.max(bytes));
            Ok(ValueFileMeta { values, value_bytes, ..meta })
        };
        live.into_iter().map(describe).collect()
    }

    /// The keyspace's tables in runs, the oldest first.
    fn runs_of(
        &self,
        mut part: Part,
        damaged: &BTreeSet<u64>,
        keyspace: &KeyspaceVersion,
        origin: &Arc<Origin>,
        id: &mut u64,
    ) -> Result<Vec<Vec<TableMeta>>> {
        part.tables.sort_by_key(|table| {
            (std::cmp::Reverse(table.level), table.meta.max_seqno, table.meta.id)
        });
        let logged = Source::list(std::mem::take(&mut part.versions));
        let logged_deletes = std::mem::take(&mut part.range_deletes);
        let mut write = |mut merged: Merged, tombstones: Vec<RangeTombstone>, cuts: &[Vec<u8>]| {
            let mut fold = VersionFilter::new(Vec::new(), false);
            let options = options_for(keyspace, 0, *id);
            let create = || {
                let file = self.storage.create(&table_file_name(*id), WriteHint::table(0))?;
                let output = OutputFile { id: *id, file };
                *id += 1;
                Ok(output)
            };
            let fold = (&mut fold, &mut ValueOutput::none());
            let form = (options, origin);
            write_cut_tables(&mut merged, tombstones, fold, cuts, form, false, create)
        };
        let sources = || part.tables.iter().map(Found::source);
        let (in_order, cuts) = examine(&part.tables, sources().collect())?;
        // A file is set aside only as a whole, so sound tables beside a damaged one are written anew.
        let is_whole =
            |table: &Found| !damaged.contains(&table.meta.id.file) && table.hidden.is_empty();
        if in_order && part.tables.iter().all(is_whole) {
            let mut runs = layers(part.tables.iter().map(|table| &table.meta));
            let tables = write(Merged::new(vec![logged])?, logged_deletes, &[])?;
            if !tables.is_empty() {
                runs.push(tables);
            }
            return Ok(runs);
        }
        let mut tombstones = logged_deletes;
        tombstones.extend(part.tables.iter().flat_map(Found::tombstones));
        let merged = Merged::new(sources().chain([logged]).collect())?;
        let tables = write(merged, tombstones, &cuts)?;
        Ok(if tables.is_empty() { Vec::new() } else { vec![tables] })
    }
}

/// Leaves out tables that are `obsolete` or that others replace, and notes of the rest where they are
/// replaced.
fn leave_out_replaced(part: &mut Part, obsolete: &BTreeSet<(u64, u64)>) {
    let mut replaced: BTreeMap<(u64, u64), Vec<Hidden>> = BTreeMap::new();
    // Of a damaged table, what it was merged from may be more complete.
    for table in part.tables.iter().filter(|table| table.damage.is_none()) {
        let properties = table.salvaged.properties();
        let Some(origin) = properties.and_then(|properties| properties.origin.as_ref()) else {
            continue;
        };
        for id in &origin.replaces {
            let range = (origin.from.clone(), origin.to.clone());
            replaced.entry(*id).or_default().push(range);
        }
    }
    part.tables.retain_mut(|table| {
        let id = (table.meta.id.file, table.meta.id.offset);
        table.hidden = replaced.remove(&id).unwrap_or_default();
        table.hidden.sort();
        !obsolete.contains(&id) && !is_covered(&table.meta, &table.hidden)
    });
}

/// Whether all keys of a table are in `ranges`, which are in order.
fn is_covered(meta: &TableMeta, ranges: &[Hidden]) -> bool {
    let mut at = meta.smallest.clone();
    for (from, to) in ranges {
        if from.as_ref().is_none_or(|from| *from <= at) {
            match to {
                Some(to) => at = at.max(to.clone()),
                None => return true,
            }
        }
    }
    meta.ends_before(&at)
}

/// Whether the order of the tables is that of their versions, and no two have the same operand; and where to cut, if they are merged.
fn examine(tables: &[Found], sources: Vec<Source>) -> Result<(bool, Vec<Vec<u8>>)> {
    let deletes: Vec<(usize, &Arc<FragmentedTombstones>)> = tables
        .iter()
        .enumerate()
        .filter_map(|(rank, table)| Some((rank, table.salvaged.tombstones()?)))
        .filter(|(_, list)| !list.is_empty())
        .collect();
    let (mut in_order, mut cuts, mut bytes) = (true, Vec::new(), 0);
    let mut newer: Option<(Vec<u8>, usize)> = None;
    let mut merged = Merged::new(sources)?;
    while merged.valid() {
        let (key, rank) = (merged.key(), merged.rank());
        let is_new = newer.as_ref().is_none_or(|(newer, _)| newer != key);
        if is_new && bytes > TABLE_BYTES {
            cuts.push(key.to_vec());
            bytes = 0;
        }
        bytes += (key.len() + merged.value().len()) as u64;
        in_order &= is_new || newer.as_ref().is_none_or(|(_, newer)| *newer >= rank);
        let seqno = merged.seqno();
        in_order &=
            deletes.iter().all(|(of, list)| *of >= rank || list.covering(key, Seqno::MAX) <= seqno);
        newer = Some((key.to_vec(), rank));
        merged.next()?;
    }
    Ok((in_order && !merged.has_left_out(), cuts))
}

/// Tables in order, the oldest first, as runs of disjoint tables: each is above all older ones that it overlaps.
fn layers<'a>(tables: impl Iterator<Item = &'a TableMeta>) -> Vec<Vec<TableMeta>> {
    let mut layers: Vec<Vec<TableMeta>> = Vec::new();
    for table in tables {
        let above = layers.iter().rposition(|layer| {
            layer.iter().any(|other| other.overlaps(&table.smallest, &table.largest))
        });
        let layer = above.map_or(0, |layer| layer + 1);
        if layer == layers.len() {
            layers.push(Vec::new());
        }
        layers[layer].push(table.clone());
    }
    for layer in &mut layers {
        layer.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    }
    layers
}

/// Gives every keyspace a name of its own.
fn name_keyspaces(gathered: &mut Gathered) {
    gathered.parts.entry(KeyspaceId::DEFAULT).or_default();
    // The newest of one name has it: the others were dropped.
    let mut owners = BTreeMap::new();
    for (id, part) in &gathered.parts {
        owners.extend(part.name.as_ref().map(|(name, _)| (name.clone(), *id)));
    }
    for (id, part) in gathered.parts.iter_mut().rev() {
        let (wanted, settings) = part.name.take().unwrap_or_else(|| {
            let name = match *id {
                KeyspaceId::DEFAULT => DEFAULT_KEYSPACE.to_owned(),
                id => format!("keyspace-{}", id.0),
            };
            gathered
                .repaired
                .rebuilt
                .push(format!("assumed the default settings, and the name, of keyspace {name:?}"));
            (name, KeyspaceSettings::default())
        });
        let mut name = wanted.clone();
        while *owners.entry(name.clone()).or_insert(*id) != *id {
            name = format!("{name}-{}", id.0);
        }
        if name != wanted {
            gathered.repaired.rebuilt.push(format!(
                "two keyspaces were called {wanted:?}: the older, which was dropped, is now {name:?}"
            ));
        }
        part.name = Some((name, settings));
    }
}
