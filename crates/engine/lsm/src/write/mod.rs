//! The write path: reserve, copy, index, make durable, acknowledge.
//!
//! ```text
//! put ─► reserve ──────► copy ─────────► index ──────► make durable ────► acknowledge
//!        short lock:     in parallel,    the ring      one appends what
//!        seqnos, space,  fenced in a     says how far  is complete, one
//!        a ticket        pool            all is done   syncs it if asked
//! ```
//!
//! * Space in the segment is in seqno order, so a crash preserves a prefix.
//! * A write is visible once it and all before it are indexed and as durable as the log's mode
//!   promises. Two marks say how far each has come, and the lower one counts. No reader and no flush ever sees a write
//!   that a crash could undo after an acknowledgement.
//! * Writers index while the device writes the previous group. When a sync ends, all that it covers
//!   is visible at once, and a woken writer has nothing left to do.
//! * A batch that is too large for one frame has several, contiguous and with one ticket: see
//!   `large_batch`. `ingest_slot` takes a seqno for tables that bypass the log.
//! * `group_commit` and `leader` append and sync for all writers at once, `completion_queue` is the
//!   ring, and `write_controller` throttles writers when background work falls behind: by
//!   `stall_inputs`. `visible_signal` wakes readers of the change feed.
//! * A failed append or sync disables the log permanently: what reached the device is unknown, and
//!   a retry proves nothing. Unacknowledged writers get the error; reads continue.

pub(crate) mod completion_queue;
pub(crate) mod drain_rates;
pub(crate) mod group_commit;
pub(crate) mod ingest_slot;
pub(crate) mod large_batch;
pub(crate) mod leader;
pub(crate) mod stall_inputs;
pub(crate) mod visible_signal;
pub(crate) mod write_controller;

use crate::log::segment_provider::LogSegment;
use crate::options::settings::{Log, SyncPolicy};
use crate::version::readers::known_empty::{KnownEmpty, PassedKeys};
use completion_queue::CompletionQueue;
use esker_api::WriteBatch;
use esker_base::{Error, Result, Seqno};
use esker_memtable::{MemTable, Reservation, Room, SegmentWriter};
use group_commit::GroupCommit;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use visible_signal::VisibleSignal;

/// Frames in flight, at most. Each writing thread has one, so more than any machine's threads.
const RING_SLOTS: usize = 4096;

/// A MemTable takes at most so many range deletes, and no batch may have more. Each of its fragments lists
/// every tombstone over it, which for ranges that all start alike makes n²/2 seqnos: 4 MiB here.
pub(crate) const RANGE_DELETES_MAX: usize = 1024;

/// How far an acknowledged write has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Durability {
    /// In DRAM only.
    Memory,
    /// In persistent memory, where it is: survives power loss.
    Fenced,
    /// In the operating system's hands: survives the process.
    Appended,
    /// On the device: survives power loss.
    Synced,
}

/// The write path's state. See the file's head.
pub(crate) struct CommitPipeline {
    durability: Durability,
    tail: Mutex<ActiveSegment>,
    /// Held while a large batch waits for segments and reserves its parts. Locked before `tail`.
    large: Mutex<()>,
    group: GroupCommit,
    ring: CompletionQueue,
    /// For readers of the change feed.
    pub(crate) signal: VisibleSignal,
    known_empty: Arc<KnownEmpty>,
    user_bytes: AtomicU64,
    writes: AtomicU64,
}

/// What the short lock protects.
pub(crate) struct ActiveSegment {
    active: Option<(LogSegment, SegmentWriter)>,
    /// The first seqno of the active segment.
    active_from: Seqno,
    /// How many range deletes are in it, those of writers on their way included.
    range_deletes: usize,
    /// Set permanently when the database closes.
    closed: bool,
    next_ticket: u64,
    next_seqno: Seqno,
    /// Batches that were prepared for another epoch of the indexes are not taken.
    index_epoch: u64,
    /// Once so much of the active segment is used, the background is to look ahead.
    wakes_at: Room,
}

/// What there is for a batch.
enum Place {
    Reserved(Reserved),
    /// The segment has to grow to this before.
    Grows(Arc<MemTable>, Room),
    /// Another segment is to follow.
    Full,
}

