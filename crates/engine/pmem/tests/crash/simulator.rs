//! The simulator itself, and many threads under it.

use super::bytes;
use super::frames::{commit, frame_bytes, frames_from, segment_header};
use esker_base::Rng;
use esker_pmem::sim::{Event, ImageLoader, SimRegion};
use esker_pmem::{Pool, Region};
use std::collections::BTreeSet;
use std::sync::Arc;

fn write(region: &SimRegion, at: usize, bytes: &[u8]) {
    // SAFETY: the tests touch a region from one thread at a time, and lie inside.
    unsafe { region.write(at, bytes) };
}

fn images(region: &SimRegion) -> BTreeSet<Vec<u8>> {
    let state = region.crash();
    let images: BTreeSet<_> =
        state.images(1 << 20, Rng::new(0)).map(|image| image.to_bytes()).collect();
    assert_eq!(images.len() as u128, state.count());
    images
}

fn words(words: [u64; 2]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn a_word_takes_its_durable_value_or_any_later_one() {
    let region = SimRegion::new(16);
    write(&region, 0, &1u64.to_le_bytes());
    write(&region, 0, &2u64.to_le_bytes());
    let expected = [0, 1, 2].map(|word| words([word, 0]));
    assert_eq!(images(&region), BTreeSet::from(expected));
    region.fence();
    assert_eq!(images(&region), BTreeSet::from([words([2, 0])]));
}

#[test]
fn each_word_goes_its_own_way_even_inside_one_store() {
    let region = SimRegion::new(16);
    write(&region, 0, &words([1, 2]));
    let expected = [[0, 0], [1, 0], [0, 2], [1, 2]].map(words);
    assert_eq!(images(&region), BTreeSet::from(expected));
}

#[test]
fn what_a_dead_process_left_unfenced_shows_and_may_still_be_lost() {
    let region = SimRegion::new(16);
    write(&region, 0, &1u64.to_le_bytes());
    let next = region.kill();
    assert_eq!(bytes(&next)[..8], 1u64.to_le_bytes());
    write(&next, 8, &2u64.to_le_bytes());
    next.fence();
    assert_eq!(images(&next), BTreeSet::from([words([0, 2]), words([1, 2])]));
    write(&next, 0, &1u64.to_le_bytes());
    next.fence();
    assert_eq!(images(&next), BTreeSet::from([words([1, 2])]));
}

#[test]
fn an_interrupt_sees_the_moment_between_two_events() {
    let region = SimRegion::new(16);
    let (tell, told) = std::sync::mpsc::channel();
    region.interrupt_after(2, move |moment| {
        tell.send((moment.crash().count(), moment.kill())).unwrap();
        None
    });
    write(&region, 0, &1u64.to_le_bytes());
    assert!(told.try_recv().is_err());
    region.fence();
    write(&region, 8, &2u64.to_le_bytes());
    let (count, next) = told.try_recv().unwrap();
    assert_eq!((count, bytes(&next)), (1, &words([1, 0])[..]));
    assert!(told.try_recv().is_err());
}

#[test]
fn a_fence_counts_only_for_what_its_own_thread_stored() {
    let region = SimRegion::new(16);
    write(&region, 0, &1u64.to_le_bytes());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            write(&region, 8, &2u64.to_le_bytes());
            region.fence();
        });
    });
    assert_eq!(images(&region), BTreeSet::from([words([0, 2]), words([1, 2])]));
    region.fence();
    assert_eq!(images(&region), BTreeSet::from([words([1, 2])]));
}

#[test]
fn a_later_store_by_another_thread_stays_possible_after_the_fence() {
    let region = SimRegion::new(16);
    write(&region, 0, &1u64.to_le_bytes());
    std::thread::scope(|scope| {
        scope.spawn(|| write(&region, 0, &2u64.to_le_bytes()));
    });
    region.fence();
    assert_eq!(images(&region), BTreeSet::from([words([1, 0]), words([2, 0])]));
}

#[test]
fn a_store_of_a_part_keeps_the_rest_of_the_word() {
    let region = SimRegion::from_bytes(&words([0x1111_1111_1111_1111, 0]));
    write(&region, 3, &[0xff]);
    let expected = [0x1111_1111_1111_1111, 0x1111_1111_ff11_1111].map(|word| words([word, 0]));
    assert_eq!(images(&region), BTreeSet::from(expected));
}

#[test]
fn dropped_flushes_and_fences_promise_nothing() {
    let region = SimRegion::new(128);
    region.drop_flush(1);
    write(&region, 56, &words([1, 2]));
    assert_eq!(region.flushes(), 2, "two lines are touched");
    region.fence();
    assert_eq!(region.crash().unsettled(), 1);
    let region = SimRegion::new(128);
    region.drop_fence(0);
    write(&region, 56, &words([1, 2]));
    region.fence();
    assert_eq!(region.crash().unsettled(), 2);
    region.fence();
    assert_eq!(region.crash().unsettled(), 0);
}

