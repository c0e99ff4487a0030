//! Batches that no frame can hold: all of each is seen, or nothing.

use crate::killed;
use esker_base::background::Stepped;
use esker_base::{Error, Rng};
use esker_lsm::inspect::Inspector;
use esker_lsm::inspect::repair::MissingLogPolicy;
use esker_lsm::manifest::manifest_file::read_current;
use esker_lsm::{Db, Env, KeyspaceSettings, Log, Recovery, Settings, SyncPolicy};
use esker_memtable::{SegmentHeader, scan};
use esker_storage::fault::FaultKind;
use esker_storage::{FaultStorage, FileSystemWrapper, MemoryStorage, PosixStorage, Storage};
use parking_lot::{Condvar, Mutex};
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::Duration;

const SEGMENT_BYTES: usize = 64 << 10;

fn settings(log: Log) -> Settings {
    Settings::default().log(log).segment_bytes(SEGMENT_BYTES).memory_bytes(4 << 20)
}

fn in_files() -> Settings {
    settings(Log::File { dir: None, sync: SyncPolicy::Os })
}

fn open(dir: &Path) -> Db {
    try_open(dir, Recovery::Prefix).unwrap()
}

fn try_open(dir: &Path, recovery: Recovery) -> Result<Db, Error> {
    let storage = Arc::new(PosixStorage::open(dir).unwrap());
    let env = Env::over(storage).background(Arc::new(Stepped));
    Db::open_with(env, in_files().recovery(recovery))
}

/// Values of 4,000 bytes under the keys `0..count`, each of which starts with `mark`.
fn write(db: &Db, mark: u8, count: u16) -> Result<(), Error> {
    let mut batch = db.batch();
    for number in 0..count {
        batch.put(&db.default_keyspace(), number.to_be_bytes(), [mark; 4_000]);
    }
    db.write(&batch)
}

/// What the values start with. Fails if they are not all of one batch.
#[track_caller]
fn mark(db: &Db, count: u16) -> Option<u8> {
    let range = db.range(&db.default_keyspace(), ..);
    let pairs: Vec<_> = range.into_iter().map(|pair| pair.unwrap()).collect();
    let first = pairs.first()?.1[0];
    assert_eq!(pairs.len(), usize::from(count));
    assert!(pairs.iter().all(|(_, value)| value[..] == [first; 4_000]), "of two batches");
    Some(first)
}