const NEVER: Room = Room { bytes: u32::MAX, entries: u32::MAX };

/// A frame's place, taken but not filled yet.
struct Reserved {
    memtable: Arc<MemTable>,
    reservation: Reservation,
    ticket: u64,
    last_seqno: Seqno,
    /// Whether the background is to look ahead.
    wakes: bool,
}

/// What a full, or missing, active segment asks of the database.
pub(crate) trait MemTableSwitch {
    /// Installs a prepared segment through [`ActiveSegmentGuard::activate`], if there is one. The lock is
    /// held: no waiting.
    fn rotate(&self, tail: &mut ActiveSegmentGuard<'_>) -> Result<bool>;
    /// Waits, without the lock, until `rotate` may succeed, or says why it will not.
    fn wait_for_segment(&self) -> Result<()>;
    /// Ends what `wait_for_segment` began: the active segment had a place for the writer. The lock is held.
    fn end_wait_for_segment(&self);
    /// Waits, without the lock, until `memtable` has `room`, or it is sealed.
    fn wait_for_room(&self, memtable: &MemTable, room: Room) -> Result<()>;
    /// Says that so much of the active segment is used that what follows is to be prepared.
    fn look_ahead(&self);
    /// Takes `count` prepared segments, if there are as many. The lock is held: no waiting.
    fn take_segments(&self, count: usize) -> Result<Option<Vec<LogSegment>>>;
    /// Makes a segment that was taken the active one.
    fn begin(&self, tail: &mut ActiveSegmentGuard<'_>, segment: LogSegment);
    /// Gives segments back that were taken and are not needed.
    fn put_back(&self, segments: Vec<LogSegment>);
    /// Waits, without the lock, until there may be `count` prepared segments, or says why there will not.
    fn wait_for_segments(&self, count: usize) -> Result<()>;
    /// Lets other writers have the segments that `wait_for_segments` waited for.
    fn want_no_segments(&self);
}

/// The short lock, held.
pub(crate) struct ActiveSegmentGuard<'a> {
    commit: &'a CommitPipeline,
    state: MutexGuard<'a, ActiveSegment>,
}

impl ActiveSegmentGuard<'_> {
    /// Makes `segment` the active one and seals the one before.
    pub(crate) fn activate(&mut self, segment: LogSegment) {
        let memtable = segment.memtable.clone();
        // The appender must find the next segment once it sees this one sealed.
        let base_seqno = self.state.next_seqno;
        let tail = memtable.activate(base_seqno);
        self.commit.group.push(segment.clone());
        // Also if nothing is in it: one that could not grow, for example. The appender stops at a segment that is
        // neither full nor sealed.
        if let Some((before, tail)) = self.state.active.take() {
            before.memtable.seal(tail);
        }
        self.state.wakes_at = wakes_at(&memtable);
        self.state.active = Some((segment, tail));
        self.state.active_from = base_seqno;
        self.state.range_deletes = 0;
    }

    /// Seals the active segment, if anything is in it: the next write starts another.
    pub(crate) fn seal(&mut self) {
        if self.state.next_seqno > self.state.active_from
            && let Some((segment, tail)) = self.state.active.take()
        {
            segment.memtable.seal(tail);
        }
    }

    /// Seals `memtable` if it is the active segment and anything is in it. Returns whether it is sealed.
    pub(crate) fn seal_segment(&mut self, memtable: &MemTable) -> bool {
        let active = self.active().map(|active| active.memtable.epoch());
        if active == Some(memtable.epoch()) {
            self.seal();
        }
        memtable.is_sealed()
    }

    /// Refuses all further writes, and seals the active segment even if nothing is in it.
    pub(crate) fn close(&mut self) {
        self.state.closed = true;
        if let Some((segment, tail)) = self.state.active.take() {
            segment.memtable.seal(tail);
        }
    }

    /// The active segment.
    pub(crate) fn active(&self) -> Option<&LogSegment> {
        self.state.active.as_ref().map(|(segment, _)| segment)
    }

    /// Lowers the limit of the active segment to `bytes`: see [`MemTable::lower`]. Not while it grows.
    pub(crate) fn lower(&mut self, bytes: u32) -> bool {
        let Some((LogSegment { memtable, .. }, tail)) = &self.state.active else { return false };
        let is_lowered = memtable.lower(tail, bytes);
        if is_lowered {
            let wakes_at = wakes_at(memtable);
            self.state.wakes_at = wakes_at;
        }
        is_lowered
    }

