//! A database of what can still be read.
//!
//! Repair never invents and never guesses an order. It keeps
//!
//! 1. the manifest in force, or, if `CURRENT` or that manifest is damaged, the newest one that is not
//!    and whose tables are there;
//! 2. of its tables, those that pass every check;
//! 3. of its logs, the frames up to the first that does not hold: a prefix of the writes.
//!
//! Only damage is given up. A file that can't be read for another reason (a permission, a failing
//! device, a newer format) stops the repair, and so does a listed log that is not there: it may lie in
//! another directory. All of this is decided before the first file is touched.
//!
//! What is given up is taken out of the tree, its files renamed to `NAME.damaged`, and a fresh manifest
//! written. A repair that was cut off in between is taken up by the next: a file that is there under
//! its new name has been given up. What is lost is lost to readers too: an older value of a key, or one
//! that a lost table had deleted, may be seen again. So a copy, if there is one, is better.

use super::choose::Chosen;
use super::{Inspector, path, places};
use crate::log_files::{log_file_name, parse_log_file_name};
use crate::manifest::{Change, Edit, LogState, Manifest, State, parse_manifest_file_name};
use crate::recover;
use crate::version::{TableMeta, parse_table_file_name, table_file_name};
use esker_base::{Error, KeyspaceId, Result, Seqno};
use esker_storage::Storage;

/// What becomes of the names of files that are given up.
const DAMAGED: &str = ".damaged";

/// What to do if a log that the manifest lists is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MissingLogs {
    /// Change nothing: it may lie in another directory.
    Refuse,
    /// Give up what it held.
    GiveUp,
}

/// What a repair kept and what it had to give up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Repaired {
    /// The manifest that it went by.
    pub manifest: String,
    /// Newer manifests that it could not go by, and why.
    pub given_up_manifests: Vec<String>,
    /// Tables kept.
    pub tables: u64,
    /// Tables given up: the file and offset, and the keys between which they may have had something.
    pub lost_tables: Vec<LostTable>,
    /// Entries kept from the logs.
    pub log_entries: u64,
    /// Logs that a damaged edit had named, found again.
    pub adopted_logs: Vec<String>,
    /// Logs cut or given up, and why.
    pub cut_logs: Vec<String>,
    /// Files renamed to `NAME.damaged`, under their old names.
    pub set_aside: Vec<String>,
    /// The last write that is there.
    pub last_seqno: Seqno,
}

/// A table that could not be kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostTable {
    /// The file that held it.
    pub file: String,
    /// What was wrong.
    pub error: String,
    /// The smallest key that it may have held.
    pub smallest: Vec<u8>,
    /// The largest.
    pub largest: Vec<u8>,
}

/// What is to be done, before any of it is.
struct Decision {
    /// What is kept.
    state: State,
    /// Files to rename.
    aside: Vec<String>,
    /// Log files to rename.
    logs_aside: Vec<String>,
    repaired: Repaired,
}

impl Inspector {
    /// Makes a database of what can be read. Changes nothing if everything can, if no manifest can,
    /// or if anything fails for another reason than damage. Takes the writer's locks.
    pub fn repair(&self, missing_logs: MissingLogs) -> Result<Repaired> {
        // Before the lock, which writes a file: a foreign directory is left as it is.
        if self.manifests(None)?.is_empty() {
            return Err(Error::NotADatabase {
                dir: self.storage.describe(),
                reason: "there is no manifest in it, so there is nothing to repair it by".into(),
            });
        }
        let _lock = self.storage.lock()?;
        let Chosen { name, identity, state, in_force, given_up } = self.choose()?;
        self.check_log_directory(identity)?;
        let _log_lock = self.lock_logs()?;
        if missing_logs == MissingLogs::Refuse {
            self.expect_logs(&state)?;
        }
        let repaired =
            Repaired { manifest: name, given_up_manifests: given_up, ..Repaired::default() };
        let mut decision = Decision { state, aside: Vec::new(), logs_aside: Vec::new(), repaired };
        self.keep_tables(&mut decision)?;
        self.keep_logs(&mut decision, in_force)?;
        if !in_force {
            self.give_up_unlisted(&mut decision)?;
        }
        let Repaired { lost_tables, cut_logs, adopted_logs, .. } = &decision.repaired;
        if in_force && lost_tables.is_empty() && cut_logs.is_empty() && adopted_logs.is_empty() {
            return Ok(decision.repaired);
        }
        self.carry_out(decision, identity)
    }

    /// Fails if a listed log is not there.
    fn expect_logs(&self, state: &State) -> Result<()> {
        let mut missing = 0;
        for &epoch in state.logs.keys() {
            let name = log_file_name(epoch);
            let set_aside = format!("{name}{DAMAGED}");
            if !self.log_storage.exists(&name)? && !self.log_storage.exists(&set_aside)? {
                missing += 1;
            }
        }
        let (what, they, hold) = match missing {
            0 => return Ok(()),
            1 => ("1 log that the manifest lists is".to_owned(), "is it", "it holds"),
            n => (format!("{n} logs that the manifest lists are"), "are they", "they hold"),
        };
        Err(Error::InvalidSetting {
            setting: "log directory",
            value: self.log_storage.describe(),
            reason: format!(
                "{what} not there; {they} in another directory? give --log-dir; \
                 `--give-up-logs` drops what {hold}"
            ),
        })
    }