/// Runs `test` in a thread. Fails if it never ends.
#[expect(clippy::disallowed_methods, reason = "a thread that waits for ever is left behind")]
fn ends(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match is_done.recv_timeout(Duration::from_secs(30)) {
        Err(RecvTimeoutError::Timeout) => panic!("it waits for ever"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

fn logs(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let mut logs: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    logs.sort();
    logs
}

/// The frames of all logs with seqnos beyond `seqno`, in order: in which log each starts, and where.
fn frames(dir: &Path, seqno: u64) -> Vec<(PathBuf, u64)> {
    let frames = logs(dir).into_iter().flat_map(|log| {
        let bytes = std::fs::read(&log).unwrap();
        let header = SegmentHeader::decode(&bytes, "log").unwrap();
        let frames = scan(&bytes, &header, None).frames.into_iter();
        let frames = frames.filter(|frame| frame.first_seqno > seqno);
        frames.map(move |frame| (log.clone(), frame.offset)).collect::<Vec<_>>()
    });
    frames.collect()
}

/// Zeroes the logs from a place on, as if nothing had been written from there on.
fn cut(dir: &Path, (log, offset): &(PathBuf, u64)) {
    for other in logs(dir).into_iter().filter(|other| other.file_name() >= log.file_name()) {
        let mut bytes = std::fs::read(&other).unwrap();
        let from = if other.file_name() == log.file_name() { *offset as usize } else { 64 };
        bytes[from..].fill(0);
        std::fs::write(&other, bytes).unwrap();
    }
}

#[test]
fn a_batch_of_several_segments_is_there_now_after_a_crash_and_in_tables() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let db = open(dir.path());
    write(&db, 1, 100).unwrap();
    assert_eq!(mark(&db, 100), Some(1));
    let snapshot = db.snapshot();
    write(&db, 2, 100).unwrap();
    assert_eq!(mark(&db, 100), Some(2));
    let value = snapshot.get(&db.default_keyspace(), 7u16.to_be_bytes()).unwrap();
    assert_eq!(value.unwrap()[0], 1);
    killed::copy_files(dir.path(), copy.path());
    let recovered = open(copy.path());
    assert_eq!((mark(&recovered, 100), recovered.torn_tail()), (Some(2), None));
    recovered.close().unwrap();
    assert_eq!(mark(&open(copy.path()), 100), Some(2));
    db.flush().unwrap();
    assert_eq!(mark(&db, 100), Some(2));
    write(&db, 3, 100).unwrap();
    db.close().unwrap();
    assert_eq!(mark(&open(dir.path()), 100), Some(3));
}

/// A database whose last batch spans several logs, and the frames since the last flush: of a write
/// before, then of the batch.
fn with_large_batch_last(dir: &Path) -> (Db, Vec<(PathBuf, u64)>) {
    let db = open(dir);
    write(&db, 1, 30).unwrap();
    db.flush().unwrap();
    db.put(&db.default_keyspace(), 0u16.to_be_bytes(), [1; 4_000]).unwrap();
    write(&db, 2, 30).unwrap();
    let all = frames(dir, 30);
    assert!(all.len() > 8 && all[0].0 != all[all.len() - 1].0, "{all:?}");
    (db, all)
}

/// A crash may leave any number of the batch's frames. Then the write before it is there, and the next
/// one goes on from that.
#[test]
fn a_batch_that_is_cut_at_any_frame_is_left_out_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (db, all) = with_large_batch_last(dir.path());
    let seqno = db.stats().visible_seqno;
    for is_rebuilt in [false, true] {
        for (at, frame) in all.iter().enumerate() {
            let copy = tempfile::tempdir().unwrap();
            killed::copy_files(dir.path(), copy.path());
            cut(copy.path(), frame);
            if is_rebuilt {
                let storage = PosixStorage::open(copy.path()).unwrap();
                storage.remove(&read_current(&storage).unwrap()).unwrap();
                let inspector = Inspector::open(copy.path(), None).unwrap();
                inspector.repair(MissingLogPolicy::Refuse).unwrap();
            }
            let recovered = open(copy.path());
            assert_eq!(mark(&recovered, 30), Some(1), "cut at frame {at}");
            assert_eq!(recovered.torn_tail().is_some(), at > 1 && !is_rebuilt, "cut at frame {at}");
            assert_eq!(recovered.stats().visible_seqno, seqno - 30 - u64::from(at == 0));
            let is_lost = |name: &str| name.starts_with("lost-");
            let names = PosixStorage::open(copy.path()).unwrap().list().unwrap();
            assert!(!names.iter().any(|name| is_lost(name)), "cut at frame {at}: {names:?}");
            write(&recovered, 3, 30).unwrap();
            assert_eq!(mark(&recovered, 30), Some(3));
            let again = tempfile::tempdir().unwrap();
            killed::copy_files(copy.path(), again.path());
            let recovered_again = open(again.path());
            assert_eq!((mark(&recovered_again, 30), recovered_again.torn_tail()), (Some(3), None));
            recovered.close().unwrap();
            assert_eq!(mark(&open(copy.path()), 30), Some(3));
        }
    }
}

/// An open gives the seqnos of an unfinished batch to other writes. The frames of the batch are still in
/// the log, and hide none of these writes from a rebuild.
#[test]
fn a_rebuild_takes_the_writes_that_followed_an_unfinished_batch() {
    let (dir, cut_dir, copy) = (tempfile::tempdir(), tempfile::tempdir(), tempfile::tempdir());
    let (dir, cut_dir, copy) = (dir.unwrap(), cut_dir.unwrap(), copy.unwrap());
    let db = open(dir.path());
    write(&db, 1, 10).unwrap();
    db.flush().unwrap();
    for number in 0..3u16 {
        db.put(&db.default_keyspace(), number.to_be_bytes(), [1; 4_000]).unwrap();
    }
    write(&db, 2, 10).unwrap();
    let all = frames(dir.path(), 13);
    // The log that holds the puts holds frames of the batch, too.
    assert!(all.len() > 2 && all[0].1 > 12_000, "{all:?}");
    killed::copy_files(dir.path(), cut_dir.path());
    cut(cut_dir.path(), &all[all.len() - 1]);
    let recovered = open(cut_dir.path());
    let key = 0u16.to_be_bytes();
    recovered.put(&recovered.default_keyspace(), key, b"later").unwrap();
    killed::copy_files(cut_dir.path(), copy.path());
    let storage = PosixStorage::open(copy.path()).unwrap();
    storage.remove(&read_current(&storage).unwrap()).unwrap();
    Inspector::open(copy.path(), None).unwrap().repair(MissingLogPolicy::Refuse).unwrap();
    let rebuilt = open(copy.path());
    let value = |key: &[u8]| rebuilt.get(&rebuilt.default_keyspace(), key).unwrap().unwrap();
    assert_eq!((&value(&key)[..], value(&1u16.to_be_bytes())[0]), (&b"later"[..], 1));
}

#[test]
fn a_batch_with_a_damaged_frame_is_left_out_whole_and_kept_aside() {
    let dir = tempfile::tempdir().unwrap();
    let (_db, all) = with_large_batch_last(dir.path());
    let lost =
        |(log, _): &(PathBuf, u64)| format!("lost-{}", log.file_name().unwrap().to_str().unwrap());
    let mut logs_of_batch: Vec<_> = all[1..].iter().map(lost).collect();
    logs_of_batch.dedup();
    for at in 1..all.len() {
        let is_last = at + 1 == all.len();
        let damaged = || {
            let copy = tempfile::tempdir().unwrap();
            killed::copy_files(dir.path(), copy.path());
            let (log, offset) = &all[at];
            let log = copy.path().join(log.file_name().unwrap());
            let mut bytes = std::fs::read(&log).unwrap();
            bytes[*offset as usize + 1_000] ^= 1;
            std::fs::write(&log, bytes).unwrap();
            copy
        };
        let copy = damaged();
        match try_open(copy.path(), Recovery::Strict) {
            Ok(db) => assert!(is_last && mark(&db, 30) == Some(1), "frame {at}"),
            Err(error) => assert!(matches!(error, Error::TornLog { .. }) && !is_last, "{error}"),
        }
        let copy = damaged();
        let inspector = Inspector::open(copy.path(), None).unwrap();
        let problems = inspector.check(&mut |_| ()).unwrap().problems;
        assert_eq!(problems, u64::from(!is_last), "frame {at}");
        inspector.repair(MissingLogPolicy::Refuse).unwrap();
        inspector.check(&mut |problem| panic!("frame {at}: {problem}")).unwrap();
        let repaired = try_open(copy.path(), Recovery::Strict).unwrap();
        // A last frame that does not hold is no damage: a crash leaves it so.
        assert_eq!((mark(&repaired, 30), repaired.torn_tail().is_some()), (Some(1), is_last));
        let copy = damaged();
        let db = open(copy.path());
        assert_eq!(mark(&db, 30), Some(1));
        let torn = db.torn_tail().unwrap();
        assert_eq!((torn.first_seqno, torn.later.is_some()), (32, !is_last), "frame {at}");
        let kept = if is_last { &[][..] } else { &logs_of_batch };
        assert_eq!(torn.kept_in, kept, "frame {at}");
    }
}

/// A database on a disk that can fail, in which a batch of 30 keys was flushed.
fn on_faulty_disk(seed: u64, sync: SyncPolicy) -> (FaultStorage, Db) {
    let disk = FaultStorage::new(Rng::new(seed));
    let db = reopen(&disk, sync);
    write(&db, 1, 30).unwrap();
    db.flush().unwrap();
    (disk, db)
}

fn reopen(disk: &FaultStorage, sync: SyncPolicy) -> Db {
    let env = Env::over(Arc::new(disk.clone())).background(Arc::new(Stepped));
    Db::open_with(env, settings(Log::File { dir: None, sync })).unwrap()
}

#[test]
fn a_power_loss_at_any_call_of_a_batch_or_its_flush_leaves_all_of_it_or_nothing() {
    for calls in 0.. {
        let (disk, db) = on_faulty_disk(calls, SyncPolicy::Always);
        disk.crash_after(calls);
        let written = write(&db, 2, 30);
        let flushed = db.flush();
        let is_over = !disk.has_lost_power();
        drop(db);
        let found = mark(&reopen(&disk.crash(), SyncPolicy::Always), 30);
        if written.is_ok() {
            assert_eq!(found, Some(2), "call {calls}: an acknowledged batch is lost");
        } else {
            assert!(matches!(found, Some(1 | 2)), "call {calls}: {found:?}");
        }
        if is_over {
            assert!(flushed.is_ok() && calls > 10);
            break;
        }
    }
}

/// The first segment is small and grows. One that could not, and is empty, must not keep the log from going on.
#[test]
fn a_batch_follows_a_segment_that_could_not_grow() {
    ends(batch_after_a_segment_that_could_not_grow);
}

fn batch_after_a_segment_that_could_not_grow() {
    let mut refused = 0;
    for calls in 0..20 {
        let disk = FaultStorage::new(Rng::new(calls));
        let db = reopen(&disk, SyncPolicy::Os);
        disk.fail_after(calls, FaultKind::NoSpace);
        let put = db.put(&db.default_keyspace(), b"grows", [7; 10_000]);
        if put.is_ok() {
            continue;
        }
        match write(&db, 2, 30) {
            Ok(()) => refused += 1,
            // It was the append that failed: the log has ended.
            Err(Error::LogFailed { .. }) => continue,
            Err(error) => panic!("call {calls}: {error}"),
        }
        db.flush().unwrap();
        assert_eq!(mark(&db, 30), Some(2), "call {calls}");
        db.close().unwrap();
        assert_eq!(mark(&reopen(&disk, SyncPolicy::Os), 30), Some(2), "call {calls}");
    }
    assert!(refused > 0);
}

#[test]
fn a_batch_that_fails_at_any_call_is_seen_by_no_reader() {
    for calls in 0.. {
        let (disk, db) = on_faulty_disk(calls, SyncPolicy::Os);
        disk.fail_after(calls, FaultKind::Io);
        let written = write(&db, 2, 30);
        let expected = if written.is_ok() { 2 } else { 1 };
        assert_eq!(mark(&db, 30), Some(expected), "call {calls}: {written:?}");
        drop(db);
        let found = mark(&reopen(&disk.kill(), SyncPolicy::Os), 30);
        assert!(found == Some(expected) || written.is_err() && found == Some(2), "call {calls}");
        if written.is_ok() && calls > 30 {
            break;
        }
    }
}

/// The segments of a batch are prepared before any part of it is reserved.
#[test]
fn a_full_disk_refuses_a_batch_before_a_part_is_written() {
    let (disk, db) = on_faulty_disk(1, SyncPolicy::Os);
    let (before, used) = (db.stats(), disk.used_bytes());
    disk.set_space_limit(Some(used + 5 * SEGMENT_BYTES as u64 / 2));
    let refused = write(&db, 2, 90).unwrap_err();
    assert!(refused.is_out_of_space(), "{refused}");
    assert_eq!(db.stats().visible_seqno, before.visible_seqno);
    assert_eq!(mark(&db, 30), Some(1));
    // All but one of its segments are given back, so that a flush finds space.
    let left = disk.used_bytes();
    assert!(left < used + 3 * SEGMENT_BYTES as u64 / 2, "{left} bytes are used, {used} before");
    write(&db, 1, 10).unwrap();
    db.flush().unwrap();
    db.put(&db.default_keyspace(), 0u16.to_be_bytes(), [1; 4_000]).unwrap();
    disk.set_space_limit(None);
    write(&db, 3, 30).unwrap();
    assert_eq!(mark(&db, 30), Some(3));
}

/// The cache gets what the segments of a batch leave of the budget.
#[test]
fn the_segments_of_a_batch_are_charged_until_they_are_flushed() {
    let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
    let db = Db::open_with(env, in_files()).unwrap();
    let before = db.stats().memory_charged_bytes;
    write(&db, 1, 250).unwrap();
    let charged = db.stats().memory_charged_bytes - before;
    assert!(charged > 10 * SEGMENT_BYTES as u64, "{charged} bytes for a batch of a megabyte");
    db.flush().unwrap();
    let stats = db.stats();
    assert_eq!(stats.memory_charged_bytes - stats.table_memory_bytes, before);
}

/// A disk whose first removal of a log takes until it is let go.
#[derive(Clone)]
struct SlowRemoval {
    disk: FaultStorage,
    state: Arc<(Mutex<Removal>, Condvar)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Removal {
    NotBegun,
    Begun,
    LetGo,
}

impl FileSystemWrapper for SlowRemoval {
    fn below(&self) -> &dyn Storage {
        &self.disk
    }
    fn remove(&self, name: &str) -> Result<(), Error> {
        let mut state = self.state.0.lock();
        if name.ends_with(".log") && *state == Removal::NotBegun {
            *state = Removal::Begun;
            self.state.1.notify_all();
            self.state.1.wait_while(&mut state, |state| *state == Removal::Begun);
        }
        drop(state);
        self.disk.remove(name)
    }
}

/// Until then another process must not open the directory.
#[test]
fn a_close_waits_for_a_refused_batch_that_removes_its_logs() {
    let (disk, db) = on_faulty_disk(1, SyncPolicy::Os);
    db.close().unwrap();
    let state = Arc::new((Mutex::new(Removal::NotBegun), Condvar::new()));
    let slow = SlowRemoval { disk: disk.clone(), state: state.clone() };
    let env = Env::over(Arc::new(slow)).background(Arc::new(Stepped));
    let db = Db::open_with(env, in_files()).unwrap();
    disk.set_space_limit(Some(disk.used_bytes() + 5 * SEGMENT_BYTES as u64 / 2));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&db, 2, 90));
        {
            let mut removal = state.0.lock();
            state.1.wait_while(&mut removal, |removal| *removal == Removal::NotBegun);
        }
        let closed = db.clone();
        let closing = scope.spawn(move || closed.close());
        for _ in 0..20 {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        let was_early = closing.is_finished();
        *state.0.lock() = Removal::LetGo;
        state.1.notify_all();
        assert!(writer.join().unwrap().is_err());
        let _ = closing.join().unwrap();
        assert!(!was_early, "the lock was released while a log was being removed");
    });
}

