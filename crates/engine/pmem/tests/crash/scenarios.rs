//! What pools do.

use super::frames::{commit, frame_bytes, frames_in, segment_header};
use super::{Scenario, bytes};
use esker_base::coding::u64_at;
use esker_base::{Error, Rng};
use esker_pmem::pool::examine;
use esker_pmem::sim::SimRegion;
use esker_pmem::{Arena, Pool};
use std::sync::Arc;

const BYTES: usize = 256 << 10;
const OLD: u64 = 0x1111_2222_3333_4444;
const NEW: u64 = 0x9999_aaaa_bbbb_cccc;

pub const ALL: [Scenario; 8] = [
    Scenario {
        name: "create over anything",
        start: garbage,
        run: create,
        check: |region, marks| match Pool::over(region.clone(), "pool") {
            Err(Error::PoolRefused { .. }) if marks.is_empty() => Ok(()),
            found => is_fresh(found, NEW),
        },
    },
    Scenario {
        name: "create over an old pool",
        start: old_pool,
        run: create,
        check: |region, marks| match Pool::over(region.clone(), "pool") {
            Err(Error::PoolRefused { .. }) if marks.is_empty() => Ok(()),
            Ok(pool) if marks.is_empty() && pool.identity() == OLD => {
                expect("the old pool", (pool.used(), pool.owner()), (vec![7], Some(70)))
            }
            found => is_fresh(found, NEW),
        },
    },
    Scenario {
        name: "claim",
        start: new_pool,
        run: |region| {
            open(region).claim(70).unwrap();
            region.mark(1);
        },
        check: |region, marks| {
            let owner = Pool::over(region.clone(), "pool").map_err(|e| e.to_string())?.owner();
            match marks {
                [] if owner.is_none() => Ok(()),
                _ => expect("the owner", owner, Some(70)),
            }
        },
    },
    Scenario { name: "acquire", start: new_pool, run: acquire, check: segments_hold },
    Scenario { name: "acquire again", start: used_pool, run: acquire, check: segments_hold },
    Scenario {
        name: "release",
        start: old_pool,
        run: |region| {
            let pool = open(region);
            region.mark(Mark::Releasing.of(7));
            pool.release(7).unwrap();
            region.mark(Mark::Released.of(7));
        },
        check: segments_hold,
    },
    Scenario { name: "six commits", start: used_pool, run: six_commits, check: segments_hold },
    Scenario { name: "linked pieces", start: used_pool, run: link_pieces, check: pieces_follow },
];

/// Scenarios that flush and fence the same, so that a flush is needed if one of them needs it.
pub const GROUPS: &[&[&str]] = &[
    &["create over anything", "create over an old pool"],
    &["claim"],
    &["acquire"],
    &["acquire again"],
    &["release"],
    &["six commits"],
    &["linked pieces"],
];

/// What has been said of an epoch in the high half of a mark.
#[derive(Clone, Copy)]
enum Mark {
    Acquired = 1,
    Committed,
    Releasing,
    Released,
}

impl Mark {
    fn of(self, epoch: u32) -> u64 {
        (self as u64) << 32 | u64::from(epoch)
    }

    fn count(self, marks: &[u64], epoch: u32) -> usize {
        marks.iter().filter(|&&mark| mark == self.of(epoch)).count()
    }
}

fn garbage() -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    Rng::new(3).fill(&mut bytes);
    bytes
}

fn new_pool() -> Vec<u8> {
    let region = Arc::new(SimRegion::new(BYTES));
    Pool::format(region.clone(), "pool", OLD).unwrap();
    bytes(&region).to_vec()
}

/// A pool with an owner and a segment.
fn old_pool() -> Vec<u8> {
    let region = Arc::new(SimRegion::from_bytes(&new_pool()));
    let pool = open(&region);
    pool.claim(70).unwrap();
    pool.acquire(7, &segment_header(7)).unwrap().unwrap();
    bytes(&region).to_vec()
}

/// A pool whose extents have all been used, and hold what was left there.
fn used_pool() -> Vec<u8> {
    let region = Arc::new(SimRegion::from_bytes(&new_pool()));
    let pool = open(&region);
    for epoch in 101..101 + pool.extents() as u32 {
        let extent = pool.acquire(epoch, &segment_header(epoch)).unwrap().unwrap();
        let mut at = 64;
        for number in 0..8 {
            let _ = commit(&extent, at, number);
            at += frame_bytes(epoch, number);
        }
    }
    pool.used().into_iter().for_each(|epoch| pool.release(epoch).unwrap());
    bytes(&region).to_vec()
}

fn open(region: &Arc<SimRegion>) -> Arc<Pool> {
    Pool::over(region.clone(), "pool").unwrap()
}

fn create(region: &Arc<SimRegion>) {
    Pool::format(region.clone(), "pool", NEW).unwrap();
    region.mark(1);
}

fn acquire(region: &Arc<SimRegion>) {
    let _ = open(region).acquire(8, &segment_header(8)).unwrap().unwrap();
    region.mark(Mark::Acquired.of(8));
}