    /// The last seqno given out.
    pub(crate) fn last_seqno(&self) -> Seqno {
        self.state.next_seqno - 1
    }
}

impl CommitPipeline {
    /// A write path that continues after `last_seqno`, all of which is visible and durable.
    pub(crate) fn new(
        log: &Log,
        last_seqno: Seqno,
        known_empty: Arc<KnownEmpty>,
        index_epoch: u64,
    ) -> Self {
        let durability = match log {
            Log::None => Durability::Memory,
            Log::Pmem { .. } => Durability::Fenced,
            Log::File { sync: SyncPolicy::Always, .. } => Durability::Synced,
            Log::File { .. } => Durability::Appended,
        };
        CommitPipeline {
            durability,
            tail: Mutex::new(ActiveSegment {
                active: None,
                active_from: last_seqno + 1,
                range_deletes: 0,
                closed: false,
                next_ticket: 0,
                next_seqno: last_seqno + 1,
                index_epoch,
                wakes_at: NEVER,
            }),
            large: Mutex::new(()),
            group: GroupCommit::new(last_seqno),
            ring: CompletionQueue::new(RING_SLOTS, last_seqno),
            signal: VisibleSignal::default(),
            known_empty,
            user_bytes: AtomicU64::new(0),
            writes: AtomicU64::new(0),
        }
    }

    /// The last seqno that readers may see.
    #[inline]
    pub(crate) fn visible(&self) -> Seqno {
        let indexed = self.ring.indexed();
        match self.durability {
            // What is indexed in a pool was fenced before.
            Durability::Memory | Durability::Fenced => indexed,
            Durability::Appended => indexed.min(self.group.appended()),
            Durability::Synced => indexed.min(self.group.synced()),
        }
    }

    /// The last seqno known to survive power loss by the log alone.
    #[inline]
    pub(crate) fn synced(&self) -> Seqno {
        match self.durability {
            // Nothing is visible before it and all that comes before it was fenced.
            Durability::Fenced => self.ring.indexed(),
            _ => self.group.synced(),
        }
    }