/// What refuses a large batch is no error of a writer that waits for it.
#[test]
fn a_full_disk_that_refuses_a_batch_refuses_no_small_write_beside_it() {
    let disk = FaultStorage::new(Rng::new(1));
    let env = Env::over(Arc::new(disk.clone()));
    let db = Db::open_with(env, in_files()).unwrap();
    write(&db, 1, 30).unwrap();
    db.flush().unwrap();
    disk.set_space_limit(Some(disk.used_bytes() + 9 * SEGMENT_BYTES as u64 / 2));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            (0..100u16).for_each(|n| {
                db.put(&db.default_keyspace(), (n % 30).to_be_bytes(), [1; 40]).unwrap();
            });
        });
        while !writer.is_finished() {
            assert!(write(&db, 2, 200).unwrap_err().is_out_of_space());
        }
    });
}

#[test]
fn tables_never_hold_a_part_of_a_batch() {
    for log in [Log::None, Log::File { dir: None, sync: SyncPolicy::Os }] {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let db = Db::open_with(env, settings(log)).unwrap();
        let in_tables = || {
            let levels = db.levels();
            let runs = levels.iter().flat_map(|it| &it.levels).flat_map(|level| &level.runs);
            runs.flat_map(|run| &run.tables).map(|table| table.entries).sum::<u64>()
        };
        write(&db, 1, 60).unwrap();
        assert_eq!(in_tables(), 0);
        while db.run_background_job() {
            assert!(matches!(in_tables(), 0 | 60), "{} of 60 entries", in_tables());
        }
        assert_eq!(in_tables(), 60, "the whole batch is flushed");
    }
}

