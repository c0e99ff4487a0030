//! Checks all files of a database.

use super::{Inspector, path, places};
use crate::log::torn_tail::TornTail;
use crate::manifest::manifest_state::ManifestState;
use crate::recovery::replay;
use crate::recovery::replay::RecoveredState;
use crate::recovery::unlisted_files::{Fate, Known, lost_files};
use crate::reserved::parse_index_keyspace;
use crate::version::{TableId, TableMeta};
use esker_base::{EntryCursor, Error, KeyspaceId, Kind, Result};
use esker_pmem::pool::PoolRepair;
use esker_table::{ReadPurpose, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

type Fates = BTreeMap<String, Fate>;

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckReport {
    /// Tables that were not read because the caller stopped the check.
    pub tables_left: u64,
    /// Keyspaces checked.
    pub keyspaces: u64,
    /// Indexes among these keyspaces. [`Db::check_indexes`](crate::Db::check_indexes) compares them with
    /// their rows.
    pub indexes: u64,
    /// Tables checked, readable or not.
    pub tables: u64,
    /// Bytes of these tables.
    pub table_bytes: u64,
    /// Value files checked.
    pub value_files: u64,
    /// Values read from them.
    pub values: u64,
    /// Versions read from these tables.
    pub table_entries: u64,
    /// Logs checked.
    pub logs: u64,
    /// Frames in these logs.
    pub frames: u64,
    /// Entries in these frames.
    pub log_entries: u64,
    /// Files that the manifest does not list and that the next open for writing removes.
    pub strays: Vec<String>,
    /// Files that the manifest does not list and that may hold data found nowhere else.
    ///
    /// The next open for writing renames them to `lost-NAME`.
    pub unknown: Vec<String>,
    /// Files that earlier opens have set aside, under their present names.
    pub lost: Vec<String>,
    /// The invalid end of the log, if there is one. It is a problem if whole frames follow it.
    pub torn_log: Option<TornTail>,
    /// The number of problems reported.
    pub problems: u64,
    /// Whether another process had the database open.
    ///
    /// Then later writes of that process were not checked, nor were files that the manifest does
    /// not list.
    pub is_beside: bool,
}

impl CheckReport {
    pub(super) fn count_keyspaces(&mut self, state: &ManifestState) {
        let names = || state.version.keyspaces.values().map(|keyspace| &keyspace.name);
        self.keyspaces = names().count() as u64;
        self.indexes = names().filter(|name| parse_index_keyspace(name).is_some()).count() as u64;
    }
}

impl Inspector {
    /// Verifies every table and every log in the manifest, and passes each problem to `report`.
    ///
    /// Takes the locks of the writer, so that no file is removed during the check. If another
    /// process has the database open, its present state is checked without a lock.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] if there is no database, [`Error::Io`] if a directory cannot be
    /// read. Problems of single files are reported instead.
    pub fn check(&self, report: &mut dyn FnMut(Error)) -> Result<CheckReport> {
        self.check_while(report, &|| true)
    }

    /// Checks as [`Inspector::check`] does, as long as `goes_on` returns true.
    ///
    /// `goes_on` is called before each table. If it returns false, [`CheckReport::tables_left`] counts
    /// the tables that were not read, and neither logs nor other files are checked.
    ///
    /// # Errors
    /// The errors of [`Inspector::check`].
    pub fn check_while(
        &self,
        report: &mut dyn FnMut(Error),
        goes_on: &dyn Fn() -> bool,
    ) -> Result<CheckReport> {
        let mut checked = CheckReport::default();
        let mut problems = 0;
        let mut report = |error: Error| {
            problems += 1;
            report(error);
        };
        // Before the lock, which writes a file: a foreign directory is left as it is.
        if let Err(error) = self.current() {
            if !error.is_corruption() {
                return Err(error);
            }
            report(error);
            checked.problems = problems;
            return Ok(checked);
        }
        match self.storage.lock() {
            Ok(_lock) => {
                self.with_pool_opened(PoolRepair::Alone)?.check_alone(
                    &mut checked,
                    &mut report,
                    goes_on,
                )?;
            }
            Err(Error::Locked { .. }) => {
                let inspector = self.with_pool_opened(PoolRepair::Beside)?;
                inspector.check_beside(&mut checked, &mut report, goes_on)?;
            }
            Err(error) => return Err(error),
        }
        checked.problems = problems;
        Ok(checked)
    }

    /// The rest, once no other thread can write. A pool is inspected only from here on.
    fn check_alone(
        &self,
        checked: &mut CheckReport,
        report: &mut dyn FnMut(Error),
        goes_on: &dyn Fn() -> bool,
    ) -> Result<()> {
        let (identity, state) = match self.state() {
            Ok(found) => found,
            Err(error) => {
                report(error);
                return Ok(());
            }
        };
        self.check_log_directory(identity)?;
        let _log_lock = self.lock_logs()?;
        if let Some(inspected) = &self.pool {
            inspected.problems.iter().cloned().for_each(&mut *report);
        }
        let manifest = self.manifest()?;
        let cut_off = self.torn_tail_offset(&manifest)?;
        self.presume_states(&state, cut_off.is_none())?;
        self.check_logs_place(&state, cut_off.is_none())?;
        self.check_tables(&state, checked, report, goes_on);
        if checked.tables_left > 0 {
            return Ok(());
        }
        let recovered = self.check_logs(&state, checked, report);
        self.check_kept_logs(&state, checked.is_beside, report);
        self.check_strays(identity, &state, &manifest.name, recovered.as_ref(), checked, report)?;
        match cut_off {
            None => {
                if let Err(error) = self.check_age(&state) {
                    report(error);
                }
                Ok(())
            }
            Some(offset) => self.check_unlisted_logs(&state, &manifest.name, offset, report),
        }
    }

    /// Verifies the tables of `state`, until `goes_on` is false.
    pub(super) fn check_tables(
        &self,
        state: &ManifestState,
        checked: &mut CheckReport,
        report: &mut dyn FnMut(Error),
        goes_on: &dyn Fn() -> bool,
    ) {
        checked.count_keyspaces(state);
        checked.value_files = state.version.values.iter().count() as u64;
        for (keyspace, _, _, table) in places(state) {
            if checked.tables_left > 0 || !goes_on() {
                checked.tables_left += 1;
                continue;
            }
            let reader = self.table(&table.meta);
            if reader.is_err() && checked.is_beside && !self.is_still_there(table.meta.id) {
                // It was compacted away.
                continue;
            }
            checked.tables += 1;
            checked.table_bytes += table.meta.bytes;
            match reader {
                Err(error) => report(error),
                Ok(reader) => {
                    checked.table_entries += reader.verify(report);
                    self.compare(keyspace, &table.meta, &reader, report);
                    let read = (table.meta.id, &reader);
                    checked.values += self.check_values(state, read, checked.is_beside, report);
                }
            }
        }
    }

    fn check_logs(
        &self,
        state: &ManifestState,
        checked: &mut CheckReport,
        report: &mut dyn FnMut(Error),
    ) -> Option<RecoveredState> {
        // As an open would read them: this finds what is missing between logs as well.
        let recovered = replay::read_logs(&self.log_source(), state).map_err(&mut *report).ok();
        checked.torn_log = recovered.as_ref().and_then(|recovered| recovered.torn.clone());
        if let Some(torn) = checked.torn_log.as_ref().filter(|it| it.may_reject_acknowledged()) {
            report(torn.refusal());
        }
        self.count_logs(state, checked);
        recovered
    }

    /// Counts what is in the logs.
    pub(super) fn count_logs(&self, state: &ManifestState, checked: &mut CheckReport) {
        for &epoch in state.logs.keys() {
            checked.logs += 1;
            // A log that can't be read was reported just now.
            let Ok(log) = self.log(epoch) else { continue };
            checked.frames += log.scan.frames.len() as u64;
            checked.log_entries +=
                log.scan.frames.iter().map(|frame| u64::from(frame.count)).sum::<u64>();
        }
    }

    /// Says what the next open would do with files that the manifest does not name.
    fn check_strays(
        &self,
        identity: u64,
        state: &ManifestState,
        manifest: &str,
        recovered: Option<&RecoveredState>,
        checked: &mut CheckReport,
        report: &mut dyn FnMut(Error),
    ) -> Result<()> {
        let (fates, fates_elsewhere) = self.fates(identity, state, manifest, recovered)?;
        let all = fates.values().chain(fates_elsewhere.values());
        if let Some(loss) = self.loss_in(all, manifest)? {
            report(loss);
        }
        for (name, fate) in fates_elsewhere {
            if fate == Fate::SetAside {
                checked.unknown.push(self.log_storage.path_of(&name));
            }
        }
        for (name, fate) in fates {
            match fate {
                Fate::Remove => checked.strays.push(name),
                Fate::SetAside => checked.unknown.push(name),
                Fate::ShowsLoss(_) => {}
            }
        }
        checked.lost = lost_files(&*self.storage)?.into_iter().map(|(name, _)| name).collect();
        Ok(())
    }

    /// What becomes of files that the manifest does not list: of those next to the tables, and of logs elsewhere.
    pub(super) fn fates(
        &self,
        identity: u64,
        state: &ManifestState,
        manifest: &str,
        recovered: Option<&RecoveredState>,
    ) -> Result<(Fates, Fates)> {
        let flushed_through = state.version.flushed_through;
        let last_seqno = recovered.map_or(flushed_through, |recovered| recovered.last_seqno);
        let known = Known { identity, state, manifest, last_seqno };
        let names = self.storage.list()?;
        let mut fates = known.fates(&*self.storage, &names)?;
        let listed = |epoch: u32| state.lists_log(epoch);
        fates.extend(known.log_fates(&self.tables_source(), &names, &listed)?);
        if self.is_one_storage() {
            return Ok((fates, Fates::new()));
        }
        let names = self.log_storage.list()?;
        Ok((fates, known.log_fates(&self.log_source(), &names, &listed)?))
    }

    /// A cut-off last edit of the manifest was never relied on, unless a log shows that it was.
    pub(super) fn check_unlisted_logs(
        &self,
        state: &ManifestState,
        manifest: &str,
        offset: u64,
        report: &mut dyn FnMut(Error),
    ) -> Result<()> {
        for epoch in self.unlisted_logs(state)? {
            let what = format!(
                "the edit here is damaged, and log {epoch}, which no other edit names, holds writes \
                 that nothing else has"
            );
            report(Error::corruption(path(&*self.storage, manifest), offset, what));
        }
        Ok(())
    }

    /// Reads the values that a table refers to, and reports each that cannot be read with its key. Returns
    /// how many there are.
    fn check_values(
        &self,
        state: &ManifestState,
        (id, table): (TableId, &Arc<Table>),
        is_beside: bool,
        report: &mut dyn FnMut(Error),
    ) -> u64 {
        if table.properties().value_files.is_empty() {
            return 0;
        }
        let mut cursor = table.cursor(ReadPurpose::Compaction);
        let (mut values, mut more) = (0, cursor.seek_first());
        // What of the table cannot be read was reported.
        while more.is_ok() && cursor.valid() {
            if cursor.kind() == Kind::Separated {
                values += 1;
                match state.version.values.check(cursor.value()) {
                    Ok(()) => {}
                    // It was compacted away, and its values with it.
                    Err(_) if is_beside && !self.is_still_there(id) => return values,
                    Err(error) => report(with_key(error, &state.keys.user(cursor.key()))),
                }
            }
            more = cursor.next();
        }
        values
    }

    /// Compares what the manifest says of a table with what the table says of itself.
    pub(super) fn compare(
        &self,
        keyspace: KeyspaceId,
        meta: &TableMeta,
        table: &Table,
        report: &mut dyn FnMut(Error),
    ) {
        let properties = table.properties();
        let same = properties.keyspace == keyspace
            && properties.entries == meta.entries
            && properties.deletes == meta.deletes
            && properties.smallest == meta.smallest
            && properties.largest == meta.largest
            && properties.value_files == meta.value_files;
        if !same {
            let name = crate::version::table_file_name(meta.id.file);
            let what = "the manifest says something else of this table than the table itself";
            report(Error::corruption(path(&*self.storage, &name), meta.id.offset, what));
        }
    }
}

/// The error of the value of a key.
fn with_key(error: Error, key: &[u8]) -> Error {
    match error {
        Error::Corruption { file, offset, what } => {
            let what = format!("{what}: of key \"{}\"", key.escape_ascii());
            Error::Corruption { file, offset, what }
        }
        error => error,
    }
}
