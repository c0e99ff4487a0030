//! A database whose log is a pool of persistent memory.

use crate::pool_place;
use crate::pool_place::{POOL_BYTES, Place, assert_all, put_all};
use esker_api::WriteBatch;
use esker_base::background::Stepped;
use esker_base::{Clock, Entry, Error, KeyspaceId, Kind};
use esker_lsm::{Db, Env, KeyspaceSettings, Log, Settings, SyncPolicy};
use esker_memtable::{FrameMode, MemTable, Memory, SEGMENT_HEADER_BYTES, SegmentHeader};
use esker_pmem::{Accept, InjectedLatency, Pool};
use esker_storage::{MemoryStorage, PosixStorage};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn writes_are_read_back_through_flush_and_reopening() {
    let place = Place::new();
    let db = place.open().unwrap();
    put_all(&db, 0..50_000);
    assert_all(&db, 0..50_000);
    assert!(db.stats().flushes > 0, "the pool is smaller than what was written");
    db.close().unwrap();
    let db = place.open().unwrap();
    assert_all(&db, 0..50_000);
}

#[test]
fn what_a_killed_process_wrote_is_recovered_from_the_pool_alone() {
    let place = Place::new();
    let db = place.open().unwrap();
    put_all(&db, 0..2_000);
    let place = place.after_kill(db);
    let db = place.open().unwrap();
    assert_all(&db, 0..2_000);
    put_all(&db, 2_000..20_000);
    db.close().unwrap();
    let db = place.open().unwrap();
    assert_all(&db, 0..20_000);
}

#[test]
fn a_commit_takes_one_fence_and_stores_its_bytes_once() {
    let place = Place::new();
    let db = place.open().unwrap();
    let before = db.stats();
    put_all(&db, 0..1_000);
    let after = db.stats();
    assert_eq!(after.flushes, 0);
    // The pool's first segments may still be prepared beside the writes: each its header and its
    // state word, 72 bytes and two fences, and the counters may be read between the two.
    const PREPARED: u64 = 2;
    let within = |counted: u64, least: u64, each: u64| {
        assert!((least..=least + PREPARED * each).contains(&counted), "{counted}, not {least}");
    };
    within(after.log_fences - before.log_fences, 1_000, 2);
    // Header 32, entry 4 + 12 + 96: three lines.
    within(after.log_bytes - before.log_bytes, 1_000 * 192, 72);
    within(after.log_flushes - before.log_flushes, 1_000 * 3, 2);
}

/// A clock by which each further look is a line's latency later, and that counts the looks.
#[derive(Default)]
struct Looks(AtomicU64);

impl Clock for Looks {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.fetch_add(1, Ordering::Relaxed))
    }
    fn sleep(&self, _: Duration) {
        unreachable!("a load gives the processor to nobody")
    }
}

#[test]
fn a_slower_medium_holds_up_each_read_and_no_pass_over_a_segment() {
    let place = Place::new();
    let looks = Arc::new(Looks::default());
    let delays =
        InjectedLatency { line_read: Duration::from_micros(1), ..InjectedLatency::default() };
    let pool = Pool::open_delayed(place.pool(), Accept::Emulated, delays, looks.clone()).unwrap();
    let env = Env::over(Arc::new(MemoryStorage::new())).pool(pool);
    let db = Db::open_with(env, place.settings()).unwrap();
    put_all(&db, 0..500);
    let waited = || looks.0.load(Ordering::Relaxed);
    assert_eq!(waited(), 0, "nothing was read");
    assert_all(&db, 0..10);
    let by_reads = waited();
    // Of 96 bytes and their key.
    assert!((10 * 2..=10 * 4).contains(&by_reads), "{by_reads}");
    let everything = db.range(&db.default_keyspace(), b"".as_slice()..);
    assert_eq!(everything.into_iter().map(Result::unwrap).count(), 500);
    let by_scan = waited() - by_reads;
    assert!((500 * 2..=500 * 8).contains(&by_scan), "{by_scan}");
    let before = waited();
    db.flush().unwrap();
    assert_eq!(waited(), before, "a flush goes by bandwidth");
    assert_eq!(db.stats().flushes, 1);
}

