//! Files that the manifest does not list.
//!
//! A crash leaves such files: the tables of a flush or a compaction whose edit was not durable, a new
//! manifest that `CURRENT` does not name yet, files that were about to be removed. A manifest that lost
//! its last edits leaves the same files, and more. These show which of the two it is:
//!
//! * A table records the last edit that was durable when the table was begun. If the manifest ends
//!   before that edit, it has lost edits.
//! * A log gets its first write after the edit that lists it is durable. If a log of this database is
//!   not listed and holds writes that are nowhere else, that edit is lost.
//! * A manifest gets its second edit after `CURRENT` names it. If a manifest has several edits and a
//!   higher number than the current one, `CURRENT` is older than the database.
//!
//! If edits are lost, the open fails and removes nothing. Otherwise it removes a file whose content is
//! known to be elsewhere: all writes up to the last recovered one are in the tables and logs of the
//! manifest. `quarantine` renames any other file to `lost-NAME`, which nothing reads or removes. A file
//! that cannot be read is renamed too: nothing needs it, so it must not stop the open.
//!
//! A table that an edit of the manifest has removed is obsolete, although it may have been ingested.
//! An ingest of large values says by a file `NNNNNNNN.unsettled` that no edit names its tables yet. They were
//! not acknowledged then, so they are removed.
//!
//! A value file holds nothing that a reader can find without the tables that refer to it. So it is
//! removed, unless a table refers to it that is set aside, or one is whose references are unknown.
//!
//! `orphan_logs` and `location_check` decide about logs. `file_names` has the names of renamed files.

pub(crate) mod file_names;
pub(crate) mod location_check;
pub(crate) mod orphan_logs;
pub(crate) mod quarantine;

use crate::log::wal_files::{log_file_name, parse_log_file_name};
use crate::log::wal_reader::WalSource;
use crate::manifest::manifest_file::{parse_manifest_file_name, read_manifest};
use crate::manifest::manifest_state::ManifestState;
use crate::recovery::checkpoint::request;
use crate::recovery::env::Env;
use crate::recovery::replay::{RecoveredState, Rejected};
use crate::version::{
    parse_ingest_file_name, parse_table_file_name, parse_unsettled_file_name, parse_value_file_name,
};
use esker_base::{Error, Result, Seqno};
use esker_storage::Storage;
use esker_table::{SalvagedTable, has_magic_at_end, tables_in};
use file_names::name_before;
use std::collections::{BTreeMap, BTreeSet};

/// What is to be done with an orphaned file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// What it holds is elsewhere, or it never held anything.
    Remove,
    /// Unknown.
    SetAside,
    /// It shows that the manifest has lost edits, and how.
    ShowsLoss(String),
}

/// The value files that tables refer to which are set aside.
#[derive(Default)]
struct NeededValues {
    files: BTreeSet<u64>,
    /// A table is set aside whose references cannot be read.
    may_be_any: bool,
}

impl NeededValues {
    fn add(&mut self, uses: Option<BTreeSet<u64>>) {
        self.may_be_any |= uses.is_none();
        self.files.extend(uses.into_iter().flatten());
    }

    fn fate_of(&self, file: u64) -> Fate {
        match self.may_be_any || self.files.contains(&file) {
            true => Fate::SetAside,
            false => Fate::Remove,
        }
    }
}

/// What orphaned files are compared with.
pub(crate) struct Known<'a> {
    pub(crate) identity: u64,
    /// As the manifest describes it.
    pub(crate) state: &'a ManifestState,
    pub(crate) manifest: &'a str,
    /// The last write that is in tables or logs of the manifest.
    pub(crate) last_seqno: Seqno,
}

