//! Tests: what is moved for wear and what is not, and what may happen meanwhile.

use super::super::journal::JOURNAL_CHUNKS;
use super::*;
use crate::chunk_device::{ChunkDevice, MemoryChunkDevice};
use crate::device::fdp::EmulatedDisk;
use crate::{Chunk, FdpDevice, FlashStorage, Geometry};
use esker_base::background::Priority;
use esker_base::{Background, Rng, Threads, WriteHint};
use esker_storage::Storage;
use parking_lot::Mutex;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;

const CHUNK: usize = 64 << 10;
/// Chunks of the device, the journal's among them.
const CHUNKS: usize = 24;
/// Where the first file is, in the least worn chunk of those with data.
const FROM: usize = 4;
/// The most worn of the free chunks, which is free as long as others are.
const TO: usize = CHUNKS - 1;
const DEEP: Lifetime = 7;

/// What is asked of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Read(usize),
    Write(usize),
    Reset(usize),
    Flush,
}

type Work = Box<dyn FnOnce() -> Result<()> + Send>;

/// A device that does something else first when it is asked for something, once.
struct Interrupted {
    below: MemoryChunkDevice,
    work: Mutex<Option<(Call, Work)>>,
}

impl Interrupted {
    fn at(&self, call: Call, work: impl FnOnce() -> Result<()> + Send + 'static) {
        *self.work.lock() = Some((call, Box::new(work)));
    }

    fn called(&self, call: Call) -> Result<()> {
        let work = self.work.lock().take_if(|(at, _)| *at == call);
        work.map_or(Ok(()), |(_, work)| work())
    }

    fn index(&self, chunk: Chunk) -> usize {
        self.below.geometry().index(chunk)
    }
}

impl ChunkDevice for Interrupted {
    fn describe(&self) -> String {
        self.below.describe()
    }
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }
    fn is_bad(&self, chunk: Chunk) -> bool {
        self.below.is_bad(chunk)
    }
    fn written(&self, chunk: Chunk) -> Result<u64> {
        self.below.written(chunk)
    }
    fn write(&self, chunk: Chunk, at: u64, bytes: &[u8]) -> Result<()> {
        self.called(Call::Write(self.index(chunk)))?;
        self.below.write(chunk, at, bytes)
    }
    fn read(&self, chunk: Chunk, at: u64, out: &mut [u8]) -> Result<()> {
        self.called(Call::Read(self.index(chunk)))?;
        self.below.read(chunk, at, out)
    }
    fn reset(&self, chunk: Chunk) -> Result<()> {
        self.called(Call::Reset(self.index(chunk)))?;
        self.below.reset(chunk)
    }
    fn flush(&self) -> Result<()> {
        self.called(Call::Flush)?;
        self.below.flush()
    }
    fn active_max(&self) -> Option<usize> {
        self.below.active_max()
    }
    fn active(&self) -> Vec<Chunk> {
        self.below.active()
    }
    fn finish(&self, chunk: Chunk) -> Result<()> {
        self.below.finish(chunk)
    }
    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        self.below.lock()
    }
}

/// A device of one unit, and a storage on it.
fn device() -> (Arc<Interrupted>, Arc<FlashStorage>) {
    let below = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, CHUNKS as u16, CHUNK as u32));
    let device = Arc::new(Interrupted { below, work: Mutex::default() });
    let storage = Arc::new(FlashStorage::open(device.clone()).unwrap());
    (device, storage)
}

/// The same with so many files, `0` and so on, each on a chunk of its own from [`FROM`] on.
fn cold(count: u8) -> (Arc<Interrupted>, Arc<FlashStorage>) {
    let (device, storage) = device();
    (0..count).for_each(|number| write(&storage, &number.to_string(), number, CHUNK).unwrap());
    (device, storage)
}

/// The same, and it is time to move the first.
fn filled(count: u8) -> (Arc<Interrupted>, Arc<FlashStorage>) {
    let (device, storage) = cold(count);
    wear(&storage, &[TO], 100);
    (device, storage)
}

fn write(storage: &FlashStorage, name: &str, byte: u8, len: usize) -> Result<()> {
    let mut file = storage.create(name, WriteHint::table(6))?;
    file.append(&vec![byte; len]).and_then(|()| file.sync())
}

/// Counts so many resets more of chunks.
fn wear(storage: &FlashStorage, chunks: &[usize], times: u32) {
    let mut state = storage.core.state.lock();
    for index in chunks {
        (0..times).for_each(|_| state.space.wear.count(*index));
    }
}

