//! Crashes at every point in time of everything a pool does, in the simulator: what was acknowledged is found,
//! nothing half-done is. And the check on the check: without any one flush or fence, it fails.

mod frames;
mod scenarios;
mod settled;
mod simulator;

use esker_base::Rng;
use esker_pmem::Region;
use esker_pmem::sim::{ImageLoader, SimRegion};
use std::sync::Arc;

/// Something a pool does, and what must be found after a crash.
struct Scenario {
    name: &'static str,
    start: fn() -> Vec<u8>,
    run: fn(&Arc<SimRegion>),
    /// Given what had been marked before the crash. Says what is wrong.
    check: fn(&Arc<SimRegion>, &[u64]) -> Result<(), String>,
}

#[derive(Clone, Copy, Debug)]
enum Mutation {
    Flush(u64),
    Fence(u64),
}

/// The most images that are inspected after one event; if there may be more, they are sampled.
const IMAGES_A_POINT: u64 = 1024;

/// Crashes everywhere. The number of images inspected, or the first that is wrong.
fn crash_everywhere(scenario: &Scenario, mutation: Option<Mutation>) -> Result<u64, String> {
    let region = Arc::new(SimRegion::from_bytes(&(scenario.start)()));
    match mutation {
        Some(Mutation::Flush(number)) => region.drop_flush(number),
        Some(Mutation::Fence(number)) => region.drop_fence(number),
        None => {}
    }
    region.record();
    (scenario.run)(&region);
    assert_eq!(region.untracked_store(), None, "{}", scenario.name);
    let history = region.take_history().unwrap();
    let (mut replay, mut bench, mut images) = (history.replay(), ImageLoader::new(), 0);
    let mut rng = Rng::new(1);
    let mut going = true;
    while going {
        let state = replay.crash();
        for image in state.images(IMAGES_A_POINT, Rng::new(rng.next_u64())) {
            let region = bench.load(&image);
            images += 1;
            (scenario.check)(&region, replay.marks()).map_err(|what| {
                let changes: Vec<_> = image.changes().collect();
                format!("after {:?}: {what}; words {changes:x?}", replay.marks())
            })?;
        }
        going = replay.step().is_some();
    }
    Ok(images)
}

#[test]
fn what_was_acknowledged_survives_and_nothing_is_half_done() {
    for scenario in &scenarios::ALL {
        let images = crash_everywhere(scenario, None);
        let images = images.unwrap_or_else(|what| panic!("{}: {what}", scenario.name));
        assert!(images > 4, "{}: {images}", scenario.name);
    }
}

/// Every flush and every fence of the scenarios must be needed by one that does the same.
#[test]
fn without_any_one_flush_or_fence_the_check_fails() {
    for group in scenarios::GROUPS {
        let group: Vec<_> =
            scenarios::ALL.iter().filter(|scenario| group.contains(&scenario.name)).collect();
        let counts = group.iter().map(|scenario| {
            let region = Arc::new(SimRegion::from_bytes(&(scenario.start)()));
            (scenario.run)(&region);
            (region.flushes(), region.fences())
        });
        let counts: Vec<_> = counts.collect();
        assert!(counts.windows(2).all(|pair| pair[0] == pair[1]), "they do the same: {counts:?}");
        let (flushes, fences) = counts[0];
        assert!(flushes > 0 && fences > 0);
        let mutations = (0..flushes).map(Mutation::Flush).chain((0..fences).map(Mutation::Fence));
        for mutation in mutations {
            assert!(
                group.iter().any(|scenario| crash_everywhere(scenario, Some(mutation)).is_err()),
                "{}: nobody misses {mutation:?}",
                group[0].name
            );
        }
    }
}

fn bytes(region: &SimRegion) -> &[u8] {
    // SAFETY: the region is initialised, and nobody writes to it while it is checked.
    unsafe { std::slice::from_raw_parts(region.base(), region.len()) }
}
