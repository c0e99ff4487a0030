//! Power loss at every write, reset and flush of a history: what was synced is there, and names are those of some
//! moment since they were last made safe.

mod engine;
mod open_channel;
mod zoned;

use esker_base::{Result, Rng, WriteHint};
use esker_flash::chunk_device::MemoryChunkDevice;
use esker_flash::device::fdp::EmulatedDisk;
use esker_flash::storage::Usage;
use esker_flash::{ChunkDevice, FdpDevice, FlashStorage, Geometry};
use esker_storage::{Storage, WritableFile};
use open_channel::{OpenChannel, Seen};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use zoned::{AllUnits, LossyDisk, SeenZoned};

/// The journal's are the first.
const JOURNAL_CHUNKS: usize = 4;

/// 12 chunks, so small that everything happens soon: turns of the journal, moves, a full device.
fn device() -> MemoryChunkDevice {
    MemoryChunkDevice::new(Geometry::of_blocks(1, 3, 4, 32 << 10))
}

/// A device that can fail and lose power. Clones share it.
trait Device: Clone {
    /// The device as a process finds it that is started now.
    fn zones(&self) -> Arc<dyn ChunkDevice>;
    fn fail_after(&self, calls: u64);
    fn lose_power(&self, rng: &mut Rng);

    /// Writes what is on it before its history begins, and says what that is.
    fn fill(&self) -> Known {
        Known { moments: vec![Names::new()], ..Known::default() }
    }

    /// A storage on it was used by a history.
    fn was_used(&self, _before: &Usage, _after: &Usage) {}

    /// A history has ended, or could not begin.
    fn ended(&self, _is_failed: bool) {}

    fn open(&self) -> Result<FlashStorage> {
        FlashStorage::open(self.zones())
    }
}

impl Device for MemoryChunkDevice {
    fn zones(&self) -> Arc<dyn ChunkDevice> {
        Arc::new(self.clone())
    }
    fn fail_after(&self, calls: u64) {
        MemoryChunkDevice::fail_after(self, calls);
    }
    fn lose_power(&self, rng: &mut Rng) {
        MemoryChunkDevice::lose_power(self, rng);
    }
}

impl Device for EmulatedDisk {
    fn zones(&self) -> Arc<dyn ChunkDevice> {
        Arc::new(FdpDevice::of(self.clone()).unwrap())
    }
    fn fail_after(&self, calls: u64) {
        EmulatedDisk::fail_after(self, calls);
    }
    fn lose_power(&self, rng: &mut Rng) {
        EmulatedDisk::lose_power(self, rng);
    }
}

fn byte(id: u64, offset: u64) -> u8 {
    let mixed = ((id << 40) ^ (offset / 16)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u8 | 1
}

fn bytes(id: u64, range: Range<u64>) -> Vec<u8> {
    range.map(|offset| byte(id, offset)).collect()
}

type Names = BTreeMap<String, u64>;

/// What is known of a storage.
#[derive(Default)]
struct Known {
    names: Names,
    /// The names at every moment since they were last made safe.
    moments: Vec<Names>,
    synced: BTreeMap<u64, u64>,
    next: u64,
    log_written: u64,
    log_synced: u64,
}

struct History<'a> {
    storage: &'a FlashStorage,
    known: &'a mut Known,
    writers: BTreeMap<u64, Box<dyn WritableFile>>,
}

const LOG_BYTES: u64 = 30_000;

