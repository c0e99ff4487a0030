//! Collects what manifests, tables and logs record.

use super::gathered::{Found, Gathered};
use super::log_groups::first_used;
use super::unfinished::UnfinishedBatch;
use crate::inspect::salvage::{DroppedTable, told};
use crate::inspect::{Inspector, path};
use crate::log::wal_files::{log_file_name, parse_log_file_name};
use crate::manifest::manifest_file::read_prefix;
use crate::manifest::settings_code::read_settings_property;
use crate::user_keys::KeyFormat;
use crate::version::{TableId, TableMeta, parse_table_file_name, table_file_name};
use esker_base::{Error, KeyspaceId, Kind, Result, Seqno, seed_from_os};
use esker_memtable::{ScanEnd, ScanResult};
use esker_table::{BlockCache, SalvagedTable, Table, extents_in, tables_in};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Inspector {
    /// Reads the manifests, newest first.
    pub(super) fn gather_manifests(&self, gathered: &mut Gathered) -> Result<()> {
        for name in self.manifests(None)? {
            gathered.manifests_aside.push(name.clone());
            let Some((identity, records)) = read_prefix(&*self.storage, &name)? else { continue };
            gathered.identity.get_or_insert(identity);
            gathered.edits = gathered.edits.max(records.len() as u64);
            if gathered.told.is_none() && !records.is_empty() {
                gathered.take_manifest(records);
            }
        }
        Ok(())
    }

    pub(super) fn gather_tables(&self, gathered: &mut Gathered) -> Result<()> {
        let mut names = self.storage.list()?;
        names.sort();
        for name in names {
            let Some(file) = parse_table_file_name(&name) else { continue };
            let readable = self.storage.open(&name)?;
            let places = tables_in(&readable, file)?;
            let extents = extents_in(&readable, file)?.unwrap_or_default();
            let is_freed = |extent: &&(u64, u64)| {
                places.as_ref().is_some_and(|places| !places.contains(extent))
            };
            gathered.repaired.rebuilt.extend(extents.iter().filter(is_freed).map(|(offset, _)| {
                format!(
                    "left out a table in {name} at offset {offset}: it is zeros, as one that was \
                     removed from a file with others"
                )
            }));
            if places.is_none() {
                gathered.damaged.insert(file);
            }
            // The last footer may be missing although a first table is there.
            let places = places.unwrap_or(vec![(0, readable.len()?)]);
            let mut last_seqno = 0;
            for (offset, bytes) in places {
                let salvaged = SalvagedTable::open(readable.clone(), file, offset, bytes)?;
                let id = TableId { file, offset };
                last_seqno = last_seqno.max(self.gather_table(gathered, id, bytes, salvaged)?);
            }
            if !gathered.damaged.contains(&file) {
                gathered.flushed_through = gathered.flushed_through.max(last_seqno);
            }
        }
        self.gather_unowned(gathered)
    }

    /// Takes a table. Returns its last seqno.
    fn gather_table(
        &self,
        gathered: &mut Gathered,
        id: TableId,
        bytes: u64,
        salvaged: Arc<SalvagedTable>,
    ) -> Result<Seqno> {
        let Some(properties) = salvaged.properties().cloned() else {
            gathered.damaged.insert(id.file);
            gathered.unowned.push((id, bytes, salvaged));
            return Ok(0);
        };
        let keyspace = properties.keyspace;
        if let Some(origin) = &properties.origin {
            *gathered.identities.entry(origin.database).or_default() += 1;
            gathered.edits = gathered.edits.max(origin.edits);
            let flushed = gathered.was_flushed_through.max(origin.flushed_through);
            gathered.was_flushed_through = flushed;
        }
        if gathered.is_dropped(keyspace) {
            let name = table_file_name(id.file);
            gathered.repaired.rebuilt.push(format!(
                "left out a table in {name} at offset {}: its keyspace was dropped",
                id.offset
            ));
            return Ok(properties.largest_seqno);
        }
        gathered.next_keyspace = gathered.next_keyspace.max(keyspace.0 + 1);
        let part = gathered.parts.entry(keyspace).or_default();
        if let Some(origin) = &properties.origin {
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
            if cursor.kind() == Kind::ExpiringPut {
                gathered.expiry_mark.get_or_insert(0);
            }
            last.clear();
            last.extend_from_slice(cursor.key());
        }
        if let Some(error) = &damage {
            gathered.repaired.lost_tables.push(DroppedTable {
                file: path(&*self.storage, &table_file_name(id.file)),
                error: error.fact(),
                smallest: keys.user(&properties.smallest).into_owned(),
                largest: keys.user(&properties.largest).into_owned(),
                kept,
                lost_keys: cursor.lost().iter().map(|lost| told(keys, lost)).collect(),
                lost_range_deletes: salvaged.tombstones().is_none(),
            });
        }
        let ingested_at = properties.lowest_ingest_seqno();
        if ingested_at.is_some() {
            gathered.repaired.rebuilt.push(format!(
                "the entries of {} were ingested, and when is unknown: keys written since it was begun \
                 keep their other values",
                table_file_name(id.file)
            ));
        }
        let (level, largest_seqno) = (properties.level, properties.largest_seqno);
        let mut meta = TableMeta::of(id, bytes, properties, &last);
        if let Some(seqno) = ingested_at {
            meta = meta.ingested_at(seqno);
        }
        let hidden = Vec::new();
        gathered.add_table(keyspace, Found { meta, level, salvaged, damage, hidden });
        Ok(largest_seqno)
    }

    /// Takes the tables whose properties are unreadable, if the manifest shows that only one keyspace
    /// existed when they were written. Otherwise they are left out.
    fn gather_unowned(&self, gathered: &mut Gathered) -> Result<()> {
        for (id, bytes, salvaged) in std::mem::take(&mut gathered.unowned) {
            let is_default = gathered.told.as_ref().is_some_and(|manifest| {
                manifest.next_keyspace == KeyspaceId::DEFAULT.0 + 1 && id.file < manifest.next_file
            });
            let name = table_file_name(id.file);
            if !is_default {
                gathered.repaired.rebuilt.push(format!(
                    "skipped {name} at offset {}: its properties are unreadable, so its keyspace is \
                     unknown",
                    id.offset
                ));
                continue;
            }
            let mut cursor = salvaged.cursor();
            let (mut smallest, mut largest) = (Vec::new(), Vec::new());
            let (mut entries, mut max_seqno) = (0, 0);
            while cursor.advance()? {
                if entries == 0 {
                    smallest = cursor.key().to_vec();
                }
                entries += 1;
                largest.clear();
                largest.extend_from_slice(cursor.key());
                max_seqno = cursor.seqno().max(max_seqno);
            }
            let meta =
                TableMeta { bytes, entries, max_seqno, ..TableMeta::new(id, smallest, largest) };
            let keys = *gathered.keys.get_or_insert(KeyFormat::AsGiven);
            let what = "properties: unreadable";
            let error = Error::corruption(path(&*self.storage, &name), id.offset, what);
            let error = self.damage_of(id, bytes)?.unwrap_or(error);
            gathered.repaired.lost_tables.push(DroppedTable {
                file: path(&*self.storage, &name),
                error: error.fact(),
                smallest: keys.user(&meta.smallest).into_owned(),
                largest: keys.user(&meta.largest).into_owned(),
                kept: meta.entries,
                lost_keys: cursor.lost().iter().map(|lost| told(keys, lost)).collect(),
                lost_range_deletes: salvaged.tombstones().is_none(),
            });
            let (level, damage, hidden) = (0, Some(error), Vec::new());
            let found = Found { meta, level, salvaged, damage, hidden };
            gathered.add_table(KeyspaceId::DEFAULT, found);
        }
        Ok(())
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

    /// Returns the database ID: from a manifest header, else from most tables, else from the owner of
    /// the logs.
    pub(super) fn identity_of(&self, gathered: &mut Gathered) -> u64 {
        let most = gathered.identities.iter().max_by_key(|(_, tables)| **tables);
        let identity = gathered.identity.or(most.map(|(identity, _)| *identity));
        identity.or(self.owner_of_logs()).unwrap_or_else(|| {
            let what = "nothing says what the database's identity was: it gets a new one";
            gathered.repaired.rebuilt.push(what.into());
            seed_from_os()
        })
    }

    /// The logs of `epochs` that are not used: see `log_groups`.
    fn unused_logs(&self, gathered: &Gathered, epochs: &[u32]) -> Result<BTreeSet<u32>> {
        let flushed = gathered.was_flushed_through;
        let (mut spans, mut damaged) = (Vec::new(), None);
        for (at, epoch) in epochs.iter().enumerate() {
            let ScanResult { frames, later, .. } = match self.log(*epoch) {
                Ok(log) => log.scan,
                Err(error) if error.is_corruption() => {
                    spans.push(0..0);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let ends = frames.first().zip(frames.last());
            spans.push(ends.map_or(0..0, |(first, last)| first.first_seqno..last.next_seqno()));
            if later.is_some_and(|later| later.first_seqno > flushed) {
                damaged.get_or_insert(at);
            }
        }
        let used = first_used(&spans, flushed, damaged);
        Ok(epochs[..used.unwrap_or(epochs.len())].iter().copied().collect())
    }

    /// Takes the writes of logs that no sound table has, as far as they follow each other without a gap.
    pub(super) fn gather_logs(&self, gathered: &mut Gathered) -> Result<()> {
        let names = self.log_storage.list()?;
        let mut epochs: Vec<_> =
            names.iter().filter_map(|name| parse_log_file_name(name)).collect();
        epochs.sort_unstable();
        gathered.was_flushed_through = gathered.was_flushed_through.max(gathered.flushed_through);
        let unused = self.unused_logs(gathered, &epochs)?;
        let mut expected = gathered.flushed_through + 1;
        let mut has_begun = false;
        // What was dropped since the last log that was taken, and how that one ends.
        let (mut dropped, mut torn) = (Vec::new(), None);
        let mut unfinished = UnfinishedBatch::default();
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
            if let Some(error) = &log.cut_short {
                gathered.repaired.cut_logs.push(format!("{name}: {}", error.fact()));
            }
            let first_seqno = log.scan.frames.first().map_or(0, |frame| frame.first_seqno);
            let next_seqno = log.scan.frames.last().map_or(0, |frame| frame.next_seqno());
            if unused.contains(&epoch) {
                if next_seqno > gathered.was_flushed_through + 1 {
                    gathered.repaired.rebuilt.push(format!(
                        "left out {name}: its writes {first_seqno} to {} were flushed, or later ones \
                         are lost",
                        next_seqno - 1
                    ));
                }
                continue;
            }
            if let Some(batch_from) = unfinished.first_seqno()
                && (1..expected).contains(&first_seqno)
            {
                // The next part of the batch starts at `expected`. This log overlaps the batch, so an
                // earlier recovery left the batch out, and gave its seqnos to other writes.
                unfinished.leave_out();
                expected = batch_from;
            }
            let is_new = next_seqno > expected;
            if is_new && has_begun && first_seqno > expected {
                let what = format!(
                    "its writes start at seqno {first_seqno}, and those from {expected} on are missing"
                );
                dropped.push((log, what));
                continue;
            }
            if is_new {
                if first_seqno > expected {
                    gathered.repaired.rebuilt.push(format!(
                        "writes {expected} to {} are in no sound file: deleted, compacted or lost",
                        first_seqno - 1
                    ));
                }
                has_begun = true;
                unfinished.take_log(gathered, &log, expected);
                expected = next_seqno;
                // An earlier recovery dropped those: this log continues without them.
                dropped.clear();
                torn = match &log.scan.stop {
                    ScanEnd::Bad { offset, what } if log.scan.later.is_none() => {
                        Some(format!("{name} ends at offset {offset}: {what}"))
                    }
                    _ => None,
                };
            }
            if let Some(later) = log.scan.later.filter(|later| later.first_seqno >= expected) {
                has_begun = true;
                let what = format!(
                    "damaged at offset {}; {} whole frames behind it were dropped",
                    log.scan.end, later.frames
                );
                dropped.push((log, what));
            }
        }
        gathered.repaired.rebuilt.extend(torn);
        let unfinished_from = unfinished.first_seqno();
        let mut rejected = unfinished.leave_out();
        if let Some(first_seqno) = unfinished_from {
            gathered.repaired.cut_logs.push(format!(
                "the batch that starts at seqno {first_seqno} is left out: its last frame is missing"
            ));
            expected = first_seqno;
        }
        for (log, what) in dropped {
            gathered.repaired.cut_logs.push(format!("{}: {what}", log.name));
            if rejected.iter().all(|other| other.name != log.name) {
                rejected.push(log.content());
            }
        }
        // A file is renamed as it is.
        if self.pool.is_some() {
            gathered.rejected = rejected;
        }
        gathered.last_seqno = gathered.last_seqno.max(expected - 1);
        Ok(())
    }
}