    /// Takes the short lock.
    pub(crate) fn lock_active(&self) -> ActiveSegmentGuard<'_> {
        ActiveSegmentGuard { commit: self, state: self.tail.lock() }
    }

    /// Notes what a scan has passed.
    #[cold]
    pub(crate) fn add_known_empty(&self, passed: PassedKeys) {
        self.known_empty.add(passed, || self.lock_active().last_seqno());
    }

    /// Why the log ended, if it did.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.group.failure()
    }

    /// Bytes of keys and values written by users, batches and their entries' headers included, and
    /// the number of entries.
    pub(crate) fn written(&self) -> (u64, u64) {
        (self.user_bytes.load(Ordering::Relaxed), self.writes.load(Ordering::Relaxed))
    }

    /// Bytes appended to log files, and the number of appends and syncs.
    pub(crate) fn log_traffic(&self) -> group_commit::LogWriteStats {
        self.group.traffic()
    }

    /// Commits `batch`, which is valid and not empty. When this returns, the batch is visible, and
    /// as durable as the log's mode and the batch ask. Returns the seqno of its last entry. `None`, with
    /// nothing written, if the epoch of the indexes is not `index_epoch`.
    pub(crate) fn write(
        &self,
        batch: &WriteBatch,
        index_epoch: u64,
        rotation: &impl MemTableSwitch,
    ) -> Result<Option<Seqno>> {
        let Some(reserved) = self.reserve(batch, index_epoch, rotation)? else { return Ok(None) };
        let Reserved { memtable, reservation, ticket, last_seqno, wakes } = reserved;
        if wakes {
            rotation.look_ahead();
        }
        let given_up = || self.group.has_failed();
        if !self.ring.has_room(ticket) && !self.ring.wait_room(ticket, &given_up) {
            return Err(self.log_failed());
        }
        // Each writer fences its own frame: a fence orders only the stores of its own core.
        let filled = memtable.fill(reservation, self.synced(), batch.encoded()).fence();
        // What is visible is no measure of a batch that asks for more than the mode promises. It is
        // indexed only once it has that, so that if its sync fails nobody has seen it.
        let asks_more = self.durability == Durability::Appended && batch.wants_sync();
        if asks_more {
            self.make_durable(last_seqno, Durability::Synced)?;
        }
        memtable.insert(&filled);
        self.acknowledge(batch, ticket, last_seqno, asks_more).map(Some)
    }

    /// Begins an epoch of the indexes. Batches that were prepared before are taken no more. Those that
    /// were taken are visible once the next write is.
    pub(crate) fn begin_index_epoch(&self, index_epoch: u64) {
        self.tail.lock().index_epoch = index_epoch;
    }

    /// Ends a write whose entries are indexed. Returns once it is visible, and as durable as the log's mode
    /// promises unless it `is_durable` already.
    #[inline]
    fn acknowledge(
        &self,
        batch: &WriteBatch,
        ticket: u64,
        last_seqno: Seqno,
        is_durable: bool,
    ) -> Result<Seqno> {
        // No scan that sees the batch may find its keys in a range that is known to be empty.
        self.known_empty.cut(batch.encoded());
        self.ring.mark(ticket, last_seqno);
        if !is_durable {
            self.make_durable(last_seqno, self.durability)?;
        }
        self.user_bytes.fetch_add(batch.encoded().len() as u64, Ordering::Relaxed);
        self.writes.fetch_add(batch.len() as u64, Ordering::Relaxed);
        if !self.ring.wait_indexed(last_seqno, &|| self.group.has_failed()) {
            return Err(self.log_failed());
        }
        self.signal.announce();
        Ok(last_seqno)
    }

    /// Returns once everything up to `seqno` is as durable as that.
    #[inline]
    fn make_durable(&self, seqno: Seqno, durability: Durability) -> Result<()> {
        match durability {
            Durability::Memory | Durability::Fenced => Ok(()),
            Durability::Appended => self.finish(self.group.append_through(seqno)),
            Durability::Synced => self.finish(self.group.sync_through(seqno)),
        }
    }

    fn reserve(
        &self,
        batch: &WriteBatch,
        index_epoch: u64,
        rotation: &impl MemTableSwitch,
    ) -> Result<Option<Reserved>> {
        let mut has_waited = false;
        loop {
            let mut tail = self.lock_active();
            if self.group.has_failed() {
                return Err(self.log_failed());
            }
            if tail.state.closed {
                return Err(Error::Closed);
            }
            if tail.state.index_epoch != index_epoch {
                if has_waited {
                    rotation.end_wait_for_segment();
                }
                return Ok(None);
            }
            match tail.state.reserve(batch) {
                Place::Reserved(reserved) => {
                    if has_waited {
                        rotation.end_wait_for_segment();
                    }
                    return Ok(Some(reserved));
                }
                Place::Grows(memtable, room) => {
                    drop(tail);
                    rotation.wait_for_room(&memtable, room)?;
                    continue;
                }
                Place::Full => {}
            }
            if !rotation.rotate(&mut tail)? {
                drop(tail);
                has_waited = true;
                rotation.wait_for_segment()?;
            }
        }
    }

    /// Has writers wake the background again, once more of the active segment is used.
    pub(crate) fn look_ahead_again(&self) {
        let mut tail = self.lock_active();
        if let Some(LogSegment { memtable, .. }) = tail.active() {
            tail.state.wakes_at = wakes_at(memtable);
        }
    }

    /// Refuses all further writes and waits for those that have begun. False if the log failed, so
    /// that some of them never end.
    pub(crate) fn close(&self) -> bool {
        let last_seqno = {
            let mut tail = self.lock_active();
            tail.close();
            tail.last_seqno()
        };
        self.make_durable(last_seqno, self.durability).is_ok()
            && self.ring.wait_indexed(last_seqno, &|| self.group.has_failed())
    }

    /// Lets go of the segments of a log that has failed.
    pub(crate) fn release_failed(&self) {
        self.group.release_failed();
    }

    /// Says that everything up to `seqno` is in tables.
    pub(crate) fn flushed_through(&self, seqno: Seqno) {
        self.group.flushed_through(seqno);
        self.signal.announce();
    }

    /// Makes every write up to `seqno`, all of them visible, survive power loss.
    pub(crate) fn sync_through(&self, seqno: Seqno) -> Result<()> {
        if self.durability == Durability::Fenced {
            return Ok(());
        }
        self.make_durable(seqno, Durability::Synced)?;
        self.signal.announce();
        Ok(())
    }

    /// Whether each write is synced before it is acknowledged.
    pub(crate) fn syncs_each_write(&self) -> bool {
        self.durability == Durability::Synced
    }

    /// Whether writes are acknowledged before they are synced.
    pub(crate) fn syncs_later(&self) -> bool {
        self.durability == Durability::Appended
    }

    /// Makes every write that is visible now survive power loss.
    pub(crate) fn sync(&self) -> Result<()> {
        if self.durability == Durability::Memory {
            return Ok(());
        }
        self.sync_through(self.visible())
    }

    /// Turns a failed append or sync into the error that writers get, and releases all callers that
    /// waits behind it.
    fn finish(&self, outcome: Result<()>) -> Result<()> {
        outcome.map_err(|_| {
            self.ring.wake_all();
            self.signal.announce();
            self.log_failed()
        })
    }

    fn log_failed(&self) -> Error {
        let cause = self.group.failure().expect("called only after a failure");
        Error::LogFailed { cause: Arc::new(cause) }
    }
}