impl History<'_> {
    fn run(&mut self, rng: &mut Rng, steps: u64) -> Result<()> {
        let log = self.storage.create_log("log", LOG_BYTES)?;
        self.storage.sync_names()?;
        for _ in 0..steps {
            match self.step(rng) {
                Err(error) if error.is_out_of_space() => {}
                other => other?,
            }
            if rng.below(4) == 0 && self.known.log_written < LOG_BYTES {
                let end = (self.known.log_written + 1 + rng.below(900)).min(LOG_BYTES);
                let written = bytes(0, self.known.log_written..end);
                match log.write_at(self.known.log_written, &written) {
                    Err(error) if error.is_out_of_space() => continue,
                    other => other?,
                }
                self.known.log_written = end;
                if rng.below(2) == 0 {
                    log.sync()?;
                    self.known.log_synced = end;
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, rng: &mut Rng) -> Result<()> {
        let name = format!("file-{}", rng.below(5));
        let known = &mut *self.known;
        match rng.below(9) {
            0..=2 if !known.names.contains_key(&name) => {
                known.next += 1;
                let id = known.next;
                known.names.insert(name.clone(), id);
                known.moments.push(known.names.clone());
                known.synced.insert(id, 0);
                let writer = self.storage.create(&name, WriteHint::table(rng.below(3) as u8))?;
                self.writers.insert(id, writer);
            }
            3 if known.names.contains_key(&name) => {
                known.names.remove(&name).map(|id| self.writers.remove(&id));
                known.moments.push(known.names.clone());
                self.storage.remove(&name)?;
            }
            4 => {
                let to = format!("file-{}", rng.below(5));
                if let Some(id) = known.names.remove(&name) {
                    let replaced = known.names.insert(to.clone(), id).filter(|old| *old != id);
                    replaced.map(|id| self.writers.remove(&id));
                    known.moments.push(known.names.clone());
                    self.storage.rename(&name, &to)?;
                }
            }
            5 => {
                self.storage.sync_names()?;
                known.moments = vec![known.names.clone()];
            }
            6 => {
                let id = known.names.get(&name);
                id.map(|id| self.writers.remove(id));
            }
            _ => self.write(&name, rng)?,
        }
        Ok(())
    }

    fn write(&mut self, name: &str, rng: &mut Rng) -> Result<()> {
        let Some(id) = self.known.names.get(name).copied() else { return Ok(()) };
        let Some(writer) = self.writers.get_mut(&id) else { return Ok(()) };
        let start = writer.len();
        let outcome = writer.append(&bytes(id, start..start + rng.below(20_000)));
        let outcome = outcome.and_then(|()| if rng.below(2) == 0 { writer.sync() } else { Ok(()) });
        match outcome {
            Ok(()) if rng.below(2) == 0 => {
                writer.sync()?;
                self.known.synced.insert(id, writer.len());
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(error) => {
                // A file whose write failed takes no more.
                self.writers.remove(&id);
                Err(error)
            }
        }
    }
}

fn content(storage: &FlashStorage, name: &str) -> Vec<u8> {
    let file = storage.open(name).unwrap();
    let mut content = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut content).unwrap();
    content
}

impl Known {
    /// Fails unless `storage` is what power loss may leave of this.
    fn check(&self, storage: &FlashStorage, context: &str) {
        let mut found: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for name in storage.list().unwrap() {
            found.insert(name.clone(), content(storage, &name));
        }
        if let Some(log) = found.remove("log") {
            let is_written = |at: u64| log[at as usize] == byte(0, at);
            assert!((0..self.log_synced).all(is_written), "{context}: the log misses synced bytes");
            let rest = self.log_synced..LOG_BYTES;
            assert!(
                rest.into_iter().all(|at| is_written(at) || log[at as usize] == 0),
                "{context}"
            );
        } else {
            assert_eq!(self.log_synced, 0, "{context}: the log is gone");
        }
        // Of each moment there are many names, and most are those of the one before.
        let compared = RefCell::new(BTreeMap::new());
        let is_content = |name: &str, id: u64| {
            let compare = || {
                found.get(name).is_some_and(|content| {
                    content.len() as u64 >= self.synced[&id]
                        && *content == bytes(id, 0..content.len() as u64)
                })
            };
            *compared.borrow_mut().entry((name.to_owned(), id)).or_insert_with(compare)
        };
        let is_of = |names: &Names| {
            names.len() == found.len() && names.iter().all(|(name, id)| is_content(name, *id))
        };
        let lengths: Vec<_> = found.iter().map(|(name, content)| (name, content.len())).collect();
        assert!(self.moments.iter().any(is_of), "{context}: {lengths:?} was never so");
    }
}

/// Runs the history of `seed` on a device until that fails after so many calls; `None` if it never does.
fn lose_power_after(device: impl Device, calls: u64, seed: u64, steps: u64) -> Option<()> {
    let context = format!("seed {seed}, call {calls}");
    let mut rng = Rng::new(seed);
    let mut known = device.fill();
    device.fail_after(calls);
    let failed = match device.open() {
        Err(_) => true,
        Ok(storage) => {
            let (known, before) = (&mut known, storage.usage());
            let mut history = History { storage: &storage, known, writers: BTreeMap::new() };
            let is_failed = history.run(&mut rng, steps).is_err();
            device.was_used(&before, &storage.usage());
            is_failed
        }
    };
    device.ended(failed);
    for loss in 0..3 {
        device.lose_power(&mut Rng::new(seed ^ calls << 20 ^ loss));
        let again = device.open();
        let again = again.unwrap_or_else(|error| panic!("{context}: {error}"));
        known.check(&again, &context);
    }
    // What is left can be written on, once there is room.
    let again = device.open().unwrap();
    again.list().unwrap().iter().for_each(|name| again.remove(name).unwrap());
    let mut file = again.create("new", WriteHint::table(1)).unwrap();
    let written = file.append(&bytes(77, 0..150_000)).and_then(|()| file.sync());
    written.unwrap_or_else(|error| panic!("{context}: {error}, {:?}", again.usage()));
    again.sync_names().unwrap();
    device.lose_power(&mut rng);
    drop((file, again));
    let again = device.open().unwrap();
    assert_eq!(content(&again, "new"), bytes(77, 0..150_000), "{context}");
    failed.then_some(())
}

#[test]
fn power_loss_at_every_call_of_small_histories_leaves_what_was_promised() {
    lose_power_everywhere(device, 0..12, 0..0);
}

#[test]
fn power_loss_in_long_histories_leaves_what_was_promised() {
    lose_power_everywhere(device, 0..0, 100..220);
}

/// Twice as many chunks, of which five may be written in part.
fn narrow_device() -> MemoryChunkDevice {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 24, 32 << 10));
    device.limit_active(5);
    device
}

