//! What a manifest says in all: the version, and which logs are in force.

use super::{Change, Edit, LogEnd};
use crate::account::Account;
use crate::compaction::Monitors;
use crate::version::{KeyspaceVersion, Run, TableFile, TableHandle, TableId, Version};
use esker_base::KeyspaceId;
use esker_storage::Storage;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A log segment that the manifest lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogState {
    /// Where it ends, if recovery has settled that.
    pub end: Option<LogEnd>,
}

/// The sum of a manifest's edits.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The tables.
    pub version: Version,
    /// The logs in force, by epoch.
    pub logs: BTreeMap<u32, LogState>,
    /// File ids below this one are taken.
    pub next_file: u64,
    /// Keyspace ids below this one are taken.
    pub next_keyspace: u32,
    /// Whether the last edit says that the database was closed.
    pub closed: bool,
    /// What the database has cost up to the last edit that changed tables.
    pub account: Account,
}

impl State {
    /// Applies `edit`, whose tables live in `storage`, and returns the tables that are gone. Says
    /// what is wrong if the edit does not fit, and leaves `self` in an unspecified state then.
    pub fn apply(
        &mut self,
        edit: &Edit,
        storage: &Arc<dyn Storage>,
    ) -> Result<Vec<Arc<TableHandle>>, String> {
        let mut files: BTreeMap<u64, Arc<TableFile>> = BTreeMap::new();
        let mut removed: BTreeMap<TableId, Arc<TableHandle>> = BTreeMap::new();
        self.closed = false;
        for change in &edit.changes {
            match change {
                Change::CreateKeyspace { id, name, settings, retention_seqno } => {
                    if self.version.keyspaces.contains_key(id) {
                        return Err(format!("keyspace {id} is created twice"));
                    }
                    let mut keyspace = KeyspaceVersion::new(*id, name.clone(), *settings);
                    keyspace.retention_seqno = *retention_seqno;
                    self.version.keyspaces.insert(*id, Arc::new(keyspace));
                    self.next_keyspace = self.next_keyspace.max(id.0 + 1);
                }
                Change::DropKeyspace(id) => {
                    let dropped = self.version.keyspaces.remove(id);
                    let dropped =
                        dropped.ok_or_else(|| format!("keyspace {id} is dropped but not there"))?;
                    let tables = dropped.tables();
                    removed.extend(tables.map(|(_, _, table)| (table.meta.id, table.clone())));
                }
                Change::AddTable { keyspace, level, run, meta } => {
                    // A table that moves keeps its handle, and with it its open reader.
                    let table = removed.remove(&meta.id).unwrap_or_else(|| {
                        let file = files
                            .entry(meta.id.file)
                            .or_insert_with(|| TableFile::new(storage.clone(), meta.id.file));
                        TableHandle::new(meta.clone(), file.clone())
                    });
                    self.add_table(*keyspace, *level, *run, table)?;
                }
                Change::RemoveTable { keyspace, id } => {
                    removed.insert(*id, self.remove_table(*keyspace, *id)?);
                }
                Change::FlushedThrough(seqno) => {
                    let through = &mut self.version.flushed_through;
                    *through = (*through).max(*seqno);
                }
                Change::NextFile(id) => self.next_file = self.next_file.max(*id),
                Change::NextKeyspace(id) => self.next_keyspace = self.next_keyspace.max(*id),
                Change::AddLog { epoch, end } => {
                    self.logs.insert(*epoch, LogState { end: *end });
                    self.next_file = self.next_file.max(u64::from(*epoch) + 1);
                }
                Change::RemoveLog(epoch) => {
                    let removed = self.logs.remove(epoch);
                    removed.ok_or_else(|| format!("log {epoch} is removed but not there"))?;
                }
                Change::Closed => self.closed = true,
                Change::Account(account) => self.account = *account,
            }
        }
        Ok(removed.into_values().collect())
    }

    /// The table files that this state needs.
    pub fn files(&self) -> std::collections::BTreeSet<u64> {
        let keyspaces = self.version.keyspaces.values();
        keyspaces.flat_map(|keyspace| keyspace.tables()).map(|(_, _, t)| t.meta.id.file).collect()
    }

    fn keyspace(&mut self, id: KeyspaceId) -> Result<&mut KeyspaceVersion, String> {
        let keyspace = self.version.keyspaces.get_mut(&id);
        let keyspace = keyspace.ok_or_else(|| format!("there is no keyspace {id}"))?;
        let keyspace = Arc::make_mut(keyspace);
        keyspace.monitors = Monitors::default();
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
                let found = level.runs[at].tables.iter().position(|table| table.meta.id == id);
                if let Some(place) = found {
                    let run = Arc::make_mut(&mut level.runs[at]);
                    let table = run.tables_mut().remove(place);
                    if run.tables.is_empty() {
                        level.runs.remove(at);
                    }
                    return Ok(table);
                }
            }
        }
        Err(format!("table {}/{} is removed but not there", id.file, id.offset))
    }

    /// One edit that makes this state out of nothing.
    pub fn snapshot(&self) -> Edit {
        let mut changes = vec![
            Change::NextFile(self.next_file),
            Change::NextKeyspace(self.next_keyspace),
            Change::FlushedThrough(self.version.flushed_through),
            Change::Account(self.account),
        ];
        for keyspace in self.version.keyspaces.values() {
            changes.push(Change::CreateKeyspace {
                id: keyspace.id,
                name: keyspace.name.clone(),
                settings: keyspace.settings,
                retention_seqno: keyspace.retention_seqno,
            });
            changes.extend(keyspace.tables().map(|(level, run, table)| Change::AddTable {
                keyspace: keyspace.id,
                level,
                run,
                meta: table.meta.clone(),
            }));
        }
        let logs = self.logs.iter();
        changes.extend(logs.map(|(&epoch, log)| Change::AddLog { epoch, end: log.end }));
        Edit { changes }
    }
}
