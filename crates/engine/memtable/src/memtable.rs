//! A segment with its index: where writes go first, and where reads look first.
//!
//! Thread safety: every method that takes `&self` may be called from any thread, at any time.
//!
//! Invariants:
//! 1. Entry number = seqno − the first seqno. Numbers are dense; so are the nodes.
//! 2. What the index or the order names is filled, and filled bytes never change.
//! 3. A reader passes a seqno at or below which everything is inserted (it is *visible*). Entries
//!    beyond it may be in the index already; they are stepped over.

mod frames;
mod growth;
mod keyspace_sizes;
mod rebuild;
mod versions;

use self::keyspace_sizes::KeyspaceSizes;
use crate::cursor::MemTableCursor;
use crate::frame::SegmentHeader;
use crate::hash_index::{HashIndex, hash_in};
use crate::log_reader::recheck;
use crate::loom_shim::Ordering;
use crate::range_tombstones::Tombstones;
use crate::segment::{
    EntryLinks, FrameMode, LogPosition, Memory, Reservation, Segment, SegmentWriter, Written,
    WrittenFrame,
};
use crate::sorted_index::{CHUNK_ENTRIES, SortedIndex, covered};
use esker_base::{
    Entry, Error, FragmentedTombstones, KeyspaceId, Kind, RangeTombstone, Result, Seqno, hash64,
};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A MemTable holds at most an entry for every so many bytes of its segment, so that the index,
/// which is allocated up front at 20 bytes an entry of that cap, stays below a third of it.
/// With 100-byte values that is about 47 bytes an entry written.
const MIN_BYTES_AN_ENTRY: usize = 64;

/// How many entries are hashed ahead of being inserted, so that their slots arrive in the cache.
const AHEAD: usize = 16;

/// After so many steps along a chain, a read asks the order instead, if that reaches far enough.
const CHAIN_STEPS: u32 = 32;

/// The newest version of a key at a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundVersion<'a> {
    /// The version's seqno.
    pub seqno: Seqno,
    /// A put, a delete or a merge.
    pub kind: Kind,
    /// The value or the operand; empty for a delete. It is in the segment.
    pub value: &'a [u8],
}

/// Where a version was met.
pub enum LookupOutcome<'a, C> {
    /// In the segment.
    Here(FoundVersion<'a>),
    /// Elsewhere: the copy that was asked for.
    Copy(C),
}

/// There is none.
enum Never {}

/// The arrays that a MemTable's index takes, to be used again.
pub struct RecycledArrays {
    nodes: EntryLinks,
    index: HashIndex,
}

impl RecycledArrays {
    /// Empty arrays for `entries` entries, touched.
    fn new(entries: usize) -> RecycledArrays {
        RecycledArrays { nodes: EntryLinks::new(entries), index: HashIndex::new(entries) }
    }

    /// Empty arrays for at least `entries` entries: these, unless they are too small, or so large that
    /// they would be spread over more cache lines than they need be.
    fn again(mut self, entries: usize) -> RecycledArrays {
        if !(entries..=2 * entries).contains(&self.nodes.len()) || !self.index.is_one() {
            return RecycledArrays::new(entries);
        }
        self.nodes.clear();
        self.index.clear();
        self
    }
}

/// See the module's text.
pub struct MemTable {
    segment: Segment,
    /// Whether its memory is touched as it fills.
    grows: bool,
    lowered: growth::Lowered,
    index: HashIndex,
    order: SortedIndex,
    tombstones: Tombstones,
    /// See [`MemTable::keyspace_sizes`].
    weighed: OnceLock<Vec<(KeyspaceId, u64)>>,
}

/// The most entries that a segment of so many bytes takes.
fn entry_cap(segment_bytes: usize) -> usize {
    segment_bytes / MIN_BYTES_AN_ENTRY
}

/// The entries in whole chunks, of so many.
fn closed(entries: u32) -> u32 {
    entries / CHUNK_ENTRIES * CHUNK_ENTRIES
}

impl MemTable {
    /// What the index uses for each entry that there is space for: a node, and a slot and a half.
    pub const INDEX_BYTES_AN_ENTRY: usize = 20;

    /// An empty MemTable in `memory`, into which it writes `header`, for as many entries as a segment
    /// of its size takes at most. Allocates and touches the index: this is for the background.
    pub fn new(memory: impl Into<Memory>, header: SegmentHeader, frames: FrameMode) -> MemTable {
        let entries = entry_cap(header.capacity as usize);
        MemTable::with_room_for(entries, memory, header, frames, None)
    }