#[test]
fn a_slower_fence_holds_up_each_commit_once() {
    let place = Place::new();
    let looks = Arc::new(Looks::default());
    let delays = InjectedLatency { fence: Duration::from_micros(1), ..InjectedLatency::default() };
    let pool = Pool::open_delayed(place.pool(), Accept::Emulated, delays, looks.clone()).unwrap();
    // No other thread looks at the clock.
    let background = Arc::new(Stepped);
    let env = Env::over(Arc::new(MemoryStorage::new())).background(background).pool(pool);
    let db = Db::open_with(env, place.settings()).unwrap();
    put_all(&db, 0..1);
    let before = looks.0.load(Ordering::Relaxed);
    put_all(&db, 1..501);
    // A wait of a microsecond looks twice: when it begins, and when it is over.
    assert_eq!(looks.0.load(Ordering::Relaxed) - before, 500 * 2);
    assert_all(&db, 0..501);
}

#[test]
fn many_writers_and_batches_take_one_fence_a_commit() {
    const WRITERS: u64 = 4;
    const BATCHES: u64 = 250;
    const ENTRIES: u64 = 3;
    let place = Place::new();
    let db = place.open().unwrap();
    let before = db.stats();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let db = &db;
            scope.spawn(move || {
                let keyspace = db.default_keyspace();
                for number in writer * BATCHES..(writer + 1) * BATCHES {
                    let mut batch = db.batch();
                    for entry in 0..ENTRIES {
                        batch.put(&keyspace, pool_place::key(number * ENTRIES + entry), b"value");
                    }
                    db.write(&batch).unwrap();
                }
            });
        }
    });
    let after = db.stats();
    assert_eq!(after.flushes, 0);
    let commits = WRITERS * BATCHES;
    let fences = after.log_fences - before.log_fences;
    // Beside the commits, two segments are prepared.
    assert!((commits..=commits + 4).contains(&fences), "{fences} fences");
    // Header 32, three entries of 4 + 12 + 5: two lines a batch.
    let bytes = after.log_bytes - before.log_bytes;
    assert!((commits * 128..=commits * 128 + 2 * 72).contains(&bytes), "{bytes} bytes");
}

/// What a segment costs in addition to its commits: its header and its word of state when it begins, and the
/// word again when its extent is free.
const FENCES_A_SEGMENT: u64 = 3;

/// How many segments of the pool may have been begun if so many were flushed: one is written to, and up
/// to two are prepared.
fn begun(flushes: u64) -> u64 {
    flushes + 1 + 2
}

#[test]
fn segments_that_are_flushed_and_used_again_add_three_fences_each() {
    const COMMITS: u64 = 100_000;
    let place = Place::new();
    let db = place.open().unwrap();
    let before = db.stats();
    put_all(&db, 0..COMMITS);
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    let after = db.stats();
    let extents = Pool::open_read_only(place.pool(), Accept::Emulated).unwrap().extents() as u64;
    assert!(after.flushes > 2 * extents, "{} flushes, {extents} extents", after.flushes);
    let fences = after.log_fences - before.log_fences;
    let most = COMMITS + FENCES_A_SEGMENT * begun(after.flushes);
    assert!((COMMITS + after.flushes..=most).contains(&fences), "{fences} fences, {after:?}");
}

#[test]
fn many_writers_through_flush_and_recycling_take_one_fence_a_commit() {
    const WRITERS: u64 = 4;
    const COMMITS: u64 = 100_000;
    let place = Place::new();
    let db = place.open().unwrap();
    let before = db.stats();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, each) = (&db, COMMITS / WRITERS);
            scope.spawn(move || put_all(db, writer * each..(writer + 1) * each));
        }
    });
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    let after = db.stats();
    let fences = after.log_fences - before.log_fences;
    let most = COMMITS + FENCES_A_SEGMENT * begun(after.flushes);
    assert!((COMMITS + after.flushes..=most).contains(&fences), "{fences} fences, {after:?}");
}

#[test]
fn a_clean_close_leaves_nothing_in_the_pool() {
    let place = Place::new();
    let db = place.open().unwrap();
    put_all(&db, 0..1_000);
    db.close().unwrap();
    let pool = Pool::open_read_only(place.pool(), Accept::Emulated).unwrap();
    assert_eq!(pool.used(), [0; 0]);
    drop(pool);
    let db = place.open().unwrap();
    assert_eq!(db.stats().flushed_seqno, 1_000);
    assert_all(&db, 0..1_000);
}

