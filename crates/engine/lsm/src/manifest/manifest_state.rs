//! The state that a manifest describes: the version, and the logs in use.

use super::feed_state::FeedState;
use super::version_edit::{LogEnd, VersionChange, VersionEdit};
use crate::options::change::ChangedSettings;
use crate::stats::cumulative::CumulativeStats;
use crate::user_keys::KeyFormat;
use crate::version::aging::Aging;
use crate::version::dates::Mark;
use crate::version::derived::Derived;
use crate::version::table_lifetimes::TableBirth;
use crate::version::{
    KeyspaceVersion, Run, TableFile, TableHandle, TableId, Version, table_file_name,
    value_file_name,
};
use esker_base::{Clock, KeyspaceId};
use esker_storage::Storage;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A log segment that the manifest lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogRecord {
    /// Where it ends, if recovery has decided that.
    pub end: Option<LogEnd>,
}

/// The sum of a manifest's edits.
#[derive(Clone, Debug, Default)]
pub struct ManifestState {
    /// The tables.
    pub version: Version,
    /// The current logs, by epoch.
    pub logs: BTreeMap<u32, LogRecord>,
    /// File ids below this one are taken.
    pub next_file: u64,
    /// Keyspace ids below this one are taken.
    pub next_keyspace: u32,
    /// How it stores keys.
    pub keys: KeyFormat,
    /// Whether it has, or had, a keyspace with a merge operator: logs may have operands.
    pub has_merges: bool,
    /// The time that the database does not go back behind. `None`: it never had an entry that expires.
    pub expiry_mark: Option<u64>,
    /// Whether the last edit says that the database was closed.
    pub closed: bool,
    /// The number of the last edit, counted since the database was made. An older manifest does not have it, and
    /// its edits are counted from its snapshot.
    pub edits: u64,
    /// File ids from here on were given out by the process that wrote the manifest. `None` in an older manifest, which
    /// does not have it.
    pub first_file: Option<u64>,
    /// What the database has cost up to the last edit that changed tables.
    pub account: CumulativeStats,
    /// What change feeds need.
    pub feed: FeedState,
    /// Files of tables that the edits of a manifest that was read have removed. They may be there still after a crash.
    pub(crate) removed_files: BTreeSet<u64>,
}