    /// The same for `entries` entries, within what a segment of its size takes and what one batch may
    /// have; in `arrays`, if they suit.
    pub fn with_room_for(
        entries: usize,
        memory: impl Into<Memory>,
        header: SegmentHeader,
        frames: FrameMode,
        arrays: Option<RecycledArrays>,
    ) -> MemTable {
        let capacity = header.capacity as usize;
        let entries = entries.clamp(MemTable::max_frame_entries(capacity), entry_cap(capacity));
        let RecycledArrays { nodes, index } = match arrays {
            Some(arrays) => arrays.again(entries),
            None => RecycledArrays::new(entries),
        };
        MemTable::around(Segment::new(memory.into(), header, frames, nodes), index)
    }

    /// Takes the MemTable apart, to use its memory and its index's arrays again.
    pub fn into_parts(self) -> (Memory, RecycledArrays) {
        let MemTable { segment, index, .. } = self;
        let (memory, nodes) = segment.into_parts();
        (memory, RecycledArrays { nodes, index })
    }

    /// Uses memory and arrays again, for a segment of the same size and a new epoch.
    pub fn recycle(self, header: SegmentHeader) -> MemTable {
        let frames = self.segment.frames();
        let (memory, arrays) = self.into_parts();
        MemTable::with_room_for(arrays.nodes.len(), memory, header, frames, Some(arrays))
    }

    /// How many entries to have space for in a segment of `segment_bytes` that is filled with the like
    /// of this one's, and half as many again. `None` if nothing is in this one.
    ///
    /// An index that is no larger than need be is in fewer cache lines: each look into it is one miss,
    /// and a get looks into that of every MemTable.
    pub fn expected_entries(&self, segment_bytes: usize) -> Option<usize> {
        let entries = self.entries() * segment_bytes as u64 / self.bytes_used();
        (entries > 0).then_some((entries + entries / 2) as usize)
    }

    fn around(segment: Segment, index: HashIndex) -> MemTable {
        let (order, tombstones, weighed) =
            (SortedIndex::new(), Tombstones::default(), OnceLock::new());
        let (grows, lowered) = (false, Default::default());
        MemTable { segment, grows, lowered, index, order, tombstones, weighed }
    }

    /// Opens the MemTable for writing, once. The first entry will have the seqno `base_seqno`, at
    /// least 1. The tail belongs under the committer's lock.
    pub fn activate(&self, base_seqno: Seqno) -> SegmentWriter {
        self.segment.activate(base_seqno)
    }

    /// Takes space and seqnos for a batch of `count` entries, `entry_bytes` long when encoded.
    /// `None` if it is full: seal it and go on with the next. Runs under the committer's lock.
    #[inline]
    pub fn reserve(
        &self,
        tail: &mut SegmentWriter,
        entry_bytes: usize,
        count: u32,
    ) -> Option<Reservation> {
        self.segment.reserve(tail, entry_bytes, count)
    }