/// Begins as a writer does that needs a chunk.
fn level(storage: &FlashStorage) {
    storage.core.run_if_due(DEEP);
}

fn chunks_of(storage: &FlashStorage, name: &str) -> Vec<u32> {
    let extents = storage.core.state.lock().names[name].recorded();
    extents.iter().map(|extent| extent.chunk).collect()
}

/// Fails unless a file has these bytes and no others.
fn check(storage: &FlashStorage, name: &str, byte: u8, len: usize) {
    let file = storage.open(name).unwrap();
    assert_eq!(file.len().unwrap(), len as u64, "{name}");
    let mut found = vec![0; len];
    file.read_exact_at(0, &mut found).unwrap();
    assert!(found.iter().all(|found| *found == byte), "{name}");
}

/// As [`check`], and again when the device is opened anew.
fn check_twice(device: &Interrupted, storage: Arc<FlashStorage>, files: &[(&str, u8, usize)]) {
    let check_all = |storage: &FlashStorage| {
        files.iter().for_each(|(name, byte, len)| check(storage, name, *byte, *len));
    };
    check_all(&storage);
    storage.sync_names().unwrap();
    drop(storage);
    check_all(&FlashStorage::open(Arc::new(device.below.clone())).unwrap());
}

#[test]
fn what_is_in_the_least_worn_chunk_is_moved_into_the_most_worn_free_one() {
    let (device, storage) = filled(3);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [TO as u32]);
    let usage = storage.usage();
    assert_eq!((usage.moved_bytes, usage.levelled_bytes), (CHUNK as u64, CHUNK as u64));
    assert_eq!(usage.live_bytes, 3 * CHUNK as u64);
    check_twice(&device, storage, &[("0", 0, CHUNK), ("1", 1, CHUNK), ("2", 2, CHUNK)]);
}

/// Files that are written on and on, each of them removed when eight others were written.
fn overwrite(storage: &FlashStorage, times: std::ops::Range<u64>) {
    for time in times {
        let mut file = storage.create(&format!("hot-{time}"), WriteHint::table(3)).unwrap();
        file.append(&[time as u8; CHUNK]).and_then(|()| file.sync()).unwrap();
        if let Some(old) = time.checked_sub(8) {
            storage.remove(&format!("hot-{old}")).unwrap();
        }
    }
}

/// A device of 4 units of 12 chunks, half of them with files that stay.
fn half_cold() -> (MemoryChunkDevice, FlashStorage) {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(2, 2, 12, CHUNK as u32));
    let storage = FlashStorage::open(Arc::new(device.clone())).unwrap();
    for number in 0..24 {
        write(&storage, &format!("cold-{number}"), number, CHUNK).unwrap();
    }
    (device, storage)
}

#[test]
fn chunks_with_what_is_never_overwritten_wear_as_others_do() {
    let (device, storage) = half_cold();
    overwrite(&storage, 0..12_000);
    let usage = storage.usage();
    println!("{usage:?}");
    assert!(usage.erases.mean > 3.0 * f64::from(SPREAD_MAX), "{usage:?}");
    assert!(usage.erases.most - usage.erases.least <= SPREAD_MAX + SPREAD_MAX / 4, "{usage:?}");
    // Nothing else has to be moved.
    assert_eq!(usage.moved_bytes, usage.levelled_bytes);
    assert!((1..usage.host_bytes / 50).contains(&usage.levelled_bytes), "{usage:?}");
    assert_eq!(usage.levelling_failures, 0);
    drop(storage);
    let storage = FlashStorage::open(Arc::new(device)).unwrap();
    (0..24).for_each(|number| check(&storage, &format!("cold-{number}"), number, CHUNK));
}

#[test]
fn nothing_is_moved_while_chunks_wear_about_alike() {
    let (_, storage) = half_cold();
    overwrite(&storage, 0..1_000);
    let usage = storage.usage();
    assert!((40..=SPREAD_MAX).contains(&usage.erases.most), "{usage:?}");
    assert_eq!(usage.levelled_bytes, 0);
}

#[test]
fn moves_are_few_however_wide_the_spread_is() {
    let (_, storage) = half_cold();
    let is_free = |index: &usize| storage.core.state.lock().space.live(*index as u32) == 0;
    let free: Vec<usize> = (JOURNAL_CHUNKS..48).filter(is_free).collect();
    wear(&storage, &free, 1_000);
    let before = storage.usage().host_bytes;
    overwrite(&storage, 0..160);
    let usage = storage.usage();
    let most = (usage.host_bytes - before) / RESETS_BETWEEN + CHUNK as u64;
    assert!((1..=most).contains(&usage.levelled_bytes), "{usage:?}");
}