#[test]
fn a_store_behind_the_regions_back_is_noticed() {
    let region = SimRegion::new(64);
    assert_eq!(region.untracked_store(), None);
    // SAFETY: in the region, which nobody else has.
    unsafe { region.base().add(24).write(1) };
    assert_eq!(region.untracked_store(), Some(24));
}

#[test]
fn a_bench_gives_the_very_images() {
    let region = SimRegion::new(1 << 12);
    let (mut bench, mut rng) = (ImageLoader::new(), Rng::new(5));
    for round in 0..20 {
        for _ in 0..6 {
            let at = rng.below(500) as usize * 8;
            write(&region, at, &words([rng.next_u64(), round]));
        }
        if round % 3 == 0 {
            region.fence();
        }
        let state = region.crash();
        for image in state.images(50, Rng::new(round)) {
            let loaded = bench.load(&image);
            assert_eq!(bytes(&loaded), image.to_bytes());
            assert_eq!((loaded.crash().count(), loaded.untracked_store()), (1, None));
            // What a recovery changes must be gone again in the next image.
            write(&loaded, rng.below(500) as usize * 8, &words([1, 2]));
            if rng.one_in(2) {
                loaded.fence();
            }
        }
    }
}

#[test]
fn a_history_replays_to_what_the_region_is() {
    let region = SimRegion::new(256);
    region.record();
    write(&region, 0, &[1; 100]);
    region.mark(7);
    region.fence();
    write(&region, 64, &[2; 100]);
    let (state, history) = (region.crash(), region.take_history().unwrap());
    let mut replay = history.replay();
    let mut events = 0;
    while let Some(event) = replay.step() {
        events += 1;
        assert_eq!(matches!(event, Event::Mark(7)), events == 2);
    }
    assert_eq!((events, replay.marks()), (4, &[7][..]));
    assert_eq!(replay.crash().newest().to_bytes(), state.newest().to_bytes());
    assert_eq!(replay.crash().image(0).to_bytes(), state.image(0).to_bytes());
}

/// The mark of an acknowledged frame: its segment, then its number.
fn acknowledged(epoch: u32, number: u32) -> u64 {
    u64::from(epoch) << 32 | u64::from(number)
}

/// Three threads, a segment each, recycled again and again; crashes at every event. More than 100,000
/// images.
#[test]
fn no_thread_loses_an_acknowledged_frame() {
    const THREADS: u32 = 3;
    const ROUNDS: u32 = 20;
    const FRAMES: u32 = 10;
    let region = Arc::new(SimRegion::new(512 << 10));
    let pool = Pool::format(region.clone(), "pool", 5).unwrap();
    region.record();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, region) = (&pool, &region);
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    let epoch = round * THREADS + thread;
                    let extent = pool.acquire(epoch, &segment_header(epoch)).unwrap().unwrap();
                    let mut at = 64;
                    for number in 0..FRAMES {
                        let _ = commit(&extent, at, number);
                        region.mark(acknowledged(epoch, number));
                        at += frame_bytes(epoch, number);
                    }
                    if round > 1 {
                        region.mark(acknowledged(epoch - THREADS, u32::MAX));
                        pool.release(epoch - THREADS).unwrap();
                    }
                }
            });
        }
    });
    drop(pool);
    assert_eq!(region.untracked_store(), None);
    let history = region.take_history().unwrap();
    let (mut replay, mut bench, mut rng) = (history.replay(), ImageLoader::new(), Rng::new(11));
    let mut looked_at = 0;
    while replay.step().is_some() {
        let state = replay.crash();
        for image in state.images(200, Rng::new(rng.next_u64())) {
            let loaded = bench.load(&image);
            looked_at += 1;
            check(&loaded, replay.marks());
        }
    }
    assert!(looked_at >= 100_000, "{looked_at} images");
}

fn check(region: &Arc<SimRegion>, marks: &[u64]) {
    let pool = Pool::over(region.clone(), "pool").unwrap();
    // Of each segment, the latest mark: how many frames it must have, or that it is being released.
    let mut latest = std::collections::BTreeMap::new();
    for &mark in marks {
        latest.insert((mark >> 32) as u32, mark as u32);
    }
    for (epoch, last) in latest {
        let extent = pool.extent(epoch);
        if last == u32::MAX {
            continue;
        }
        let extent = extent.expect("an acknowledged segment is in use");
        // SAFETY: nobody writes to the extent while it is checked.
        let segment = unsafe { std::slice::from_raw_parts(extent.pointer(), extent.len()) };
        assert_eq!(segment[..64], segment_header(epoch));
        assert!(frames_from(segment, epoch, 64, 0) > last, "frame {last} of segment {epoch}");
    }
}