impl Known<'_> {
    /// What becomes of each file among `names` of the storage of tables that the manifest does not name, logs excepted.
    pub(crate) fn fates(
        &self,
        storage: &dyn Storage,
        names: &[String],
    ) -> Result<BTreeMap<String, Fate>> {
        let (files, values) = (self.state.files(), &self.state.version.values);
        let (mut fates, mut value_files) = (BTreeMap::new(), Vec::new());
        let mut needed = NeededValues::default();
        let unsettled: BTreeSet<u64> =
            names.iter().filter_map(|name| parse_unsettled_file_name(name)).collect();
        for name in names {
            let is_removed = name == "CURRENT.new"
                || parse_ingest_file_name(name).is_some()
                || parse_unsettled_file_name(name).is_some()
                || request::is_request_file(name);
            let fate = if is_removed {
                Some(Fate::Remove)
            } else if let Some(id) = parse_table_file_name(name).filter(|id| !files.contains(id)) {
                let is_obsolete = unsettled.contains(&id) || self.state.removed_files.contains(&id);
                self.table(storage, name, id)?.map(|(fate, uses)| match fate {
                    Fate::SetAside if is_obsolete => Fate::Remove,
                    Fate::SetAside => {
                        needed.add(uses);
                        Fate::SetAside
                    }
                    fate => fate,
                })
            } else if let Some(id) =
                parse_value_file_name(name).filter(|id| values.get(*id).is_none())
            {
                value_files.push((name, id));
                None
            } else if parse_manifest_file_name(name).is_some() && name != self.manifest {
                Some(self.other_manifest(storage, name)?)
            } else {
                None
            };
            fates.extend(fate.map(|fate| (name.clone(), fate)));
        }
        fates.extend(value_files.into_iter().map(|(name, id)| (name.clone(), needed.fate_of(id))));
        Ok(fates)
    }

    /// What becomes of a file of tables, and which value files its tables refer to, if that is known. `None` if the file
    /// is gone.
    fn table(
        &self,
        storage: &dyn Storage,
        name: &str,
        id: u64,
    ) -> Result<Option<(Fate, Option<BTreeSet<u64>>)>> {
        let file = match storage.open(name) {
            Err(_) if !storage.exists(name)? => return Ok(None),
            opened => opened?,
        };
        let tables = match tables_in(&file, id) {
            Ok(Some(tables)) => tables,
            // A file that ends without a footer was never synced whole, so no edit ever named it.
            Ok(None) if !has_magic_at_end(&file).unwrap_or(true) => {
                return Ok(Some((Fate::Remove, None)));
            }
            // Nothing needs the file, so an error that reads of it give must not stop the open.
            Ok(None) | Err(_) => return Ok(Some((Fate::SetAside, None))),
        };
        let (mut fate, mut uses) = (Fate::Remove, Some(BTreeSet::new()));
        for (offset, bytes) in tables {
            let table = SalvagedTable::open(file.clone(), id, offset, bytes).ok();
            let Some(properties) = table.as_ref().and_then(|table| table.properties()) else {
                (fate, uses) = (Fate::SetAside, None);
                continue;
            };
            if let Some(uses) = &mut uses {
                uses.extend(properties.value_files.iter().map(|of| of.file));
            }
            let origin = properties.origin.as_deref();
            let origin = origin.filter(|origin| origin.database == self.identity);
            if let Some(origin) = origin.filter(|origin| origin.edits > self.state.edits) {
                let shown = format!(
                    "{name} was begun after edit {}, and the last edit here is {}: edits are missing",
                    origin.edits, self.state.edits
                );
                return Ok(Some((Fate::ShowsLoss(shown), uses)));
            }
            // What was ingested is in no log.
            if properties.largest_seqno > self.last_seqno || properties.ingested_after.is_some() {
                fate = Fate::SetAside;
            }
        }
        Ok(Some((fate, uses)))
    }

    fn other_manifest(&self, storage: &dyn Storage, name: &str) -> Result<Fate> {
        if parse_manifest_file_name(name) < parse_manifest_file_name(self.manifest) {
            return Ok(Fate::Remove);
        }
        match read_manifest(storage, name) {
            Ok((identity, records)) if records.len() > 1 && identity == self.identity => {
                Ok(Fate::ShowsLoss(format!(
                    "{name} is newer and has {} edits, but CURRENT names this one",
                    records.len()
                )))
            }
            // It repeats what the one in force says.
            Ok((identity, _)) if identity == self.identity => Ok(Fate::Remove),
            Ok(_) => Ok(Fate::SetAside),
            Err(error) if error.is_corruption() || is_of_newer_version(&error) => {
                Ok(Fate::SetAside)
            }
            Err(error) => Err(error),
        }
    }

    /// What becomes of each log at `source` that is not among `kept`.
    pub(crate) fn log_fates(
        &self,
        source: &WalSource<'_>,
        names: &[String],
        kept: &dyn Fn(u32) -> bool,
    ) -> Result<BTreeMap<String, Fate>> {
        let mut fates = BTreeMap::new();
        for name in names {
            let Some(epoch) = parse_log_file_name(name).filter(|epoch| !kept(*epoch)) else {
                continue;
            };
            if source.pool.is_some() && self.state.logs.contains_key(&epoch) {
                // Recovery has looked into the extent, and has it still.
                fates.insert(name.clone(), Fate::Remove);
                continue;
            }
            let last = orphan_logs::last_seqno_of(source, epoch)?;
            fates.insert(name.clone(), self.log_fate(name, epoch, last));
        }
        Ok(fates)
    }

    /// What becomes of a log whose last write is `last`.
    pub(crate) fn log_fate(&self, name: &str, epoch: u32, last: Seqno) -> Fate {
        let state = self.state;
        // Older manifests do not tell where the process began.
        let first_file = state.first_file.unwrap_or(state.next_file);
        let is_of_process = u64::from(epoch) >= first_file;
        if last <= self.last_seqno {
            Fate::Remove
        } else if is_of_process && !state.lists_log(epoch) {
            Fate::ShowsLoss(format!(
                "{name} is not listed here and holds writes up to seqno {last}, of which {} are \
                 known: edits are missing",
                self.last_seqno
            ))
        } else {
            Fate::SetAside
        }
    }
}

