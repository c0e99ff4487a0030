//! The state that the handles and the background threads of one open database share.

use crate::compaction::execute::l0_progress::L0CompactionProgress;
use crate::fold::merger::Merger;
use crate::history::keyspaces::KeyspaceHistory;
use crate::index::maintain::Indexing;
use crate::index::registry::IndexRegistry;
use crate::log::torn_tail::TornTail;
use crate::options::memory::{dram_table_bytes, segments_at_most};
use crate::output::io_throttle::IoThrottle;
use crate::resources::{Charge, Resources, Share};
use crate::scheduler::Scheduler;
use crate::scheduler::state::SchedulerState;
use crate::scheduler::table_opening::OpenScope;
use crate::stats;
use crate::stats::call_watch::CallWatch;
use crate::stats::cumulative::SpaceAmpSamples;
use crate::tree::Tree;
use crate::version::readers::held_memory::HeldMemory;
use crate::version::readers::super_version::{SuperVersion, pin_present};
use crate::write::write_controller::WriteController;
use crate::write::{CommitPipeline, RANGE_DELETES_MAX};
use esker_api::{WriteBatch, foreign};
use esker_base::{Error, KeyspaceId, Kind, MAX_KEY_BYTES, Result, Seqno};
use esker_memtable::MemTable;
use esker_txn::TransactionManager;
use parking_lot::{Mutex, RwLock};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// See the file's head.
pub(crate) struct Engine {
    /// What reads and background jobs need.
    pub(crate) tree: Tree,

    // Constant after opening.
    /// Of the segments that this process writes.
    pub(crate) salt: u64,
    /// The database's share of memory and threads.
    pub(crate) share: Share,
    /// The end of the log that opening discarded.
    pub(crate) torn_log: Option<TornTail>,
    /// Files that opening set aside, under their new names.
    pub(crate) set_aside: Vec<String>,

    // Each protected by itself.
    pub(crate) commit: CommitPipeline,
    pub(crate) schedule: Scheduler,
    pub(crate) stall: WriteController,
    pub(crate) calls: CallWatch,
    pub(crate) under_way: L0CompactionProgress,
    pub(crate) gate: IoThrottle,
    /// Held while an ingest is installed.
    pub(crate) ingests: Mutex<()>,
    pub(crate) indexes: IndexRegistry,
    /// For readers of the change feed.
    pub(crate) history: KeyspaceHistory,
    /// Made by the first transaction.
    pub(crate) transactions: OnceLock<TransactionManager>,

    /// The locks on the directories. Empty once the database is closed.
    pub(crate) locks: Mutex<Vec<Box<dyn Send + Sync>>>,
    /// Held shared by calls that do I/O for upkeep, and exclusively while the locks are released.
    pub(crate) upkeep: RwLock<()>,
}

impl Engine {
    /// Whether one frame can hold `batch`.
    #[inline]
    pub(crate) fn fits_frame(&self, batch: &WriteBatch) -> bool {
        let bytes = batch.encoded().len();
        MemTable::batch_fits(self.tree.settings.segment_bytes, bytes, batch.len() as u32)
    }

    /// Whether several frames can.
    #[cold]
    fn fits_frames(&self, batch: &WriteBatch) -> bool {
        let limit = self.tree.settings.max_entry_bytes();
        batch.encoded().len() <= self.tree.settings.max_batch_bytes()
            && batch.len() <= self.tree.settings.max_batch_entries()
            && batch.iter().all(|entry| entry.encoded_bytes() <= limit)
    }

    /// Fails if `batch`, to which more is to be added, is too large by now.
    pub(crate) fn check_fits_in_part(&self, batch: &WriteBatch) -> Result<()> {
        let settings = &self.tree.settings;
        let is_short = batch.encoded().len() <= settings.max_batch_bytes();
        match is_short && batch.len() <= settings.max_batch_entries() {
            true => Ok(()),
            false => Err(self.refuse(batch, batch)),
        }
    }