/// At every call of small histories, and somewhere in long ones.
fn lose_power_everywhere<D: Device>(device: impl Fn() -> D, small: Range<u64>, long: Range<u64>) {
    for seed in small {
        let mut calls = 0;
        while lose_power_after(device(), calls, seed, 60).is_some() {
            calls += 1;
            assert!(calls < 2_000, "seed {seed}: it fails though the power is there");
        }
        assert!(calls > 50, "{calls}");
    }
    for seed in long {
        lose_power_after(device(), Rng::new(seed).below(1_200), seed, 600);
    }
}

#[test]
fn power_loss_on_a_device_with_few_active_chunks_leaves_what_was_promised() {
    lose_power_everywhere(narrow_device, 300..306, 400..440);
}

/// A disk with placement that is as small, was laid out, and loses any of the blocks that were not flushed.
fn placed_device() -> EmulatedDisk {
    const HEADER_UNITS: usize = 32;
    let disk = EmulatedDisk::new(12 + HEADER_UNITS, 32 << 10, 4);
    let zones = FdpDevice::lay_out(disk.clone()).unwrap();
    drop(FlashStorage::open(Arc::new(zones)).unwrap());
    disk
}

#[test]
fn power_loss_on_a_disk_with_placement_leaves_what_was_promised() {
    lose_power_everywhere(placed_device, 500..506, 600..660);
}

/// Pages are lost in pairs, can't be read before more is written, and resets are cut short.
#[test]
fn power_loss_under_the_rules_of_open_channel_flash_leaves_what_was_promised() {
    let devices = RefCell::new(Vec::new());
    let device = || {
        let device = OpenChannel::new();
        devices.borrow_mut().push(device.clone());
        device
    };
    lose_power_everywhere(device, 700..706, 800..860);
    let seen = devices.borrow().iter().map(OpenChannel::seen).fold(Seen::default(), Seen::plus);
    println!("{seen:?}");
    let Seen { lost, lost_and_kept, half_reset, too_early, .. } = seen;
    assert!(lost > lost_and_kept, "{seen:?}");
    assert!([lost_and_kept, half_reset, too_early].iter().all(|count| *count > 5), "{seen:?}");
}

