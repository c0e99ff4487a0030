//! What a process that died had stored and not fenced, and the next one relies on.

use super::frames::segment_header;
use esker_pmem::Pool;
use esker_pmem::sim::SimRegion;
use std::sync::{Arc, Mutex};

const BYTES: usize = 256 << 10;
/// Header, owner and states are below.
const DATA_AT: usize = 8192;
/// Not a multiple of the pieces that are made durable at a time.
const LONG: usize = 9 << 10;

type Change = fn(&Arc<Pool>);

/// What a process leaves that dies right after `event` stores and fences of `change`.
fn killed(before: Change, change: Change, event: u64) -> Arc<SimRegion> {
    let region = Arc::new(SimRegion::new(BYTES));
    let pool = Pool::format(region.clone(), "pool", 1).unwrap();
    before(&pool);
    let left = Arc::new(Mutex::new(None));
    let slot = left.clone();
    region.interrupt_after(event, move |moment| {
        *slot.lock().unwrap() = Some(moment.kill());
        None
    });
    change(&pool);
    let found = left.lock().unwrap().take();
    Arc::new(found.expect("the event happens"))
}

/// The words of header and table that a crash may still take back.
fn unsettled(region: &SimRegion) -> Vec<usize> {
    let state = region.crash();
    let newest = state.newest();
    newest.changes().map(|(at, _)| at).filter(|&at| at < DATA_AT).collect()
}

#[test]
fn settling_needs_its_fence_and_the_flush_of_each_word() {
    let nothing: Change = |_| {};
    let claim: Change = |pool| pool.claim(70).unwrap();
    let acquire: Change = |pool| drop(pool.acquire(7, &segment_header(7)).unwrap().unwrap());
    let release: Change = |pool| pool.release(7).unwrap();
    for (before, change, event, word) in [
        (nothing, claim, 1, 72),
        (nothing, claim, 3, 64),
        (nothing, acquire, 3, 4096),
        (acquire, release, 1, 4096),
    ] {
        let settle = |mutate: &dyn Fn(&SimRegion)| {
            let region = killed(before, change, event);
            assert_eq!(unsettled(&region), [word]);
            mutate(&region);
            Pool::over(region.clone(), "pool").unwrap().settle().unwrap();
            (unsettled(&region), region.flushes())
        };
        let (left, flushes) = settle(&|_| {});
        assert_eq!(left, [0; 0]);
        assert_eq!(settle(&|region| region.drop_fence(0)).0, [word]);
        let missed =
            (0..flushes).filter(|&flush| settle(&|region| region.drop_flush(flush)).0 == [word]);
        assert_eq!(missed.count(), 1, "one flush is that of the word at {word}");
    }
}

/// Makes durable what was stored and never fenced. The words that a crash may then take back.
fn made_durable(mutate: impl FnOnce(&SimRegion)) -> usize {
    let region = Arc::new(SimRegion::new(BYTES));
    let pool = Pool::format(region.clone(), "pool", 1).unwrap();
    let extent = pool.acquire(7, &segment_header(7)).unwrap().unwrap();
    region.drop_fence(region.fences());
    // SAFETY: nobody else has the extent.
    let _ = unsafe { extent.write(64, &[5; LONG]) }.fence();
    let region = Arc::new(region.kill());
    assert_eq!(region.crash().unsettled(), LONG / 8);
    let extent = Pool::over(region.clone(), "pool").unwrap().extent(7).unwrap();
    mutate(&region);
    // SAFETY: as above.
    unsafe { extent.make_durable(64..64 + LONG) };
    region.crash().unsettled()
}

#[test]
fn what_a_dead_process_stored_needs_the_fence_and_the_flush_of_each_line() {
    assert_eq!(made_durable(|_| {}), 0);
    assert_eq!(made_durable(|region| region.drop_fence(0)), LONG / 8);
    for line in 0..(LONG / 64) as u64 {
        assert_eq!(made_durable(|region| region.drop_flush(line)), 8, "line {line}");
    }
}