impl ManifestState {
    /// Applies `edit`, whose tables live in `storage`, and returns the tables that are gone. Says
    /// what is wrong if the edit does not fit, and leaves `self` in an unspecified state then.
    pub fn apply(
        &mut self,
        edit: &VersionEdit,
        storage: &Arc<dyn Storage>,
    ) -> Result<Vec<Arc<TableHandle>>, String> {
        let mut files: BTreeMap<u64, Arc<TableFile>> = BTreeMap::new();
        let mut removed: BTreeMap<TableId, Arc<TableHandle>> = BTreeMap::new();
        let (mut births, mut deaths): (BTreeMap<_, _>, BTreeMap<_, _>) = Default::default();
        self.closed = false;
        self.edits += 1;
        let now = written_after(edit).unwrap_or(self.account).table_bytes();
        for change in &edit.changes {
            match change {
                VersionChange::CreateKeyspace { id, name, settings, retention_seqno } => {
                    if self.version.keyspaces.contains_key(id) {
                        return Err(format!("keyspace {id} is created twice"));
                    }
                    let mut keyspace = KeyspaceVersion::new(*id, name.clone(), *settings);
                    keyspace.retention_seqno = *retention_seqno;
                    self.has_merges |= settings.merge.is_some();
                    self.version.keyspaces.insert(*id, Arc::new(keyspace));
                    self.next_keyspace = self.next_keyspace.max(id.0 + 1);
                }
                VersionChange::ChangeSettings { id, settings, changed } => {
                    let keyspace = self.keyspace(*id)?;
                    keyspace.settings = settings.with_separate_changes_of(&keyspace.settings);
                    keyspace.changed = *changed;
                }
                VersionChange::DropKeyspace(id) => {
                    let dropped = self.version.keyspaces.remove(id);
                    let dropped =
                        dropped.ok_or_else(|| format!("keyspace {id} is dropped but not there"))?;
                    for (_, _, table) in dropped.tables() {
                        self.version.values.discount(&table.meta.value_files)?;
                    }
                    let tables = dropped.tables();
                    removed.extend(tables.map(|(_, _, table)| (table.meta.id, table.clone())));
                }
                VersionChange::AddTable { keyspace, level, run, meta } => {
                    let through = &mut self.version.tables_through;
                    *through = (*through).max(meta.max_seqno);
                    // A table that moves keeps its handle, and with it its open reader.
                    let table = removed.remove(&meta.id).unwrap_or_else(|| {
                        let file = files
                            .entry(meta.id.file)
                            .or_insert_with(|| TableFile::new(storage.clone(), meta.id.file));
                        let born = births.remove(&meta.id);
                        let born = born.unwrap_or(TableBirth { at: now, level: *level as u8 });
                        TableHandle::new(meta.clone(), born, file.clone())
                    });
                    deaths.remove(&meta.id);
                    self.version.values.count(*keyspace, &meta.value_files)?;
                    self.add_table(*keyspace, *level, *run, table)?;
                }
                VersionChange::RemoveTable { keyspace, id } => {
                    let table = self.remove_table(*keyspace, *id)?;
                    self.version.values.discount(&table.meta.value_files)?;
                    deaths.insert(*id, (*keyspace, table.born));
                    removed.insert(*id, table);
                }
                VersionChange::AddValueFile { keyspace, meta } => {
                    self.next_file = self.next_file.max(meta.file + 1);
                    self.version.values.add(*keyspace, *meta, storage)?;
                }
                VersionChange::SeparationThreshold { keyspace, bytes } => {
                    self.keyspace(*keyspace)?.settings.separation_threshold = *bytes;
                }
                VersionChange::FlushedThrough(seqno) => {
                    let through = &mut self.version.flushed_through;
                    *through = (*through).max(*seqno);
                    let through = &mut self.version.tables_through;
                    *through = (*through).max(*seqno);
                }
                VersionChange::NextFile(id) => self.next_file = self.next_file.max(*id),
                VersionChange::NextKeyspace(id) => self.next_keyspace = self.next_keyspace.max(*id),
                VersionChange::AddLog { epoch, end } => {
                    self.logs.insert(*epoch, LogRecord { end: *end });
                    self.next_file = self.next_file.max(u64::from(*epoch) + 1);
                }
                VersionChange::RemoveLog(epoch) => {
                    let removed = self.logs.remove(epoch).is_some();
                    if !removed && self.feed.kept.remove(epoch).is_none() {
                        return Err(format!("log {epoch} is removed but not there"));
                    }
                }
                VersionChange::Closed => self.closed = true,
                VersionChange::Feed(change) => self.feed.apply(change, &mut self.logs)?,
                VersionChange::HasMerges => self.has_merges = true,
                VersionChange::ExpiryMark(time) => self.expiry_mark = Some(*time),
                VersionChange::Ttl { keyspace, millis, zeroed_as } => {
                    let (millis, zeroed_as) = (*millis, *zeroed_as);
                    let keyspace = self.keyspace(*keyspace)?;
                    keyspace.settings.ttl = millis.map(Duration::from_millis);
                    let expired_through = keyspace.aging.map_or(0, |it| it.expired_through);
                    keyspace.aging = Some(Aging { millis, zeroed_as, expired_through });
                }
                VersionChange::ExpiredThrough { keyspace, through } => {
                    let aging = self.keyspace(*keyspace)?.aging.as_mut();
                    let aging = aging.ok_or("a keyspace without a time to live has expired")?;
                    aging.expired_through = aging.expired_through.max(*through);
                }
                VersionChange::KeyFormat(format) => self.keys = *format,
                VersionChange::Numbered { edits, first_file } => {
                    self.edits = *edits;
                    self.first_file = Some(*first_file);
                }
                VersionChange::Dates(dates) => self.version.dates.extend(dates),
                VersionChange::Account(account) => self.account = *account,
                VersionChange::Lifetimes { keyspace, lives, born } => {
                    self.keyspace(*keyspace)?.lives.clone_from(lives);
                    births.extend(born.iter().copied());
                }
            }
        }
        self.learn(deaths.into_values(), now);
        self.feed.trim(self.version.flushed_through);
        self.version.values.drop_dead();
        Ok(removed.into_values().collect())
    }