    /// Copies the encoded batch into its place, in parallel with other writers. `durable_through`
    /// is what is known durable now; it is below the reservation's seqnos.
    #[inline]
    pub fn fill<'a>(
        &'a self,
        reservation: Reservation,
        durable_through: Seqno,
        entries: &'a [u8],
    ) -> Written<'a> {
        let mut hash_of_first = None;
        let mut written = self.segment.fill(reservation, durable_through, entries, |at, entry| {
            if at < AHEAD as u32 {
                let hash = hash_in(entry.keyspace, hash64(entry.key));
                self.index.prefetch(hash);
                if at == 0 && entry.kind != Kind::RangeDelete {
                    hash_of_first = Some(hash);
                }
            }
        });
        written.filled.hash = hash_of_first;
        written
    }

    /// The position before the first frame of an active MemTable.
    pub fn start(&self) -> LogPosition {
        self.segment.start()
    }

    /// The end of the contiguous filled frames from `from` on.
    #[inline]
    pub fn completed(&self, from: LogPosition) -> LogPosition {
        self.segment.completed(from)
    }

    /// The bytes of the frames from `from` to `to`, as they go to the log file at `from.offset()`.
    pub fn bytes(&self, from: LogPosition, to: LogPosition) -> &[u8] {
        self.segment.bytes(from, to)
    }

    /// Whether a reader at `snapshot` may find anything here.
    #[inline]
    pub fn has_entries_through(&self, snapshot: Seqno) -> bool {
        self.segment.numbers_through(snapshot) > 0
    }

    /// Asks the processor for where a look for the key with `hash` begins.
    #[inline]
    pub fn prefetch(&self, keyspace: KeyspaceId, hash: u64) {
        self.index.prefetch(hash_in(keyspace, hash));
    }

    /// Indexes the entries of a frame that is durable. From here on, a reader whose snapshot reaches them can read
    /// them.
    #[inline]
    pub fn insert(&self, filled: &WrittenFrame) {
        let mut numbers = filled.take_numbers(&self.segment);
        if numbers.is_empty() {
            return;
        }
        if let Some(hash) = filled.hash {
            self.index.insert(self.segment.nodes(), hash, numbers.start);
            numbers.start += 1;
        }
        if !numbers.is_empty() {
            self.insert_numbers(numbers);
        }
    }

    /// Indexes the filled entries `numbers`, a handful at a time: first their slots are asked for.
    fn insert_numbers(&self, numbers: Range<u32>) {
        let mut start = numbers.start;
        while start < numbers.end {
            let end = numbers.end.min(start + AHEAD as u32);
            let mut hashes = [None; AHEAD];
            for (hash, number) in hashes.iter_mut().zip(start..end) {
                let entry = self.entry(number).expect("inserted entries are filled");
                match entry.kind {
                    Kind::RangeDelete => self.add_tombstone(number, &entry),
                    Kind::Put
                    | Kind::Delete
                    | Kind::Merge
                    | Kind::Combined
                    | Kind::Separated
                    | Kind::ExpiringPut => {
                        let mixed = hash_in(entry.keyspace, hash64(entry.key));
                        self.index.prefetch(mixed);
                        *hash = Some(mixed);
                    }
                }
            }
            for (hash, number) in hashes.into_iter().zip(start..end) {
                if let Some(hash) = hash {
                    self.index.insert(self.segment.nodes(), hash, number);
                }
            }
            start = end;
        }
    }

    fn add_tombstone(&self, number: u32, entry: &Entry<'_>) {
        let tombstone = RangeTombstone {
            start: entry.key.to_vec(),
            end: entry.value.to_vec(),
            seqno: self.seqno(number),
        };
        self.tombstones.add(entry.keyspace, tombstone);
    }

    /// Ends writing: no reservation will follow. Those made may still be filled and inserted.
    pub fn seal(&self, tail: SegmentWriter) {
        self.segment.seal(tail);
    }

    /// The seqno of the first entry, or 0 as long as the MemTable is not active.
    pub fn first_seqno(&self) -> Seqno {
        self.segment.base()
    }

    /// The seqno of the last entry reserved; one below the first seqno if there is none.
    pub fn last_seqno(&self) -> Seqno {
        (self.segment.base() + u64::from(self.segment.entries())).saturating_sub(1)
    }

    /// The number of entries reserved.
    pub fn entries(&self) -> u64 {
        u64::from(self.segment.entries())
    }

    /// The bytes of the segment in use, its header included.
    pub fn bytes_used(&self) -> u64 {
        u64::from(self.segment.bytes_used())
    }

    /// The DRAM taken: what there is of the segment, index and order.
    pub fn memory_bytes(&self) -> usize {
        let segment = match self.is_in_pmem() {
            true => 0,
            false => self.held().bytes as usize,
        };
        segment + self.index_bytes()
    }

    /// The DRAM that index and order take.
    pub fn index_bytes(&self) -> usize {
        self.held().entries as usize * EntryLinks::BYTES_AN_ENTRY
            + self.index.memory_bytes()
            + self.order.memory_bytes()
    }

    /// The epoch of the segment.
    pub fn epoch(&self) -> u32 {
        self.segment.header().epoch
    }

    /// The header of the segment.
    pub fn header(&self) -> &SegmentHeader {
        self.segment.header()
    }

    /// Whether the segment is in persistent memory, and so is its own log.
    pub fn is_in_pmem(&self) -> bool {
        matches!(self.segment.memory(), Memory::Pmem(_))
    }

    /// Whether no reservation will follow.
    pub fn is_sealed(&self) -> bool {
        self.segment.sealed()
    }

    /// Fails if a corrupt entry was met here: then nothing that was read here before counts. A caller of
    /// [`MemTable::get`], or one that has had the order built, asks this before it uses the answer; a cursor
    /// asks it by itself.
    #[inline]
    pub fn sound(&self) -> Result<()> {
        match self.segment.damage() {
            None => Ok(()),
            Some(at) => Err(self.damaged(at)),
        }
    }

    #[cold]
    fn damaged(&self, at: u32) -> Error {
        let log = format!("log {}", self.epoch());
        Error::corruption(log, u64::from(at), "an entry there no longer holds")
    }

    /// The newest version of `key`, whose [`hash64`] is `key_hash`, with a seqno at or below
    /// `snapshot`, if the MemTable is [sound](MemTable::sound) after this. Range deletes are not applied:
    /// see [`MemTable::range_tombstones`].
    #[inline]
    pub fn get(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        key_hash: u64,
        snapshot: Seqno,
    ) -> Option<FoundVersion<'_>> {
        match self.get_or_cached(keyspace, key, key_hash, snapshot, |_| None::<Never>)? {
            LookupOutcome::Here(found) => Some(found),
            LookupOutcome::Copy(never) => match never {},
        }
    }

    /// Like [`MemTable::get`], but asks `copy` for each version that may be the one, by its seqno,
    /// before it looks into the segment. `copy` answers only if it knows that `key` has a put with
    /// that very seqno.
    #[inline]
    pub fn get_or_cached<C>(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        key_hash: u64,
        snapshot: Seqno,
        copy: impl Fn(Seqno) -> Option<C>,
    ) -> Option<LookupOutcome<'_, C>> {
        let numbers = self.segment.numbers_through(snapshot);
        let hash = hash_in(keyspace, key_hash);
        let mut steps = 0;
        for part in self.index.parts() {
            let mut link = part.newest(hash);
            while link != 0 {
                let number = link - 1;
                if number < numbers {
                    if let Some(copy) = copy(self.seqno(number)) {
                        return Some(LookupOutcome::Copy(copy));
                    }
                    let entry = self.entry(number).expect("indexed entries are filled");
                    if entry.key == key && entry.keyspace == keyspace {
                        return Some(LookupOutcome::Here(self.found(number, entry)));
                    }
                }
                steps += 1;
                if steps == CHAIN_STEPS && numbers.min(number) <= self.order.covered() {
                    let found = self.find_in_order(keyspace, key, numbers.min(number));
                    return found.map(LookupOutcome::Here);
                }
                link = self.segment.nodes().node(number).older.load(Ordering::Acquire);
            }
        }
        None
    }

    /// The newest version of `key` among the first `numbers` entries, which the order covers.
    #[cold]
    fn find_in_order(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        numbers: u32,
    ) -> Option<FoundVersion<'_>> {
        self.order.runs().iter().rev().find_map(|run| {
            let part = run.part(keyspace)?;
            let item = part.items().get(part.seek(&self.segment, key, numbers))?;
            let entry = self.segment.entry(item.place());
            (entry.key == key).then(|| self.found(item.number(), entry))
        })
    }

    #[inline]
    fn found<'a>(&self, number: u32, entry: Entry<'a>) -> FoundVersion<'a> {
        self.segment.before_read(entry.key.len() + entry.value.len());
        FoundVersion { seqno: self.seqno(number), kind: entry.kind, value: entry.value }
    }

    #[inline]
    fn seqno(&self, number: u32) -> Seqno {
        self.segment.base() + u64::from(number)
    }

    #[inline]
    fn entry(&self, number: u32) -> Option<Entry<'_>> {
        Some(self.segment.entry(self.segment.nodes().place(number)?))
    }

    /// The segment, for cursors.
    #[inline]
    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// How many range deletes it holds.
    pub fn range_deletes(&self) -> usize {
        self.tombstones.count()
    }

    /// The range deletes in `keyspace`, every one inserted before; none is the common case and
    /// quick.
    #[inline]
    pub fn range_tombstones(&self, keyspace: KeyspaceId) -> Option<Arc<FragmentedTombstones>> {
        self.tombstones.get(keyspace)
    }

    /// The range deletes of `keyspace` as they were written.
    pub fn range_deletes_in(&self, keyspace: KeyspaceId) -> Vec<RangeTombstone> {
        self.tombstones.all(keyspace)
    }

    /// Sorts the closed chunks at or below `visible` that are not sorted yet, and merges what is too large
    /// for cursors; of an immutable MemTable that is visible as a whole, makes one run of everything. Any
    /// thread may call this, any time. It may meet corrupt entries: see [`MemTable::sound`].
    pub fn sort_through(&self, visible: Seqno) {
        let numbers = self.segment.numbers_through(visible);
        let entries = self.segment.entries();
        if self.is_sealed() && numbers >= entries {
            self.order.collapse(&self.segment, entries);
            return;
        }
        if self.needs_sort(visible) {
            self.order.extend(&self.segment, closed(numbers.min(entries)));
        }
    }

    /// Whether [`MemTable::sort_through`] has something to do. Large runs to be merged come about slowly:
    /// no thread is woken for them. What is not visible does not count: after a failed log it never will
    /// be.
    pub fn needs_sort(&self, visible: Seqno) -> bool {
        let numbers = self.segment.numbers_through(visible);
        let entries = self.segment.entries();
        if self.is_sealed() && numbers >= entries {
            return !self.order.is_one_run(entries);
        }
        let is_unsorted = closed(numbers.min(entries)) > self.order.covered();
        is_unsorted || self.order.has_large_runs_to_merge()
    }

    /// A cursor over the versions of `keyspace` at or below `visible`, all of which are inserted.
    pub fn cursor(self: &Arc<Self>, keyspace: KeyspaceId, visible: Seqno) -> MemTableCursor {
        let entries = self.segment.entries();
        let sealed = self.is_sealed();
        let numbers = self.segment.numbers_through(visible).min(entries);
        let runs = self.order.covering(&self.segment, numbers, sealed && numbers == entries);
        let seen = runs.iter().filter(|run| run.starts_below(numbers));
        let parts = seen.filter_map(|run| run.part(keyspace)).cloned();
        MemTableCursor::new(Arc::clone(self), numbers, parts.collect())
    }

    /// The keyspaces that have entries or range deletes here, in order.
    pub fn keyspaces(&self) -> Vec<KeyspaceId> {
        let mut keyspaces: BTreeSet<KeyspaceId> = self.tombstones.keyspaces().into_iter().collect();
        let runs = self.order.runs();
        keyspaces.extend(runs.iter().flat_map(|run| run.keyspaces()));
        // What no run covers yet, as far as it is filled.
        let mut last = None;
        for number in covered(&runs).. {
            let Some(entry) = self.entry(number) else { break };
            if last != Some(entry.keyspace) {
                last = Some(entry.keyspace);
                keyspaces.insert(entry.keyspace);
            }
        }
        keyspaces.into_iter().collect()
    }

    /// Works out [`MemTable::keyspace_sizes`] of an immutable MemTable all of whose entries are filled. Reads
    /// them all if they are of several keyspaces. It may meet corrupt entries: see [`MemTable::sound`].
    pub fn compute_keyspace_sizes(&self) {
        debug_assert!(self.is_sealed(), "what is weighed does not grow");
        self.weighed.get_or_init(|| {
            if let [only] = self.keyspaces()[..] {
                return vec![(only, self.bytes_used())];
            }
            let mut weights = KeyspaceSizes::default();
            for number in 0..self.segment.entries() {
                let Some(entry) = self.entry(number) else { break };
                weights.add(&entry);
            }
            weights.shares(self.bytes_used())
        });
    }

    /// What each keyspace that has entries here has of [`MemTable::bytes_used`], in proportion to its keys
    /// and values, in order of keyspaces. `None` before that was [worked out](MemTable::compute_keyspace_sizes).
    pub fn keyspace_sizes(&self) -> Option<&[(KeyspaceId, u64)]> {
        self.weighed.get().map(|weighed| &weighed[..])
    }

    /// Checks every complete frame against its checksum again, before its bytes become a table's.
    /// `file_name` is what a report names. Frames without checksums are taken as they are.
    pub fn verify(&self, file_name: &str) -> Result<()> {
        if self.segment.base() == 0 || self.segment.frames() == FrameMode::Unlogged {
            return Ok(());
        }
        let mut position = self.start();
        while let Some(next) = self.segment.after_frame(position) {
            let frame = self.bytes(position, next);
            if let Some(what) = recheck(frame, 0, self.header()) {
                return Err(Error::corruption(file_name, position.offset(), what));
            }
            position = next;
        }
        Ok(())
    }
}

impl std::fmt::Debug for MemTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemTable")
            .field("epoch", &self.epoch())
            .field("first_seqno", &self.first_seqno())
            .field("entries", &self.entries())
            .field("sealed", &self.is_sealed())
            .finish_non_exhaustive()
    }
}
