//! Where writes go, on a store that flushes nothing until the test says so.

use super::*;
use esker_bench::accounting::disk_usage;
use std::sync::atomic::AtomicBool;

/// Puts numbers to one key until all MemTables that there can be are full but the last, and gives the
/// highest. After each, the key reads as it.
fn fill(store: &NoveLsm) -> u64 {
    let most = (DRAM_TABLES + store.shared.pool.extents()) as u64;
    let mut count = 0u64;
    loop {
        count += 1;
        store.put(b"key", &value_of(count)).unwrap();
        assert_eq!(number_in(store, b"key"), count);
        let used = store.memtables();
        if used.dram_tables + used.pmem_tables == most {
            return count;
        }
    }
}

fn value_of(count: u64) -> Vec<u8> {
    [count.to_le_bytes(); 100].as_flattened().to_vec()
}

fn number_in(store: &dyn Kv, key: &[u8]) -> u64 {
    u64_at(&store.get(key).unwrap().unwrap(), 0)
}

#[test]
fn writes_go_to_persistent_memory_while_dram_is_full() {
    let Open { dirs: _dirs, store } = open_held();
    let extents = store.shared.pool.extents() as u64;
    store.put(b"first", &value_of(0)).unwrap();
    let count = fill(&store);
    let used = store.memtables();
    assert_eq!((used.dram_tables, used.pmem_tables), (2, extents));
    assert_eq!(used.dram_writes + used.pmem_writes, count + 1);
    // Each MemTable holds as much as any other.
    let held = SEGMENT_BYTES as u64 / 1_000;
    assert!((held..=2 * held).contains(&(used.dram_writes / 2)), "{used:?}");
    assert!(used.pmem_writes >= (extents - 1) * held, "{used:?}");
    let placed = Engine::counters(&store).placed.unwrap();
    let told = (placed.dram_writes, placed.pmem_writes);
    assert_eq!(told, (used.dram_writes, used.pmem_writes));
    // The oldest MemTable answers what no later one has.
    assert_eq!(number_in(&store, b"first"), 0);
    let hits = Engine::counters(&store).dram_hits.unwrap();
    assert_eq!(hits, used.dram_writes, "one read after each write, and of the first");
}

#[test]
fn what_lies_in_the_pool_takes_space() {
    let Open { dirs, store } = open_held();
    let in_files = || disk_usage(dirs[0].path());
    assert_eq!(store.disk_bytes(), in_files());
    fill(&store);
    let pool = &store.shared.pool;
    let all = (pool.extents() * pool.extent_bytes()) as u64;
    assert_eq!(store.disk_bytes(), in_files() + all);
}

#[test]
fn a_full_pool_makes_writers_wait_for_the_flush() {
    let Open { dirs: _dirs, store } = open_held();
    let (count, before) = (fill(&store), store.memtables());
    let flushes = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (store, flushes) = (&store, &flushes);
        let writer = scope.spawn(move || {
            // Until the last one is full, too, and one more.
            let mut count = count;
            while store.memtables().dram_tables == before.dram_tables {
                count += 1;
                store.put(b"key", &value_of(count)).unwrap();
            }
            assert!(flushes.load(Ordering::SeqCst), "there was room without a flush");
            assert_eq!(store.memtables().pmem_tables, before.pmem_tables);
            assert_eq!(number_in(store, b"key"), count);
        });
        while store.memtables().waits == 0 && !writer.is_finished() {
            std::thread::yield_now();
        }
        // Readers don't wait.
        assert!(number_in(store, b"key") > count);
        flushes.store(true, Ordering::SeqCst);
        let flusher = scope.spawn(|| store.shared.flush_all());
        let written = writer.join();
        store.shared.stop();
        flusher.join().unwrap();
        written.unwrap();
    });
}

#[test]
fn after_a_flush_writes_go_to_dram_again() {
    let Open { dirs: _dirs, store } = open_held();
    let count = fill(&store);
    let before = store.memtables();
    std::thread::scope(|scope| {
        let flusher = scope.spawn(|| store.shared.flush_all());
        store.shared.await_flush(1).unwrap();
        let put = store.put(b"key", &value_of(count + 1));
        store.shared.stop();
        flusher.join().unwrap();
        put.unwrap();
    });
    let used = store.memtables();
    assert_eq!(used.dram_tables, before.dram_tables + 1);
    assert_eq!(used.pmem_writes, before.pmem_writes);
    assert_eq!(number_in(&store, b"key"), count + 1);
}

#[test]
fn a_flush_that_has_ended_fails_writers_rather_than_hold_them() {
    let Open { dirs: _dirs, store } = open_held();
    let count = fill(&store);
    store.shared.stop();
    store.shared.flush_all();
    let written = (0..10_000).find_map(|more| store.put(b"key", &value_of(count + more)).err());
    assert!(matches!(written, Some(Error::Closed)), "{written:?}");
}