#[test]
fn a_pool_of_another_database_is_refused() {
    let place = Place::new();
    place.open().unwrap().close().unwrap();
    let other = tempfile::tempdir().unwrap();
    for dir in [other.path().join("new"), other.path().to_owned()] {
        let refused = Db::open(dir, place.settings()).err().unwrap();
        assert!(matches!(refused, Error::PoolRefused { .. }), "{refused}");
        assert!(refused.to_string().contains("another database"), "{refused}");
        assert!(refused.to_string().contains("remove this file and make a new pool"), "{refused}");
        assert_eq!(other.path().read_dir().unwrap().count(), 0, "nothing is left of it");
    }
}

#[test]
fn a_database_with_writes_in_its_pool_is_not_opened_without_it() {
    let place = Place::new();
    let db = place.open().unwrap();
    put_all(&db, 0..10);
    let copy = place.copy_dir();
    drop(db);
    let settings = Settings::default().log(Log::File { dir: None, sync: SyncPolicy::Os });
    let error = Db::open(copy.path(), settings).err().unwrap();
    assert!(error.is_corruption() && error.to_string().contains("pool"), "{error}");

    let fresh = place.memory.path().join("fresh");
    Pool::create(&fresh, POOL_BYTES, Accept::Emulated).unwrap();
    let log = Log::Pmem { pool: fresh, emulated: true };
    let error = Db::open(copy.path(), place.settings().log(log)).err().unwrap();
    assert!(matches!(error, Error::PoolRefused { .. }), "{error}");
}

#[test]
fn a_log_file_database_may_move_to_a_pool_and_back() {
    let place = Place::new();
    let files = Settings::default().segment_bytes(256 << 10).memory_bytes(8 << 20);
    let db = Db::open(place.dir(), files.clone()).unwrap();
    put_all(&db, 0..100);
    db.close().unwrap();
    let db = place.open().unwrap();
    assert_all(&db, 0..100);
    put_all(&db, 100..200);
    db.close().unwrap();
    let db = Db::open(place.dir(), files).unwrap();
    assert_all(&db, 0..200);
}

#[test]
fn a_live_database_is_looked_at_beside_its_writer() {
    let place = Place::new();
    let db = place.open().unwrap();
    put_all(&db, 0..1_000);
    let looking = Db::open_read_only(place.dir(), place.settings()).unwrap();
    assert_all(&looking, 0..1_000);
    put_all(&db, 1_000..40_000);
    assert_all(&looking, 0..1_000);
}

#[test]
fn many_writers_share_the_pool() {
    let place = Place::new();
    let db = place.open().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = &db;
            scope.spawn(move || put_all(db, thread * 10_000..(thread + 1) * 10_000));
        }
    });
    assert_all(&db, 0..40_000);
}

#[test]
fn a_batch_of_several_extents_is_whole_beside_other_writers_and_after_a_kill() {
    let place = Place::new();
    let db = place.open().unwrap();
    let large = db.keyspace("large", KeyspaceSettings::default()).unwrap();
    let write = |value: u8| {
        let mut batch = db.batch();
        (0..300u32).for_each(|key| batch.put(&large, key.to_be_bytes(), [value; 4_000]));
        db.write(&batch).unwrap();
    };
    let value = |db: &Db| {
        let pairs = db.range(&db.open_keyspace("large").unwrap(), ..);
        let values: Vec<u8> = pairs.map(|pair| pair.unwrap().1[0]).collect();
        assert!(values.len() == 300 && values.iter().all(|it| *it == values[0]), "{values:?}");
        values[0]
    };
    write(0);
    std::thread::scope(|scope| {
        scope.spawn(|| put_all(&db, 0..20_000));
        let writer = scope.spawn(|| (1..12).for_each(write));
        let mut last = 0;
        while !writer.is_finished() {
            let seen = value(&db);
            assert!(seen >= last, "{seen} after {last}");
            last = seen;
        }
    });
    let place = place.after_kill(db);
    let db = place.open().unwrap();
    assert_eq!(value(&db), 11);
    assert_all(&db, 0..20_000);
}