#[test]
fn nobody_looks_again_before_16_chunks_more_were_reset() {
    let (_, storage) = filled(3);
    wear(&storage, &[TO - 1], 100);
    level(&storage);
    level(&storage);
    wear(&storage, &[TO - 1], 7);
    level(&storage);
    assert_eq!(
        [0, 1, 2].map(|name| chunks_of(&storage, &name.to_string())[0]),
        [TO, 5, 6].map(|chunk| chunk as u32)
    );
    wear(&storage, &[TO - 1], 1);
    level(&storage);
    assert_eq!(chunks_of(&storage, "1"), [TO as u32 - 1]);
}

#[test]
fn what_logs_become_and_they_themselves_wait_for_no_move() {
    let (_, storage) = filled(3);
    storage.core.run_if_due(LEVEL_0);
    storage.create_log("log", 100).unwrap();
    assert_eq!(storage.usage().levelled_bytes, 0);
}

/// The log has the least worn chunk, and its record fills that.
#[test]
fn a_log_stays_where_it_is() {
    let (device, storage) = device();
    let log = storage.create_log("log", CHUNK as u64).unwrap();
    log.write_at(0, &[5; CHUNK - 32]).unwrap();
    write(&storage, "file", 6, CHUNK).unwrap();
    wear(&storage, &[TO], 100);
    level(&storage);
    assert_eq!(
        (chunks_of(&storage, "log"), chunks_of(&storage, "file")),
        (vec![FROM as u32], vec![TO as u32])
    );
    log.write_at(CHUNK as u64 - 32, &[5; 32]).unwrap();
    drop(log);
    check_twice(&device, storage, &[("log", 5, CHUNK), ("file", 6, CHUNK)]);
}

/// It takes its chunks one by one, and is a file when it has all. Here it has the first, and that is the least worn.
#[test]
fn the_chunks_of_a_log_that_is_being_made_stay_its_own() {
    let (device, storage) = device();
    write(&storage, "file", 6, CHUNK).unwrap();
    wear(&storage, &[FROM], 1);
    wear(&storage, &[TO], 100);
    let (other, again) = (Arc::downgrade(&storage), Arc::downgrade(&device));
    device.at(Call::Flush, move || {
        let second = move || {
            level(&other.upgrade().unwrap());
            Ok(())
        };
        again.upgrade().unwrap().at(Call::Flush, second);
        Ok(())
    });
    let log = storage.create_log("log", 2 * CHUNK as u64).unwrap();
    assert_eq!(chunks_of(&storage, "file"), [TO as u32]);
    log.write_at(0, &[5; 2 * CHUNK]).unwrap();
    drop(log);
    check_twice(&device, storage, &[("log", 5, 2 * CHUNK), ("file", 6, CHUNK)]);
}

#[test]
fn a_file_that_is_written_stays_where_it_is_until_it_is_done() {
    let (device, storage) = device();
    let mut file = storage.create("0", WriteHint::table(6)).unwrap();
    file.append(&[0; CHUNK]).and_then(|()| file.sync()).unwrap();
    wear(&storage, &[TO], 100);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [FROM as u32]);
    file.append(&[0; CHUNK]).and_then(|()| file.sync()).unwrap();
    drop(file);
    wear(&storage, &[TO], 100);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [TO, FROM + 1].map(|chunk| chunk as u32));
    check_twice(&device, storage, &[("0", 0, 2 * CHUNK)]);
}

/// Two files share the chunk.
#[test]
fn of_files_in_a_chunk_those_are_moved_that_are_there_in_the_end() {
    let (device, storage) = device();
    write(&storage, "0", 0, CHUNK / 2).unwrap();
    write(&storage, "1", 1, CHUNK / 2).unwrap();
    wear(&storage, &[TO], 100);
    let other = Arc::downgrade(&storage);
    device.at(Call::Write(TO), move || other.upgrade().unwrap().remove("0"));
    level(&storage);
    assert_eq!(chunks_of(&storage, "1"), [TO as u32]);
    storage.core.state.lock().sweep();
    assert_eq!(storage.usage().live_bytes, CHUNK as u64 / 2);
    assert_eq!(storage.usage().free_chunks as usize, CHUNKS - FROM - 1);
    check_twice(&device, storage, &[("1", 1, CHUNK / 2)]);
}

