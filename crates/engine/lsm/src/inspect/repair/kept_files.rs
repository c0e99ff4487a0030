//! What a repair keeps: the intact tables, and a prefix of the writes in the logs.

use super::Decision;
use crate::inspect::salvage::lost_value;
use crate::inspect::{Inspector, places};
use crate::log::torn_tail::TornTail;
use crate::log::wal_files::log_file_name;
use crate::manifest::manifest_state::{LogRecord, ManifestState};
use crate::manifest::version_edit::LogEnd;
use crate::recovery::replay;
use crate::version::{TableMeta, table_file_name};
use esker_base::{EntryCursor, Error, Result};
use esker_memtable::{ScanEnd, ScanResult};
use esker_table::ReadPurpose;

impl Inspector {
    pub(super) fn keep_tables(&self, decision: &mut Decision) -> Result<()> {
        let Decision { state, aside, rewrites, repaired, .. } = decision;
        let mut damaged = Vec::new();
        for (_, _, _, table) in places(state) {
            let damage = match self.first_damage(&table.meta)? {
                None => self.first_lost_value(state, &table.meta)?,
                damage => damage,
            };
            match damage {
                None => repaired.tables += 1,
                Some(error) => {
                    damaged.push(table.meta.id);
                    repaired.lost_tables.push(self.salvage(state, &table.meta, &error)?);
                }
            }
        }
        *rewrites = self.rewrites(state, &damaged);
        aside.extend(damaged.iter().map(|id| table_file_name(id.file)));
        aside.dedup();
        Ok(())
    }

    /// The first damage of a table, if it has any. Fails if the table can't be read at all.
    fn first_damage(&self, meta: &TableMeta) -> Result<Option<Error>> {
        let table = match self.table(meta) {
            Ok(table) => table,
            Err(error) if error.is_corruption() => return Ok(Some(error)),
            Err(error) => return Err(error),
        };
        let mut damage = None;
        let mut failure = None;
        table.verify(&mut |error| {
            let first = if error.is_corruption() { &mut damage } else { &mut failure };
            first.get_or_insert(error);
        });
        failure.map_or(Ok(damage), Err)
    }

    /// The first damage of a value in a value file that a sound table refers to, if there is any.
    fn first_lost_value(&self, state: &ManifestState, meta: &TableMeta) -> Result<Option<Error>> {
        if meta.value_files.is_empty() {
            return Ok(None);
        }
        let mut cursor = self.table(meta)?.cursor(ReadPurpose::Compaction);
        cursor.seek_first()?;
        while cursor.valid() {
            if let Some(error) = lost_value(state, cursor.kind(), cursor.value())? {
                return Ok(Some(error));
            }
            cursor.next()?;
        }
        Ok(None)
    }