/// The states of the extents that a reader had inspected were all it ever went by.
#[test]
fn a_reader_whose_pool_was_opened_before_the_writer_went_on_sees_what_is_there_now() {
    let place = Place::new();
    let db = place.open().unwrap();
    put_all(&db, 0..100);
    let env = Env::over(Arc::new(PosixStorage::open(place.dir()).unwrap()))
        .pool(Pool::open_read_only(place.pool(), Accept::Emulated).unwrap());
    put_all(&db, 100..40_000);
    // The segments of the beginning are gone.
    while db.stats().flushes <= 2 {
        std::thread::yield_now();
    }
    let looking = Db::open_read_only_with(env, place.settings()).unwrap();
    assert_all(&looking, 0..40_000);
}

/// A process with the random seed, and so the salt, of all others of the test. What it recovered stays in
/// the pool until it is stepped.
fn open_with_one_seed(place: &Place) -> Db {
    let env = Env::over(Arc::new(PosixStorage::open(place.dir()).unwrap()))
        .background(Arc::new(Stepped))
        .pool(Pool::open(place.pool(), Accept::Emulated).unwrap())
        .seed(1);
    Db::open_with(env, place.settings()).unwrap()
}

/// Writes frames of a line, each a put of one of `keys`, into the segment `epoch` of a pool, from
/// `first_seqno` on, as writers do who all knew `durable_through`. Where the segment is in the pool.
fn write_frames(pool: &Arc<Pool>, epoch: u32, seqnos: (u64, u64), keys: &[&[u8]]) -> u64 {
    let (first_seqno, durable_through) = seqnos;
    let extent = pool.extent(epoch).unwrap();
    let at = extent.offset();
    let mut header = [0; SEGMENT_HEADER_BYTES];
    extent.read(0, &mut header).unwrap();
    let header = SegmentHeader::decode(&header, "pool").unwrap();
    let memtable = MemTable::new(Memory::Pmem(extent), header, FrameMode::Logged);
    let mut tail = memtable.activate(first_seqno);
    for key in keys {
        let mut entry = Vec::new();
        Entry { keyspace: KeyspaceId::DEFAULT, kind: Kind::Put, key, value: b"" }
            .encode(&mut entry);
        let reserved = memtable.reserve(&mut tail, entry.len(), 1).unwrap();
        memtable.insert(&memtable.fill(reserved, durable_through, &entry).fence());
    }
    at
}

/// Writes over 64 bytes of the pool's file, and gives what was there.
fn exchange(place: &Place, at: u64, line: &[u8]) -> Vec<u8> {
    let mut bytes = std::fs::read(place.pool()).unwrap();
    let there = &mut bytes[at as usize..][..64];
    let before = there.to_vec();
    there.copy_from_slice(line);
    std::fs::write(place.pool(), bytes).unwrap();
    before
}

/// A crash lost the second of the frames that three writers had stored.
#[test]
fn a_frame_behind_a_missing_one_never_comes_back() {
    let place = Place::new();
    let db = open_with_one_seed(&place);
    db.put(&db.default_keyspace(), b"kept", b"").unwrap();
    // Prepares a second segment.
    while db.run_background_job() {}
    let place = place.copy();
    let pool = Pool::open(place.pool(), Accept::Emulated).unwrap();
    let [first, next] = pool.used()[..] else { panic!("one is written to, one is prepared") };
    let start = write_frames(&pool, first, (1, 0), &[b"kept", b"missing", b"rejected"]);
    // In the segment that was prepared, where writes will go on.
    write_frames(&pool, next, (4, 1), &[b"rejected", b"rejected", b"rejected"]);
    drop(pool);
    let hole = start + 64 + 64;
    let missing = exchange(&place, hole, &[0; 64]);

    let check = |db: &Db, keys: &[&[u8]]| {
        let pairs = db.range(&db.default_keyspace(), ..);
        let found: Vec<_> = pairs.into_iter().map(|pair| pair.unwrap().0).collect();
        assert_eq!(found, keys);
    };
    let db = open_with_one_seed(&place);
    check(&db, &[b"kept"]);
    // One line, too, behind which the next frame there has the seqno after these.
    let mut batch: WriteBatch = db.batch();
    [b"x", b"y", b"z"].iter().for_each(|key| batch.put(&db.default_keyspace(), *key, b""));
    db.write(&batch).unwrap();
    let place = place.copy();
    check(&open_with_one_seed(&place.copy()), &[b"kept", b"x", b"y", b"z"]);

    // Nor does it if what was missing is there after all.
    exchange(&place, hole, &missing);
    check(&open_with_one_seed(&place), &[b"kept", b"x", b"y", b"z"]);
}
