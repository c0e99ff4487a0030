//! Crashes after every event in a pool of persistent memory: what is left is all, some, or none of what
//! was on its way, and recovery must make sense of it.

use esker_sim::pool::frames::{self, Mutation};
use esker_sim::pool::{Seen, whole};

#[test]
fn no_image_of_the_write_path_loses_or_halves_a_commit() {
    let mut seen = Seen::default();
    for seed in 0..200 {
        seen += frames::crash_everywhere(seed, 1024, None).unwrap_or_else(|what| panic!("{what}"));
    }
    assert!(seen.images >= 100_000, "{seen:?}");
    assert!(seen.unacknowledged > seen.histories, "{seen:?}");
}

#[test]
fn no_image_of_the_engine_loses_or_halves_a_commit() {
    let mut seen = Seen::default();
    for seed in 0..60 {
        seen += whole::crash_everywhere(seed, 6).unwrap_or_else(|what| panic!("{what}"));
    }
    assert!(seen.images >= 10_000 && seen.unacknowledged > 0, "{seen:?}");
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
