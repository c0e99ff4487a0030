//! Extents, segments and frames, without the engine around them.
//!
//! A history has up to six commits, by one writer or by writers whose frames overlap and are fenced in
//! the reverse of their order; it may go on into a second segment, and recycle the first one's extent
//! for a third. Before it begins, the extents have been used by earlier segments, whose frames are
//! still there.

use super::{EXTENT_BYTES, Seen, draw_batch, encode};
use crate::model::Batch;
use esker_api::WriteBatch;
use esker_base::{KeyspaceId, Kind, Rng, Seqno, hash64};
use esker_memtable::{
    Frames, HeapMemory, MemTable, Memory, Reservation, SegmentHeader, Tail, scan,
};
use esker_pmem::Pool;
use esker_pmem::sim::{Bench, History, SimRegion};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

const COMMITS_MAX: u64 = 6;

/// Something that is done on purpose, to see that it is noticed.
#[derive(Clone, Copy, Debug)]
pub enum Mutation {
    /// A flush, by its number in the history, does nothing.
    DropFlush(u64),
    /// A fence, by its number in the history, does nothing.
    DropFence(u64),
}

/// What a mark in the pool's history says.
#[derive(Clone, Copy)]
enum Mark {
    /// The manifest lists the segment of this epoch.
    Listed(u32),
    /// So many of the history's batches are acknowledged.
    Acknowledged(u32),
    /// The segment of this epoch is in tables, and so are so many batches.
    Flushed(u32, u32),
    /// The extent of this epoch's segment is free.
    Released(u32),
}

impl Mark {
    fn encode(self) -> u64 {
        let (kind, a, b) = match self {
            Mark::Listed(epoch) => (0, epoch, 0),
            Mark::Acknowledged(batches) => (1, batches, 0),
            Mark::Flushed(epoch, batches) => (2, epoch, batches),
            Mark::Released(epoch) => (3, epoch, 0),
        };
        kind << 60 | u64::from(a) << 28 | u64::from(b)
    }

    fn decode(mark: u64) -> Mark {
        let (a, b) = ((mark >> 28) as u32, mark as u32 & 0xfff_ffff);
        match mark >> 60 {
            0 => Mark::Listed(a),
            1 => Mark::Acknowledged(a),
            2 => Mark::Flushed(a, b),
            _ => Mark::Released(a),
        }
    }
}

/// What the manifest and the writers knew at some moment.
#[derive(Default)]
struct Known {
    listed: BTreeSet<u32>,
    released: BTreeSet<u32>,
    acknowledged: usize,
    flushed: usize,
}

impl Known {
    fn at(marks: &[u64]) -> Known {
        let mut known = Known::default();
        for &mark in marks {
            match Mark::decode(mark) {
                Mark::Listed(epoch) => drop(known.listed.insert(epoch)),
                Mark::Released(epoch) => drop(known.released.insert(epoch)),
                Mark::Acknowledged(batches) => known.acknowledged = batches as usize,
                Mark::Flushed(epoch, batches) => {
                    known.listed.remove(&epoch);
                    known.flushed = batches as usize;
                }
            }
        }
        known
    }
}

/// The pool, and the segment that is written to.
struct Writer {
    region: Arc<SimRegion>,
    pool: Arc<Pool>,
    active: Option<(Arc<MemTable>, Tail)>,
    epoch: u32,
    next_seqno: Seqno,
}

impl Writer {
    fn begin_segment(&mut self) {
        self.epoch += 1;
        let (epoch, capacity) = (self.epoch, EXTENT_BYTES as u64);
        let header = SegmentHeader { epoch, capacity, alignment: 64, key_id: 0 };
        let extent = self.pool.acquire(epoch, &header.encode()).expect("the pool is writable");
        let extent = extent.expect("an extent is free");
        let memtable = Arc::new(MemTable::new(Memory::Pmem(extent), header, Frames::Logged));
        let tail = memtable.activate(self.next_seqno);
        self.region.mark(Mark::Listed(epoch).encode());
        self.active = Some((memtable, tail));
    }

    /// Gives the segment `epoch` back, with the first `batches` of the history in tables.
    fn recycle(&mut self, epoch: u32, batches: usize) {
        self.region.mark(Mark::Flushed(epoch, batches as u32).encode());
        self.pool.release(epoch).expect("the pool is writable");
        self.region.mark(Mark::Released(epoch).encode());
    }

    /// Commits batches whose writers overlap. All before them are acknowledged.
    fn commit(&mut self, batches: &[WriteBatch]) {
        let durable_through = self.next_seqno - 1;
        let (memtable, tail) = self.active.as_mut().expect("a segment is active");
        let mut reserve = |batch: &WriteBatch| {
            let (bytes, count) = (batch.encoded().len(), batch.len() as u32);
            memtable.reserve(tail, bytes, count).expect("the segment has room")
        };
        let frames = batches.iter().map(|batch| (reserve(batch), batch)).collect();
        self.next_seqno += batches.iter().map(|batch| batch.len() as u64).sum::<u64>();
        write_nested(memtable, frames, durable_through);
    }
}

