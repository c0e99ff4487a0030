//! Makes a database of what can be read of a damaged one.
//!
//! A repair never invents data and never assumes an order. It keeps
//!
//! 1. the current manifest or, if `CURRENT` or that manifest is damaged or has lost edits, the
//!    newest intact one whose tables exist; without any, the manifest is rebuilt from tables and
//!    logs (see `rebuild`);
//! 2. of its tables, those that pass every check, and of any other what can be read, block by
//!    block, in a new table;
//! 3. of its logs, the frames before the first invalid one: a prefix of the writes.
//!
//! It drops only what is damaged. A file that cannot be read for another reason (a permission, a
//! failing device, a newer format) stops the repair, and so does a missing log, because it may be
//! in another directory. If logs are stored in the database directory but another place was named,
//! the repair fails, even with `--give-up-logs`. All of this is decided before the first file is
//! changed.
//!
//! 1. The repair writes new tables and copies of logs, and makes durable what it keeps of the logs.
//! 2. It makes a new manifest durable that lists none of the damaged files. If any of this fails,
//!    for example on a full disk, it removes the new tables, and the database is as before.
//! 3. It renames damaged tables and logs to `NAME.damaged`, and the value files that only damaged
//!    tables refer to. In a pool there is nothing to rename: an extent that the manifest does not
//!    list is free at the next open.
//! 4. It points `CURRENT` at the new manifest, and renames manifests that it dropped.
//!
//! If a repair is interrupted before step 3, no file has changed its name, and the next repair
//! starts again. After that the next repair finds the new manifest. New tables name the last edit
//! before the repair, so they never indicate that edits are missing.
//!
//! Lost data is lost to readers too: an older value of a key, or one that a lost table had deleted,
//! may reappear. So restoring a copy, if there is one, is better.

mod kept_files;
mod manifest_choice;

use crate::history::lineage;
use crate::inspect::salvage::{DroppedTable, Rewrite};
use crate::inspect::{Inspector, path};
use crate::log::torn_tail::TornTail;
use crate::log::wal_files::{log_file_name, parse_log_file_name};
use crate::manifest::manifest_file::{Author, CURRENT, PreparedManifest, parse_manifest_file_name};
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::LogEnd;
use crate::recovery::replay::Rejected;
use crate::recovery::unlisted_files::file_names::{DAMAGED, file_id_in};
use crate::recovery::unlisted_files::quarantine;
use crate::recovery::unlisted_files::{Fate, Known};
use crate::version::{ValueFiles, parse_table_file_name, parse_value_file_name, value_file_name};
use esker_base::{Error, Result, Seqno};
use esker_pmem::pool::PoolRepair;
use esker_storage::Storage;
use manifest_choice::ManifestChoice;

/// What a repair does if a log in the manifest is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MissingLogPolicy {
    /// Fails and changes nothing. The log may be in another directory.
    Refuse,
    /// Drops the writes of the log.
    GiveUp,
}

/// The result of a repair: what was kept and what was dropped.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RepairReport {
    /// The manifest that the repair used.
    pub manifest: String,
    /// Newer manifests that it could not use, and why.
    pub given_up_manifests: Vec<String>,
    /// Tables kept.
    pub tables: u64,
    /// Tables that were damaged, with what was kept of them.
    pub lost_tables: Vec<DroppedTable>,
    /// Entries kept from the logs.
    pub log_entries: u64,
    /// Logs whose manifest edit was damaged and that were found again.
    pub adopted_logs: Vec<String>,
    /// Logs that were truncated or dropped, and why.
    pub cut_logs: Vec<String>,
    /// The invalid end of the log, if there is one.
    ///
    /// If whole frames follow it, the repair has dropped them. Otherwise the next open for writing
    /// does.
    pub torn_log: Option<TornTail>,
    /// Files in the database directory that keep logs whose whole frames were dropped.
    pub kept_logs: Vec<String>,
    /// Words of the pool that were wrong and that the repair corrected.
    pub mended_pool: Vec<String>,
    /// What was rebuilt or assumed because no manifest was usable.
    pub rebuilt: Vec<String>,
    /// The old names of files that were renamed to `NAME.damaged`.
    pub set_aside: Vec<String>,
    /// The sequence number of the last write in the database.
    pub last_seqno: Seqno,
}

