//! A partition: the keys whose hashes begin alike, in a region of the device of their own.
//!
//! It is a state machine without input, output, threads or time. Its owner gives it requests and
//! reports what became of the input and output it asked for, and takes from it what it wants done and
//! what it has to say. So the reactor that owns it never blocks, and a test can let it crash anywhere.
//!
//! **A store** writes one record, header, key and value, into blocks of the window (`space`), and is
//! acknowledged when a sync that began after the write has ended; one sync serves all records that were
//! written when it began. Then the directory is changed and the old record's blocks are freed. A store that is alone has its
//! record written durably: that takes a wait less than a write and a sync. **A delete**
//! writes a record without a value. Writes of one key take place one after the other.
//!
//! **With a volatile cache** ([`Partition::with_volatile_cache`]) a change takes effect and is acknowledged when its record is
//! written; a caller that wants it durable syncs the device. The directory then knows of records that a crash may take back, so a checkpoint is made of
//! what is known at one point in time, and written after a sync that began later: by then all that it says is safe. What is acknowledged meanwhile is
//! behind it, as what comes after any checkpoint does, so no request waits for that sync.
//!
//! **A checkpoint** (`checkpoint`) appends the directory's changes to the journal, or writes all of it to
//! the journal's other half, in pieces (`snapshot`), and says in which blocks, the window, later records will be. When it is durable, what was
//! freed before it can be used again. No step takes time in proportion to the keys, but for what `checkpoint` names.
//!
//! **Recovery** (`recover`) reads the journal and then the window. What makes it right:
//!
//! 1. Between two durable checkpoints every block is written at most once, so no record that was written since the last
//!    one has been overwritten.
//! 2. A record counts only if its seqno is above the checkpoint's, or if the checkpoint names it as late (it was on
//!    its way). All others are in the directory or dead. So what is in free blocks from earlier can't come back.
//! 3. Seqnos are not used twice: recovery goes on well above the highest that it has found.
//! 4. A block is freed only after what replaces its record is durable.
//!
//! A failed write or sync is never tried again: the partition then only reads, and opening the store anew recovers
//! what was acknowledged.

mod allocator;
mod checkpoint;
mod in_progress;
mod journal;
mod read;
mod request;
mod snapshot;
mod volatile_cache;
mod write;

pub use request::{Answer, Io, IoKind, Item, Reply, Request, StoreCondition};

use crate::extent::{Extent, Extents};
use crate::format::superblock::Layout;
use crate::keydir::{EXTENT_BLOCKS_MAX, KeyDir};
use crate::stats::PartitionStats;
use allocator::BlockAllocator;
use esker_base::{Error, Result};
use esker_uring::Slice;
use in_progress::{PendingWrite, Read, WritePlan};
use journal::{CheckpointInProgress, Journal, Snapshot};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use volatile_cache::UnflushedWrites;

/// The longest value, whatever the partition's size.
const VALUE_BYTES_MAX: u64 = 64 << 20;

/// The most stores and deletes on their way at a time; more wait. Each checkpoint lists them.
const CHANGES_MAX: usize = 1024;

/// What input or output was for.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// A part of a change's record.
    Record(u64),
    /// A change's record, which is safe when it is written.
    DurableRecord(u64),
    /// A part of a read.
    Read(u64, usize),
    Sync,
    Checkpoint,
    /// A piece of a snapshot.
    Piece,
    Mark,
}