/// A device on which files were written until there was no room, and every second one removed: half of each chunk is
/// dead, so that room has to be made by moving what is alive.
#[derive(Clone)]
struct NearlyFull<D> {
    device: D,
    /// What is done to it when it is filled.
    wear: fn(&D),
    seen: Rc<RefCell<SeenFull>>,
}

/// What histories on devices that are nearly full did.
#[derive(Clone, Copy, Default, Debug)]
struct SeenFull {
    /// Histories in which something was moved to make room, and those in which chunks went bad.
    moved: u64,
    gone_bad: u64,
}

impl<D: Device> Device for NearlyFull<D> {
    fn zones(&self) -> Arc<dyn ChunkDevice> {
        self.device.zones()
    }
    fn fail_after(&self, calls: u64) {
        self.device.fail_after(calls);
    }
    fn lose_power(&self, rng: &mut Rng) {
        self.device.lose_power(rng);
    }
    fn was_used(&self, before: &Usage, after: &Usage) {
        let seen = &mut *self.seen.borrow_mut();
        seen.moved += u64::from(after.moved_bytes > 0);
        seen.gone_bad += u64::from(after.good_bytes < before.good_bytes);
    }

    fn fill(&self) -> Known {
        const FILE_BYTES: u64 = 15_000;
        let storage = self.open().unwrap();
        let name = |id: u64| format!("kept-{id}");
        let write = |id: u64| {
            let mut file = storage.create(&name(id), WriteHint::table(6))?;
            file.append(&bytes(id, 0..FILE_BYTES)).and_then(|()| file.sync())
        };
        let mut next = 1;
        let full = loop {
            match write(next) {
                Ok(()) => next += 1,
                Err(error) => break error,
            }
        };
        assert!(full.is_out_of_space(), "{full}");
        let goes = |id: &u64| *id == next || id.is_multiple_of(2);
        (1..=next).filter(goes).for_each(|id| storage.remove(&name(id)).unwrap());
        storage.sync_names().unwrap();
        let kept = || (1..next).filter(|id| !goes(id));
        let names: Names = kept().map(|id| (name(id), id)).collect();
        let synced = kept().map(|id| (id, FILE_BYTES)).collect();
        (self.wear)(&self.device);
        Known { moments: vec![names.clone()], names, synced, next, ..Known::default() }
    }
}

/// Resets are cut short, and chunks go bad in them, while what is alive is moved to make room.
#[test]
fn reclaim_on_a_full_device_with_bad_chunks_and_interrupted_erases_loses_nothing() {
    let (devices, full) = (RefCell::new(Vec::new()), Rc::<RefCell<SeenFull>>::default());
    let device = || {
        // The chunks that are bad from the beginning are others every time.
        let device = OpenChannel::worn(devices.borrow().len() as u64);
        devices.borrow_mut().push(device.clone());
        NearlyFull { device, wear: |_| (), seen: full.clone() }
    };
    lose_power_everywhere(device, 900..904, 1_000..1_040);
    let seen = devices.borrow().iter().map(OpenChannel::seen).fold(Seen::default(), Seen::plus);
    let SeenFull { moved, gone_bad } = *full.borrow();
    println!("{full:?}, {seen:?}");
    assert!(
        [moved, gone_bad, seen.half_reset].iter().all(|count| *count > 50),
        "{full:?}, {seen:?}"
    );
    assert!(seen.half_reset_and_bad > 3, "{seen:?}");
}

/// Here what was written last may be left, and what was written before it in other chunks lost.
#[test]
fn reclaim_on_a_full_device_whose_chunks_lose_what_was_not_flushed_one_by_one_loses_nothing() {
    let full = Rc::<RefCell<SeenFull>>::default();
    let wear = |device: &MemoryChunkDevice| {
        let worn = (JOURNAL_CHUNKS..16).step_by(4);
        worn.for_each(|index| device.break_chunk(device.geometry().chunk(index)));
    };
    let device = || {
        let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 2, 8, 64 << 10));
        NearlyFull { device, wear, seen: full.clone() }
    };
    lose_power_everywhere(device, 900..904, 1_000..1_040);
    let SeenFull { moved, gone_bad } = *full.borrow();
    assert!(moved > 50 && gone_bad > 50, "{full:?}");
}

