//! What a follower has read of a database that another process writes: the manifest, and behind it the
//! logs.
//!
//! The manifest is read first, and then the logs that it lists. So the logs hold all that was
//! acknowledged before the last edit that was read. Then the manifest is read again, and the logs are, too,
//!
//! * if keyspaces were created or dropped meanwhile: writes could be shown without a change of keyspaces before
//!   them;
//! * if writes that were not found were flushed meanwhile: their log may have been used again, so that they were
//!   missing although they came before the last edit.
//!
//! What may be shown ends
//!
//! * with the last whole batch,
//! * before an ingest whose tables no edit has added yet.
//!
//! It is shown only if it includes all that the tables of the version hold: compactions keep no versions of
//! keys for an earlier reader.
//!
//! The tail begins anew if another process has opened the database for writing. So it does if another directory, or
//! other files, have taken the place of what was opened. They must be of the same database or of a copy of it.

use super::log_tail::{LogTail, ReadFrame, Unfit};
use crate::log::wal_files;
use crate::manifest::manifest_file::{Author, read_current};
use crate::manifest::manifest_state::{LogRecord, ManifestState};
use crate::manifest::manifest_tail::ManifestTail;
use crate::manifest::original;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::version::Version;
use crate::version::readers::super_version::SuperVersion;
use esker_base::{ChangesError, Error, Result, Seqno};
use esker_memtable::MemTable;
use esker_storage::Storage;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// See the file's head.
pub(crate) struct Tail {
    storage: Arc<dyn Storage>,
    logs: Arc<dyn Storage>,
    /// The identities of what was read since the open, and those of which it was a copy.
    family: BTreeSet<u64>,

    manifest: ManifestTail,
    state: ManifestState,
    /// That of the state.
    version: Arc<Version>,
    /// The log that is read now.
    log: Option<LogTail>,
    /// Newest first, with that of `log`.
    memtables: Vec<Arc<MemTable>>,
    /// The seqno that the next frame starts with.
    next: Seqno,
    /// The first seqno of the batch that the last frame belongs to, if it goes on.
    batch_from: Option<Seqno>,
    /// The last seqno of the last whole batch.
    whole: Seqno,
    /// The last seqno that is known to survive a power loss.
    durable: Seqno,
    /// The seqnos of ingests of which it is not known how they ended, ascending.
    ingests: VecDeque<Seqno>,
    /// Bytes of frames that were read.
    bytes: u64,
    /// An edit of the manifest did not fit.
    is_broken: bool,
    /// Edits that were read and not applied. None of them concerns what may be shown.
    unapplied: Vec<VersionEdit>,
    /// Whether the logs were read to their end, and no edit or manifest since asks to read them again.
    is_settled: bool,
    /// How far it has come from what an earlier call has read.
    advance: Advance,
}

/// How often the logs are read in a row because of what changes meanwhile.
const ROUNDS: usize = 8;

/// How far a step came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Advance {
    /// It goes on from what was read before.
    On,
    /// What was read before does not count.
    Anew,
    /// The same, and ids of files may be those of other files than before: another process has opened the database
    /// for writing, perhaps after files were put back from a copy, or has repaired it.
    OtherFiles,
}

/// How far a tail is.
#[derive(Clone, Copy, Default)]
pub(crate) struct TailProgress {
    pub(crate) shown: Seqno,
    pub(crate) read: Seqno,
    pub(crate) durable: Seqno,
    pub(crate) ingest: Option<Seqno>,
    pub(crate) bytes: u64,
}

impl Tail {
    /// Reads the database as it is now.
    pub(crate) fn open(storage: &Arc<dyn Storage>, logs: &Arc<dyn Storage>) -> Result<Tail> {
        let mut tail = Tail::begin(storage, logs)?;
        tail.read_all()?;
        Ok(tail)
    }

