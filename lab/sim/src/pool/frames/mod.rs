//! Extents, segments and frames, without the engine around them.
//!
//! A history has up to six commits, by one writer or by writers whose frames overlap and are fenced in
//! the reverse of their order; it may go on into a second segment, and recycle the first one's extent
//! for a third. Before it begins, the extents have been used by earlier segments, whose frames are
//! still there.

mod check;
mod known;
mod record;

use super::{Seen, encode};
use check::check;
use esker_base::Rng;
use esker_memtable::{FrameMode, HeapMemory, MemTable, SegmentHeader};
use esker_pmem::sim::ImageLoader;
use known::Known;
use record::{record, some_batch};

/// Something that is done on purpose, to see that it is noticed.
#[derive(Clone, Copy, Debug)]
pub enum Mutation {
    /// A flush, by its number in the history, does nothing.
    DropFlush(u64),
    /// A fence, by its number in the history, does nothing.
    DropFence(u64),
}

const COMMITS_MAX: u64 = 6;

/// What the frames of a history may be.
#[derive(Clone, Copy)]
struct Bounds {
    /// Each takes one cache line.
    one_line: bool,
    /// So many writers overlap.
    writers_max: u64,
}

/// More images at some points in time than can be inspected.
const ANY: Bounds = Bounds { one_line: false, writers_max: 3 };

/// Crashes the history of `seed` after each of its events, and inspects up to `most` images each time.
pub fn crash_everywhere(seed: u64, most: u64, mutation: Option<Mutation>) -> Result<Seen, String> {
    crash(seed, ANY, most, mutation)
}

/// Crashes a history of small frames after each of its events, and inspects all images there are: up to
/// 256 a point in time to the power of `writers`, which is how many may overlap.
pub fn enumerate(seed: u64, writers: u64) -> Result<Seen, String> {
    crash(seed, Bounds { one_line: true, writers_max: writers }, u64::MAX, None)
}

fn crash(seed: u64, bounds: Bounds, most: u64, mutation: Option<Mutation>) -> Result<Seen, String> {
    let recorded = record(seed, bounds, mutation);
    let mut rng = Rng::new(seed);
    let (mut replay, mut bench) = (recorded.history.replay(), ImageLoader::new());
    let mut seen = Seen { histories: 1, ..Seen::default() };
    loop {
        let known = Known::at(replay.marks());
        let state = replay.crash();
        let mut images = 0;
        for image in state.images(most, Rng::new(rng.next_u64())) {
            let region = bench.load(&image);
            images += 1;
            let found = check(&region, &known, &recorded).map_err(|what| {
                let words: Vec<_> = image.changes().collect();
                format!("frames, seed {seed}, moment {}: {what}; words {words:x?}", seen.moments)
            })?;
            seen.unacknowledged += u64::from(found > known.acknowledged);
        }
        seen.count_moment(&state, images);
        if replay.step().is_none() {
            return Ok(seen);
        }
    }
}

/// How many lines the history of `seed` flushes, and how often it fences.
pub fn flushes_and_fences(seed: u64) -> (u64, u64) {
    let recorded = record(seed, ANY, None);
    (recorded.flushes, recorded.fences)
}

/// The bytes of a segment with one frame, of seqno 1.
pub fn segment_of_one_frame(header: SegmentHeader) -> Vec<u8> {
    let heap = HeapMemory::new(header.capacity as usize);
    let memtable = MemTable::new(heap, header, FrameMode::Logged);
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