fn is_of_newer_version(error: &Error) -> bool {
    matches!(error, Error::NewerVersion { .. } | Error::UnknownFeatures { .. })
}

/// The first loss that orphaned files show, as damage of the manifest, which is `bytes` long.
pub(crate) fn loss_in<'a>(
    fates: impl IntoIterator<Item = &'a Fate>,
    manifest: &str,
    bytes: u64,
) -> Option<Error> {
    fates.into_iter().find_map(|fate| match fate {
        Fate::ShowsLoss(what) => Some(Error::corruption(manifest, bytes, what)),
        _ => None,
    })
}

/// The orphaned files of a database that is being opened.
#[derive(Default)]
pub(crate) struct Strays {
    tables: BTreeMap<String, Fate>,
    /// On the storage of logs, if that is another.
    logs: BTreeMap<String, Fate>,
}

impl Strays {
    /// Finds them. Fails if they show that the manifest `name` has lost edits.
    pub(crate) fn find(
        env: &Env,
        name: &str,
        identity: u64,
        state: &ManifestState,
        recovered: &RecoveredState,
    ) -> Result<Strays> {
        let known = Known { identity, state, manifest: name, last_seqno: recovered.last_seqno };
        let kept =
            |epoch| recovered.logs.contains_key(&epoch) || state.feed.kept.contains_key(&epoch);
        let storage = &*env.storage;
        let names = storage.list()?;
        let mut strays = Strays { tables: known.fates(storage, &names)?, ..Strays::default() };
        strays.tables.extend(known.log_fates(&env.tables_source(), &names, &kept)?);
        if let Some(logs) = &env.log_storage {
            strays.logs = known.log_fates(&env.log_source(), &logs.list()?, &kept)?;
        }
        // No caller was told that this batch is written, or a copy of them is kept.
        for name in recovered.unfinished.iter().map(|&epoch| log_file_name(epoch)) {
            let logs =
                if env.log_storage.is_some() { &mut strays.logs } else { &mut strays.tables };
            logs.entry(name).and_modify(|fate| *fate = Fate::Remove);
        }
        let path = format!("{}/{name}", storage.describe());
        let bytes = storage.open(name)?.len()?;
        let fates = strays.tables.values().chain(strays.logs.values());
        loss_in(fates, &path, bytes).map_or(Ok(strays), Err)
    }

    /// Whether a log is set aside as a whole.
    pub(crate) fn sets_aside(&self, log: &str) -> bool {
        let fates = [self.tables.get(log), self.logs.get(log)];
        fates.into_iter().flatten().any(|fate| *fate == Fate::SetAside)
    }

    /// Removes those whose content is elsewhere, and sets the others aside. Called once a manifest is current that
    /// lists none of them. What fails is done by the next open. Returns the new names of what was set aside.
    pub(crate) fn dispose(self, env: &Env) -> Vec<String> {
        let rename = |storage: &dyn Storage, name: &str| quarantine::set_aside(storage, name);
        let mut aside = dispose(&*env.storage, self.tables, rename);
        let logs = &**env.logs();
        aside.extend(match &env.pool {
            None => dispose(logs, self.logs, rename),
            // An extent has no name that could change. Its content is copied.
            Some(_) => dispose(logs, self.logs, |logs, name| {
                let kept_in = keep_extent(env, name)?;
                logs.remove(name).map(|()| kept_in)
            }),
        });
        aside
    }
}