/// A partition at work.
pub struct Partition {
    layout: Arc<Layout>,
    number: u32,
    /// The store's name, for messages.
    name: Arc<str>,
    directory: KeyDir,
    /// The bytes of a snapshot's entries, at the most: of a key that is being stored, the longer of its old and new one; and those that
    /// a crash may bring back.
    entry_bytes: u64,
    space: BlockAllocator,
    journal: Journal,
    checkpoint: Option<CheckpointInProgress>,
    snapshot: Option<Snapshot>,
    /// Pieces of a snapshot on their way.
    pieces_under_way: usize,
    /// The last one given.
    seqno: u64,
    /// Stores and deletes whose records are on their way, by seqno.
    changes: BTreeMap<u64, PendingWrite>,
    /// Keys that are being changed, and what waits for its turn.
    busy: BTreeMap<Vec<u8>, VecDeque<WritePlan>>,
    /// Changes that wait for space, with the number of checkpoints they have waited for.
    stalled: VecDeque<(WritePlan, u32)>,
    /// Changes that wait because too many are on their way, and deletes for which those leave no space.
    crowded: VecDeque<WritePlan>,
    /// Records that are written and wait for a sync.
    written: Vec<u64>,
    /// Those that the sync on its way covers.
    syncing: Option<Vec<u64>>,
    cache: UnflushedWrites,
    /// A checkpoint was wanted, and waits for a snapshot.
    is_checkpoint_due: bool,
    reads: BTreeMap<u64, Read>,
    next_read: u64,
    /// Parts of values that are here and wait for the others.
    held_bytes: usize,
    purposes: BTreeMap<u64, Purpose>,
    next_tag: u64,
    io: VecDeque<Io>,
    replies: VecDeque<Reply>,
    failed: Option<Error>,
    stats: PartitionStats,
}

/// Where a partition starts from.
pub(crate) struct Start {
    pub directory: KeyDir,
    /// The bytes of a snapshot's entries.
    pub entry_bytes: u64,
    pub free: Extents,
    pub seqno: u64,
    pub journal: Journal,
}

pub(crate) use journal::Journal as JournalState;

impl Partition {
    /// A partition as recovery found it. It takes changes after its first checkpoint.
    pub(crate) fn new(layout: Arc<Layout>, number: u32, name: Arc<str>, start: Start) -> Self {
        let Start { directory, entry_bytes, free, seqno, journal } = start;
        let space = BlockAllocator::new(free, layout.blocks(), layout.block_bytes);
        Partition {
            layout,
            number,
            name,
            directory,
            entry_bytes,
            space,
            journal,
            checkpoint: None,
            snapshot: None,
            pieces_under_way: 0,
            seqno,
            changes: BTreeMap::new(),
            busy: BTreeMap::new(),
            stalled: VecDeque::new(),
            crowded: VecDeque::new(),
            written: Vec::new(),
            syncing: None,
            cache: UnflushedWrites::default(),
            is_checkpoint_due: false,
            reads: BTreeMap::new(),
            next_read: 0,
            held_bytes: 0,
            purposes: BTreeMap::new(),
            next_tag: 0,
            io: VecDeque::new(),
            replies: VecDeque::new(),
            failed: None,
            stats: PartitionStats::default(),
        }
    }

    /// From now on stores and deletes are acknowledged when they are written: a sync of the device makes them safe.
    pub fn with_volatile_cache(mut self) -> Self {
        self.cache.switch_on();
        self
    }

    /// Which partition of its store it is.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Takes a request on. Its reply comes with `token`, now or later.
    pub fn request(&mut self, token: u64, request: Request) {
        match request {
            Request::Store(item, only) => self.plan(WritePlan::store(token, item, only)),
            Request::Delete(key) => self.plan(WritePlan::delete(token, key)),
            Request::Retrieve(key) => self.retrieve(token, key),
            Request::Exist(key) => {
                let found = self.directory.contains(&key);
                self.reply(token, Ok(if found { Answer::Present } else { Answer::Absent }));
            }
            Request::List { from, limit } => {
                let keys = self.list(from.as_deref(), limit);
                self.reply(token, Ok(Answer::Keys(keys)));
            }
        }
        self.checkpoint_if_wanted();
    }

    /// The next input or output to do. Reports may come in any order. A sync is for all that was reported until this is called: who has several
    /// requests or reports gives them before.
    pub fn take_io(&mut self) -> Option<Io> {
        if self.io.is_empty() {
            self.sync_if_wanted();
        }
        self.io.pop_front()
    }