#[test]
fn readers_beside_a_writer_see_whole_batches() {
    let dir = tempfile::tempdir().unwrap();
    for sync in [SyncPolicy::Os, SyncPolicy::Always] {
        let dir = dir.path().join(format!("{sync:?}"));
        let db = Db::open(dir, settings(Log::File { dir: None, sync })).unwrap();
        write(&db, 0, 40).unwrap();
        let other = db.keyspace("other", KeyspaceSettings::default()).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (1..30).for_each(|mark| write(&db, mark, 40).unwrap()));
            // Takes segments, too.
            scope.spawn(|| {
                (0..200u32).for_each(|n| db.put(&other, n.to_be_bytes(), [0; 4_000]).unwrap());
            });
            let mut last = 0;
            while !writer.is_finished() {
                let seen = mark(&db, 40).unwrap();
                assert!(seen >= last, "{seen} after {last}");
                last = seen;
            }
        });
        assert_eq!(mark(&db, 40), Some(29));
        db.close().unwrap();
    }
}

#[test]
fn what_fits_no_batch_is_refused_by_name() {
    let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
    let db = Db::open_with(env, in_files()).unwrap();
    let limits = in_files();
    assert_eq!((limits.max_entry_bytes(), limits.max_batch_bytes()), (16 << 10, 1 << 20));
    let count = ((1u32 << 20) / 4_012) as u16;
    write(&db, 1, count).unwrap();
    let refused = write(&db, 2, count + 10).unwrap_err();
    assert!(matches!(refused, Error::BatchTooLarge { limit: 1_048_576, .. }), "{refused}");
    assert!(refused.to_string().contains("memory budget"), "{refused}");
    let mut batch = db.batch();
    batch.put(&db.default_keyspace(), b"k", [0; 16 << 10]);
    (0..30u8).for_each(|n| batch.put(&db.default_keyspace(), [n], [0; 4_000]));
    batch.delete_range(&db.default_keyspace(), "a".."b");
    assert!(matches!(db.write(&batch), Err(Error::LargeValue(_))));
    let mut batch = db.batch();
    (0..limits.max_batch_entries()).for_each(|n| {
        batch.put(&db.default_keyspace(), (n as u32).to_be_bytes(), b"");
    });
    db.write(&batch).unwrap();
    batch.put(&db.default_keyspace(), b"one more", b"");
    assert!(matches!(db.write(&batch), Err(Error::BatchTooLarge { .. })));
}
