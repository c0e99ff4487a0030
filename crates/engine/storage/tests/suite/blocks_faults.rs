//! Files on blocks when a device does late what it said had failed, and when the directory is full.

use esker_base::background::Stepped;
use esker_base::{Error, Result, WriteHint};
use esker_storage::blocks::{BlockDevice, MemoryDevice};
use esker_storage::{BlockStorage, Storage, WritableFile};
use parking_lot::Mutex;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const TABLE: WriteHint = WriteHint::table(0);

/// A file that takes all of the device but one chunk.
const DEVICE_BYTES: u64 = 12 << 20;
const LONG: usize = 7 << 20;

/// A device that, while it is slow, fails writes and does them later, as a node does whose answer was lost.
struct Late {
    device: MemoryDevice,
    is_slow: AtomicBool,
    late: Mutex<Vec<(u64, Vec<u8>)>>,
}

impl Late {
    fn new() -> Arc<Self> {
        let (is_slow, late) = Default::default();
        Arc::new(Late { device: MemoryDevice::new(DEVICE_BYTES), is_slow, late })
    }

    /// What `work` writes fails.
    fn slowly<T>(&self, work: impl FnOnce() -> Result<T>) {
        self.is_slow.store(true, SeqCst);
        assert!(work().is_err());
        self.is_slow.store(false, SeqCst);
    }

    /// Does what is late. Says whether there was something.
    fn catch_up(&self) -> bool {
        let late = std::mem::take(&mut *self.late.lock());
        late.iter().for_each(|(offset, bytes)| self.device.write(*offset, bytes).unwrap());
        !late.is_empty()
    }
}

impl BlockDevice for Late {
    fn describe(&self) -> String {
        "a device that is late".to_owned()
    }
    fn bytes(&self) -> u64 {
        self.device.bytes()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.device.read(offset, out)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if !self.is_slow.load(SeqCst) {
            return self.device.write(offset, bytes);
        }
        self.late.lock().push((offset, bytes.to_vec()));
        Err(Error::io("write to", self.describe(), ErrorKind::TimedOut.into()))
    }
    fn write_zeroes(&self, offset: u64, bytes: u64) -> Result<()> {
        self.write(offset, &vec![0; bytes as usize])
    }
    fn flush(&self) -> Result<()> {
        self.device.flush()
    }
}

fn open(device: &Arc<Late>) -> BlockStorage {
    BlockStorage::open(device.clone(), &Stepped).unwrap()
}

/// Writes as long a file as there is space for, and fails unless it has its bytes after what is late was done.
fn others_are_unharmed(storage: &BlockStorage, device: &Late) {
    let mut file = storage.create("other", TABLE).unwrap();
    // What is free, is from here on.
    storage.sync_names().unwrap();
    file.append(&[7; LONG]).unwrap();
    file.sync().unwrap();
    assert!(device.catch_up());
    let mut read = vec![0; LONG];
    storage.open("other").unwrap().read_exact_at(0, &mut read).unwrap();
    assert!(read.iter().all(|byte| *byte == 7));
}

#[test]
fn a_late_write_to_a_removed_file_harms_no_other() {
    let device = Late::new();
    let storage = open(&device);
    let mut file = storage.create("a", TABLE).unwrap();
    file.append(&[1; 5_000]).unwrap();
    device.slowly(|| file.sync());
    drop(file);
    storage.remove("a").unwrap();
    others_are_unharmed(&storage, &device);
}

#[test]
fn a_late_write_to_a_log_that_was_not_made_harms_no_other() {
    let device = Late::new();
    let storage = open(&device);
    device.slowly(|| storage.create_log("log", 1 << 20));
    assert_eq!(storage.list().unwrap(), [""; 0]);
    others_are_unharmed(&storage, &device);
}

#[test]
fn a_log_with_a_write_that_may_be_late_is_not_recycled() {
    let device = Late::new();
    let storage = open(&device);
    let log = storage.create_log("old", 1 << 20).unwrap();
    device.slowly(|| log.write_at(0, b"bytes"));
    drop(log);
    assert!(storage.recycle_log("old", "new", 1 << 20).unwrap().is_none());
    storage.remove("old").unwrap();
    others_are_unharmed(&storage, &device);
}

fn is_full<T>(outcome: Result<T>) -> bool {
    match outcome {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.io_kind(), Some(io::ErrorKind::StorageFull), "{error}");
            true
        }
    }
}

