//! The state that all handles of a storage share: names, journal and space, under one lock. The
//! lock is not held during data I/O. The exception is data that is moved to free a chunk that a
//! caller waits for.

use crate::Chunk;
use crate::chunk_device::ChunkDevice;
use crate::placement::{LEVEL_0, LIFETIMES, Lifetime, PlacementPolicy, SHORTEST};
use crate::storage::allocation::active_zones::{self, OpenReason};
use crate::storage::allocation::wear_leveling::WearLeveler;
use crate::storage::chunks::chunk_table::{ChunkTable, OpenChunk};
use crate::storage::chunks::read_heat::ReadCounters;
use crate::storage::files::file_meta::FileMeta;
use crate::storage::format::{Extent, JournalRecord};
use crate::storage::journal::found;
use crate::storage::journal::journal_file::Journal;
use crate::storage::journal::marks::Marks;
use crate::storage::journal::replay::{Files, files, snapshot};
use crate::storage::lifetimes::lifetime::{LifetimeClass, LifetimeClassifier};
use crate::storage::lifetimes::quiescence::QuiescenceTracker;
use esker_base::{Error, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The state of a device that its handles share.
///
/// # Locking
///
/// One lock protects names, journal and space. It is not held during data I/O, unless a caller waits
/// for a chunk and the data in it is moved.
pub(crate) struct SharedDevice {
    pub(crate) zones: Arc<dyn ChunkDevice>,
    pub(crate) state: Mutex<State>,
    pub(crate) marks: Arc<Marks>,
    /// A chunk was given back.
    pub(crate) given_back: Condvar,
    /// What was read of which chunk.
    pub(crate) reads: Arc<ReadCounters>,
    pub(crate) settling: QuiescenceTracker,
    /// Bytes that users wrote, what was added to them to fill blocks, and bytes that were moved to free their chunks.
    pub(crate) host_bytes: AtomicU64,
    pub(crate) padding_bytes: AtomicU64,
    pub(crate) moved_bytes: AtomicU64,
    /// Those of them that were moved so that chunks wear alike.
    pub(crate) levelled_bytes: AtomicU64,
    /// Why what was found may not be the newest.
    pub(crate) doubt: Option<String>,
    /// Two that write the journal would destroy each other's files.
    _lock: Box<dyn Send + Sync>,
}

pub(crate) struct State {
    pub(crate) names: BTreeMap<String, Arc<FileMeta>>,
    /// Removed, and perhaps still open; and the edit that says so.
    leaving: Vec<(Arc<FileMeta>, u64)>,
    pub(crate) space: ChunkTable,
    /// Chunks that garbage collection cannot empty, since live data in them is unreadable, with the
    /// reason.
    pub(crate) gc_excluded: BTreeMap<u32, Error>,
    pub(crate) journal: Journal,
    pub(crate) next_id: u64,
    pub(crate) usual: LifetimeClassifier,
    pub(crate) levelling: WearLeveler,
}

/// Free chunks that only data which is moved may take.
const KEPT_CHUNKS: u32 = 1;

/// Tables leave one in this number of chunks to logs, manifests and other files without a level, in
/// addition to the chunks reserved for flushing logs to tables.
const RESERVED_OF_CHUNKS: u32 = 64;

/// A table may be longer than the log that it is made of, by one byte in so many: filters, indexes and samples.
const TABLE_OVER_LOG: u64 = 8;

impl SharedDevice {
    /// Reads what a device holds, or lays it out if that is nothing. `to_read`: changes nothing, ever.
    pub(crate) fn open(
        zones: Arc<dyn ChunkDevice>,
        policy: Box<dyn PlacementPolicy + Send>,
        to_read: bool,
    ) -> Result<Self> {
        let lock = zones.lock()?;
        let mut found = found::find(&*zones)?;
        let files = files(&*zones, policy, &mut found)?;
        files.check(&*zones)?;
        let Files { names, next_id, mut space, shrunk, .. } = files;
        let journal = if to_read {
            Journal::to_read(zones.clone(), &found)
        } else {
            // Before anything is done to the device.
            found.check(&*zones)?;
            active_zones::settle(&mut space, &*zones)?;
            Journal::begin(zones.clone(), &found)?
        };
        let (doubt, marks) = (found.doubt, journal.marks.clone());
        let (leaving, gc_excluded, usual) = Default::default();
        let reads = space.heat.reads.clone();
        let levelling = WearLeveler::new(space.wear.all());
        let mut state =
            State { names, leaving, space, gc_excluded, journal, next_id, usual, levelling };
        if !to_read {
            state.write_shrunk(&shrunk)?;
        }
        let (given_back, state) = (Condvar::new(), Mutex::new(state));
        let (settling, host_bytes, padding_bytes) = Default::default();
        let (moved_bytes, levelled_bytes) = Default::default();
        Ok(SharedDevice {
            zones,
            state,
            marks,
            given_back,
            reads,
            settling,
            host_bytes,
            padding_bytes,
            moved_bytes,
            levelled_bytes,
            doubt,
            _lock: lock,
        })
    }

    /// Writes the directory a second time, as nothing follows.
    pub(crate) fn close_journal(&self) {
        let State { journal, names, space, .. } = &mut *self.state.lock();
        journal.close(|| {
            // The snapshot includes the resets, unless names use all its space.
            space.wear.tell();
            snapshot(names, space)
        });
    }

    /// A chunk to write data of this lifetime into. Fails with an error that says so if the device is full.
    pub(crate) fn lease(&self, stay: LifetimeClass) -> Result<OpenChunk> {
        let mut state = self.state.lock();
        loop {
            if let Some(lease) = self.lease_if_any(&mut state, stay)? {
                return Ok(lease);
            }
            if !self.wait_for_move(&mut state) {
                return Err(state.device_full_error(self));
            }
        }
    }

    fn lease_if_any(
        &self,
        state: &mut MutexGuard<'_, State>,
        stay: LifetimeClass,
    ) -> Result<Option<OpenChunk>> {
        // A chunk that holds nothing any more is better begun anew than gone on with.
        state.sweep();
        loop {
            if let Some(lease) = state.space.pooled(stay) {
                return Ok(Some(lease));
            }
            if state.reserve_active_slot(&*self.zones, OpenReason::Data)? {
                break;
            }
            if let Some(lease) = state.space.take_any_idle() {
                return Ok(Some(lease));
            }
            self.wait(state)?;
            state.sweep();
        }
        self.update_settle_distance(state);
        let kept = self.reserve_for(state, stay.level);
        while state.space.free_chunks() <= kept && state.collect_one(self)? {}
        if state.space.free_chunks() > kept
            && let Some(lease) = state.lease_free(&*self.zones, stay)?
        {
            self.update_settle_distance(state);
            return Ok(Some(lease));
        }
        self.update_settle_distance(state);
        Ok(state.space.take_any_idle())
    }

    /// Sets how much has to be written after files until they count as quiescent in `settling`. Until
    /// then data uses space twice, and only space available to deep tables.
    fn update_settle_distance(&self, state: &State) {
        let kept = self.reserve_for(state, LIFETIMES - 1);
        state
            .space
            .update_settle_distance(&self.settling, state.space.free_chunks().saturating_sub(kept));
    }

    /// The free chunks that data of this lifetime leaves to others. Logs are flushed to tables of
    /// level 0, and deeper ones may not use their space. A compaction that finds no free chunk
    /// fails, returns its chunks, and can be repeated later.
    pub(crate) fn reserve_for(&self, state: &State, lifetime: Lifetime) -> u32 {
        let reserved = self.zones.geometry().chunks() as u32 / RESERVED_OF_CHUNKS;
        match lifetime {
            SHORTEST => KEPT_CHUNKS,
            LEVEL_0 => KEPT_CHUNKS + reserved,
            _ => KEPT_CHUNKS + reserved + state.chunks_for_tables(&[]),
        }
    }

    /// Free chunks that another chunk for a log that there is leaves to others.
    pub(crate) fn reserve_for_logs(&self) -> u32 {
        let state = self.state.lock();
        self.reserve_for(&state, LEVEL_0) + state.chunks_for_tables(&[])
    }

    /// Frees chunks for a log of `bytes` in `count` chunks. Returns how many chunks must stay free:
    /// those for flushing all logs to tables and, if other logs exist, those for flushing one more
    /// log. The last log that fits can then still be flushed, as can all before it. After that
    /// there is space for one more log, in which something can be deleted.
    pub(crate) fn reserve_log_space(&self, bytes: u64, count: u32) -> Result<u32> {
        let mut state = self.state.lock();
        let kept = match state.has_logs() {
            true => count + state.chunks_for_tables(&[bytes, bytes]),
            false => state.chunks_for_tables(&[bytes]),
        };
        let kept = kept + self.reserve_for(&state, LEVEL_0);
        self.make_free(&mut state, kept + count)?;
        match state.space.free_chunks() >= kept + count {
            true => Ok(kept),
            false => Err(state.no_room_for_log(self, kept)),
        }
    }

    /// A whole chunk, if that leaves so many free.
    pub(crate) fn lease_whole(&self, stay: LifetimeClass, kept: u32) -> Result<OpenChunk> {
        let mut state = self.state.lock();
        self.make_free(&mut state, kept + 1)?;
        if state.space.free_chunks() <= kept {
            return Err(state.no_room_for_log(self, kept));
        }
        let lease = state.lease_free(&*self.zones, stay)?;
        self.update_settle_distance(&state);
        lease.ok_or_else(|| state.device_full_error(self))
    }

    /// Moves live data until `wanted` chunks are free, or nothing more can be freed.
    fn make_free(&self, state: &mut MutexGuard<'_, State>, wanted: u32) -> Result<()> {
        loop {
            state.sweep();
            self.update_settle_distance(state);
            // The moved data may need a slot.
            while state.space.free_chunks() < wanted
                && !state.reserve_active_slot(&*self.zones, OpenReason::Must)?
            {
                self.wait(state)?;
            }
            while state.space.free_chunks() < wanted && state.collect_one(self)? {}
            if state.space.free_chunks() >= wanted || !self.wait_for_move(state) {
                return Ok(());
            }
        }
    }

    /// Waits for a wear-leveling move in progress, if any. It frees either its target chunk or its
    /// source chunk. The moving thread itself waits for no other.
    fn wait_for_move(&self, state: &mut MutexGuard<'_, State>) -> bool {
        let is_moving = state.levelling.is_moving();
        while state.levelling.is_moving() {
            self.given_back.wait(state);
        }
        is_moving
    }

    /// Gives back a chunk that was written up to `lease.at`.
    pub(crate) fn give_back(&self, state: &mut State, lease: OpenChunk, stay: LifetimeClass) {
        state.space.give_back(lease, stay);
        self.given_back.notify_all();
    }

    /// Gives back a chunk that is not to be written on.
    pub(crate) fn close(&self, chunk: Chunk) {
        self.state.lock().space.close(chunk);
        self.given_back.notify_all();
    }

    /// Drops pieces that no file received.
    pub(crate) fn discard_extents(&self, extents: &[Extent]) {
        let mut state = self.state.lock();
        let sequence = state.journal.sequence;
        extents.iter().for_each(|extent| state.space.remove(extent, sequence));
    }

    /// Takes a place for a chunk that has to be begun. It is taken until [`placed`](SharedDevice::placed).
    pub(crate) fn place(&self, chunk: Chunk) -> Result<()> {
        let mut state = self.state.lock();
        while !state.reserve_active_slot(&*self.zones, OpenReason::Must)? {
            self.wait(&mut state)?;
        }
        state.space.set_starting(chunk, true);
        Ok(())
    }

    /// A chunk for which a place was taken was written, or that failed: the device says now whether it is active.
    pub(crate) fn placed(&self, chunk: Chunk) {
        self.state.lock().space.set_starting(chunk, false);
        self.given_back.notify_all();
    }

    /// Waits until another writer has written a piece. No thread that owns a chunk waits.
    fn wait(&self, state: &mut MutexGuard<'_, State>) -> Result<()> {
        if state.space.open_chunks().next().is_none() {
            let what = "all chunks that may be written in part are";
            let source = io::Error::new(ErrorKind::ResourceBusy, what);
            return Err(Error::io("begin another chunk of", self.zones.describe(), source));
        }
        self.given_back.wait(state);
        Ok(())
    }

    /// Counts what a user wrote, and the bytes that it took on the device.
    pub(crate) fn count(&self, bytes: u64, taken: u64) {
        self.host_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.padding_bytes.fetch_add(taken - bytes, Ordering::Relaxed);
    }
}

impl State {
    /// Writes changes that were made to the names, and which chunks were reset meanwhile.
    pub(crate) fn write(&mut self, ops: &[JournalRecord]) -> Result<()> {
        let ops: Vec<JournalRecord> = ops.iter().cloned().chain(self.space.wear.tell()).collect();
        let (names, space) = (&self.names, &self.space);
        self.journal.write(&ops, || snapshot(names, space))
    }

    /// Writes which chunks logs have whose other ones have gone bad unused. What such a log is written next goes to a chunk behind
    /// them: were they still its own, the next open would take them for lost.
    fn write_shrunk(&mut self, logs: &[Arc<FileMeta>]) -> Result<()> {
        if logs.is_empty() {
            return Ok(());
        }
        let replaced =
            |log: &Arc<FileMeta>| JournalRecord::Replace(log.id, log.pieces.read().extents.clone());
        let ops: Vec<JournalRecord> = logs.iter().map(replaced).collect();
        self.write(&ops)?;
        self.journal.flush()
    }

    /// Writes that a file was made. It has no name if that fails.
    pub(crate) fn write_made(&mut self, name: &str, ops: &[JournalRecord]) -> Result<()> {
        let written = self.write(ops);
        if written.is_err() {
            self.take_out(name);
        }
        written
    }

    /// Removes a name. Its chunks become free when it has no reader and the edit is durable.
    pub(crate) fn take_out(&mut self, name: &str) -> bool {
        let found = self.names.remove(name);
        found.iter().for_each(|body| body.unlink());
        let sequence = self.journal.sequence + 1;
        let is_found = found.is_some();
        self.leaving.extend(found.map(|body| (body, sequence)));
        is_found
    }

    fn has_logs(&self) -> bool {
        self.names.values().any(|body| body.log_bytes.is_some())
    }

    /// How many chunks the tables take that all logs become, and `more` of so many bytes: one after the other, as a
    /// log's chunks are free when its table is there.
    fn chunks_for_tables(&self, more: &[u64]) -> u32 {
        let logs =
            self.names.values().filter_map(|body| body.log_bytes).chain(more.iter().copied());
        let (largest, all) =
            logs.fold((0, 0), |(largest, all), bytes| (bytes.max(largest), all + bytes));
        let bytes: u64 = largest + all / TABLE_OVER_LOG;
        bytes.div_ceil(self.space.geometry.chunk_bytes.into()) as u32
    }

    /// All files that take space.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &Arc<FileMeta>> + Clone {
        self.names.values().chain(self.leaving.iter().map(|(body, _)| body))
    }

    /// Releases the space of removed files without readers.
    pub(crate) fn sweep(&mut self) {
        let space = &mut self.space;
        self.leaving.retain(|(body, sequence)| {
            let is_read = Arc::strong_count(body) > 1;
            if !is_read {
                body.pieces
                    .read()
                    .extents
                    .iter()
                    .for_each(|extent| space.remove(extent, *sequence));
            }
            is_read
        });
    }

    /// A free chunk, reset. A chunk that cannot be reset is permanently excluded, and another is
    /// taken.
    pub(crate) fn lease_free(
        &mut self,
        zones: &dyn ChunkDevice,
        stay: LifetimeClass,
    ) -> Result<Option<OpenChunk>> {
        while let Some((chunk, free_after)) = self.space.free(stay.level) {
            let lease = self.make_ready(zones, stay, chunk, free_after)?;
            if lease.is_some() {
                return Ok(lease);
            }
        }
        Ok(None)
    }

    /// Resets a chunk that was taken, if it has to be, when the edit `free_after` is durable. `None` if it turns out bad.
    pub(crate) fn make_ready(
        &mut self,
        zones: &dyn ChunkDevice,
        stay: LifetimeClass,
        chunk: Chunk,
        free_after: u64,
    ) -> Result<Option<OpenChunk>> {
        zones.expect(chunk, stay.lifetime());
        if !self.space.needs_reset(chunk) {
            return Ok(Some(OpenChunk { chunk, at: 0 }));
        }
        if free_after > self.journal.durable()
            && let Err(error) = self.journal.flush()
        {
            self.space.close(chunk);
            return Err(error);
        }
        let outcome = zones.reset(chunk);
        let is_good = outcome.is_ok() || !zones.is_bad(chunk);
        self.space.was_reset(chunk, is_good);
        let index = self.space.geometry.index(chunk) as u32;
        self.gc_excluded.remove(&index);
        self.levelling.avoided.remove(&index);
        match outcome {
            Ok(()) => Ok(Some(OpenChunk { chunk, at: 0 })),
            Err(error) if is_good => {
                self.space.close(chunk);
                Err(error)
            }
            Err(_) => Ok(None),
        }
    }
}