impl ActiveSegment {
    /// A place for `batch` in the active segment.
    fn reserve(&mut self, batch: &WriteBatch) -> Place {
        let Some((LogSegment { memtable, .. }, tail)) = self.active.as_mut() else {
            return Place::Full;
        };
        let range_deletes = self.range_deletes + batch.range_deletes();
        if range_deletes > RANGE_DELETES_MAX {
            return Place::Full;
        }
        let count = batch.len() as u32;
        let bytes = batch.encoded().len();
        let Some(reservation) = memtable.reserve(tail, bytes, count) else {
            let room = memtable.room_for(tail, bytes, count);
            return room.map_or(Place::Full, |room| Place::Grows(memtable.clone(), room));
        };
        let memtable = memtable.clone();
        self.range_deletes = range_deletes;
        self.next_seqno += u64::from(count);
        let ticket = self.take_ticket();
        let last_seqno = self.next_seqno - 1;
        let wakes = self.takes_up(&memtable);
        Place::Reserved(Reserved { memtable, reservation, ticket, last_seqno, wakes })
    }

    /// Whether so much of the active segment is used that the background is to look ahead.
    fn takes_up(&mut self, memtable: &MemTable) -> bool {
        let used = memtable.used();
        let wakes = used.bytes >= self.wakes_at.bytes || used.entries >= self.wakes_at.entries;
        if wakes {
            // One that grows has others look ahead again once it has.
            self.wakes_at = if memtable.is_whole() { wakes_at(memtable) } else { NEVER };
        }
        wakes
    }

    fn take_ticket(&mut self) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        ticket
    }
}

/// When the background is to look ahead next: before a segment that grows is full, so that it grows in
/// time, and at two points of a whole one, so that the next is prepared.
fn wakes_at(memtable: &MemTable) -> Room {
    let (used, room) = (memtable.used(), memtable.room());
    // What was reached already was looked at.
    let next = |used, at| if used < at { at } else { u32::MAX };
    if !memtable.is_whole() {
        let from = memtable.lowered_at();
        let bytes = from + room.bytes.saturating_sub(from) / 2;
        return Room {
            bytes: next(used.bytes, bytes),
            entries: next(used.entries, room.entries / 2),
        };
    }
    let points = LOOKS_AHEAD_AT.map(|eighths| eighths_of(room, eighths));
    points.into_iter().fold(NEVER, |first, at| {
        let at =
            Room { bytes: next(used.bytes, at.bytes), entries: next(used.entries, at.entries) };
        first.and(at)
    })
}

/// How much of a segment is used, in eighths, when the next one is prepared: of the memory that a
/// flush leaves, if it is over by the second.
pub(crate) const LOOKS_AHEAD_AT: [u32; 2] = [4, 6];

/// A part of a segment.
pub(crate) fn eighths_of(room: Room, eighths: u32) -> Room {
    Room { bytes: room.bytes / 8 * eighths, entries: room.entries / 8 * eighths }
}
