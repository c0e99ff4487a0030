//! A database without a manifest, from its tables and logs.
//!
//! Tables say which database, keyspace and settings they were written for. Their order is not recorded, but every
//! version has its seqno:
//!
//! 1. Each keyspace's tables are ranked from old to new: the deepest level first, then by their highest seqno.
//! 2. All versions are read in the order of keys. If every version that is newer by its seqno is in a table that is
//!    newer by its rank, and all tables are sound, the files stay as they are, in runs of level 0.
//! 3. Otherwise what can be read is merged into new tables, by seqno. Of two versions with one seqno, as the deepest
//!    level has them, the newer table's counts.
//!
//! A compaction's output says which tables it replaces in which range of keys. Such a table may still be there, in a
//! file that it shares with others; it is left out, or what is replaced of it.
//!
//! Writes of logs that no table has become tables, too, as far as they follow each other without a gap. What the
//! manifest knew and files do not is assumed, and the report says so.

use super::repair::{LostTable, set_aside};
use super::salvage::{options_for, origin_for, told};
use super::sources::{Hidden, Merged, Source, Version};
use super::{Inspector, Repaired, path};
use crate::compaction::{Fold, write_cut_tables};
use crate::keyspace::DEFAULT_KEYSPACE;
use crate::log_files::{log_file_name, parse_log_file_name};
use crate::manifest::{
    Change, Edit, Manifest, State, invariants, read_prefix, read_settings_property,
};
use crate::settings::KeyspaceSettings;
use crate::user_keys::KeyFormat;
use crate::version::{KeyspaceVersion, TableId, TableMeta, parse_table_file_name, table_file_name};
use esker_base::{
    EntryCursor, Error, FragmentedTombstones, Hint, KeyspaceId, Kind, RangeTombstone, Result,
    Seqno, ambient_seed,
};
use esker_table::{BlockCache, Origin, SalvagedTable, Table, tables_in};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The bytes of keys and values after which a new table begins.
const TABLE_BYTES: u64 = 64 << 20;

/// A table that was found.
struct Found {
    meta: TableMeta,
    level: u8,
    salvaged: Arc<SalvagedTable>,
    /// What is wrong with it.
    damage: Option<Error>,
    /// Where other tables replace it.
    hidden: Vec<Hidden>,
}

impl Found {
    fn source(&self) -> Source {
        Source::Table(self.salvaged.cursor(), self.hidden.clone())
    }

    /// Its range tombstones, cut to where it is not replaced.
    fn tombstones(&self) -> Vec<RangeTombstone> {
        let all = self.salvaged.tombstones().map(|list| list.tombstones().collect());
        let mut left: Vec<RangeTombstone> = all.unwrap_or_default();
        for (from, to) in &self.hidden {
            left = left.into_iter().flat_map(|tombstone| without(tombstone, from, to)).collect();
        }
        left
    }
}

/// What is left of a range tombstone outside a range.
fn without(
    tombstone: RangeTombstone,
    from: &Option<Vec<u8>>,
    to: &Option<Vec<u8>>,
) -> Vec<RangeTombstone> {
    let RangeTombstone { start, end, seqno } = tombstone;
    let before = from.clone().map(|from| (start.clone(), end.clone().min(from)));
    let behind = to.clone().map(|to| (start.max(to), end));
    let parts = [before, behind].into_iter().flatten().filter(|(start, end)| start < end);
    parts.map(|(start, end)| RangeTombstone { start, end, seqno }).collect()
}

/// A keyspace that is being rebuilt.
#[derive(Default)]
struct Part {
    name: Option<(String, KeyspaceSettings)>,
    tables: Vec<Found>,
    versions: Vec<Version>,
    range_deletes: Vec<RangeTombstone>,
}

/// All that was found.
#[derive(Default)]
struct Gathered {
    parts: BTreeMap<KeyspaceId, Part>,
    dropped: BTreeSet<KeyspaceId>,
    /// How many tables say that they are of the database with this identity.
    identities: BTreeMap<u64, u64>,
    identity: Option<u64>,
    edits: u64,
    /// How the database stores keys.
    keys: Option<KeyFormat>,
    next_keyspace: u32,
    /// Files that nothing was taken from, or everything.
    aside: BTreeSet<String>,
    logs_aside: Vec<String>,
    last_seqno: Seqno,
    repaired: Repaired,
}

impl Inspector {
    /// Makes a database of the tables and logs there are. `damage` is why no manifest can be gone by.
    pub(super) fn rebuild(&self, damage: &[Error]) -> Result<Repaired> {
        let mut gathered = Gathered::default();
        gathered.repaired.given_up_manifests = damage.iter().map(Error::fact).collect();
        self.gather_manifests(&mut gathered)?;
        self.gather_tables(&mut gathered)?;
        let identity = self.identity_of(&mut gathered);
        self.check_log_directory(identity)?;
        let _log_lock = self.lock_logs()?;
        gathered.parts.values_mut().for_each(leave_out_replaced);
        self.gather_logs(&mut gathered)?;
        name_keyspaces(&mut gathered);
        self.write_rebuilt(gathered, identity)
    }

