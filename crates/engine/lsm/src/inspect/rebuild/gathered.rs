//! What a rebuild has found in manifests, tables and logs.

use crate::inspect::repair::RepairReport;
use crate::inspect::sources::{Hidden, Source, Version};
use crate::manifest::manifest_file::Record;
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::VersionChange;
use crate::options::settings::KeyspaceSettings;
use crate::recovery::replay::Rejected;
use crate::user_keys::KeyFormat;
use crate::version::{TableId, TableMeta};
use esker_base::{Error, KeyspaceId, RangeTombstone, Seqno};
use esker_table::SalvagedTable;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A table that was found.
pub(super) struct Found {
    pub(super) meta: TableMeta,
    pub(super) level: u8,
    pub(super) salvaged: Arc<SalvagedTable>,
    /// What is wrong with it.
    pub(super) damage: Option<Error>,
    /// Where other tables replace it.
    pub(super) hidden: Vec<Hidden>,
}

impl Found {
    pub(super) fn source(&self) -> Source {
        Source::Table(self.salvaged.cursor(), self.hidden.clone())
    }

    /// Its range tombstones, cut to where it is not replaced.
    pub(super) fn tombstones(&self) -> Vec<RangeTombstone> {
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
pub(super) struct Part {
    pub(super) name: Option<(String, KeyspaceSettings)>,
    /// Changes of its time to live, and of what has expired.
    pub(super) aging: Vec<VersionChange>,
    pub(super) tables: Vec<Found>,
    pub(super) versions: Vec<Version>,
    pub(super) range_deletes: Vec<RangeTombstone>,
}

/// What the edits at the start of the newest readable manifest add up to.
#[derive(Default)]
pub(super) struct Told {
    pub(super) keyspaces: BTreeSet<KeyspaceId>,
    /// Tables, by file and offset, that an edit dropped and that nothing replaces.
    pub(super) dropped: BTreeSet<(u64, u64)>,
    /// Keyspace IDs below this one were given out.
    pub(super) next_keyspace: u32,
    /// File IDs below this one were given out.
    pub(super) next_file: u64,
}

/// All that was found.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) parts: BTreeMap<KeyspaceId, Part>,
    pub(super) told: Option<Told>,
    /// How many tables name this database ID.
    pub(super) identities: BTreeMap<u64, u64>,
    pub(super) identity: Option<u64>,
    /// The highest number of an edit that a manifest or a table names.
    pub(super) edits: u64,
    /// The last mark of time that a manifest has, or 0 if there is none and an entry expires.
    pub(super) expiry_mark: Option<u64>,
    /// How the database stores keys.
    pub(super) keys: Option<KeyFormat>,
    pub(super) next_keyspace: u32,
    pub(super) next_file: u64,
    /// Table files with any damage. Nothing in them stays in use, so that they can be set aside.
    pub(super) damaged: BTreeSet<u64>,
    /// Tables whose properties are unreadable.
    pub(super) unowned: Vec<(TableId, u64, Arc<SalvagedTable>)>,
    pub(super) manifests_aside: Vec<String>,
    pub(super) logs_aside: Vec<String>,
    /// Logs in a pool to be copied, because writes in them are dropped.
    pub(super) rejected: Vec<Rejected>,
    /// Every write up to here was flushed. Only whole, sound files show that: a flush that was
    /// interrupted leaves tables that lack writes of its range, and the logs still hold them.
    pub(super) flushed_through: Seqno,
    /// Every write up to here was in tables once, as a manifest or a table says. The tables may be gone.
    pub(super) was_flushed_through: Seqno,
    /// The last write found in any file.
    pub(super) last_seqno: Seqno,
    pub(super) repaired: RepairReport,
}

impl Gathered {
    /// Whether a keyspace was dropped: its ID was given out, and the manifest does not list it.
    pub(super) fn is_dropped(&self, keyspace: KeyspaceId) -> bool {
        self.told.as_ref().is_some_and(|told| {
            keyspace.0 < told.next_keyspace && !told.keyspaces.contains(&keyspace)
        })
    }

    /// Takes the edits of a manifest. Only the newest manifest counts: its first edit lists all keyspaces.
    pub(super) fn take_manifest(&mut self, records: Vec<Record>) {
        let mut told = Told::default();
        let (mut edits, mut keys) = (0, KeyFormat::AsGiven);
        for record in records {
            edits += 1;
            let adds =
                record.edit.changes.iter().any(|it| matches!(it, VersionChange::AddTable { .. }));
            for change in record.edit.changes {
                match change {
                    VersionChange::FlushedThrough(seqno) => {
                        self.was_flushed_through = self.was_flushed_through.max(seqno);
                    }
                    VersionChange::RemoveTable { id, .. } if !adds => {
                        told.dropped.insert((id.file, id.offset));
                    }
                    VersionChange::KeyFormat(format) => keys = format,
                    VersionChange::ExpiryMark(time) => self.expiry_mark = Some(time),
                    VersionChange::Numbered { edits: number, .. } => edits = number,
                    VersionChange::NextKeyspace(id) => {
                        told.next_keyspace = told.next_keyspace.max(id)
                    }
                    VersionChange::NextFile(id) => told.next_file = told.next_file.max(id),
                    VersionChange::CreateKeyspace { id, name, settings, .. } => {
                        told.next_keyspace = told.next_keyspace.max(id.0 + 1);
                        told.keyspaces.insert(id);
                        self.parts.entry(id).or_default().name = Some((name, settings));
                    }
                    VersionChange::ChangeSettings { id, settings, .. } => {
                        if let Some((_, named)) = &mut self.parts.entry(id).or_default().name {
                            *named = settings.with_separate_changes_of(named);
                        }
                    }
                    VersionChange::Ttl { keyspace, .. }
                    | VersionChange::SeparationThreshold { keyspace, .. }
                    | VersionChange::ExpiredThrough { keyspace, .. } => {
                        self.parts.entry(keyspace).or_default().aging.push(change);
                    }
                    VersionChange::DropKeyspace(id) => {
                        told.keyspaces.remove(&id);
                        self.parts.remove(&id);
                    }
                    _ => {}
                }
            }
        }
        self.edits = self.edits.max(edits);
        self.keys = Some(keys);
        self.next_keyspace = told.next_keyspace;
        self.next_file = told.next_file;
        self.told = Some(told);
    }

    /// Tables, by file and offset, that were dropped or replaced, whatever else is left.
    pub(super) fn obsolete(&self) -> BTreeSet<(u64, u64)> {
        let dropped = self.told.iter().flat_map(|told| &told.dropped);
        // Of a damaged table, what it was merged from may be more complete.
        let sound = self.parts.values().flat_map(|part| &part.tables);
        let sound = sound.filter(|table| table.damage.is_none());
        let origins = sound.filter_map(|table| table.salvaged.properties()?.origin.as_ref());
        dropped.chain(origins.flat_map(|origin| &origin.obsolete)).copied().collect()
    }

    /// A state that says only which writes were flushed.
    pub(super) fn flushed(&self) -> ManifestState {
        let mut state = ManifestState::default();
        state.version.flushed_through = self.flushed_through;
        state
    }

    pub(super) fn add_table(&mut self, keyspace: KeyspaceId, found: Found) {
        self.last_seqno = self.last_seqno.max(found.meta.max_seqno);
        if found.damage.is_some() {
            self.damaged.insert(found.meta.id.file);
        } else {
            self.repaired.tables += 1;
        }
        self.parts.entry(keyspace).or_default().tables.push(found);
    }
}