    fn begin(storage: &Arc<dyn Storage>, logs: &Arc<dyn Storage>) -> Result<Tail> {
        let name = read_current(&**storage)?;
        let (manifest, state) = ManifestTail::open(storage, &name)?;
        let flushed = state.version.flushed_through;
        let family = original::original(&**storage)?.into_iter().chain([manifest.author.database]);
        Ok(Tail {
            storage: storage.clone(),
            logs: logs.clone(),
            family: family.collect(),
            manifest,
            version: Arc::new(state.version.clone()),
            state,
            log: None,
            memtables: Vec::new(),
            next: flushed + 1,
            batch_from: None,
            whole: flushed,
            durable: flushed,
            ingests: VecDeque::new(),
            bytes: 0,
            is_broken: false,
            unapplied: Vec::new(),
            is_settled: false,
            advance: Advance::On,
        })
    }

    /// The state of the manifest, as far as it was read.
    pub(crate) fn state(&self) -> &ManifestState {
        &self.state
    }

    /// The database's identity.
    pub(crate) fn identity(&self) -> u64 {
        self.manifest.author.database
    }

    /// Reads on. After an error, what was read may still be used, and the next call goes on.
    ///
    /// # Errors
    /// [`ChangesError::Replaced`] if another database is in the place of this one; otherwise an error of a
    /// file that is missing or damaged, which may be due to a change while it was read.
    pub(crate) fn advance(&mut self) -> Result<Advance> {
        if self.storage.is_replaced() {
            let cannot = || self.replaced("its storage cannot be opened again".to_owned());
            let found = self.storage.reopened()?.ok_or_else(cannot)?;
            self.go_on_in(&found)?;
        }
        self.read_all()
    }

    /// Begins anew with the database in `storage`, if it is this one or a copy of it.
    fn go_on_in(&mut self, storage: &Arc<dyn Storage>) -> Result<()> {
        let logs = self.logs_of(storage)?;
        let begun = Tail::begin(storage, &logs)?;
        if self.family.is_disjoint(&begun.family) {
            let (found, known) = (begun.identity(), self.identity());
            let what = format!("it is {found:016x}, and neither {known:016x} nor a copy of it");
            return Err(self.replaced(what));
        }
        let are_elsewhere = !Arc::ptr_eq(storage, &logs);
        if are_elsewhere && !begun.state.logs.is_empty() {
            // Logs of another database may have the same names.
            wal_files::check_claim(&*logs, begun.identity())?;
        }
        self.begin_anew(begun, Advance::OtherFiles);
        Ok(())
    }

    fn begin_anew(&mut self, begun: Tail, advance: Advance) {
        let family = self.family.union(&begun.family).copied().collect();
        let advance = advance.max(self.advance);
        *self = Tail { family, advance, ..begun };
    }

    /// Where the logs of the database in `storage` are, if it was opened for writing since: a process that was there
    /// before goes on in the directory that it opened, wherever that is now.
    fn logs_of(&self, storage: &Arc<dyn Storage>) -> Result<Arc<dyn Storage>> {
        if Arc::ptr_eq(&self.storage, &self.logs) {
            return Ok(storage.clone());
        }
        Ok(self.logs.reopened()?.unwrap_or_else(|| self.logs.clone()))
    }

    fn read_all(&mut self) -> Result<Advance> {
        self.is_settled = false;
        for _ in 0..ROUNDS {
            self.read_manifest()?;
            self.read_logs()?;
            self.unapplied.extend(self.manifest.read()?);
            let is_kept = self.manifest.replaced_by(&*self.storage)?.is_none();
            if is_kept && !self.unapplied.iter().any(|edit| self.is_outdated_by(edit)) {
                self.is_settled = true;
                break;
            }
        }
        Ok(std::mem::replace(&mut self.advance, Advance::On))
    }

    fn read_manifest(&mut self) -> Result<()> {
        match self.manifest.replaced_by(&*self.storage)? {
            Some(current) => self.change_manifest(&current),
            None if self.is_broken => self.change_manifest(&self.manifest.name.clone()),
            None => self.read_edits(),
        }
    }

    fn read_edits(&mut self) -> Result<()> {
        let read = self.manifest.read()?;
        let mut edits = std::mem::take(&mut self.unapplied);
        edits.extend(read);
        if edits.is_empty() {
            return Ok(());
        }
        self.is_broken = true;
        let mut state = self.state.clone();
        for edit in &edits {
            let applied = state.apply(edit, &self.storage);
            applied.map_err(|what| Error::corruption(&self.manifest.name, 0, what))?;
        }
        self.take_state(state);
        self.is_broken = false;
        Ok(())
    }