/// Each writer stores its frame, lets the writers after it finish on threads of their own, and fences
/// then.
fn write_nested(
    memtable: &MemTable,
    mut frames: VecDeque<(Reservation, &WriteBatch)>,
    durable_through: Seqno,
) {
    let Some((reservation, batch)) = frames.pop_front() else { return };
    let written = memtable.fill(reservation, durable_through, batch.encoded());
    if !frames.is_empty() {
        std::thread::scope(|scope| {
            scope.spawn(move || write_nested(memtable, frames, durable_through));
        });
    }
    memtable.insert(&written.fence());
}

/// A history, and what was written in it.
struct Recorded {
    history: History,
    batches: Vec<WriteBatch>,
    /// The seqno of the first batch's first entry.
    first_seqno: Seqno,
    flushes: u64,
    fences: u64,
}

/// Runs the history of `seed`.
fn record(seed: u64, mutation: Option<Mutation>) -> Recorded {
    let mut rng = Rng::new(seed ^ 0x0066_7261_6d65);
    let region = Arc::new(SimRegion::new((8 << 10) + 2 * EXTENT_BYTES));
    let pool = Pool::format(region.clone(), "pool", rng.next_u64()).expect("the size is in bounds");
    pool.claim(1).expect("the pool is nobody's");
    let mut writer = Writer { region: region.clone(), pool, active: None, epoch: 0, next_seqno: 1 };
    for _ in 0..rng.below(4) {
        writer.begin_segment();
        (0..rng.below(12)).for_each(|_| writer.commit(&[encode(&some_batch(&mut rng))]));
        writer.active = None;
        writer.recycle(writer.epoch, 0);
    }
    let first_seqno = writer.next_seqno;
    let count = 1 + rng.below(COMMITS_MAX);
    let batches: Vec<_> = (0..count).map(|_| encode(&some_batch(&mut rng))).collect();
    let (flushes, fences) = (region.flushes(), region.fences());
    match mutation {
        Some(Mutation::DropFlush(number)) => region.drop_flush(flushes + number),
        Some(Mutation::DropFence(number)) => region.drop_fence(fences + number),
        None => {}
    }
    region.record();
    run(&mut writer, &batches, &mut rng);
    writer.active = None;
    assert_eq!(region.untracked_store(), None, "every store goes through the region");
    Recorded {
        history: region.take_history().expect("it was recorded"),
        batches,
        first_seqno,
        flushes: region.flushes() - flushes,
        fences: region.fences() - fences,
    }
}

fn some_batch(rng: &mut Rng) -> Batch {
    loop {
        let batch = draw_batch(rng);
        if !batch.is_empty() {
            return batch;
        }
    }
}

fn run(writer: &mut Writer, batches: &[WriteBatch], rng: &mut Rng) {
    writer.begin_segment();
    let mut oldest = (writer.epoch, 0);
    let mut done = 0;
    while done < batches.len() {
        let left = batches.len() - done;
        let together = if rng.one_in(2) { 1 } else { 1 + rng.below(3) as usize }.min(left);
        writer.commit(&batches[done..done + together]);
        done += together;
        writer.region.mark(Mark::Acknowledged(done as u32).encode());
        if !rng.one_in(3) {
            continue;
        }
        if writer.pool.free() == 0 {
            writer.recycle(oldest.0, oldest.1);
        }
        oldest = (writer.epoch, done);
        let (memtable, tail) = writer.active.take().expect("a segment is active");
        memtable.seal(tail);
        drop(memtable);
        writer.begin_segment();
    }
}

/// What is wrong with an image.
type Wrong = String;

