//! Crashes after every event in a pool of persistent memory: what is left is all, some, or none of what
//! was on its way, and recovery must make sense of it.

use esker_memtable::{SEGMENT_HEADER_BYTES, SegmentHeader, scan};
use esker_sim::pool::frames::{self, Mutation};
use esker_sim::pool::{Seen, whole};

/// The images of a cache line whose eight words are on their way.
const ONE_LINE: u64 = 1 << 8;
/// The same of two.
const TWO_LINES: u64 = ONE_LINE * ONE_LINE;

#[test]
fn no_image_of_the_write_path_loses_or_halves_a_commit() {
    let mut seen = Seen::default();
    for seed in 0..200 {
        seen += frames::crash_everywhere(seed, 1024, None).unwrap_or_else(|what| panic!("{what}"));
    }
    println!("the write path: {seen}");
    assert!(seen.sampled >= 100_000, "{seen:?}");
    assert!(seen.unacknowledged > seen.histories, "{seen:?}");
}

#[test]
fn no_image_at_all_of_small_commits_loses_or_halves_one() {
    let mut seen = Seen::default();
    for seed in 0..200 {
        seen += frames::enumerate(seed, 1).unwrap_or_else(|what| panic!("{what}"));
    }
    println!("small commits: {seen}");
    assert_eq!((seen.enumerated, seen.images_most), (seen.moments, ONE_LINE), "{seen:?}");
    assert!(seen.moments >= 2_000 && seen.images >= 50_000, "{seen:?}");
    assert!(seen.unacknowledged > seen.histories, "{seen:?}");
}

#[test]
fn no_image_at_all_of_two_small_commits_at_once_loses_or_halves_one() {
    let mut seen = Seen::default();
    for seed in 200..232 {
        seen += frames::enumerate(seed, 2).unwrap_or_else(|what| panic!("{what}"));
    }
    println!("two small commits at once: {seen}");
    assert_eq!((seen.enumerated, seen.images_most), (seen.moments, TWO_LINES), "{seen:?}");
    assert!(seen.images >= 3 * TWO_LINES && seen.unacknowledged > ONE_LINE, "{seen:?}");
}

#[test]
fn no_image_of_the_engine_loses_or_halves_a_commit() {
    let mut seen = Seen::default();
    for seed in 0..60 {
        seen += whole::crash_everywhere(seed, 6).unwrap_or_else(|what| panic!("{what}"));
    }
    println!("the whole engine: {seen}");
    assert!(seen.images >= 10_000 && seen.unacknowledged > 0, "{seen:?}");
    assert!(seen.recoveries >= 1_000, "{seen:?}");
}

#[test]
fn no_image_at_all_of_the_engine_s_small_commits_loses_or_halves_one() {
    let mut seen = Seen::default();
    for seed in 0..4 {
        seen += whole::enumerate(seed, 64).unwrap_or_else(|what| panic!("{what}"));
    }
    println!("the whole engine's small commits: {seen}");
    assert_eq!((seen.enumerated, seen.images_most), (seen.moments, ONE_LINE), "{seen:?}");
    assert!(seen.images >= 500 && seen.unacknowledged > 0 && seen.recoveries > 0, "{seen:?}");
}

/// Every flush and every fence of a history is needed. What is dropped after the history's last
/// acknowledgement is not missed in it: then a longer history is to say so.
#[test]
fn without_any_one_flush_or_fence_a_commit_is_lost() {
    let mut caught = 0;
    for seed in 0..12 {
        let (flushes, fences) = frames::flushes_and_fences(seed);
        let flushes = (0..flushes).map(Mutation::DropFlush);
        for mutation in flushes.chain((0..fences).map(Mutation::DropFence)) {
            let outcome = frames::crash_everywhere(seed, 64, Some(mutation));
            assert!(outcome.is_err(), "seed {seed}: nobody misses {mutation:?}");
            caught += 1;
        }
    }
    assert!(caught > 100, "{caught}");
}

#[test]
fn nobody_reads_a_commit_before_its_fence() {
    let mut judged = Vec::new();
    for seed in 0..20 {
        let commits = whole::watch_commits(seed);
        judged.push(commits.unwrap_or_else(|what| panic!("seed {seed}: {what}")));
    }
    assert!(judged.iter().filter(|&&commits| commits >= 3).count() >= 18, "{judged:?}");
}

/// Only the checksum can show whether damage has made an old frame's epoch that of the segment.
#[test]
fn an_old_frame_under_a_new_epoch_is_refused() {
    let header = |epoch| SegmentHeader {
        epoch,
        capacity: 4096,
        alignment: 64,
        key_id: 0,
        salt: 0,
        flags: 0,
    };
    let mut segment = frames::segment_of_one_frame(header(5));
    assert_eq!(scan(&segment, &header(5), Some(1)).frames.len(), 1);
    segment[..SEGMENT_HEADER_BYTES].copy_from_slice(&header(6).encode());
    segment[SEGMENT_HEADER_BYTES..][..4].copy_from_slice(&6u32.to_le_bytes());
    assert!(scan(&segment, &header(6), Some(1)).frames.is_empty());
}