    fn change_manifest(&mut self, current: &str) -> Result<()> {
        let (manifest, state) = ManifestTail::open(&self.storage, current)?;
        if manifest.author.database != self.identity() {
            return self.go_on_in(&self.storage.clone());
        }
        let is_of_one_process = self.is_of_one_process(manifest.author, &state);
        if self.is_broken || !is_of_one_process || !self.is_continued_by(&state) {
            let begun = Tail::begin(&self.storage, &self.logs_of(&self.storage)?)?;
            let is_of_one_process = self.is_of_one_process(begun.manifest.author, &begun.state);
            let advance = if is_of_one_process { Advance::Anew } else { Advance::OtherFiles };
            self.begin_anew(begun, advance);
            return Ok(());
        }
        self.manifest = manifest;
        self.unapplied.clear();
        self.take_state(state);
        Ok(())
    }

    fn replaced(&self, reason: String) -> Error {
        ChangesError::Replaced { dir: self.storage.describe(), reason }.into()
    }

    fn take_state(&mut self, state: ManifestState) {
        self.version = Arc::new(state.version.clone());
        self.state = state;
    }

    /// Whether the process that wrote the manifest so far has written `state`, too. Pre-release builds do not note it.
    fn is_of_one_process(&self, author: Author, state: &ManifestState) -> bool {
        let first_file = self.state.first_file;
        let is_known = author.process != 0 && first_file.is_some();
        is_known && author == self.manifest.author && first_file == state.first_file
    }

    /// Whether `state`, of the same process, goes on from what was read.
    fn is_continued_by(&self, state: &ManifestState) -> bool {
        let is_later = state.edits >= self.state.edits
            && state.version.flushed_through >= self.state.version.flushed_through;
        let flushed = state.version.flushed_through;
        let is_same_log = |memtable: &Arc<MemTable>| match state.logs.get(&memtable.epoch()) {
            None => memtable.last_seqno() <= flushed,
            listed => listed == self.state.logs.get(&memtable.epoch()),
        };
        is_later && self.memtables.iter().all(is_same_log)
    }

    /// Reads the logs that the manifest lists, as far as there are whole frames.
    fn read_logs(&mut self) -> Result<()> {
        self.leave_flushed();
        self.read_frames()?;
        let through = self.state.version.tables_through;
        if self.whole < through && self.are_logs_at_end() {
            // The mark of an ingest was lost with the end of the log.
            self.go_on_after(through);
        }
        self.durable = self.durable.max(self.state.version.flushed_through);
        self.ingests.retain(|&ingest| ingest > through);
        Ok(())
    }

    /// Leaves the logs whose writes are in tables.
    fn leave_flushed(&mut self) {
        let is_listed = |epoch: u32| self.state.logs.contains_key(&epoch);
        self.memtables.retain(|memtable| is_listed(memtable.epoch()));
        self.log.take_if(|log| !is_listed(log.epoch));
        let flushed = self.state.version.flushed_through;
        if self.next <= flushed {
            self.go_on_after(flushed);
        }
    }

    fn go_on_after(&mut self, seqno: Seqno) {
        (self.next, self.whole, self.batch_from) = (seqno + 1, seqno, None);
        // No frame of it can follow what is in memory.
        self.seal();
    }

    fn seal(&mut self) {
        if let Some(mut log) = self.log.take() {
            log.seal();
        }
    }

    /// Whether no listed log can have further frames.
    fn are_logs_at_end(&self) -> bool {
        match (&self.log, self.state.logs.last_key_value()) {
            (_, None) => true,
            (Some(log), Some((&last, _))) => log.epoch == last && log.is_at_end(self.next),
            (None, Some((_, last))) => last.end.is_some_and(|end| end.last_seqno < self.next),
        }
    }