/// A device on which files stayed while others were overwritten, until one of those that stayed was moved for wear; and
/// the next will be, soon.
#[derive(Clone)]
struct Worn<D> {
    device: D,
    /// Histories in which something was moved for wear.
    levelled: Rc<Cell<u64>>,
}

impl<D: Device> Device for Worn<D> {
    fn zones(&self) -> Arc<dyn ChunkDevice> {
        self.device.zones()
    }
    fn fail_after(&self, calls: u64) {
        self.device.fail_after(calls);
    }
    fn lose_power(&self, rng: &mut Rng) {
        self.device.lose_power(rng);
    }
    fn was_used(&self, _before: &Usage, after: &Usage) {
        self.levelled.set(self.levelled.get() + u64::from(after.levelled_bytes > 0));
    }

    fn fill(&self) -> Known {
        const KEPT: u64 = 6;
        const FILE_BYTES: u64 = 30_000;
        /// It is looked for something to move when so many chunks more were reset.
        const RESETS_BETWEEN: u64 = 16;
        let storage = self.open().unwrap();
        let name = |id: u64| format!("kept-{id}");
        let write = |name: &str, id: u64| {
            let mut file = storage.create(name, WriteHint::table(6)).unwrap();
            file.append(&bytes(id, 0..FILE_BYTES)).and_then(|()| file.sync()).unwrap();
        };
        (1..=KEPT).for_each(|id| write(&name(id), id));
        let chunks = storage.usage().good_bytes / u64::from(self.zones().geometry().chunk_bytes);
        let is_soon = |usage: Usage| {
            let resets = (usage.erases.mean * chunks as f64).round() as u64;
            usage.levelled_bytes > 0 && resets % RESETS_BETWEEN == RESETS_BETWEEN - 2
        };
        while !is_soon(storage.usage()) {
            write("passing", KEPT + 1);
            storage.remove("passing").unwrap();
        }
        storage.sync_names().unwrap();
        let names: Names = (1..=KEPT).map(|id| (name(id), id)).collect();
        let synced = (1..=KEPT).map(|id| (id, FILE_BYTES)).collect();
        let next = KEPT + 1;
        Known { moments: vec![names.clone()], names, synced, next, ..Known::default() }
    }
}

/// What is moved so that chunks wear alike is where it was, or where it is going, whenever the power is lost.
#[test]
fn power_loss_while_data_are_moved_for_wear_loses_nothing() {
    let device = || MemoryChunkDevice::new(Geometry::of_blocks(1, 2, 8, 32 << 10));
    lose_power_where_chunks_wear(device, 1_700..1_701, 1_800..1_920);
    lose_power_where_chunks_wear(narrow_device, 0..0, 2_000..2_060);
    lose_power_where_chunks_wear(|| LossyDisk::new(true), 0..0, 2_100..2_160);
}

fn lose_power_where_chunks_wear<D: Device>(
    device: impl Fn() -> D,
    small: Range<u64>,
    long: Range<u64>,
) {
    let levelled = Rc::<Cell<u64>>::default();
    let worn = || Worn { device: device(), levelled: levelled.clone() };
    lose_power_everywhere(worn, small, long);
    println!("{levelled:?}");
    assert!(levelled.get() > 10, "{levelled:?}");
}

/// Zones of a disk of smaller blocks, of which few may be active: empty at first, and nearly full.
#[test]
fn power_loss_on_a_zoned_disk_leaves_what_was_promised() {
    lose_power_on_zoned_disks(false);
}

#[test]
fn power_loss_on_a_zoned_disk_that_is_appended_to_leaves_what_was_promised() {
    lose_power_on_zoned_disks(true);
}