/// Its chunk is reset and has another file before it is copied.
#[test]
fn a_file_that_is_removed_meanwhile_need_not_be_readable() {
    let (device, storage) = filled(1);
    wear(&storage, &(FROM + 1..TO).collect::<Vec<_>>(), 1);
    let other = Arc::downgrade(&storage);
    device.at(Call::Read(FROM), move || {
        let storage = other.upgrade().unwrap();
        storage.remove("0")?;
        write(&storage, "new", 7, 4096)?;
        assert_eq!(chunks_of(&storage, "new"), [FROM as u32]);
        Ok(())
    });
    level(&storage);
    let usage = storage.usage();
    assert_eq!((usage.live_bytes, usage.levelling_failures), (4096, 0));
    assert_eq!(usage.free_chunks as usize, CHUNKS - FROM - 1);
    check_twice(&device, storage, &[("new", 7, 4096)]);
}

#[test]
fn what_is_moved_to_make_room_meanwhile_stays_there() {
    let (device, storage) = device();
    write(&storage, "0", 0, CHUNK / 2).unwrap();
    write(&storage, "dead", 1, CHUNK / 2).unwrap();
    storage.remove("dead").unwrap();
    storage.core.state.lock().sweep();
    wear(&storage, &[TO], 100);
    let other = Arc::downgrade(&storage);
    device.at(Call::Write(TO), move || {
        let storage = other.upgrade().unwrap();
        let core = &storage.core;
        assert!(core.state.lock().collect_one(core)?);
        Ok(())
    });
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [FROM as u32 + 1]);
    assert_eq!(storage.usage().live_bytes, CHUNK as u64 / 2);
    check_twice(&device, storage, &[("0", 0, CHUNK / 2)]);
}

fn fails() -> Result<()> {
    Err(Error::io("use", "the device", std::io::Error::other("broken")))
}

#[test]
fn what_fails_in_a_move_is_counted_and_told_and_costs_nobody_a_write() {
    // It was written before, and is to be reset.
    let to = TO - 1;
    for call in [Call::Read(FROM), Call::Write(to), Call::Flush, Call::Reset(to)] {
        let (device, storage) = cold((CHUNKS - FROM - 1) as u8);
        (3..19).for_each(|number| storage.remove(&number.to_string()).unwrap());
        storage.core.state.lock().sweep();
        storage.sync_names().unwrap();
        wear(&storage, &[to], 100);
        let again = Arc::downgrade(&device);
        match call {
            Call::Flush => device.at(Call::Write(to), move || {
                again.upgrade().unwrap().at(Call::Flush, fails);
                Ok(())
            }),
            call => device.at(call, fails),
        }
        write(&storage, "new", 30, CHUNK).unwrap();
        assert!(device.work.lock().is_none(), "{call:?} was not asked for");
        let usage = storage.usage();
        assert_eq!(usage.levelling_failures, 1, "{call:?}");
        let told = storage.levelling_failure().unwrap().to_string();
        assert!(told.contains("broken"), "{told}");
        assert_eq!(usage.live_bytes as usize, 4 * CHUNK, "{call:?}");
        assert_eq!(usage.free_chunks as usize, CHUNKS - FROM - 4, "{call:?}");
        let files = [("0", 0), ("1", 1), ("2", 2), ("new", 30)];
        check_twice(&device, storage, &files.map(|(name, byte)| (name, byte, CHUNK)));
    }
}

#[test]
fn what_cannot_be_read_is_not_tried_again_and_what_is_worn_as_little_is_moved() {
    let (device, storage) = filled(3);
    device.below.set_readable(device.geometry().chunk(FROM), 4096, false);
    level(&storage);
    wear(&storage, &[TO], 16);
    level(&storage);
    assert_eq!([0, 1].map(|name| chunks_of(&storage, &name.to_string())[0] as usize), [FROM, TO]);
    assert_eq!(storage.usage().levelling_failures, 1);
}