    /// The next reply.
    pub fn take_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// Takes the report that the input or output of `tag` is done: the bytes moved, and the slice it
    /// was given.
    pub fn report(&mut self, tag: u64, result: io::Result<usize>, slice: Option<Slice>) {
        let Some(purpose) = self.purposes.remove(&tag) else { return };
        match purpose {
            Purpose::Read(read, part) => self.read_done(read, part, result, slice),
            _ if self.failed.is_some() => {}
            purpose => match result {
                Err(error) => {
                    let action = if matches!(purpose, Purpose::Sync) { "sync" } else { "write to" };
                    self.fail(Error::io(action, &*self.name, error));
                }
                Ok(_) => match purpose {
                    Purpose::Record(seqno) => self.record_written(seqno),
                    Purpose::DurableRecord(seqno) => self.change_takes_effect(seqno),
                    Purpose::Checkpoint => self.checkpoint_written(),
                    Purpose::Piece => self.piece_written(),
                    Purpose::Sync => self.synced(),
                    Purpose::Mark | Purpose::Read(..) => {}
                },
            },
        }
        self.checkpoint_if_wanted();
    }

    /// Begins a checkpoint of what has changed, if none is in progress: after it, opening has nothing to do.
    pub fn checkpoint(&mut self) {
        if self.failed.is_none() && self.checkpoint.is_none() && self.has_changes() {
            self.is_checkpoint_due = true;
            self.checkpoint_if_wanted();
        }
    }

    /// Whether nothing is in progress, nor waits for a sync that was not taken yet.
    pub fn is_idle(&self) -> bool {
        let has_checkpoint = self.checkpoint.is_some() || self.is_checkpoint_due;
        let is_clean = self.written.is_empty() && !has_checkpoint;
        self.purposes.is_empty() && (is_clean || self.failed.is_some())
    }

    /// The longest value that this partition takes.
    pub fn value_bytes_max(&self) -> usize {
        let block_bytes = self.layout.block_bytes;
        let window = allocator::window_blocks_max(self.layout.blocks(), block_bytes);
        let quarter = window.min(u64::from(EXTENT_BLOCKS_MAX)) / 4 * u64::from(block_bytes);
        quarter.min(VALUE_BYTES_MAX) as usize
    }

    /// The device bytes that records take.
    pub fn used_bytes(&self) -> u64 {
        (u64::from(self.layout.blocks()) - self.space.unused()) * u64::from(self.layout.block_bytes)
    }

    /// Its keys.
    pub fn keys(&self) -> u64 {
        self.directory.len() as u64
    }

    /// What has been read of values whose other parts have not, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Memory that the directory takes, in bytes.
    pub fn index_bytes(&self) -> u64 {
        self.directory.memory_bytes() as u64
    }

    /// Bytes of keys and values that were stored since it was opened, and those written to the device meanwhile.
    pub fn stored_and_written_bytes(&self) -> (u64, u64) {
        (self.stats.stored_bytes, self.stats.written_bytes)
    }

    /// Counters and sizes.
    pub fn stats(&self) -> PartitionStats {
        PartitionStats {
            keys: self.keys(),
            index_bytes: self.index_bytes(),
            unused_bytes: self.space.unused() * u64::from(self.layout.block_bytes),
            data_bytes: u64::from(self.layout.blocks()) * u64::from(self.layout.block_bytes),
            ..self.stats.clone()
        }
    }