/// What is to be done, before any of it is.
#[derive(Default)]
pub(super) struct Decision {
    /// What is kept.
    pub(super) state: ManifestState,
    /// Files to rename.
    pub(super) aside: Vec<String>,
    /// Tables to write anew, as far as they can be read.
    pub(super) rewrites: Vec<Rewrite>,
    /// Log files to rename.
    pub(super) logs_aside: Vec<String>,
    /// Logs whose end no recovery has decided, so that it may not be durable.
    pub(super) unsettled: Vec<(u32, LogEnd)>,
    pub(super) repaired: RepairReport,
    /// Logs to be copied, because whole frames in them are dropped.
    pub(super) rejected: Vec<Rejected>,
}

impl Inspector {
    /// Makes a database of what can be read, and drops the rest.
    ///
    /// Takes the locks of the writer. Changes nothing if nothing is damaged, or if it fails.
    /// Without a usable manifest, it rebuilds one from tables and logs.
    ///
    /// # Errors
    /// * [`Error::NotADatabase`] if there is neither a manifest nor a table.
    /// * [`Error::Locked`] if the database is open for writing.
    /// * A missing log under [`MissingLogPolicy::Refuse`].
    /// * Every error that is not damage, such as [`Error::Io`] or [`Error::NewerVersion`].
    pub fn repair(&self, missing_logs: MissingLogPolicy) -> Result<RepairReport> {
        // Before the lock, which writes a file: a foreign directory is left as it is.
        let names = self.storage.list()?;
        let is_ours = |name: &String| {
            parse_manifest_file_name(name).is_some() || parse_table_file_name(name).is_some()
        };
        if !names.iter().any(is_ours) {
            return Err(Error::NotADatabase {
                dir: self.storage.describe(),
                reason:
                    "there is neither a manifest nor a table in it, so there is nothing to repair"
                        .into(),
            });
        }
        super::encryption_check::check(&*self.storage)?;
        let _lock = self.storage.lock()?;
        self.with_pool_opened(PoolRepair::ToMend)?.repair_alone(missing_logs)
    }

    /// The rest, once no other thread can write. A pool is inspected only from here on.
    fn repair_alone(&self, missing_logs: MissingLogPolicy) -> Result<RepairReport> {
        let ManifestChoice { name, identity, state, in_force, given_up } = match self.choose()? {
            Ok(chosen) => chosen,
            Err(damage) => return self.rebuild(&damage),
        };
        if missing_logs == MissingLogPolicy::GiveUp && self.tables_follow(&state, identity)? {
            let what = "the logs that it lists are missing, and tables have their writes";
            return self.rebuild(&[Error::corruption(path(&*self.storage, &name), 0, what)]);
        }
        self.check_log_directory(identity)?;
        let _log_lock = self.lock_logs()?;
        let ends_whole = in_force && self.torn_tail_offset(&self.read_manifest(&name)?)?.is_none();
        self.presume_states(&state, ends_whole)?;
        if ends_whole {
            self.check_age(&state)?;
        }
        let whole = ends_whole && !self.lists_too_few_logs(&state)?;
        // Even if missing logs are to be given up: these are not missing.
        self.check_logs_place(&state, whole)?;
        if missing_logs == MissingLogPolicy::Refuse {
            self.expect_logs(&state)?;
        }
        let repaired = RepairReport {
            manifest: name,
            given_up_manifests: given_up,
            mended_pool: self.pool_problems(),
            ..RepairReport::default()
        };
        let mut decision = Decision { state, repaired, ..Decision::default() };
        self.keep_tables(&mut decision)?;
        self.keep_logs(&mut decision, whole)?;
        for (name, what) in self.drop_damaged_kept_logs(&mut decision.state)? {
            decision.repaired.cut_logs.push(format!("{name}: {what}"));
            if self.log_storage.exists(&name)? {
                decision.logs_aside.push(name);
            }
        }
        if !in_force {
            self.give_up_unlisted(&mut decision)?;
        }
        let RepairReport { lost_tables, cut_logs, adopted_logs, mended_pool, .. } =
            &decision.repaired;
        let nothing_lost = lost_tables.is_empty()
            && cut_logs.is_empty()
            && decision.rejected.is_empty()
            && decision.logs_aside.is_empty();
        if in_force && nothing_lost && adopted_logs.is_empty() && mended_pool.is_empty() {
            return Ok(decision.repaired);
        }
        self.carry_out(decision, identity)
    }