    /// Records the lifetimes of tables that were removed. Those of a dropped keyspace do not count.
    fn learn(&mut self, gone: impl Iterator<Item = (KeyspaceId, TableBirth)>, now: u64) {
        let mut born: BTreeMap<(KeyspaceId, u8), Vec<u64>> = BTreeMap::new();
        gone.for_each(|(id, table)| born.entry((id, table.level)).or_default().push(table.at));
        for ((id, level), born) in born {
            if let Ok(keyspace) = self.keyspace(id) {
                keyspace.lives[usize::from(level)].note(born, now);
            }
        }
    }

    /// Makes sure that all writes in tables have a date. Older programs gave them none.
    pub fn date_tables(&mut self, clock: &dyn Clock) {
        let through = self.version.flushed_through;
        if through > 0 && !self.version.dates.reach(through) {
            self.version.dates.note(Mark { through, at: clock.calendar().as_secs() });
        }
    }

    /// Whether a log is in use or kept.
    pub fn lists_log(&self, epoch: u32) -> bool {
        self.logs.contains_key(&epoch) || self.feed.kept.contains_key(&epoch)
    }

    /// The table files that this state needs.
    pub fn files(&self) -> BTreeSet<u64> {
        let keyspaces = self.version.keyspaces.values();
        keyspaces.flat_map(|keyspace| keyspace.tables()).map(|(_, _, t)| t.meta.id.file).collect()
    }

    /// The names of the files that hold the tables and values of this state, in the order of their IDs.
    pub fn file_names(&self) -> Vec<String> {
        let values = self.version.values.iter().map(|it| value_file_name(it.meta.file));
        let mut names: Vec<_> =
            self.files().into_iter().map(table_file_name).chain(values).collect();
        names.sort();
        names
    }

    fn keyspace(&mut self, id: KeyspaceId) -> Result<&mut KeyspaceVersion, String> {
        let keyspace = self.version.keyspaces.get_mut(&id);
        let keyspace = keyspace.ok_or_else(|| format!("there is no keyspace {id}"))?;
        let keyspace = Arc::make_mut(keyspace);
        keyspace.derived = Derived::default();
        Ok(keyspace)
    }

    fn add_table(
        &mut self,
        keyspace: KeyspaceId,
        level: usize,
        run: u64,
        table: Arc<TableHandle>,
    ) -> Result<(), String> {
        self.next_file = self.next_file.max(table.meta.id.file + 1);
        let runs = &mut self.keyspace(keyspace)?.levels[level].runs;
        // Newest first: ids descend.
        let at = runs.partition_point(|other| other.id > run);
        if runs.get(at).is_none_or(|found| found.id != run) {
            runs.insert(at, Arc::new(Run::new(run, Vec::new())));
        }
        let tables = Arc::make_mut(&mut runs[at]).tables_mut();
        let place = tables.partition_point(|other| other.meta.smallest < table.meta.smallest);
        tables.insert(place, table);
        Ok(())
    }

    fn remove_table(
        &mut self,
        keyspace: KeyspaceId,
        id: TableId,
    ) -> Result<Arc<TableHandle>, String> {
        let levels = &mut self.keyspace(keyspace)?.levels;
        for level in levels {
            for at in 0..level.runs.len() {
                let found = level.runs[at].tables().iter().position(|table| table.meta.id == id);
                if let Some(place) = found {
                    let run = Arc::make_mut(&mut level.runs[at]);
                    let table = run.tables_mut().remove(place);
                    if run.tables().is_empty() {
                        level.runs.remove(at);
                    }
                    return Ok(table);
                }
            }
        }
        Err(format!("table {}/{} is removed but not there", id.file, id.offset))
    }

