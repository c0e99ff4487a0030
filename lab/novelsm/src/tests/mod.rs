//! The store against a model, on buffers so small that all paths are taken.

mod list;
mod places;

use super::*;
use esker_api::{KeyRange, Kv, Ordered};
use esker_base::background::Stepped;
use esker_base::coding::u64_at;
use esker_base::{KeyspaceId, Kind, Rng};
use esker_bench::Engine;
use esker_pmem::Accept;
use esker_workload::Model;
use tempfile::TempDir;

/// The smallest.
const SEGMENT_BYTES: usize = 64 << 10;

struct Open {
    dirs: [TempDir; 2],
    store: NoveLsm,
}

fn pool_in(dir: &TempDir, bytes: u64) -> Arc<Pool> {
    Pool::create(dir.path().join("pool"), bytes, Accept::Emulated).unwrap()
}

fn settings() -> Settings {
    let (segment_bytes, memory_bytes) = (SEGMENT_BYTES, 1 << 20);
    Settings::default().segment_bytes(segment_bytes).memory_bytes(memory_bytes)
}

fn reopened(dir: &TempDir, pool: &Arc<Pool>) -> NoveLsm {
    NoveLsm::open(dir.path(), &settings(), KeyspaceSettings::default(), pool.clone()).unwrap()
}

fn open() -> Open {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap()];
    let pool = pool_in(&dirs[1], 512 << 10);
    let store = reopened(&dirs[0], &pool);
    Open { dirs, store }
}

/// A store that flushes nothing until the test starts a flush.
fn open_held() -> Open {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap()];
    let (pool, keyspace) = (pool_in(&dirs[1], 512 << 10), KeyspaceSettings::default());
    let store = NoveLsm::open_with(dirs[0].path(), &settings(), keyspace, pool, &Stepped).unwrap();
    Open { dirs, store }
}

/// Has a thread flush from here on.
fn start_flushing(store: &NoveLsm) {
    let shared = store.shared.clone();
    let body = Box::new(move || shared.flush_all());
    *store.flusher.lock() = Threads.spawn("novelsm-flush", Priority::Normal, body).unwrap();
}

fn batch_of(store: &dyn Kv, rng: &mut Rng, keys: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    let keyspace = store.keyspace_ref();
    for _ in 0..if rng.one_in(10) { 1 + rng.below(9) } else { 1 } {
        let key = format!("key{:05}", rng.below(keys));
        if rng.one_in(6) {
            batch.delete(keyspace, key.as_bytes());
        } else {
            let mut value =
                vec![0; rng.below(if rng.clone().one_in(5) { 1500 } else { 200 }) as usize];
            rng.fill(&mut value);
            batch.put(keyspace, key.as_bytes(), &value);
        }
    }
    batch
}

/// The same batch for the model's keyspace.
fn for_model(batch: &WriteBatch) -> WriteBatch {
    let mut copy = WriteBatch::new();
    for entry in batch.iter() {
        match entry.kind {
            Kind::Put => copy.put(KeyspaceId::DEFAULT, entry.key, entry.value),
            Kind::Delete => copy.delete(KeyspaceId::DEFAULT, entry.key),
            Kind::Merge => copy.merge(KeyspaceId::DEFAULT, entry.key, entry.value),
            Kind::Combined | Kind::Separated => unreachable!("only tables have such entries"),
            Kind::ExpiringPut => unreachable!("the workload has none"),
            Kind::RangeDelete => {
                copy.delete_range(KeyspaceId::DEFAULT, KeyRange::deleted(entry.key, entry.value));
            }
        }
    }
    copy
}

fn pairs(store: &dyn Ordered) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = store.cursor(KeyRange::all()).unwrap();
    cursor.seek_first().unwrap();
    let mut pairs = Vec::new();
    while let Some((key, value)) = cursor.current() {
        pairs.push((key.to_vec(), value.to_vec()));
        cursor.next().unwrap();
    }
    pairs
}

#[test]
fn it_answers_as_a_model_does_wherever_writes_go() {
    let Open { dirs, store } = open_held();
    let (model, mut rng) = (Model::new(), Rng::new(11));
    for step in 0..20_000 {
        // On a machine that flushes faster than this writes, nothing would go to the pool otherwise.
        if store.flusher.lock().is_none() && store.memtables().pmem_tables > 5 {
            start_flushing(&store);
        }
        let batch = batch_of(&store, &mut rng, 700);
        store.write(&batch).unwrap();
        model.write(&for_model(&batch)).unwrap();
        let key = format!("key{:05}", rng.below(700));
        assert_eq!(store.get(key.as_bytes()).unwrap(), model.get(key.as_bytes()).unwrap());
        if step % 6_000 == 5_999 {
            store.delete_range((b"key00100"..b"key00200").into()).unwrap();
            model.delete_range((b"key00100"..b"key00200").into()).unwrap();
            assert_eq!(pairs(&store), model.pairs());
        }
    }
    let used = store.memtables();
    assert!(used.dram_tables > 5 && used.pmem_tables > 5, "{used:?}");
    assert!(used.dram_writes > 500 && used.pmem_writes > 500, "{used:?}");
    let snapshot = store.snapshot().unwrap();
    store.put(b"key00000", b"later").unwrap();
    assert_eq!(store.get_at(b"key00000", &*snapshot).unwrap(), model.get(b"key00000").unwrap());
    drop(snapshot);
    model.put(b"key00000", b"later").unwrap();
    store.settle().unwrap();
    assert_eq!(pairs(&store), model.pairs());
    store.close().unwrap();
    let again = reopened(&dirs[0], &pool_in(&tempfile::tempdir_in("/dev/shm").unwrap(), 512 << 10));
    assert_eq!(pairs(&again), model.pairs());
}