    /// Reads frames of this log and of those after it.
    fn read_frames(&mut self) -> Result<()> {
        loop {
            let mut has_read = false;
            while let Some(log) = &mut self.log {
                let batch_from = self.batch_from.unwrap_or(self.next);
                let Some(frame) = log.step(self.next, batch_from)? else { break };
                self.take(frame);
                has_read = true;
            }
            // A log that goes on elsewhere is complete: the writer began the next one after its last frame.
            if !has_read && !self.begin_next_log()? {
                return Ok(());
            }
        }
    }

    fn take(&mut self, ReadFrame { info, is_ingest }: ReadFrame) {
        self.next = info.next_seqno();
        self.durable = self.durable.max(info.durable_through);
        self.bytes += u64::from(info.bytes);
        match info.continues {
            true => _ = self.batch_from.get_or_insert(info.first_seqno),
            false => (self.whole, self.batch_from) = (self.next - 1, None),
        }
        self.ingests.extend(is_ingest.then_some(info.first_seqno));
    }

    /// Begins the log that goes on with the next seqno. Returns whether there is one.
    fn begin_next_log(&mut self) -> Result<bool> {
        let from = self.log.as_ref().map_or(Bound::Unbounded, |log| Bound::Excluded(log.epoch));
        let later: Vec<(u32, LogRecord)> = self
            .state
            .logs
            .range((from, Bound::Unbounded))
            .map(|(&epoch, &log)| (epoch, log))
            .collect();
        let lost_mark = self.state.version.tables_through + 1;
        for listed in later {
            let found = match LogTail::open(&*self.logs, listed, self.next)? {
                Ok(log) => {
                    self.begin_log(log);
                    return Ok(true);
                }
                Err(Unfit::Empty) => continue,
                Err(Unfit::StartsAt(found)) => found,
            };
            let is_settled = self.log.as_ref().is_none_or(|log| log.is_at_end(self.next));
            if found < self.next {
                // All of it is in tables.
                continue;
            } else if found == lost_mark && is_settled {
                // The mark of an ingest was lost with the end of the log.
                self.go_on_after(found - 1);
                return Ok(true);
            }
            return self.look_again(found);
        }
        Ok(false)
    }

    fn begin_log(&mut self, log: LogTail) {
        self.seal();
        self.memtables.insert(0, log.memtable.clone());
        self.log = Some(log);
    }

    /// A later log begins with the seqno `found`, so all frames before are there by now.
    fn look_again(&mut self, found: Seqno) -> Result<bool> {
        let Some(log) = &mut self.log else {
            let what = format!("the logs go on with seqno {found}, and {} is missing", self.next);
            return Err(Error::corruption(&self.manifest.name, 0, what));
        };
        let batch_from = self.batch_from.unwrap_or(self.next);
        match log.step(self.next, batch_from)? {
            Some(frame) => {
                self.take(frame);
                Ok(true)
            }
            None => Err(log.gap(found, self.next)),
        }
    }

    /// Whether the logs have to be read again because of `edit`, which was read after them.
    fn is_outdated_by(&self, edit: &VersionEdit) -> bool {
        use VersionChange::{CreateKeyspace, DropKeyspace, FlushedThrough, Ttl};
        edit.changes.iter().any(|change| match change {
            CreateKeyspace { .. } | DropKeyspace(_) | Ttl { .. } => true,
            FlushedThrough(flushed) => *flushed >= self.next,
            _ => false,
        })
    }

    /// How far it is. What is shown does not go beyond what may be shown.
    pub(crate) fn progress(&self) -> TailProgress {
        let ingest = self.ingests.front().copied();
        TailProgress {
            shown: ingest.map_or(self.whole, |ingest| self.whole.min(ingest - 1)),
            read: self.next - 1,
            durable: self.durable,
            ingest,
            bytes: self.bytes,
        }
    }

    /// The view that may be shown now, if it includes all that is in tables.
    pub(crate) fn view(&self) -> Option<SuperVersion> {
        let TailProgress { shown, .. } = self.progress();
        let has_all = shown >= self.state.version.tables_through;
        (has_all && self.is_settled).then(|| SuperVersion {
            memtables: self.memtables.clone(),
            shown_through: Some(shown),
            ..SuperVersion::of(self.version.clone())
        })
    }
}