    /// Takes from the manifests, the newest first, what their first edits say of keyspaces.
    fn gather_manifests(&self, gathered: &mut Gathered) -> Result<()> {
        for name in self.manifests(None)? {
            gathered.aside.insert(name.clone());
            let Some((identity, records)) = read_prefix(&*self.storage, &name)? else { continue };
            gathered.identity.get_or_insert(identity);
            gathered.edits = gathered.edits.max(records.len() as u64);
            if let Some(first) = records.first() {
                let told = first.edit.changes.iter().find_map(|change| match change {
                    Change::KeyFormat(keys) => Some(*keys),
                    _ => None,
                });
                gathered.keys.get_or_insert(told.unwrap_or(KeyFormat::AsGiven));
            }
            for change in records.into_iter().flat_map(|record| record.edit.changes) {
                match change {
                    Change::CreateKeyspace { id, name, settings, .. } => {
                        gathered.next_keyspace = gathered.next_keyspace.max(id.0 + 1);
                        let part = gathered.parts.entry(id).or_default();
                        part.name.get_or_insert((name, settings));
                    }
                    Change::DropKeyspace(id) => {
                        gathered.dropped.insert(id);
                    }
                    Change::Numbered { edits, .. } => gathered.edits = gathered.edits.max(edits),
                    _ => {}
                }
            }
        }
        for id in gathered.dropped.clone() {
            gathered.parts.remove(&id);
        }
        Ok(())
    }

    fn gather_tables(&self, gathered: &mut Gathered) -> Result<()> {
        let mut names = self.storage.list()?;
        names.sort();
        for name in names {
            let Some(file) = parse_table_file_name(&name) else { continue };
            let readable = self.storage.open(&name)?;
            // The last footer may be missing although a first table is there.
            let places = tables_in(&readable, file)?;
            let places = places.unwrap_or(vec![(0, readable.len()?)]);
            for (offset, bytes) in places {
                let salvaged = SalvagedTable::open(readable.clone(), file, offset, bytes)?;
                let id = TableId { file, offset };
                if !self.gather_table(gathered, id, bytes, salvaged)? {
                    gathered.aside.insert(name.clone());
                    gathered.repaired.rebuilt.push(format!(
                        "left out {name} at offset {offset}: it does not say what it is of"
                    ));
                }
            }
        }
        Ok(())
    }

    /// False if the table does not say what it is of.
    fn gather_table(
        &self,
        gathered: &mut Gathered,
        id: TableId,
        bytes: u64,
        salvaged: Arc<SalvagedTable>,
    ) -> Result<bool> {
        let Some(properties) = salvaged.properties().cloned() else { return Ok(false) };
        let keyspace = properties.keyspace;
        if gathered.dropped.contains(&keyspace) {
            gathered.aside.insert(table_file_name(id.file));
            let what = format!("left out {}: its keyspace was dropped", table_file_name(id.file));
            gathered.repaired.rebuilt.push(what);
            return Ok(true);
        }
        gathered.next_keyspace = gathered.next_keyspace.max(keyspace.0 + 1);
        let part = gathered.parts.entry(keyspace).or_default();
        if let Some(origin) = &properties.origin {
            *gathered.identities.entry(origin.database).or_default() += 1;
            gathered.edits = gathered.edits.max(origin.edits);
            let told = read_settings_property(&origin.settings);
            let settings = told.map(|(settings, _)| settings).unwrap_or_default();
            gathered.keys = gathered.keys.or(told.map(|(_, keys)| keys));
            part.name.get_or_insert((origin.name.clone(), settings));
        }
        // Tables of older programs, which stored keys as they were given, do not say where they come from.
        let keys = *gathered.keys.get_or_insert(KeyFormat::AsGiven);
        let damage = self.damage_of(id, bytes)?;
        // What the table ends with, a version or the end of a range tombstone, is not in its properties.
        let mut cursor = salvaged.cursor();
        let (mut last, mut kept) = (Vec::new(), 0);
        while cursor.advance()? {
            kept += 1;
            last.clear();
            last.extend_from_slice(cursor.key());
        }
        if let Some(error) = &damage {
            gathered.repaired.lost_tables.push(LostTable {
                file: path(&*self.storage, &table_file_name(id.file)),
                error: error.fact(),
                smallest: keys.user(&properties.smallest).into_owned(),
                largest: keys.user(&properties.largest).into_owned(),
                kept,
                lost_keys: cursor.lost().iter().map(|lost| told(keys, lost)).collect(),
                lost_range_deletes: salvaged.tombstones().is_none(),
            });
        } else {
            gathered.repaired.tables += 1;
        }
        let meta = TableMeta {
            id,
            bytes,
            largest_is_exclusive: properties.largest > last,
            smallest: properties.smallest,
            largest: properties.largest,
            entries: properties.entries,
            deletes: properties.deletes,
            range_tombstones: properties.range_tombstones,
            raw_bytes: properties.raw_key_bytes + properties.raw_value_bytes,
            min_seqno: properties.smallest_seqno,
            max_seqno: properties.largest_seqno,
            global_seqno: None,
        };
        gathered.last_seqno = gathered.last_seqno.max(meta.max_seqno);
        part.tables.push(Found {
            meta,
            level: properties.level,
            salvaged,
            damage,
            hidden: Vec::new(),
        });
        Ok(true)
    }