    /// Whether a log shows that the edit that listed it is lost.
    fn lists_too_few_logs(&self, state: &ManifestState) -> Result<bool> {
        let first_file = state.first_file.unwrap_or(state.next_file);
        let unlisted = self.unlisted_logs(state)?;
        Ok(unlisted.iter().any(|&epoch| u64::from(epoch) >= first_file))
    }

    /// Whether a listed log is missing, and a table that is not listed has writes that no other has.
    fn tables_follow(&self, state: &ManifestState, identity: u64) -> Result<bool> {
        let is_missing =
            |&epoch: &u32| -> Result<bool> { Ok(!self.log_storage.exists(&log_file_name(epoch))?) };
        let missing = state.logs.keys().map(is_missing).collect::<Result<Vec<_>>>()?;
        if !missing.contains(&true) {
            return Ok(false);
        }
        let last_seqno = state.version.flushed_through;
        let known = Known { identity, state, manifest: CURRENT, last_seqno };
        let mut names = self.storage.list()?;
        names.retain(|name| parse_table_file_name(name).is_some());
        let fates = known.fates(&*self.storage, &names)?;
        Ok(fates.values().any(|fate| *fate == Fate::SetAside))
    }

    /// Fails if a listed log is not there.
    fn expect_logs(&self, state: &ManifestState) -> Result<()> {
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
        let place = self.log_storage.describe();
        let lost = format!(
            "if lost, `--give-up-logs` drops what {hold}: any writes after {}, the last in tables",
            state.version.flushed_through
        );
        Err(match &self.pool {
            Some(_) => Error::PoolRefused {
                pool: place,
                reason: format!("{what} not in it; {they} in another pool or in files? {lost}"),
            },
            None => Error::InvalidSetting {
                setting: "log directory",
                value: place,
                reason: format!(
                    "{what} not there; {they} in a pool? give --pool; in another directory? give \
                     --log-dir; {lost}"
                ),
            },
        })
    }

    /// Without the manifest that was current, it is unknown what the files are that the kept one does
    /// not list; the next open would remove them.
    fn give_up_unlisted(&self, decision: &mut Decision) -> Result<()> {
        let Decision { state, aside, logs_aside, repaired, .. } = decision;
        let files = state.files();
        let mut names = self.storage.list()?;
        names.sort();
        aside.extend(names.into_iter().filter(|name| {
            let values = &state.version.values;
            let table = parse_table_file_name(name).is_some_and(|id| !files.contains(&id))
                || parse_value_file_name(name).is_some_and(|id| values.get(id).is_none());
            let manifest = parse_manifest_file_name(name).is_some() && *name != repaired.manifest;
            table || manifest
        }));
        if self.pool.is_some() {
            return Ok(());
        }
        let mut names = self.log_storage.list()?;
        names.sort();
        logs_aside.extend(
            names.into_iter().filter(|name| {
                parse_log_file_name(name).is_some_and(|epoch| !state.lists_log(epoch))
            }),
        );
        Ok(())
    }