/// What recovery finds in `region`. The number of batches.
fn check(region: &Arc<SimRegion>, known: &Known, recorded: &Recorded) -> Result<usize, Wrong> {
    let pool = Pool::over(region.clone(), "pool").map_err(|error| error.to_string())?;
    let used = pool.used();
    if let Some(lost) = known.listed.iter().find(|epoch| !used.contains(epoch)) {
        return Err(format!("segment {lost} is listed and gone"));
    }
    if let Some(back) = known.released.iter().find(|epoch| used.contains(epoch)) {
        return Err(format!("segment {back} was released and is back"));
    }
    for &epoch in used.iter().filter(|epoch| !known.listed.contains(epoch)) {
        let mut memory = Memory::Pmem(pool.extent(epoch).ok_or("an extent is in use")?);
        SegmentHeader::decode(memory.contents(), "extent").map_err(|error| error.to_string())?;
    }
    let lengths = recorded.batches.iter().map(|batch| batch.len() as u64);
    let start = lengths.clone().take(known.flushed).sum::<u64>();
    let mut expected = recorded.first_seqno + start;
    let mut found = known.flushed;
    let mut durable_through = 0;
    let mut memtables = Vec::new();
    for &epoch in &known.listed {
        let extent = pool.extent(epoch).ok_or("an extent is in use")?;
        let mut memory = Memory::Pmem(extent);
        let header = SegmentHeader::decode(memory.contents(), "extent")
            .map_err(|error| error.to_string())?;
        if header.epoch != epoch {
            return Err(format!("the header of segment {epoch} is that of {}", header.epoch));
        }
        let scanned = scan(memory.contents(), &header, Some(expected));
        durable_through =
            scanned.later.map_or(0, |later| later.durable_through).max(durable_through);
        for frame in &scanned.frames {
            let batch = recorded.batches.get(found).ok_or("there is a frame that nobody wrote")?;
            let start = frame.offset as usize + 32;
            if memory.contents()[start..].get(..batch.encoded().len()) != Some(batch.encoded())
                || frame.count as usize != batch.len()
            {
                return Err(format!("frame {found} is not what was written"));
            }
            found += 1;
            expected = frame.next_seqno();
        }
        if !scanned.frames.is_empty() {
            memory.make_durable(&scanned);
            memtables.push(MemTable::recover(memory, header, &scanned));
        }
    }
    if durable_through >= expected {
        return Err(format!("a torn end reads as damage: {durable_through} is said to be durable"));
    }
    if found < known.acknowledged {
        return Err(format!("{found} of {} batches are there", known.acknowledged));
    }
    check_reads(&memtables, &recorded.batches[known.flushed..found])?;
    Ok(found)
}

/// Compares what readers of `memtables`, oldest first, get with `batches`.
fn check_reads(memtables: &[MemTable], batches: &[WriteBatch]) -> Result<(), Wrong> {
    let entries = batches.iter().flat_map(|batch| {
        let mut rest = batch.encoded();
        std::iter::from_fn(move || esker_base::Entry::decode(&mut rest))
    });
    let entries: Vec<_> = entries.collect();
    for (at, entry) in entries.iter().enumerate() {
        let same = |other: &&esker_base::Entry<'_>| {
            other.key == entry.key && other.kind != Kind::RangeDelete
        };
        if entry.kind == Kind::RangeDelete || entries[at + 1..].iter().any(|other| same(&other)) {
            continue;
        }
        let found = memtables.iter().rev().find_map(|memtable| {
            let hash = hash64(entry.key);
            memtable.get(KeyspaceId::DEFAULT, entry.key, hash, memtable.last_seqno())
        });
        if found.is_none_or(|found| (found.kind, found.value) != (entry.kind, entry.value)) {
            return Err(format!("a get of \"{}\" is wrong", entry.key.escape_ascii()));
        }
    }
    let deletes = entries.iter().filter(|entry| entry.kind == Kind::RangeDelete).count();
    let found: usize = memtables.iter().map(|memtable| memtable.range_deletes()).sum();
    if found != deletes {
        return Err(format!("{found} range deletes are there, and {deletes} were written"));
    }
    Ok(())
}

/// Crashes the history of `seed` after each of its events, and looks at up to `most` images each time.
pub fn crash_everywhere(seed: u64, most: u64, mutation: Option<Mutation>) -> Result<Seen, String> {
    let recorded = record(seed, mutation);
    let mut rng = Rng::new(seed);
    let (mut replay, mut bench) = (recorded.history.replay(), Bench::new());
    let mut seen = Seen { histories: 1, ..Seen::default() };
    loop {
        let known = Known::at(replay.marks());
        let state = replay.crash();
        seen.moments += 1;
        for image in state.images(most, Rng::new(rng.next_u64())) {
            let region = bench.load(&image);
            seen.images += 1;
            let found = check(&region, &known, &recorded).map_err(|what| {
                let words: Vec<_> = image.changes().collect();
                format!("frames, seed {seed}, moment {}: {what}; words {words:x?}", seen.moments)
            })?;
            seen.unacknowledged += u64::from(found > known.acknowledged);
        }
        if replay.step().is_none() {
            return Ok(seen);
        }
    }
}

/// How many lines the history of `seed` flushes, and how often it fences.
pub fn flushes_and_fences(seed: u64) -> (u64, u64) {
    let recorded = record(seed, None);
    (recorded.flushes, recorded.fences)
}

/// The bytes of a segment with one frame, of seqno 1.
pub fn segment_of_one_frame(header: SegmentHeader) -> Vec<u8> {
    let heap = HeapMemory::new(header.capacity as usize);
    let memtable = MemTable::new(heap, header, Frames::Logged);
    let mut tail = memtable.activate(1);
    let batch = encode(&some_batch(&mut Rng::new(1)));
    let reserved = memtable.reserve(&mut tail, batch.encoded().len(), batch.len() as u32);
    let reserved = reserved.expect("the segment has room");
    memtable.insert(&memtable.fill(reserved, 0, batch.encoded()).fence());
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(memtable.bytes(memtable.start(), memtable.completed(memtable.start())));
    bytes.resize(header.capacity as usize, 0);
    bytes
}