    fn damage_of(&self, id: TableId, bytes: u64) -> Result<Option<Error>> {
        let file = self.storage.open(&table_file_name(id.file))?;
        let cache = Arc::new(BlockCache::new(0));
        let table = match Table::open(file, id.file, id.offset, bytes, cache) {
            Ok(table) => Arc::new(table),
            Err(error) if error.is_corruption() => return Ok(Some(error)),
            Err(error) => return Err(error),
        };
        let (mut damage, mut failure) = (None, None);
        table.verify(&mut |error| {
            let first = if error.is_corruption() { &mut damage } else { &mut failure };
            first.get_or_insert(error);
        });
        failure.map_or(Ok(damage), Err)
    }

    /// Whose tables these are: as a manifest's header says, or most of the tables, or the place of the logs.
    fn identity_of(&self, gathered: &mut Gathered) -> u64 {
        let most = gathered.identities.iter().max_by_key(|(_, tables)| **tables);
        let identity = gathered.identity.or(most.map(|(identity, _)| *identity));
        identity.or(self.owner_of_logs()).unwrap_or_else(|| {
            let what = "nothing says what the database's identity was: it gets a new one";
            gathered.repaired.rebuilt.push(what.into());
            ambient_seed()
        })
    }

    /// Takes the writes of logs that no table has.
    fn gather_logs(&self, gathered: &mut Gathered) -> Result<()> {
        let names = self.log_storage.list()?;
        let mut epochs: Vec<_> =
            names.iter().filter_map(|name| parse_log_file_name(name)).collect();
        epochs.sort_unstable();
        let mut expected = gathered.last_seqno + 1;
        let mut has_begun = false;
        for epoch in epochs {
            let name = log_file_name(epoch);
            gathered.logs_aside.push(name.clone());
            let log = match self.log(epoch) {
                Ok(log) => log,
                Err(error) if error.is_corruption() => {
                    gathered.repaired.cut_logs.push(format!("{name}: {}", error.fact()));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let frames = &log.scan.frames;
            let (Some(first), Some(last)) = (frames.first(), frames.last()) else { continue };
            if last.next_seqno() <= expected {
                continue;
            }
            if has_begun && first.first_seqno > expected {
                gathered.repaired.cut_logs.push(format!(
                    "{name}: its writes start at seqno {}, and those from {expected} on are missing",
                    first.first_seqno
                ));
                break;
            }
            if !has_begun && first.first_seqno > expected {
                gathered.repaired.rebuilt.push(format!(
                    "no file has writes {expected} to {}: they were deleted since, or are lost",
                    first.first_seqno - 1
                ));
            }
            has_begun = true;
            for (seqno, entry) in frames.iter().flat_map(|frame| log.entries(frame)) {
                if seqno < expected || gathered.dropped.contains(&entry.keyspace) {
                    continue;
                }
                gathered.repaired.log_entries += 1;
                gathered.next_keyspace = gathered.next_keyspace.max(entry.keyspace.0 + 1);
                let part = gathered.parts.entry(entry.keyspace).or_default();
                let (key, value) = (entry.key.to_vec(), entry.value.to_vec());
                match entry.kind {
                    Kind::RangeDelete => {
                        part.range_deletes.push(RangeTombstone { start: key, end: value, seqno });
                    }
                    kind => part.versions.push((key, seqno, kind, value)),
                }
            }
            expected = last.next_seqno();
        }
        gathered.last_seqno = expected - 1;
        Ok(())
    }

    fn write_rebuilt(&self, mut gathered: Gathered, identity: u64) -> Result<Repaired> {
        let mut id = self.next_file_seen()?;
        let first_file = id;
        let numbered = Change::Numbered { edits: gathered.edits + 1, first_file };
        // New databases map keys.
        let keys = gathered.keys.unwrap_or(KeyFormat::Mapped);
        let mut changes = vec![
            Change::KeyFormat(keys),
            numbered,
            Change::NextKeyspace(gathered.next_keyspace.max(1)),
            Change::FlushedThrough(gathered.last_seqno),
        ];
        let mut needed = BTreeSet::new();
        for (keyspace, part) in std::mem::take(&mut gathered.parts) {
            let (name, settings) = part.name.clone().expect("every keyspace was named");
            changes.push(Change::CreateKeyspace {
                id: keyspace,
                name: name.clone(),
                settings,
                retention_seqno: None,
            });
            let version = KeyspaceVersion::new(keyspace, name, settings);
            let origin = origin_for(&version, keys, identity, gathered.edits + 1);
            let runs = self.runs_of(part, &version, &origin, &mut id)?;
            for (run, tables) in runs.into_iter().enumerate() {
                for meta in tables {
                    needed.insert(meta.id.file);
                    // Above every run of before, and below every run to come.
                    let run = first_file + run as u64;
                    changes.push(Change::AddTable { keyspace, level: 0, run, meta });
                }
            }
        }
        self.storage.sync_names()?;
        let most_runs = changes.len() as u64;
        let next_file = id.max(first_file + most_runs);
        changes.push(Change::NextFile(next_file + 1));
        let mut state = State::default();
        let applied = state.apply(&Edit::of(changes), &self.storage);
        applied.map_err(|what| Error::corruption(self.storage.describe(), 0, what))?;
        invariants::check(&state.version)
            .map_err(|what| Error::corruption(self.storage.describe(), 0, what))?;
        for name in self.storage.list()? {
            if parse_table_file_name(&name).is_some_and(|file| !needed.contains(&file)) {
                gathered.aside.insert(name);
            }
        }
        let mut repaired = gathered.repaired;
        repaired.rebuilt.push(format!("rebuilt the manifest from {}", self.storage.describe()));
        repaired.last_seqno = gathered.last_seqno;
        let aside = gathered.aside.into_iter().collect();
        repaired.set_aside.extend(set_aside(&*self.storage, aside)?);
        if self.pool.is_none() {
            let logs = gathered.logs_aside;
            repaired.set_aside.extend(set_aside(&*self.log_storage, logs)?);
        }
        self.mend_pool()?;
        let manifest = Manifest::create(&*self.storage, next_file, identity, &state.snapshot())?;
        repaired.manifest = manifest.name().to_owned();
        Ok(repaired)
    }

    /// The keyspace's tables in runs, the oldest first.
    fn runs_of(
        &self,
        mut part: Part,
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
            let mut fold = Fold::new(Vec::new(), false);
            let create = || {
                let options = options_for(keyspace, 0, *id);
                let file = self.storage.create(&table_file_name(*id), Hint::table(0))?;
                *id += 1;
                Ok((file, options))
            };
            write_cut_tables(&mut merged, tombstones, &mut fold, cuts, origin, create)
        };
        let sources = || part.tables.iter().map(Found::source);
        let (in_order, cuts) = examine(&part.tables, sources().collect())?;
        let is_whole = |table: &Found| table.damage.is_none() && table.hidden.is_empty();
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

/// Leaves out tables that others replace, and notes of the others where they are replaced.
fn leave_out_replaced(part: &mut Part) {
    let mut obsolete = BTreeSet::new();
    let mut replaced: BTreeMap<(u64, u64), Vec<Hidden>> = BTreeMap::new();
    for table in &part.tables {
        let properties = table.salvaged.properties();
        let Some(origin) = properties.and_then(|properties| properties.origin.as_ref()) else {
            continue;
        };
        obsolete.extend(origin.obsolete.iter().copied());
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

/// Whether the order of the tables is that of their versions; and where to cut, if they are merged.
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
    Ok((in_order, cuts))
}

/// Tables in order, the oldest first, as runs of disjoint tables: each lies above all older ones that it overlaps.
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
    let mut taken = BTreeSet::new();
    // The newest of one name has it: the others were dropped.
    for (id, part) in gathered.parts.iter_mut().rev() {
        let is_told = part.name.is_some();
        let (name, _) = part.name.get_or_insert_with(|| {
            let name = match *id {
                KeyspaceId::DEFAULT => DEFAULT_KEYSPACE.to_owned(),
                id => format!("keyspace-{}", id.0),
            };
            (name, KeyspaceSettings::default())
        });
        if !is_told {
            gathered
                .repaired
                .rebuilt
                .push(format!("assumed the default settings, and the name, of keyspace {name:?}"));
        }
        if !taken.insert(name.clone()) {
            let old = format!("{name}-{}", id.0);
            gathered.repaired.rebuilt.push(format!(
                "two keyspaces were called {name:?}: the older, which was dropped, is now {old:?}"
            ));
            taken.insert(old.clone());
            *name = old;
        }
    }
}