    /// Decides where each log ends: at the first frame that does not continue the ones before it. If the
    /// manifest is not `whole`, one more edit may have named logs that are in use: their writes say so
    /// themselves.
    pub(super) fn keep_logs(&self, decision: &mut Decision, whole: bool) -> Result<()> {
        let Decision { state, logs_aside, unsettled, rejected, repaired, .. } = decision;
        let adopted = if whole { Vec::new() } else { self.unlisted_logs(state)? };
        for epoch in adopted {
            state.logs.insert(epoch, LogRecord { end: None });
            repaired.adopted_logs.push(log_file_name(epoch));
        }
        let recovered = unless_damaged(replay::read_logs(&self.log_source(), state))?;
        let follow = recovered.is_some();
        // Whether anything is given up but the end that a crash leaves.
        let mut rejects = !follow;
        if let Some(recovered) = recovered {
            // Whole frames behind a bad one are given up here, so that no open has to accept that.
            rejects = recovered.torn.as_ref().is_some_and(TornTail::may_reject_acknowledged);
            if rejects {
                *rejected = recovered.rejected;
            }
            repaired.torn_log = recovered.torn;
        }
        let next_keyspace = state.next_keyspace;
        let mut expected = state.version.flushed_through + 1;
        // The logs that hold frames of the last batch, if it goes on where nothing is kept.
        let mut unfinished = Vec::new();
        let mut last_whole = state.version.flushed_through;
        for (epoch, log) in std::mem::take(&mut state.logs) {
            let read = self.read_log(epoch, log.end, Some(expected));
            let kept = match &read {
                Ok(read) => read.end_of_known(next_keyspace),
                Err(error) if error.is_corruption() => None,
                Err(error) => return Err(error.clone()),
            };
            if let Some(end) = kept {
                expected = end.last_seqno + 1;
                if let Ok(read) = &read {
                    let batches = read.end_of_batches(end);
                    if let Some(batches) = batches {
                        unfinished.clear();
                        last_whole = batches.last_seqno;
                    }
                    if batches != Some(end) {
                        unfinished.push((epoch, batches, read.content()));
                    }
                }
                state.logs.insert(epoch, LogRecord { end: Some(end) });
                unsettled.extend(log.end.is_none().then_some((epoch, end)));
            }
            let name = log_file_name(epoch);
            if follow {
                // A repair renames a log if it keeps nothing of it. It copies the other logs, which takes space.
                let is_rejected = rejected.iter().any(|log| log.name == name);
                if kept.is_none() && self.pool.is_none() && is_rejected {
                    rejected.retain(|log| log.name != name);
                    logs_aside.push(name);
                }
                continue;
            }
            let cut_short = read.as_ref().ok().and_then(|read| read.cut_short.clone());
            let what = match (kept, read, cut_short.filter(|_| log.end.is_none())) {
                (_, _, Some(error)) => error.fact(),
                (Some(end), Ok(read), None) if is_all(end, log, &read.scan) => continue,
                (Some(_), Ok(read), None) => {
                    rejected.extend(read.rejected());
                    "cut short".to_owned()
                }
                // Prepared, and never written to.
                (None, Ok(read), None) if read.scan.stop == ScanEnd::Blank => continue,
                (None, Ok(read), None) => {
                    // A file is renamed as it is.
                    rejected.extend(read.rejected().filter(|_| self.pool.is_some()));
                    "nothing in it follows what is kept".to_owned()
                }
                (_, Err(error), None) => error.fact(),
            };
            repaired.cut_logs.push(format!("{name}: {what}"));
            // In a pool there are no names: what the manifest does not list is free.
            if kept.is_none() && self.pool.is_none() {
                logs_aside.push(name);
            }
        }
        // A batch is kept whole or not at all.
        for (epoch, batches, content) in unfinished.into_iter().rev() {
            let is_new = rejected.iter().all(|log| log.name != content.name);
            match batches {
                Some(batches) => {
                    state.logs.insert(epoch, LogRecord { end: Some(batches) });
                    let of_log = unsettled.iter_mut().filter(|(it, _)| *it == epoch);
                    of_log.for_each(|it| it.1 = batches);
                    rejected.extend((rejects && is_new).then_some(content));
                }
                None => {
                    state.logs.remove(&epoch);
                    unsettled.retain(|(it, _)| *it != epoch);
                    if self.pool.is_some() {
                        rejected.extend((rejects && is_new).then_some(content));
                    } else if rejects {
                        // It is renamed as it is.
                        rejected.retain(|log| log.name != content.name);
                        logs_aside.push(content.name);
                    }
                }
            }
        }
        repaired.last_seqno = last_whole;
        repaired.log_entries = last_whole - state.version.flushed_through;
        Ok(())
    }
}

/// Whether `end` is where a log ended before: where an earlier recovery decided it, or where nothing
/// follows.
fn is_all(end: LogEnd, log: LogRecord, scan: &ScanResult) -> bool {
    match log.end {
        Some(before) => before.offset == end.offset,
        None => end.offset == scan.end && !matches!(scan.stop, ScanEnd::Bad { .. }),
    }
}

/// `None` for damage; other failures stay failures.
fn unless_damaged<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_corruption() => Ok(None),
        Err(error) => Err(error),
    }
}