fn lose_power_on_zoned_disks(appends: bool) {
    let disks = RefCell::new(Vec::new());
    let disk = || {
        let disk = LossyDisk::new(appends);
        disks.borrow_mut().push(disk.clone());
        disk
    };
    lose_power_everywhere(disk, 1_100..1_104, 1_200..1_230);
    let full = Rc::<RefCell<SeenFull>>::default();
    let nearly_full = || NearlyFull { device: disk(), wear: |_| (), seen: full.clone() };
    lose_power_everywhere(nearly_full, 1_300..1_302, 1_400..1_415);
    let seen =
        disks.borrow().iter().map(LossyDisk::seen).fold(SeenZoned::default(), SeenZoned::plus);
    println!("{seen:?}");
    let SeenZoned { torn, unfinished, undone } = seen;
    let counts = [torn, unfinished, undone, full.borrow().moved];
    assert!(counts.iter().all(|count| *count > 20), "{seen:?}, {full:?}");
}

/// In the moment before any of the writes of small histories, and of some of long ones.
#[test]
fn what_somebody_else_writes_into_a_zone_is_told_left_alone_and_costs_nothing_that_was_promised() {
    for appends in [true, false] {
        let shared = || AllUnits(LossyDisk::new(appends));
        lose_power_everywhere(shared, 1_500..1_504, 1_600..1_630);
    }
}

/// The second log has the number and the chunk of the first.
#[test]
fn a_log_made_anew_has_nothing_of_a_removed_one_after_power_loss() {
    const BYTES: u64 = 4096;
    let mut found = 0;
    for seed in 0..64 {
        let device = device();
        let storage = device.open().unwrap();
        for name in ["first", "second"] {
            storage.create(name, WriteHint::table(3)).and_then(|mut file| file.sync()).unwrap();
        }
        let log = storage.create_log("old", BYTES).unwrap();
        log.write_at(0, &[7; 100]).unwrap();
        log.sync().unwrap();
        storage.remove("old").unwrap();
        storage.sync_names().unwrap();
        drop((storage, log));
        // The first change after an open writes what names there are, by which the next open numbers files; and it flushes the device.
        device.open().unwrap().remove("first").unwrap();
        let storage = device.open().unwrap();
        storage.remove("second").unwrap();
        drop(storage.create_log("new", BYTES).unwrap());
        drop(storage);
        device.lose_power(&mut Rng::new(seed));
        let again = device.open().unwrap();
        if again.exists("new").unwrap() {
            found += 1;
            assert_eq!(content(&again, "new"), [0; BYTES as usize], "seed {seed}");
        }
    }
    assert!(found > 10, "{found}");
}

/// A process removed files and died: the device has that in its cache. What the next one takes of their chunks, it takes for good.
#[test]
fn chunks_of_files_that_a_dead_process_removed_are_not_reset_before_that_is_safe() {
    const FILES: u64 = 5;
    const FILE_BYTES: u64 = 20_000;
    let mut cut_off = 0;
    for (calls, seed) in (1..20).flat_map(|calls| (0..16).map(move |seed| (calls, seed))) {
        let device = device();
        let storage = device.open().unwrap();
        let log = storage.create_log("log", 20_000).unwrap();
        for id in 0..FILES {
            let mut file = storage.create(&format!("{id}"), WriteHint::table(id as u8)).unwrap();
            file.append(&bytes(id, 0..FILE_BYTES)).and_then(|()| file.sync()).unwrap();
        }
        storage.sync_names().unwrap();
        (0..FILES).for_each(|id| storage.remove(&format!("{id}")).unwrap());
        // The process dies here, and the device goes on.
        drop((storage, log));
        let storage = device.open().unwrap();
        device.fail_after(calls);
        let log = storage.open_log("log").unwrap();
        // A little at a time, so that the log takes chunks.
        cut_off += u32::from((0..40).any(|at| log.write_at(at * 100, &[7; 100]).is_err()));
        drop((storage, log));
        device.lose_power(&mut Rng::new(seed));
        let again = device.open().unwrap();
        for id in 0..FILES {
            let name = format!("{id}");
            if again.exists(&name).unwrap() {
                let context = format!("{calls} calls, seed {seed}, file {id}");
                assert!(content(&again, &name) == bytes(id, 0..FILE_BYTES), "{context}");
            }
        }
    }
    assert!(cut_off > 100, "{cut_off}");
}