fn dispose(
    storage: &dyn Storage,
    strays: BTreeMap<String, Fate>,
    set_aside: impl Fn(&dyn Storage, &str) -> Result<String>,
) -> Vec<String> {
    let mut moved = Vec::new();
    // Value files first. If this is interrupted, the next open removes those whose table it has renamed.
    let (values, others): (Vec<_>, Vec<_>) =
        strays.into_iter().partition(|(name, _)| parse_value_file_name(name).is_some());
    // What says that a table may be removed goes after it.
    let (unsettled, others): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|(name, _)| parse_unsettled_file_name(name).is_some());
    let mut dispose_of = |name: &str, fate: &Fate| match fate {
        Fate::Remove => storage.remove(name).is_ok(),
        _ => match set_aside(storage, name) {
            Ok(aside) => {
                moved.push(aside);
                true
            }
            Err(_) => false,
        },
    };
    let mut are_gone = true;
    for (name, fate) in &values {
        are_gone &= dispose_of(name, fate);
    }
    // Without its table, the next open would remove a value file that stayed.
    let values_are_aside = are_gone;
    for (name, fate) in &others {
        let waits = parse_table_file_name(name).is_some() && *fate != Fate::Remove;
        are_gone &= (values_are_aside || !waits) && dispose_of(name, fate);
    }
    if are_gone && !unsettled.is_empty() && storage.sync_names().is_ok() {
        for (name, fate) in &unsettled {
            dispose_of(name, fate);
        }
    }
    // Before the manifest grows: see `orphan_logs::check_edits`.
    let _ = storage.sync_names();
    moved
}

/// Copies the log `name` of a pool to a file next to the tables. Returns the file's name.
fn keep_extent(env: &Env, name: &str) -> Result<String> {
    let epoch = parse_log_file_name(name).unwrap_or_default();
    let mut read = WalSource { pool: None, ..env.log_source() }.read_unlisted(epoch)?;
    let scanned = read.scan(None)?;
    let end = scanned.later.map_or(scanned.end, |later| later.end);
    let bytes = read.memory.contents()[..end as usize].to_vec();
    let kept = quarantine::keep(&*env.storage, &[Rejected { name: name.to_owned(), bytes }])?;
    Ok(kept.concat())
}

/// The files of a storage that were set aside by opens, and their lengths in bytes.
pub(crate) fn lost_files(storage: &dyn Storage) -> Result<Vec<(String, u64)>> {
    let names = storage.list()?.into_iter().filter(|name| name_before(name).is_some());
    names.map(|name| storage.open(&name)?.len().map(|bytes| (name, bytes))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::{FileKind, WriteHint};
    use esker_storage::{FileSystemWrapper, MemoryStorage};

    /// Renames no value file.
    struct Refusing(MemoryStorage);

    impl FileSystemWrapper for Refusing {
        fn below(&self) -> &dyn Storage {
            &self.0
        }
        fn rename(&self, from: &str, to: &str) -> Result<()> {
            match parse_value_file_name(from) {
                Some(_) => Err(Error::Closed),
                None => self.0.rename(from, to),
            }
        }
    }

    /// The next open would find no table that needs it, and remove it.
    #[test]
    fn a_table_is_not_set_aside_if_its_value_file_cannot_be() {
        let files = ["00000007.tables", "00000008.values", "00000009.log"];
        let refusing = Refusing(MemoryStorage::new());
        let storage: &dyn Storage = &refusing;
        for name in files {
            storage.create(name, WriteHint::of(FileKind::Meta)).unwrap();
        }
        let strays = files.map(|name| (name.to_owned(), Fate::SetAside));
        let moved = dispose(storage, strays.into(), quarantine::set_aside);
        assert_eq!(moved, ["lost-00000009.log"]);
        let mut left = storage.list().unwrap();
        left.sort();
        assert_eq!(left, ["00000007.tables", "00000008.values", "lost-00000009.log"]);
    }
}