#[test]
fn readers_see_each_thread_s_writes_in_order() {
    let Open { dirs: _dirs, store } = open_held();
    const WRITES: u64 = 20_000;
    std::thread::scope(|scope| {
        let writer = |thread: u64| {
            let store = &store;
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for count in 1..=WRITES {
                    // Two keys in a batch: the second is never behind the first.
                    let mut batch = WriteBatch::new();
                    let value = [count.to_le_bytes(); 12];
                    for part in ["a", "b"] {
                        let key = format!("{part}{thread}-{}", count % 50);
                        batch.put(store.keyspace_ref(), key.as_bytes(), value.as_flattened());
                    }
                    store.write(&batch).unwrap();
                    let read = |part, thread, slot| {
                        let value = store.get(format!("{part}{thread}-{slot}").as_bytes()).unwrap();
                        value.map_or(0, |value| u64_at(&value, 0))
                    };
                    assert_eq!(read("b", thread, count % 50), count);
                    let (other, slot) = (1 - thread, rng.below(50));
                    let first = read("a", other, slot);
                    assert!(read("b", other, slot) >= first, "a batch in part");
                }
            })
        };
        let writers = [0, 1].map(writer);
        while store.memtables().pmem_tables == 0 && !writers.iter().any(|it| it.is_finished()) {
            std::thread::yield_now();
        }
        start_flushing(&store);
    });
    let used = store.memtables();
    assert_eq!(used.dram_writes + used.pmem_writes, 4 * WRITES);
}

#[test]
fn a_batch_is_seen_whole_or_not_at_all() {
    const BATCHES: u64 = 3_000;
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap()];
    let pool = pool_in(&dirs[1], 512 << 10);
    // Large enough that the writer is always in the middle of a batch, never of a wait.
    let roomy = settings().segment_bytes(4 << 20).memory_bytes(32 << 20);
    let keyspace = KeyspaceSettings::default();
    let store = NoveLsm::open(dirs[0].path(), &roomy, keyspace, pool).unwrap();
    let number = |key: &[u8]| store.get(key).unwrap().map_or(0, |value| u64_at(&value, 0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for count in 1..=BATCHES {
                let mut batch = WriteBatch::new();
                for key in 0..32u8 {
                    batch.put(store.keyspace_ref(), [key], count.to_le_bytes());
                }
                store.write(&batch).unwrap();
            }
        });
        while !writer.is_finished() {
            let first = number(&[0]);
            assert!(number(&[31]) >= first, "the last key is behind the first");
        }
    });
    assert_eq!((number(&[0]), number(&[31])), (BATCHES, BATCHES));
}

#[test]
fn every_memtable_is_flushed_once_and_every_extent_comes_back() {
    let Open { dirs: _dirs, store } = open();
    let mut rng = Rng::new(3);
    for _ in 0..5_000 {
        store.write(&batch_of(&store, &mut rng, 100_000)).unwrap();
    }
    Engine::flush(&store).unwrap();
    let pool = &store.shared.pool;
    assert_eq!((pool.free(), pool.used()), (pool.extents(), vec![]));
    let counters = Engine::counters(&store);
    assert!(counters.log_bytes.unwrap() > counters.user_bytes);
    assert!(counters.flush_bytes.unwrap() > counters.user_bytes / 2);
    let written = store.shared.tree.db.stats().writes;
    let used = store.memtables();
    assert!(written > 4_000 && written <= used.dram_writes + used.pmem_writes, "{written}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let Open { dirs: _dirs, store } = open();
    assert!(matches!(store.put(b"", b"1"), Err(Error::EmptyKey)));
    let large = vec![0; SEGMENT_BYTES / 2];
    assert!(matches!(store.put(b"key", &large), Err(Error::BatchTooLarge { .. })));
    assert_eq!(store.get(b"key").unwrap(), None);
    let tight = settings().memory_bytes(3 * SEGMENT_BYTES);
    assert!(NoveLsm::check(&tight).unwrap_err().to_string().contains("memory_bytes"));
}