    /// One edit that makes this state out of nothing.
    pub fn snapshot(&self) -> VersionEdit {
        let mut changes = vec![
            VersionChange::NextFile(self.next_file),
            VersionChange::NextKeyspace(self.next_keyspace),
            VersionChange::FlushedThrough(self.version.flushed_through),
            VersionChange::Account(self.account),
        ];
        if self.keys != KeyFormat::AsGiven {
            changes.push(VersionChange::KeyFormat(self.keys));
        }
        changes.extend(self.has_merges.then_some(VersionChange::HasMerges));
        changes.extend(self.expiry_mark.map(VersionChange::ExpiryMark));
        let dates = &self.version.dates;
        changes.extend((!dates.is_empty()).then(|| VersionChange::Dates(dates.clone())));
        let (edits, first_file) = (self.edits, self.first_file);
        changes.extend(first_file.map(|first_file| VersionChange::Numbered { edits, first_file }));
        for keyspace in self.version.keyspaces.values() {
            changes.push(VersionChange::CreateKeyspace {
                id: keyspace.id,
                name: keyspace.name.clone(),
                settings: keyspace.settings,
                retention_seqno: keyspace.retention_seqno,
            });
            let (id, settings, changed) = (keyspace.id, keyspace.settings, keyspace.changed);
            if changed != ChangedSettings::NONE {
                changes.push(VersionChange::ChangeSettings { id, settings, changed });
            }
            if let Some(Aging { millis, zeroed_as, expired_through: through }) = keyspace.aging {
                let keyspace = keyspace.id;
                changes.push(VersionChange::Ttl { keyspace, millis, zeroed_as });
                changes.push(VersionChange::ExpiredThrough { keyspace, through });
            }
            if let bytes @ Some(_) = keyspace.settings.separation_threshold {
                let keyspace = keyspace.id;
                changes.push(VersionChange::SeparationThreshold { keyspace, bytes });
            }
            changes.extend(self.version.values.of(keyspace.id).map(|listed| {
                VersionChange::AddValueFile { keyspace: listed.keyspace, meta: listed.meta }
            }));
            changes.push(VersionChange::Lifetimes {
                keyspace: keyspace.id,
                lives: Box::new(keyspace.lives.clone()),
                born: keyspace.tables().map(|(_, _, table)| (table.meta.id, table.born)).collect(),
            });
            changes.extend(keyspace.tables().map(|(level, run, table)| VersionChange::AddTable {
                keyspace: keyspace.id,
                level,
                run,
                meta: table.meta.clone(),
            }));
        }
        let logs = self.logs.iter();
        changes.extend(logs.map(|(&epoch, log)| VersionChange::AddLog { epoch, end: log.end }));
        changes.extend(self.feed.snapshot().map(VersionChange::Feed));
        VersionEdit { changes }
    }
}

