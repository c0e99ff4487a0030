//! Runs a history, in a pool that keeps each of its events.

use super::known::Mark;
use super::{Bounds, COMMITS_MAX, Mutation};

use crate::model::Batch;
use crate::pool::{EXTENT_BYTES, draw_batch, encode, one_line_batch};
use esker_api::WriteBatch;
use esker_base::{Rng, Seqno};
use esker_memtable::{FrameMode, MemTable, Memory, Reservation, SegmentHeader, SegmentWriter};
use esker_pmem::Pool;
use esker_pmem::sim::{History, SimRegion};
use std::collections::VecDeque;
use std::sync::Arc;

/// The pool, and the segment that is written to.
struct Writer {
    region: Arc<SimRegion>,
    pool: Arc<Pool>,
    active: Option<(Arc<MemTable>, SegmentWriter)>,
    epoch: u32,
    salt: u64,
    next_seqno: Seqno,
}

impl Writer {
    fn begin_segment(&mut self) {
        self.epoch += 1;
        let (epoch, capacity) = (self.epoch, EXTENT_BYTES as u64);
        let header =
            SegmentHeader { epoch, capacity, alignment: 64, key_id: 0, salt: self.salt, flags: 0 };
        let extent = self.pool.acquire(epoch, &header.encode()).expect("the pool is writable");
        let extent = extent.expect("an extent is free");
        let memtable = Arc::new(MemTable::new(Memory::Pmem(extent), header, FrameMode::Logged));
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
pub(super) struct Recorded {
    pub(super) history: History,
    pub(super) batches: Vec<WriteBatch>,
    /// The seqno of the first batch's first entry.
    pub(super) first_seqno: Seqno,
    pub(super) flushes: u64,
    pub(super) fences: u64,
}

/// Runs the history of `seed`.
pub(super) fn record(seed: u64, bounds: Bounds, mutation: Option<Mutation>) -> Recorded {
    let mut rng = Rng::new(seed ^ 0x0066_7261_6d65);
    let region = Arc::new(SimRegion::new((8 << 10) + 2 * EXTENT_BYTES));
    let pool = Pool::format(region.clone(), "pool", rng.next_u64()).expect("the size is in bounds");
    pool.claim(1).expect("the pool is nobody's");
    // No mark is zero: no epoch has that bit.
    let salt = Rng::new(seed).next_u64() | 1 << 31;
    let mut writer =
        Writer { region: region.clone(), pool, active: None, epoch: 0, salt, next_seqno: 1 };
    for _ in 0..rng.below(4) {
        writer.begin_segment();
        (0..rng.below(12)).for_each(|_| writer.commit(&[encode(&some_batch(&mut rng))]));
        writer.active = None;
        writer.recycle(writer.epoch, 0);
    }
    let first_seqno = writer.next_seqno;
    let count = 1 + rng.below(COMMITS_MAX);
    let draw = if bounds.one_line { one_line_batch } else { some_batch };
    let batches: Vec<_> = (0..count).map(|_| encode(&draw(&mut rng))).collect();
    let (flushes, fences) = (region.flushes(), region.fences());
    match mutation {
        Some(Mutation::DropFlush(number)) => region.drop_flush(flushes + number),
        Some(Mutation::DropFence(number)) => region.drop_fence(fences + number),
        None => {}
    }
    region.record();
    run(&mut writer, &batches, bounds, &mut rng);
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

pub(super) fn some_batch(rng: &mut Rng) -> Batch {
    loop {
        let batch = draw_batch(rng);
        if !batch.is_empty() {
            return batch;
        }
    }
}

fn run(writer: &mut Writer, batches: &[WriteBatch], bounds: Bounds, rng: &mut Rng) {
    writer.begin_segment();
    let mut oldest = (writer.epoch, 0);
    let mut done = 0;
    while done < batches.len() {
        let left = batches.len() - done;
        let writers = if rng.one_in(2) { 1 } else { 1 + rng.below(bounds.writers_max) };
        let together = left.min(writers as usize);
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