    /// The failure after which nothing is written any more, if there was one.
    pub fn outcome(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// At most `limit` keys in order of (hash, key), from `from` on, which need not be there.
    pub fn list(&self, from: Option<&[u8]>, limit: usize) -> Vec<Vec<u8>> {
        self.keys_from(from).take(limit).map(<[u8]>::to_vec).collect()
    }

    /// The keys in order of (hash, key), from `from` on, which need not be there.
    pub fn keys_from(&self, from: Option<&[u8]>) -> impl Iterator<Item = &[u8]> {
        self.directory.keys_from(from)
    }

    fn reply(&mut self, token: u64, result: Result<Answer>) {
        self.replies.push_back(Reply { token, result });
    }

    fn do_io(&mut self, purpose: Purpose, what: IoKind) {
        self.next_tag += 1;
        self.purposes.insert(self.next_tag, purpose);
        self.io.push_back(Io { tag: self.next_tag, what });
    }

    fn write(&mut self, purpose: Purpose, offset: u64, from: Slice) {
        self.stats.written_bytes += from.len() as u64;
        self.do_io(purpose, IoKind::Write { offset, from });
    }

    fn write_durably(&mut self, purpose: Purpose, offset: u64, from: Slice) {
        self.stats.written_bytes += from.len() as u64;
        self.do_io(purpose, IoKind::WriteDurably { offset, from });
    }

    /// Goes on with a snapshot, and begins a checkpoint if one is wanted.
    fn checkpoint_if_wanted(&mut self) {
        if self.failed.is_some() {
            return;
        }
        self.continue_snapshot();
        let is_wanted = self.is_checkpoint_due
            || self.has_many_changes()
            || self.space.wants_checkpoint()
            || !self.stalled.is_empty();
        if is_wanted && self.checkpoint.is_none() {
            self.begin_checkpoint();
            self.is_checkpoint_due = self.checkpoint.is_none();
        }
    }

    /// The oldest read in progress, or the next one.
    fn oldest_read(&self) -> u64 {
        self.reads.first_key_value().map_or(self.next_read, |(&read, _)| read)
    }

    /// Only reads in progress need these blocks.
    fn free(&mut self, extents: &[Extent]) {
        self.space.free(extents, self.oldest_read(), self.next_read);
    }

    /// Begins a sync for all that waits for one.
    fn sync_if_wanted(&mut self) {
        let is_awaited = self.checkpoint.as_ref().is_some_and(CheckpointInProgress::waits_for_sync);
        let is_wanted = !self.written.is_empty() || is_awaited;
        if is_wanted && self.syncing.is_none() && self.failed.is_none() {
            self.syncing = Some(std::mem::take(&mut self.written));
            self.cache.sync_begins();
            if let Some(checkpoint) = &mut self.checkpoint {
                checkpoint.sync_begins();
            }
            self.stats.syncs += 1;
            self.do_io(Purpose::Sync, IoKind::Sync);
        }
    }

    /// A sync has ended.
    fn synced(&mut self) {
        self.entry_bytes -= self.cache.sync_ended();
        for seqno in self.syncing.take().unwrap_or_default() {
            self.change_takes_effect(seqno);
        }
        self.checkpoint_synced();
    }

    /// After a write that failed nothing is written any more.
    fn fail(&mut self, cause: Error) {
        let error = Error::LogFailed { cause: Arc::new(cause) };
        let under_way = std::mem::take(&mut self.changes).into_values().map(|change| change.token);
        let waiting = std::mem::take(&mut self.busy).into_values().flatten().map(|plan| plan.token);
        let stalled = std::mem::take(&mut self.stalled).into_iter().map(|(plan, _)| plan.token);
        let crowded = std::mem::take(&mut self.crowded).into_iter().map(|plan| plan.token);
        for token in under_way.chain(waiting).chain(stalled).chain(crowded).collect::<Vec<_>>() {
            self.reply(token, Err(error.clone()));
        }
        self.written.clear();
        self.syncing = None;
        self.failed = Some(error);
    }

    /// The offset on the device of a block of this partition.
    fn offset(&self, block: u32) -> u64 {
        self.layout.block(self.number, block)
    }

    fn damaged(&self, extents: &[Extent], what: &str) -> Error {
        let (store, what) = (self.name.to_string(), what.to_owned());
        Error::HashStoreDamaged { store, offset: self.offset(extents[0].start), what }
    }
}