/// Files until the directory has space for a few bytes more at most. Gives back how many.
fn fill(storage: &BlockStorage) -> usize {
    let before = storage.list().unwrap().len();
    for bytes in [100_000, 10_000, 1_000, 100, 10, 3] {
        for number in 10.. {
            let name = format!("{number}{}", "x".repeat(bytes - 2));
            if is_full(storage.create(&name, TABLE)) {
                assert!(!storage.exists(&name).unwrap(), "what was not made is not there");
                break;
            }
            storage.sync_names().unwrap();
        }
    }
    storage.list().unwrap().len() - before
}

#[test]
fn a_full_directory_takes_no_more_and_goes_on() {
    let device = MemoryDevice::new(64 << 20);
    let storage = BlockStorage::open(Arc::new(device.clone()), &Stepped).unwrap();
    let name = |number| format!("w{number}");
    let mut writers: Vec<Box<dyn WritableFile>> =
        (0..9).map(|number| storage.create(&name(number), TABLE).unwrap()).collect();
    assert!(fill(&storage) > 10);
    assert!(is_full(storage.rename("w0", "a longer name")));
    // Bytes need a run, and that some bytes of the directory.
    let mut synced = 0;
    for writer in &mut writers {
        writer.append(b"bytes").unwrap();
        synced += usize::from(!is_full(writer.sync()));
    }
    assert!(synced < writers.len());
    storage.rename("w0", "v0").unwrap();
    storage.rename("v0", "w0").unwrap();
    storage.remove("w8").unwrap();
    storage.create("w9", TABLE).unwrap();
    storage.sync_names().unwrap();
    let again = BlockStorage::open(Arc::new(device), &Stepped).unwrap();
    assert_eq!(again.list().unwrap(), storage.list().unwrap());
    let is_whole = |number: usize| again.open(&name(number)).unwrap().len().unwrap() == 5;
    assert_eq!((0..8).filter(|number| is_whole(*number)).count(), synced);
}

#[test]
fn a_log_that_is_longer_than_the_device_is_refused_and_the_device_goes_on() {
    let device = MemoryDevice::new(DEVICE_BYTES);
    let open = || BlockStorage::open(Arc::new(device.clone()), &Stepped).unwrap();
    let storage = open();
    for bytes in [DEVICE_BYTES + 1, 1 << 52, (1 << 52) + 1, u64::MAX] {
        assert!(is_full(storage.create_log("log", bytes)), "{bytes}");
    }
    storage.create_log("short", 5_000).unwrap();
    storage.sync_names().unwrap();
    drop(storage);
    assert_eq!(open().list().unwrap(), ["short"]);
}

#[test]
fn what_is_written_behind_a_write_that_failed_is_not_there_to_read() {
    const PIECE: usize = 1 << 20;
    let device = Late::new();
    let storage = open(&device);
    let mut file = storage.create("a", TABLE).unwrap();
    let length = || storage.open("a").unwrap().len().unwrap();
    file.append(&[1; PIECE]).unwrap();
    assert_eq!(length(), PIECE as u64);
    device.is_slow.store(true, SeqCst);
    file.append(&[2; PIECE]).unwrap();
    device.is_slow.store(false, SeqCst);
    file.append(&[3; PIECE]).unwrap();
    assert_eq!(length(), PIECE as u64);
    file.sync().unwrap_err();
}

/// A device one of whose flushes fails and loses what it had to write, for all it matters; the next succeeds.
struct Forgetful {
    device: MemoryDevice,
    fails: AtomicBool,
}

impl BlockDevice for Forgetful {
    fn describe(&self) -> String {
        "a forgetful device".to_owned()
    }
    fn bytes(&self) -> u64 {
        self.device.bytes()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.device.read(offset, out)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.device.write(offset, bytes)
    }
    fn write_zeroes(&self, offset: u64, bytes: u64) -> Result<()> {
        self.device.write_zeroes(offset, bytes)
    }
    fn flush(&self) -> Result<()> {
        if self.fails.swap(false, SeqCst) {
            self.device.lose_power(&mut esker_base::Rng::new(1));
            return Err(Error::io("flush", self.describe(), io::Error::other("it failed")));
        }
        self.device.flush()
    }
}

#[test]
fn after_a_flush_that_failed_nobody_hears_that_bytes_are_safe() {
    let device = MemoryDevice::new(DEVICE_BYTES);
    let device = Arc::new(Forgetful { device, fails: AtomicBool::new(false) });
    let storage = BlockStorage::open(device.clone(), &Stepped).unwrap();
    let log = storage.create_log("log", 4096).unwrap();
    let mut table = storage.create("table", TABLE).unwrap();
    // The device has it, in its cache.
    table.append(&[1; 1 << 20]).unwrap();
    device.fails.store(true, SeqCst);
    log.sync().unwrap_err();
    assert!(table.sync().is_err(), "what it wrote is lost");
    assert!(storage.sync_names().is_err() && log.sync().is_err());
}