/// A device is full then, and says so, whatever could not be moved for wear.
#[test]
fn a_chunk_that_cannot_be_read_and_would_make_no_room_is_not_told_to_be_why_there_is_none() {
    let (device, storage) = filled(3);
    device.below.set_readable(device.geometry().chunk(FROM), 4096, false);
    level(&storage);
    assert_eq!(storage.usage().levelling_failures, 1);
    let mut names = 3..;
    let full = loop {
        let name = names.next().unwrap().to_string();
        match write(&storage, &name, 7, CHUNK) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert!(full.is_out_of_space(), "{full}");
}

/// It can't be reset, but is not bad.
#[test]
fn a_chunk_that_a_move_failed_with_is_not_taken_again_before_it_was_reset() {
    let (device, storage) = cold(3);
    write(&storage, "dead", 9, CHUNK).unwrap();
    storage.remove("dead").unwrap();
    storage.core.state.lock().sweep();
    storage.sync_names().unwrap();
    let failing = FROM + 3;
    wear(&storage, &[TO], 100);
    wear(&storage, &[failing], 200);
    device.at(Call::Reset(failing), fails);
    level(&storage);
    wear(&storage, &[TO], 16);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [TO as u32]);
    let state = &mut *storage.core.state.lock();
    let (lease, free_after) = state.space.lease(failing as u32);
    state
        .make_ready(&*device, LifetimeClassifier::SHORTEST, lease.chunk, free_after)
        .unwrap()
        .unwrap();
    assert!(state.levelling.avoided.is_empty());
}

#[test]
fn a_panic_in_a_move_ends_it_and_its_chunk_is_free() {
    let (device, storage) = filled(3);
    device.at(Call::Read(FROM), || panic!("on purpose"));
    let moved = panic::catch_unwind(AssertUnwindSafe(|| level(&storage)));
    moved.unwrap_err();
    assert_eq!(storage.usage().free_chunks as usize, CHUNKS - FROM - 3);
    wear(&storage, &[TO], 16);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [TO as u32]);
    check_twice(&device, storage, &[("0", 0, CHUNK), ("1", 1, CHUNK), ("2", 2, CHUNK)]);
}

/// The journal can't be made durable, for good.
#[test]
fn a_chunk_that_is_not_reset_as_its_last_files_removal_is_not_durable_stays_free() {
    let (device, storage) = cold(3);
    storage.sync_names().unwrap();
    storage.remove("2").unwrap();
    storage.core.state.lock().sweep();
    let free = storage.usage().free_chunks;
    let state = &mut *storage.core.state.lock();
    let (lease, free_after) = state.space.lease(FROM as u32 + 2);
    device.at(Call::Flush, fails);
    state.make_ready(&*device, LifetimeClassifier::SHORTEST, lease.chunk, free_after).unwrap_err();
    assert_eq!(state.space.free_chunks(), free);
}

/// It is found to be bad when it is reset.
#[test]
fn a_worn_chunk_that_goes_bad_takes_nothing_and_is_used_no_more() {
    let (device, storage) = cold(3);
    write(&storage, "dead", 9, CHUNK).unwrap();
    storage.remove("dead").unwrap();
    storage.core.state.lock().sweep();
    storage.sync_names().unwrap();
    let bad = FROM + 3;
    wear(&storage, &[TO], 100);
    wear(&storage, &[bad], 200);
    device.below.break_chunk(device.geometry().chunk(bad));
    level(&storage);
    let good_bytes = storage.usage().good_bytes;
    assert_eq!(good_bytes as usize, (CHUNKS - FROM - 1) * CHUNK);
    assert_eq!(chunks_of(&storage, "0"), [FROM as u32]);
    wear(&storage, &[TO], 16);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [TO as u32]);
    check_twice(&device, storage, &[("0", 0, CHUNK), ("1", 1, CHUNK), ("2", 2, CHUNK)]);
}

/// The last free chunk but the one that is kept to move to.
#[test]
fn who_finds_no_room_waits_for_the_end_of_a_move() {
    let (device, storage) = filled((CHUNKS - FROM - 2) as u8);
    assert_eq!(storage.usage().free_chunks, 2);
    let other = Arc::downgrade(&storage);
    let (say, hear) = mpsc::channel();
    device.at(Call::Write(TO), move || {
        let storage = other.upgrade().unwrap();
        assert_eq!(storage.usage().free_chunks, 1);
        let (writer, is_done) = (storage.clone(), Arc::new(AtomicBool::new(false)));
        let done = is_done.clone();
        let work = move || {
            let written = write(&writer, "new", 77, CHUNK);
            drop(writer);
            done.store(true, Ordering::Release);
            say.send(written).unwrap();
        };
        Threads.spawn("writer", Priority::Normal, Box::new(work))?;
        // Whoever is woken too early waits again.
        while !storage.core.given_back.notify_one() && !is_done.load(Ordering::Acquire) {
            thread::yield_now();
        }
        Ok(())
    });
    level(&storage);
    hear.recv().unwrap().unwrap();
    check_twice(&device, storage, &[("0", 0, CHUNK), ("new", 77, CHUNK)]);
}