    fn carry_out(&self, decision: Decision, identity: u64) -> Result<RepairReport> {
        let Decision { state, mut aside, logs_aside, rewrites, unsettled, rejected, mut repaired } =
            decision;
        let values_before = state.version.values.clone();
        let first_file = state.next_file.max(self.next_file_seen()?);
        // All that needs space. If it fails, nothing has changed.
        let prepare = || {
            repaired.kept_logs = quarantine::keep(&*self.storage, &rejected)?;
            let (id, state) = self.write_rewrites(state, rewrites, first_file, identity)?;
            // The manifest will say where they end, and nobody look again whether that is durable.
            for (epoch, end) in unsettled {
                self.log_places().make_durable(epoch, end)?;
            }
            self.mend_pool()?;
            aside.extend(dropped_value_files(&values_before, &state.version.values));
            PreparedManifest::write(&*self.storage, id, Author::of(identity), &state.snapshot())
        };
        let manifest = prepare().inspect_err(|_| self.remove_new_tables(first_file))?;
        // What follows the database over a network may have what is dropped here.
        lineage::forget(&*self.storage)?;
        // If this is interrupted, the next repair finds the prepared manifest.
        let (manifests, data): (Vec<_>, Vec<_>) =
            aside.into_iter().partition(|name| parse_manifest_file_name(name).is_some());
        repaired.set_aside.extend(set_aside(&*self.storage, values_first(data))?);
        repaired.set_aside.extend(set_aside(&*self.log_storage, logs_aside)?);
        manifest.install(&*self.storage)?;
        repaired.set_aside.extend(set_aside(&*self.storage, manifests)?);
        Ok(repaired)
    }

    /// Writes tables anew, in files from `first_file` on. Returns the next file ID, and the state with them.
    fn write_rewrites(
        &self,
        mut state: ManifestState,
        rewrites: Vec<Rewrite>,
        first_file: u64,
        identity: u64,
    ) -> Result<(u64, ManifestState)> {
        let mut id = first_file;
        // Tables name the last edit that is durable. If this repair is interrupted, there is no later one.
        let edits = state.edits;
        for rewrite in rewrites {
            let edit = self.rewrite(&rewrite, id, identity, edits, &state)?;
            id += 1;
            let applied = state.apply(&edit, &self.storage);
            applied.expect("the table is listed, and its successor has less in it");
        }
        self.storage.sync_names()?;
        state.edits = edits + 1;
        state.first_file = Some(first_file);
        state.next_file = id + 1;
        Ok((id, state))
    }

    /// Removes the tables that a failed repair wrote, which no manifest lists.
    pub(super) fn remove_new_tables(&self, first_file: u64) {
        for name in self.storage.list().unwrap_or_default() {
            if parse_table_file_name(&name).is_some_and(|file| file >= first_file) {
                // If it can't be removed now, the next open does it.
                let _ = self.storage.remove(&name);
            }
        }
    }

    /// A file id above that of every file, those dropped included: no id ever names two files.
    pub(super) fn next_file_seen(&self) -> Result<u64> {
        let mut next = 0;
        for name in self.storage.list()?.into_iter().chain(self.log_storage.list()?) {
            next = file_id_in(&name).map_or(next, |id| next.max(id + 1));
        }
        Ok(next)
    }
}

/// The value files that no table refers to any more: what is set aside may.
fn dropped_value_files(before: &ValueFiles, now: &ValueFiles) -> Vec<String> {
    let dropped = before.iter().filter(|listed| now.get(listed.meta.file).is_none());
    dropped.map(|listed| value_file_name(listed.meta.file)).collect()
}

/// Names of files, those of value files first: the next open removes a value file if no table that refers to
/// it has its name any more.
pub(super) fn values_first(mut names: Vec<String>) -> Vec<String> {
    names.sort_by_key(|name| parse_value_file_name(name).is_none());
    names
}

/// Renames those of the files that are there. Gives their old names.
pub(super) fn set_aside(storage: &dyn Storage, names: Vec<String>) -> Result<Vec<String>> {
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