    /// Fails if `batch`, which the engine has added entries to, is too large.
    pub(crate) fn check_fits(&self, batch: &WriteBatch) -> Result<()> {
        let fits = self.fits_frame(batch) || self.fits_frames(batch);
        let has_few_ranges = batch.range_deletes() <= RANGE_DELETES_MAX;
        match fits && has_few_ranges && batch.longest_key() <= MAX_KEY_BYTES {
            true => Ok(()),
            false => Err(self.refuse(batch, batch)),
        }
    }

    /// What a read at present reads: see `super_version`.
    #[inline]
    pub(crate) fn pin_present(&self) -> (arc_swap::Guard<Arc<SuperVersion>>, Seqno) {
        pin_present(|| self.tree.view.pin(), || self.commit.visible())
    }

    /// The last seqno that a read at present sees.
    pub(crate) fn visible(&self) -> Seqno {
        match self.tree.follows {
            None => self.commit.visible(),
            Some(_) => self.tree.view.pin().last_seqno(),
        }
    }

    /// What adding index entries to batches needs.
    pub(crate) fn indexing(&self) -> Indexing<'_> {
        Indexing { registry: &self.indexes, tree: &self.tree, commit: &self.commit }
    }

    /// Returns the batch that `given` is with stored keys, unless it can't be written.
    #[inline]
    pub(crate) fn accept<'a>(&self, given: &'a WriteBatch) -> Result<Cow<'a, WriteBatch>> {
        if let Some(handle) = given.foreign_to(self.tree.store_id) {
            let what = format!("a batch with the keyspace with id {}", handle.id);
            return Err(foreign(what, self.tree.storage.describe()));
        }
        if given.has_empty_key() && !self.tree.keys.takes_empty_key() {
            return Err(Error::EmptyKey);
        }
        let batch = self.tree.keys.batch(given);
        let fits = self.fits_frame(&batch) || self.fits_frames(&batch);
        if given.longest_key() > MAX_KEY_BYTES
            || !fits
            || given.has_empty_range()
            || batch.range_deletes() > RANGE_DELETES_MAX
        {
            return Err(self.refuse(given, &batch));
        }
        let view = self.tree.view.pin();
        let mut known = None;
        for entry in batch.keyspaces() {
            if known != Some(entry) {
                if !view.version.keyspaces.contains_key(&entry) {
                    return Err(self.tree.unknown(entry));
                }
                known = Some(entry);
            }
        }
        if given.has_merges() {
            self.check_merges(given, &view)?;
        }
        let batch = match given.has_ttl() {
            true => self.begin_ttls(batch)?,
            false => batch,
        };
        if self.tree.installer.may_be_undecided() {
            self.expect_decided(batch.keyspaces())?;
        }
        Ok(batch)
    }

    /// Fails if one of the keyspaces may have been dropped: see [`Error::DropUndecided`].
    #[cold]
    pub(crate) fn expect_decided(&self, of: impl Iterator<Item = KeyspaceId>) -> Result<()> {
        let view = self.tree.view.load();
        let name =
            |id| view.version.keyspaces.get(&id).map_or_else(String::new, |it| it.name.clone());
        self.tree.installer.expect_decided(of, name)
    }

    /// Returns `batch`, whose times to live begin now.
    #[cold]
    fn begin_ttls<'a>(&self, batch: Cow<'a, WriteBatch>) -> Result<Cow<'a, WriteBatch>> {
        self.tree.expect_expiring()?;
        let mut batch = batch.into_owned();
        batch.begin_ttls(self.tree.time.now());
        Ok(Cow::Owned(batch))
    }

    /// Checks that the keyspaces of all merges have an operator, and that it takes the operands.
    #[cold]
    fn check_merges(&self, given: &WriteBatch, view: &SuperVersion) -> Result<()> {
        let mut last: Option<(KeyspaceId, Merger)> = None;
        for entry in given.iter().filter(|entry| entry.kind == Kind::Merge) {
            let merger = match &last {
                Some((id, merger)) if *id == entry.keyspace => merger,
                _ => {
                    let found = view.version.keyspaces.get(&entry.keyspace);
                    let found = found.ok_or_else(|| self.tree.unknown(entry.keyspace))?;
                    &last.insert((entry.keyspace, self.tree.merger(found))).1
                }
            };
            merger.check(entry.key, entry.value)?;
        }
        Ok(())
    }

    #[cold]
    fn refuse(&self, given: &WriteBatch, batch: &WriteBatch) -> Error {
        let limit = self.tree.settings.max_entry_bytes();
        if given.longest_key() > MAX_KEY_BYTES {
            Error::KeyTooLong { bytes: given.longest_key() }
        } else if given.has_empty_range() {
            Error::EmptyRange
        } else if batch.range_deletes() > RANGE_DELETES_MAX {
            let (range_deletes, limit) = (batch.range_deletes(), RANGE_DELETES_MAX);
            Error::TooManyRangeDeletes { range_deletes, limit }
        } else if let Some(entry) = batch.iter().find(|entry| entry.encoded_bytes() > limit) {
            let (bytes, key_bytes) = (entry.value.len(), entry.key.len());
            if entry.kind == Kind::RangeDelete && self.tree.keys.is_end_of_keys(entry.value) {
                let entry_bytes = entry.encoded_bytes();
                // A quarter of it is enough, with room for the start of the range.
                let segment_bytes = (4 * entry_bytes).next_power_of_two();
                return Error::OpenRangeTooLarge { entry_bytes, limit, segment_bytes };
            }
            Error::ValueTooLarge { bytes, key_bytes, entry_bytes: entry.encoded_bytes(), limit }
        } else {
            Error::BatchTooLarge {
                bytes: batch.encoded().len(),
                limit: self.tree.settings.max_batch_bytes(),
                entries: batch.len(),
                entries_limit: self.tree.settings.max_batch_entries(),
            }
        }
    }

    /// Records the space that table files use and the live data in them, as far as that is known now.
    pub(crate) fn look_at_space(&self) {
        let Some(meter) = &self.tree.meter else { return };
        // A merge may just have put tables there that nobody has opened.
        self.open_new_tables();
        let version = self.tree.view.load().version.clone();
        let now = self.tree.time.now_if_used();
        let live = stats::live_data(&version, &self.tree.snapshots.list(), now);
        let Some(live) = live else { return };
        let (space, peak) = (meter.table_space(), meter.take_peak());
        let look = SpaceAmpSamples::look(space.bytes, peak, live.bytes, live.pinned_bytes);
        self.tree.unwritten.look(look);
    }

    /// Opens the readers of new tables, so that no get has to: of all that are not open, but those that
    /// openers have. That one can't be opened is kept as an error of the background, until all can; and a
    /// read of it fails with that error.
    pub(crate) fn open_new_tables(&self) {
        let may_open = self.schedule.jobs.lock().opening.leaves();
        match may_open {
            OpenScope::All => {
                if self.tree.open_unopened().is_err() {
                    self.schedule.retry_tables(self.tree.clock.now());
                }
            }
            OpenScope::After(file) => {
                let mut tables = self.tree.view.load().version.unopened();
                tables.retain(|table| table.meta.id.file > file);
                for table in tables {
                    // What fails is tried, and told, once more by the last opener.
                    let _ = table.reader(&self.tree.cache);
                }
            }
            OpenScope::None => return,
        }
        self.share_memory();
    }

    /// Tries tables of `keyspace`, or of all, again whose reads failed and may succeed now: opens those that are not open,
    /// and lets compaction read the others. The same for value files, which are opened when they are read.
    pub(crate) fn retry_tables(&self, keyspace: Option<KeyspaceId>) {
        let version = self.tree.view.load().version.clone();
        version.values.retry(keyspace);
        let tables = version.recoverable(keyspace);
        drop(version);
        for table in tables {
            match table.opened() {
                Some(_) => table.mark.clear(),
                None => _ = table.reader(&self.tree.cache),
            }
        }
        let mut jobs = self.schedule.jobs.lock();
        // Under the lock: a table that is marked later plans a try of its own.
        let is_over = self.tree.view.pin().version.recoverable(None).is_empty();
        jobs.retry.end(self.tree.clock.now(), is_over);
        drop(jobs);
        self.share_memory();
    }

    /// Gives the cache what tables leave of the memory budget, those that are being opened included.
    pub(crate) fn share_memory(&self) {
        let reserved = self.schedule.jobs.lock().opening.reserved_memory();
        let view = self.tree.view.load();
        let tables = view.version.table_memory().max(reserved) as usize;
        let wide_reads = self.tree.cache.reader().charged_bytes();
        let resources = self.share.resources();
        let charge = match resources.is_shared() {
            true => {
                let sealed = view.memtables.iter().filter(|memtable| memtable.is_sealed());
                Charge {
                    segments: self.segment_memory(&view),
                    sealed: sealed.map(|memtable| memtable.memory_bytes()).sum(),
                    tables,
                    dram_table: self.share_dram_table(resources),
                    wide_reads,
                    ..Charge::default()
                }
            }
            false => Charge {
                segments: self.segments_charged_alone(&view),
                sealed: 0,
                tables,
                dram_table: dram_table_bytes(&self.tree.settings),
                wide_reads,
                ..Charge::default()
            },
        };
        self.share.charge(charge, || self.tree.transient.to_charge());
    }

    /// The same after a read, if it was the first to need buffers of its own.
    #[inline]
    pub(crate) fn charge_wide_reads(&self) {
        if self.tree.cache.reader().has_just_started() {
            self.share_memory();
        }
    }

    /// Charges what cursors and jobs hold, if it has changed by much.
    #[inline]
    pub(crate) fn charge_transient(&self) {
        if self.tree.transient.is_due() {
            self.share.charge_transient(|| self.tree.transient.to_charge());
        }
    }

    /// Charges `bytes` for a job as long as the result lives.
    pub(crate) fn charge_job(&self, bytes: usize) -> JobMemory<'_> {
        let held = self.tree.transient.hold(bytes);
        self.charge_transient();
        JobMemory { inner: self, held }
    }

    /// The same after a change of MemTables. A database by itself has charged for as many as it usually has.
    pub(crate) fn share_segment_memory(&self) {
        let is_charged =
            || self.share.charged_segments() == self.segments_charged_alone(&self.tree.view.load());
        if self.share.resources().is_shared() || !is_charged() {
            self.share_memory();
        }
    }

    /// What a database by itself charges for segments: the most that they usually take, and beyond
    /// that what large batches hold.
    fn segments_charged_alone(&self, view: &SuperVersion) -> usize {
        let usual = 1 + self.tree.settings.sealed_segments + self.tree.logs.segments_ahead();
        let jobs = self.schedule.jobs.lock();
        let beyond = held_segments(view, &jobs).skip(usual);
        segments_at_most(&self.tree.settings) + beyond.map(|it| it.memory_bytes()).sum::<usize>()
    }

    /// What segments and their index take now, those that are prepared included.
    pub(crate) fn segment_memory(&self, view: &SuperVersion) -> usize {
        let jobs = self.schedule.jobs.lock();
        let held = held_segments(view, &jobs).chain(&jobs.retired);
        held.map(|memtable| memtable.memory_bytes()).sum()
    }

    /// Databases that share a budget share what it has for DRAMTables, too. Returns this one's part, in
    /// bytes.
    fn share_dram_table(&self, resources: &Resources) -> usize {
        let Some(dram_table) = &self.tree.dram_table else { return 0 };
        let databases = resources.databases().max(1);
        let bytes = match self.tree.settings.dram_table_bytes {
            // All together, they leave half of the budget.
            Some(bytes) => bytes.min(resources.memory_bytes() / 2 / databases),
            None => dram_table_bytes(&self.tree.settings) / databases,
        };
        dram_table.set_bytes(bytes);
        bytes
    }
}

/// What a job is charged for.
pub(crate) struct JobMemory<'a> {
    inner: &'a Engine,
    held: HeldMemory,
}

impl Drop for JobMemory<'_> {
    fn drop(&mut self) {
        self.held.set(0);
        self.inner.charge_transient();
    }
}

/// The MemTables of `view`, and those that are prepared or were prepared for nothing.
fn held_segments<'a>(
    view: &'a SuperVersion,
    jobs: &'a SchedulerState,
) -> impl Iterator<Item = &'a Arc<MemTable>> {
    let prepared = jobs.prepared.iter().chain(&jobs.unneeded).map(|segment| &segment.memtable);
    view.memtables.iter().chain(prepared)
}
