//! A pool that was being claimed when the process died.

use crate::common::{disk, pairs, pool, pool_env, pool_settings, put};
use esker_lsm::Db;
use esker_pmem::Pool;
use esker_pmem::sim::SimRegion;
use std::sync::{Arc, Mutex};

/// More events than a creation makes in the pool.
const EVENTS: u64 = 60;

/// The next process reads the owner that the one before stored and did not fence. It must not rely on
/// that: a power loss would leave a pool with writes, without an owner.
#[test]
fn an_owner_that_was_stored_and_not_fenced_is_made_durable_by_the_next_open() {
    let mut found = 0;
    for event in 1..EVENTS {
        let (disk, memory) = (disk(event), pool());
        let left = Arc::new(Mutex::new(None));
        let (slot, dying) = (left.clone(), disk.clone());
        memory.interrupt_after(event, move |moment| {
            *slot.lock().unwrap() = Some((moment.kill(), dying.kill()));
            None
        });
        // Whatever it says: its disk is gone by then.
        drop(Db::open_with(pool_env(&disk, &memory), pool_settings()));
        let Some((memory, disk)) = left.lock().unwrap().take() else { break };
        let memory = Arc::new(memory);
        if owner(&memory).is_none() || owner(&durable(&memory)).is_some() {
            continue;
        }
        found += 1;
        let db = Db::open_with(pool_env(&disk, &memory), pool_settings()).unwrap();
        put(&db, 1, 10).unwrap();
        let (memory, disk) = (durable(&memory), disk.crash());
        let db = Db::open_with(pool_env(&disk, &memory), pool_settings())
            .unwrap_or_else(|error| panic!("event {event}: {error}"));
        assert_eq!(pairs(&db).unwrap().len(), 1, "event {event}");
    }
    assert_eq!(found, 1, "one store says the owner");
}

/// What is left if power loss takes all that is not durable.
fn durable(memory: &SimRegion) -> Arc<SimRegion> {
    Arc::new(memory.crash().image(0).to_region())
}

fn owner(memory: &Arc<SimRegion>) -> Option<u64> {
    Pool::over(memory.clone(), "pool").unwrap().owner()
}