#[test]
fn nothing_is_moved_where_a_deep_table_would_find_no_chunk() {
    let (_, storage) = filled((CHUNKS - FROM - 1) as u8);
    wear(&storage, &[TO], 100);
    level(&storage);
    assert_eq!(storage.usage().levelled_bytes, 0);
    write(&storage, "new", 77, CHUNK).unwrap_err();
}

/// It is as worn as the one that is taken, and has room.
#[test]
fn what_is_moved_does_not_go_on_where_other_data_are() {
    let (device, storage) = cold(3);
    write(&storage, "begun", 9, CHUNK / 2).unwrap();
    wear(&storage, &[chunks_of(&storage, "begun")[0] as usize], 200);
    wear(&storage, &[TO], 100);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [TO as u32]);
    check_twice(&device, storage, &[("0", 0, CHUNK), ("begun", 9, CHUNK / 2)]);
}

#[test]
fn nothing_is_written_behind_what_was_moved() {
    let (device, storage) = device();
    write(&storage, "0", 0, CHUNK / 2).unwrap();
    wear(&storage, &[TO], 100);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [TO as u32]);
    write(&storage, "new", 7, CHUNK / 2).unwrap();
    assert_ne!(chunks_of(&storage, "new"), [TO as u32]);
    check_twice(&device, storage, &[("0", 0, CHUNK / 2), ("new", 7, CHUNK / 2)]);
}

#[test]
fn out_of_chunks_of_more_than_64_mib_nothing_is_moved() {
    for (chunk_bytes, moved) in [(64 << 20, 4096), ((64 << 20) + 4096, 0)] {
        let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, CHUNKS as u16, chunk_bytes));
        let storage = FlashStorage::open(Arc::new(device)).unwrap();
        write(&storage, "0", 0, 4096).unwrap();
        wear(&storage, &[TO], 100);
        level(&storage);
        assert_eq!(storage.usage().levelled_bytes, moved);
    }
}

#[test]
fn a_disk_that_spreads_wear_itself_is_left_alone() {
    let disk = EmulatedDisk::new(CHUNKS + 16, CHUNK, 4);
    let zones = FdpDevice::lay_out(disk).unwrap();
    let storage = FlashStorage::open(Arc::new(zones)).unwrap();
    write(&storage, "0", 0, CHUNK).unwrap();
    let free = storage.core.state.lock().space.most_worn_free(&BTreeSet::new()).unwrap();
    wear(&storage, &[free as usize], 100);
    level(&storage);
    assert_eq!(storage.usage().levelled_bytes, 0);
}

/// The journal has so many names that a snapshot and one change more would not fit.
#[test]
fn a_move_that_the_journal_has_no_room_for_is_left_undone_and_the_journal_goes_on() {
    let (device, storage) = filled(2);
    let mut names = 0..;
    let full = loop {
        let name = format!("{:0>200}", names.next().unwrap());
        match storage.create(&name, WriteHint::table(6)) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(full.is_out_of_space(), "{full}");
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [FROM as u32]);
    let told = storage.levelling_failure().unwrap();
    assert!(told.is_out_of_space(), "{told}");
    storage.remove(&format!("{:0>200}", 0)).unwrap();
    check_twice(&device, storage, &[("0", 0, CHUNK), ("1", 1, CHUNK)]);
}

/// Power is lost at every call: of the move, of a file that takes the chunk which it left, and of what makes that safe.
#[test]
fn power_loss_anywhere_in_a_move_leaves_all_files_whole() {
    for seed in 0..20 {
        let (mut calls, mut moved) = (0, 0);
        loop {
            let (device, storage) = filled(2);
            wear(&storage, &(FROM + 2..TO).collect::<Vec<_>>(), 1);
            storage.sync_names().unwrap();
            device.below.fail_after(calls);
            level(&storage);
            moved += u32::from(chunks_of(&storage, "0") == [TO as u32]);
            let done = write(&storage, "new", 7, CHUNK).and_then(|()| storage.sync_names());
            drop(storage);
            device.below.lose_power(&mut Rng::new(seed ^ calls << 20));
            let again = FlashStorage::open(Arc::new(device.below.clone())).unwrap();
            check(&again, "0", 0, CHUNK);
            check(&again, "1", 1, CHUNK);
            if done.is_ok() {
                check(&again, "new", 7, CHUNK);
                break;
            }
            calls += 1;
        }
        assert!(calls > 8 && moved > 3, "{calls} calls, {moved} moved");
    }
}
