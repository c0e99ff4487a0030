//! A database of what can still be read.
//!
//! Repair never invents and never guesses an order. It keeps
//!
//! 1. the manifest in force, or, if `CURRENT` or that manifest can't be read, the newest one that can
//!    and whose tables are there;
//! 2. of its tables, those that pass every check;
//! 3. of its logs, the frames up to the first that does not hold: a prefix of the writes.
//!
//! The rest is taken out of the tree, its files renamed to `NAME.damaged`, and a fresh manifest
//! written. What is lost is lost to readers too: an older value of a key, or one that a lost table
//! had deleted, may be seen again. So a copy, if there is one, is better.

use super::{Inspector, ManifestDump, path, places};
use crate::log_files::log_file_name;
use crate::manifest::{
    Change, Edit, LogEnd, LogState, Manifest, State, parse_manifest_file_name, read_current,
    read_manifest,
};
use crate::recover;
use crate::version::{TableMeta, table_file_name};
use esker_base::{Error, KeyspaceId, Result, Seqno};

/// What a repair kept and what it had to give up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Repaired {
    /// The manifest that it went by.
    pub manifest: String,
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

impl Inspector {
    /// Makes a database of what can be read. Changes nothing if everything can, or if no manifest
    /// can. Takes the writer's lock.
    pub fn repair(&self) -> Result<Repaired> {
        let found = self.manifests()?;
        if found.is_empty() {
            return Err(Error::NotADatabase {
                dir: self.storage.describe(),
                reason: "there is no manifest in it, so there is nothing to repair it by".into(),
            });
        }
        let _lock = self.storage.lock()?;
        let (name, identity, mut state) = self.newest_readable(&found)?;
        let mut repaired = Repaired { manifest: name, ..Repaired::default() };
        self.keep_tables(&mut state, &mut repaired)?;
        self.keep_logs(&mut state, &mut repaired)?;
        let whole = repaired.lost_tables.is_empty()
            && repaired.cut_logs.is_empty()
            && repaired.adopted_logs.is_empty()
            && read_current(&*self.storage).is_ok_and(|current| current == repaired.manifest);
        if !whole {
            let newest = found.iter().filter_map(|name| parse_manifest_file_name(name)).max();
            let id = state.next_file.max(newest.unwrap_or(0) + 1);
            state.next_file = id + 1;
            Manifest::create(&*self.storage, id, identity, &state.snapshot())?;
        }
        Ok(repaired)
    }

    /// The names of all manifest files: first the one in force, if that is known, then the others,
    /// newest first.
    fn manifests(&self) -> Result<Vec<String>> {
        let mut names = self.storage.list()?;
        names.retain(|name| parse_manifest_file_name(name).is_some());
        let current = read_current(&*self.storage).ok();
        names.sort_by_key(|name| {
            let is_current = Some(name) == current.as_ref();
            (!is_current, std::cmp::Reverse(parse_manifest_file_name(name)))
        });
        Ok(names)
    }

    /// The first manifest that can be read, or the failure to read the first.
    fn newest_readable(&self, names: &[String]) -> Result<(String, u64, State)> {
        let mut first_error = None;
        for name in names {
            match recover::load_state(&self.storage, name) {
                Ok((identity, state)) => return Ok((name.clone(), identity, state)),
                Err(error) => _ = first_error.get_or_insert(error),
            }
        }
        Err(first_error.expect("there is a manifest"))
    }

    fn keep_tables(&self, state: &mut State, repaired: &mut Repaired) -> Result<()> {
        let mut lost = Vec::new();
        for (keyspace, _, _, table) in places(state) {
            match self.first_problem(&table.meta) {
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
            if !kept.contains(&meta.id.file) {
                self.set_aside(&*self.storage, &file)?;
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

    fn first_problem(&self, meta: &TableMeta) -> Option<Error> {
        let table = match self.table(meta) {
            Ok(table) => table,
            Err(error) => return Some(error),
        };
        let mut first = None;
        table.verify(&mut |error| _ = first.get_or_insert(error));
        first
    }

    /// Settles where each log ends: at the first frame that does not continue the ones before it.
    fn keep_logs(&self, state: &mut State, repaired: &mut Repaired) -> Result<()> {
        // A damaged last edit may have named a log that is in use: its writes say so themselves.
        let adopted = self.unlisted_logs_of(&repaired.manifest, state)?;
        for &epoch in &adopted {
            state.logs.insert(epoch, LogState { end: None });
            repaired.adopted_logs.push(log_file_name(epoch));
        }
        let is_whole = recover::read_logs(&*self.log_storage, state).is_ok();
        let mut expected = state.version.flushed_through + 1;
        for (epoch, log) in std::mem::take(&mut state.logs) {
            let read = self.read_log(epoch, log.end, Some(expected));
            let frames = read.as_ref().map_or(0, |log| log.scan.frames.len());
            if let (Ok(read), 1..) = (&read, frames) {
                let from = expected;
                expected = read.scan.frames[frames - 1].next_seqno();
                repaired.log_entries += expected - from;
                let end = LogEnd { offset: read.scan.end, last_seqno: expected - 1 };
                state.logs.insert(epoch, LogState { end: Some(end) });
            }
            if is_whole {
                continue;
            }
            let name = log_file_name(epoch);
            match read {
                Ok(read) if frames > 0 && log.end.is_none_or(|end| end.offset == read.scan.end) => {
                }
                Ok(_) if frames > 0 => repaired.cut_logs.push(format!("{name}: cut short")),
                Ok(_) => {
                    repaired.cut_logs.push(format!("{name}: nothing in it follows what is kept"));
                    self.set_aside(&*self.log_storage, &name)?;
                }
                Err(error) => {
                    repaired.cut_logs.push(format!("{name}: {error}"));
                    self.set_aside(&*self.log_storage, &name)?;
                }
            }
        }
        repaired.last_seqno = expected - 1;
        Ok(())
    }

    fn unlisted_logs_of(&self, manifest: &str, state: &State) -> Result<Vec<u32>> {
        let (identity, records) = read_manifest(&*self.storage, manifest)?;
        let dump = ManifestDump { name: manifest.to_owned(), identity, records };
        match self.cut_off_at(&dump)? {
            Some(_) => self.unlisted_logs(state),
            None => Ok(Vec::new()),
        }
    }

    fn set_aside(&self, storage: &dyn esker_storage::Storage, name: &str) -> Result<()> {
        if storage.exists(name)? {
            storage.rename(name, &format!("{name}.damaged"))?;
            storage.sync_names()?;
        }
        Ok(())
    }
}