/// What the database has cost once an edit is installed, if the edit says so.
fn written_after(edit: &VersionEdit) -> Option<CumulativeStats> {
    edit.changes.iter().rev().find_map(|change| match change {
        VersionChange::Account(account) => Some(*account),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::version_edit::tests::sample_table;
    use crate::options::settings::KeyspaceSettings;
    use esker_storage::MemoryStorage;

    const KEYSPACE: KeyspaceId = KeyspaceId(1);

    fn add(file: u64, level: usize) -> VersionChange {
        VersionChange::AddTable { keyspace: KEYSPACE, level, run: 1, meta: sample_table(file) }
    }

    fn remove(file: u64) -> VersionChange {
        VersionChange::RemoveTable { keyspace: KEYSPACE, id: TableId { file, offset: 0 } }
    }

    fn written(flush_bytes: u64) -> VersionChange {
        VersionChange::Account(CumulativeStats { flush_bytes, ..CumulativeStats::default() })
    }

    /// A state of one keyspace, and after each of these edits.
    fn after(edits: impl IntoIterator<Item = Vec<VersionChange>>) -> ManifestState {
        let mut state = ManifestState::default();
        let create = VersionChange::CreateKeyspace {
            id: KEYSPACE,
            name: "k".into(),
            settings: KeyspaceSettings::default(),
            retention_seqno: None,
        };
        for changes in std::iter::once(vec![create]).chain(edits) {
            apply(&mut state, &VersionEdit::of(changes));
        }
        state
    }

    fn apply(state: &mut ManifestState, edit: &VersionEdit) {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        state.apply(edit, &storage).unwrap();
    }

    /// When its tables were written, and to which level.
    fn born(state: &ManifestState) -> Vec<TableBirth> {
        state.version.keyspaces[&KEYSPACE].tables().map(|(_, _, table)| table.born).collect()
    }

    fn expected(state: &ManifestState, level: usize) -> Option<u64> {
        let keyspace = &state.version.keyspaces[&KEYSPACE];
        keyspace.expected_lifetime(level, state.account.table_bytes())
    }

    #[test]
    fn a_table_lives_from_the_end_of_the_edit_that_adds_it_to_that_of_the_one_that_removes_it() {
        let lives = (1..5).flat_map(|file| {
            [vec![add(file, 2), written(file * 100)], vec![remove(file), written(file * 100 + 30)]]
        });
        let state = after(lives);
        assert_eq!([1, 2].map(|level| expected(&state, level)), [None, Some(30)]);
    }

    #[test]
    fn a_table_that_moves_counts_for_the_level_that_it_was_written_to() {
        let moved = |file| {
            let was = vec![add(file, 2), written(file * 100)];
            [was, vec![remove(file), add(file, 4), written(file * 100 + 10)]]
        };
        let mut state = after((1..5).flat_map(moved));
        assert_eq!(
            born(&state).last(),
            Some(&TableBirth { at: 100, level: 2 }),
            "the oldest run is the last"
        );
        assert_eq!([2, 4].map(|level| expected(&state, level)), [Some(310), None]);
        apply(&mut state, &VersionEdit::of((1..5).map(remove).chain([written(500)])));
        assert_eq!([2, 4].map(|level| expected(&state, level)), [Some(200), None]);
    }

    #[test]
    fn a_snapshot_tells_what_was_learnt_of_tables_that_are_gone_and_that_are_there() {
        let gone =
            (1..6).flat_map(|file| [vec![add(file, 1)], vec![remove(file), written(file * 40)]]);
        // It was moved, and much was written since.
        let moved = vec![remove(7), add(7, 4), written(900)];
        let state = after(gone.chain([vec![add(7, 3), written(300)], moved]));
        assert_eq!(born(&state), [TableBirth { at: 300, level: 3 }]);
        let mut copy = ManifestState::default();
        apply(&mut copy, &state.snapshot());
        let keyspace = |state: &ManifestState| state.version.keyspaces[&KEYSPACE].lives.clone();
        assert_eq!((born(&copy), keyspace(&copy)), (born(&state), keyspace(&state)));
        assert_eq!(expected(&copy, 1), Some(40));
    }

    /// Logs may still have its operands, which older programs take for damage.
    #[test]
    fn a_dropped_keyspace_with_merges_leaves_a_mark_that_older_programs_refuse() {
        let mut state = after([]);
        let is_marked =
            |state: &ManifestState| state.snapshot().changes.contains(&VersionChange::HasMerges);
        assert!(!is_marked(&state));
        let create = VersionChange::CreateKeyspace {
            id: KeyspaceId(2),
            name: "sums".into(),
            settings: KeyspaceSettings::default().merge("add_i64"),
            retention_seqno: None,
        };
        apply(&mut state, &VersionEdit::of([create]));
        apply(&mut state, &VersionEdit::of([VersionChange::DropKeyspace(KeyspaceId(2))]));
        assert!(is_marked(&state));
        let mut copy = ManifestState::default();
        apply(&mut copy, &state.snapshot());
        assert!(is_marked(&copy));
    }

    #[test]
    fn tables_of_a_snapshot_without_lifetimes_count_from_what_it_says_was_written() {
        let state = after([vec![add(7, 3), written(300)], vec![written(900)]]);
        let mut snapshot = state.snapshot();
        snapshot.changes.retain(|change| !matches!(change, VersionChange::Lifetimes { .. }));
        let mut copy = ManifestState::default();
        apply(&mut copy, &snapshot);
        assert_eq!(born(&copy), [TableBirth { at: 900, level: 3 }]);
    }
}