    fn keep_tables(&self, decision: &mut Decision) -> Result<()> {
        let Decision { state, aside, repaired, .. } = decision;
        let mut lost = Vec::new();
        for (keyspace, _, _, table) in places(state) {
            match self.first_damage(&table.meta)? {
                None => repaired.tables += 1,
                Some(error) => lost.push((keyspace, table.meta.clone(), error)),
            }
        }
        let removals = lost.iter().map(|(keyspace, meta, _): &(KeyspaceId, TableMeta, Error)| {
            Change::RemoveTable { keyspace: *keyspace, id: meta.id }
        });
        let edit = Edit::of(removals);
        let applied = state.apply(&edit, &self.storage);
        applied.expect("the removed tables were just listed");
        let kept = state.files();
        for (_, meta, error) in lost {
            let file = table_file_name(meta.id.file);
            if !kept.contains(&meta.id.file) && !aside.contains(&file) {
                aside.push(file.clone());
            }
            repaired.lost_tables.push(LostTable {
                file: path(&*self.storage, &file),
                error: error.to_string(),
                smallest: meta.smallest,
                largest: meta.largest,
            });
        }
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

    /// Settles where each log ends: at the first frame that does not continue the ones before it.
    fn keep_logs(&self, decision: &mut Decision, in_force: bool) -> Result<()> {
        let Decision { state, logs_aside, repaired, .. } = decision;
        // A damaged last edit, or a manifest given up, may have named a log that is in use: its
        // writes say so themselves.
        for epoch in self.adopted_logs(&repaired.manifest, state, in_force)? {
            state.logs.insert(epoch, LogState { end: None });
            repaired.adopted_logs.push(log_file_name(epoch));
        }
        let is_whole = unless_damaged(recover::read_logs(&self.log_source(), state))?.is_some();
        let next_keyspace = state.next_keyspace;
        let mut expected = state.version.flushed_through + 1;
        for (epoch, log) in std::mem::take(&mut state.logs) {
            let name = log_file_name(epoch);
            let read = self.read_log(epoch, log.end, Some(expected));
            let kept = match &read {
                Ok(read) => read.end_of_known(next_keyspace),
                Err(error) if error.is_corruption() => None,
                Err(error) => return Err(error.clone()),
            };
            if let Some(end) = kept {
                repaired.log_entries += end.last_seqno + 1 - expected;
                expected = end.last_seqno + 1;
                state.logs.insert(epoch, LogState { end: Some(end) });
            }
            if is_whole {
                continue;
            }
            let what = match (kept, read) {
                (Some(end), _) if log.end.is_none_or(|before| before.offset == end.offset) => {
                    continue;
                }
                (Some(_), _) => "cut short".to_owned(),
                (None, Ok(_)) => "nothing in it follows what is kept".to_owned(),
                (None, Err(error)) => error.to_string(),
            };
            repaired.cut_logs.push(format!("{name}: {what}"));
            if kept.is_none() {
                logs_aside.push(name);
            }
        }
        repaired.last_seqno = expected - 1;
        Ok(())
    }

    /// Logs that `state` does not list and that may go on where it ends.
    fn adopted_logs(&self, manifest: &str, state: &State, in_force: bool) -> Result<Vec<u32>> {
        let is_cut_off = self.cut_off_at(&self.read_manifest(manifest)?)?.is_some();
        if is_cut_off || !in_force { self.unlisted_logs(state) } else { Ok(Vec::new()) }
    }

    /// Without the manifest that was in force, nobody knows what the files are that the kept one does
    /// not list; the next open would remove them.
    fn give_up_unlisted(&self, decision: &mut Decision) -> Result<()> {
        let Decision { state, aside, logs_aside, repaired } = decision;
        let files = state.files();
        let mut names = self.storage.list()?;
        names.sort();
        aside.extend(names.into_iter().filter(|name| {
            let table = parse_table_file_name(name).is_some_and(|id| !files.contains(&id));
            let manifest = parse_manifest_file_name(name).is_some() && *name != repaired.manifest;
            table || manifest
        }));
        let mut names = self.log_storage.list()?;
        names.sort();
        logs_aside.extend(names.into_iter().filter(|name| {
            parse_log_file_name(name).is_some_and(|epoch| !state.logs.contains_key(&epoch))
        }));
        Ok(())
    }

    fn carry_out(&self, decision: Decision, identity: u64) -> Result<Repaired> {
        let Decision { mut state, aside, logs_aside, mut repaired } = decision;
        let id = state.next_file.max(self.next_file_seen()?);
        state.next_file = id + 1;
        repaired.set_aside.extend(set_aside(&*self.storage, aside)?);
        repaired.set_aside.extend(set_aside(&*self.log_storage, logs_aside)?);
        Manifest::create(&*self.storage, id, identity, &state.snapshot())?;
        Ok(repaired)
    }

    /// A file id above that of every file, those given up included: no id ever names two files.
    fn next_file_seen(&self) -> Result<u64> {
        let mut next = 0;
        for name in self.storage.list()?.into_iter().chain(self.log_storage.list()?) {
            let name = name.strip_suffix(DAMAGED).unwrap_or(&name);
            let id = parse_table_file_name(name)
                .or_else(|| parse_log_file_name(name).map(u64::from))
                .or_else(|| parse_manifest_file_name(name));
            next = id.map_or(next, |id| next.max(id + 1));
        }
        Ok(next)
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

/// Renames those of the files that are there. Gives their old names.
fn set_aside(storage: &dyn Storage, names: Vec<String>) -> Result<Vec<String>> {
    let mut renamed = Vec::new();
    for name in names {
        if storage.exists(&name)? {
            storage.rename(&name, &format!("{name}{DAMAGED}"))?;
            renamed.push(name);
        }
    }
    storage.sync_names()?;
    Ok(renamed)
}