/// Three segments take six commits; the first is released, and its extent used by the third.
fn six_commits(region: &Arc<SimRegion>) {
    let pool = open(region);
    for epoch in 1..=3 {
        let extent = pool.acquire(epoch, &segment_header(epoch)).unwrap().unwrap();
        region.mark(Mark::Acquired.of(epoch));
        let mut at = 64;
        for number in 0..2 {
            let _ = commit(&extent, at, number);
            region.mark(Mark::Committed.of(epoch));
            at += frame_bytes(epoch, number);
        }
        if epoch == 2 {
            region.mark(Mark::Releasing.of(1));
            pool.release(1).unwrap();
            region.mark(Mark::Released.of(1));
        }
        let expected = [0, 1, 0][epoch as usize - 1];
        assert_eq!(extent.index(), expected, "the first extent is used again");
    }
}

/// The segment that is an arena.
const ARENA: u32 = 9;

/// Appends pieces to an arena, and links each to the one before it.
fn link_pieces(region: &Arc<SimRegion>) {
    let (pool, header) = (open(region), segment_header(ARENA));
    let extent = pool.acquire(ARENA, &header).unwrap().unwrap();
    region.mark(Mark::Acquired.of(ARENA));
    let arena = Arena::new(extent, header.len());
    let mut last = arena.append(&[0; 8]).unwrap().into_inner();
    region.mark(Mark::Committed.of(ARENA));
    for number in 1..=3u64 {
        let piece = [[0; 8], number.to_le_bytes(), number.to_le_bytes()].concat();
        let place = arena.append(&piece).unwrap().into_inner();
        arena.store_word(last, place as u64).fence().into_inner();
        region.mark(Mark::Committed.of(ARENA));
        last = place;
    }
}

/// From the first piece on there are whole pieces, and at least as many as were linked.
fn pieces_follow(region: &Arc<SimRegion>, marks: &[u64]) -> Result<(), String> {
    let examined = examine(&**region, "pool").map_err(|error| error.to_string())?;
    let Some(extent) = examined.extents.iter().find(|extent| extent.epoch == Some(ARENA)) else {
        return expect("arenas", 0, Mark::Acquired.count(marks, ARENA));
    };
    let arena = &bytes(region)[extent.offset as usize..][..extent.bytes as usize];
    let (header, contents) = arena.split_at(segment_header(ARENA).len());
    expect("the header", header, &segment_header(ARENA))?;
    let committed = Mark::Committed.count(marks, ARENA) as u64;
    if committed == 0 {
        return Ok(());
    }
    let (mut at, mut count) = (u64_at(contents, 0) as usize, 1);
    while at != 0 {
        let piece = arena.get(at..at + 24).ok_or("a link to nowhere")?;
        expect("a piece", (u64_at(piece, 8), u64_at(piece, 16)), (count, count))?;
        (at, count) = (u64_at(piece, 0) as usize, count + 1);
    }
    if count < committed { Err(format!("{count} pieces of {committed}")) } else { Ok(()) }
}

fn is_fresh(found: Result<Arc<Pool>, Error>, identity: u64) -> Result<(), String> {
    let pool = found.map_err(|error| error.to_string())?;
    let fresh = (identity, vec![], None);
    expect("the new pool", (pool.identity(), pool.used(), pool.owner()), fresh)
}

/// What is in use was acquired and not released, and holds at least what was committed.
fn segments_hold(region: &Arc<SimRegion>, marks: &[u64]) -> Result<(), String> {
    let examined = examine(&**region, "pool").map_err(|error| error.to_string())?;
    if let Some(problem) = examined.problems.first() {
        return Err(problem.to_string());
    }
    let first = examined.extents.iter().any(|extent| extent.epoch == Some(7));
    let released = Mark::Released.count(marks, 7) + Mark::Releasing.count(marks, 7) > 0;
    if first && Mark::Released.count(marks, 7) > 0 {
        return Err("segment 7 is back".into());
    }
    if !first && !released && examined.owner == Some(70) {
        return Err("segment 7 is gone".into());
    }
    for epoch in [1, 2, 3, 8] {
        let extent = examined.extents.iter().find(|extent| extent.epoch == Some(epoch));
        let Some(extent) = extent else {
            if Mark::Acquired.count(marks, epoch) > 0 && Mark::Releasing.count(marks, epoch) == 0 {
                return Err(format!("segment {epoch} is gone"));
            }
            continue;
        };
        if Mark::Released.count(marks, epoch) > 0 {
            return Err(format!("segment {epoch} is back"));
        }
        let range = extent.offset as usize..(extent.offset + extent.bytes) as usize;
        let frames = frames_in(&bytes(region)[range], epoch)?;
        let committed = Mark::Committed.count(marks, epoch) as u32;
        if frames < committed {
            return Err(format!("segment {epoch} has {frames} frames of {committed}"));
        }
    }
    Ok(())
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{what}: {found:?}, not {wanted:?}")) }
}
