//! Files on blocks, and the power going away: names are those of some point in time since they were last made safe, bytes are
//! those that were synced, and no file has another's.

use esker_base::background::Stepped;
use esker_base::{FileKind, Rng, WriteHint};
use esker_storage::blocks::MemoryDevice;
use esker_storage::{BlockStorage, Storage, WritableFile};
use std::collections::BTreeMap;
use std::sync::Arc;

const TABLE: WriteHint = WriteHint::table(0);
const DEVICE_BYTES: u64 = 24 << 20;

/// What a file that is the `id`-th has at `offset`.
fn byte(id: u64, offset: u64) -> u8 {
    let mixed = ((id << 40) ^ (offset / 16)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u8 | 1
}

fn bytes(id: u64, range: std::ops::Range<u64>) -> Vec<u8> {
    range.map(|offset| byte(id, offset)).collect()
}

fn open(device: &MemoryDevice) -> BlockStorage {
    BlockStorage::open(Arc::new(device.clone()), &Stepped).unwrap()
}

/// Long enough that six of them take more than a block: a directory may be written in part.
fn name_of(number: u64) -> String {
    format!("file-{number}-{}", "x".repeat(1_500))
}

/// Names with the files that they stand for.
type Names = BTreeMap<String, u64>;

/// A storage, and what is known of it.
struct History {
    storage: BlockStorage,
    writers: BTreeMap<u64, Box<dyn WritableFile>>,
    names: Names,
    /// The names at every point in time since they were last made safe.
    moments: Vec<Names>,
    /// The bytes of each file that were synced.
    synced: BTreeMap<u64, u64>,
    next: u64,
}

impl History {
    fn new(storage: BlockStorage) -> Self {
        let moments = vec![Names::new()];
        let (writers, names, synced) = Default::default();
        History { storage, writers, names, moments, synced, next: 1 }
    }

    /// One random step. Fails when the device does.
    fn step(&mut self, rng: &mut Rng) -> esker_base::Result<()> {
        let name = name_of(rng.below(6));
        match rng.below(8) {
            0 | 1 if !self.names.contains_key(&name) => {
                let id = self.next;
                self.next += 1;
                // It may or may not be there, if this fails.
                self.names.insert(name.clone(), id);
                self.moments.push(self.names.clone());
                self.synced.insert(id, 0);
                let writer = self.storage.create(&name, TABLE)?;
                self.writers.insert(id, writer);
            }
            2 if self.names.contains_key(&name) => {
                // Nobody has it open any more.
                self.names.remove(&name).map(|id| self.writers.remove(&id));
                self.moments.push(self.names.clone());
                self.storage.remove(&name)?;
            }
            3 => {
                let to = name_of(rng.below(6));
                if let Some(id) = self.names.remove(&name) {
                    let replaced = self.names.insert(to.clone(), id);
                    replaced.map(|id| self.writers.remove(&id));
                    self.moments.push(self.names.clone());
                    self.storage.rename(&name, &to)?;
                }
            }
            4 => {
                self.storage.sync_names()?;
                self.moments = vec![self.names.clone()];
            }
            _ => self.write(&name, rng)?,
        }
        Ok(())
    }

    fn write(&mut self, name: &str, rng: &mut Rng) -> esker_base::Result<()> {
        let Some(id) = self.names.get(name).copied() else { return Ok(()) };
        let writer = self.writers.get_mut(&id).expect("files are written by who created them");
        let start = writer.len();
        writer.append(&bytes(id, start..start + rng.below(40_000)))?;
        if rng.below(2) == 0 {
            writer.sync()?;
            let len = writer.len();
            self.synced.insert(id, len);
        }
        Ok(())
    }

    /// Fails unless `storage` is what power loss may leave of this.
    fn check(&self, storage: &BlockStorage) {
        let mut found: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for name in storage.list().unwrap() {
            let file = storage.open(&name).unwrap();
            let mut content = vec![0; file.len().unwrap() as usize];
            file.read_exact_at(0, &mut content).unwrap();
            found.insert(name, content);
        }
        let is_of = |names: &Names| {
            names.len() == found.len()
                && names.iter().all(|(name, id)| {
                    found.get(name).is_some_and(|content| {
                        content.len() as u64 >= self.synced[id]
                            && *content == bytes(*id, 0..content.len() as u64)
                    })
                })
        };
        let lengths: Vec<_> =
            found.iter().map(|(name, content)| (&name[..6], content.len())).collect();
        assert!(self.moments.iter().any(is_of), "{lengths:?} was never so");
    }
}

#[test]
fn a_removal_that_a_log_s_sync_made_durable_is_not_undone_without_its_bytes() {
    for seed in 0..64 {
        let device = MemoryDevice::new(DEVICE_BYTES);
        let storage = open(&device);
        let log = storage.create_log("log", 4096).unwrap();
        // More than a block of directory, so that it can be torn.
        for number in 0..6 {
            drop(storage.create(&name_of(number), TABLE).unwrap());
        }
        let mut first = storage.create("a", TABLE).unwrap();
        first.append(&[1; 1 << 20]).unwrap();
        first.sync().unwrap();
        drop(first);
        storage.remove("a").unwrap();
        log.write_at(0, &[7]).unwrap();
        log.sync().unwrap();
        // Its chunk is free now, and the directories that follow are not durable.
        let mut second = storage.create("b", TABLE).unwrap();
        second.append(&[2; 1 << 20]).unwrap();
        drop(storage.create("c", TABLE).unwrap());
        device.lose_power(&mut Rng::new(seed));
        if let Ok(file) = open(&device).open("a") {
            let mut found = vec![0; 1 << 20];
            file.read_exact_at(0, &mut found).unwrap();
            assert!(found.iter().all(|&byte| byte == 1), "seed {seed}");
        }
    }
}

#[test]
fn after_power_loss_synced_bytes_are_there_under_names_of_some_moment() {
    for seed in 0..800 {
        let mut rng = Rng::new(seed);
        let device = MemoryDevice::new(DEVICE_BYTES);
        let mut history = History::new(open(&device));
        device.fail_after(rng.below(250));
        for _ in 0..200 {
            if history.step(&mut rng).is_err() {
                break;
            }
        }
        device.lose_power(&mut rng);
        let again = open(&device);
        history.check(&again);
        // What is left is whole: it can be written on.
        let mut file = again.create("new", TABLE).unwrap();
        file.append(&[1; 100_000]).unwrap();
        file.sync().unwrap();
        again.sync_names().unwrap();
        device.lose_power(&mut rng);
        assert_eq!(open(&device).open("new").unwrap().len().unwrap(), 100_000);
    }
}

#[test]
fn when_the_process_dies_names_and_synced_bytes_stay_as_they_were() {
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let device = MemoryDevice::new(DEVICE_BYTES);
        let mut history = History::new(open(&device));
        device.fail_after(rng.below(100));
        let mut before = history.names.clone();
        while history.step(&mut rng).is_ok() {
            before = history.names.clone();
        }
        device.go_on();
        // What the device was told stays; what this process gathered does not. It died in the middle of a step.
        history.moments = vec![before, history.names.clone()];
        std::mem::forget(std::mem::take(&mut history.writers));
        history.check(&open(&device));
    }
}

#[test]
fn synced_writes_of_a_log_survive_power_loss_and_others_do_no_harm() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let device = MemoryDevice::new(DEVICE_BYTES);
        let storage = open(&device);
        let log = storage.create_log("log", 2_000_000).unwrap();
        storage.sync_names().unwrap();
        device.fail_after(rng.below(60));
        let (mut at, mut synced) = (0, 0);
        for _ in 0..60 {
            let end = at + 1 + rng.below(20_000);
            if log.write_at(at, &bytes(7, at..end)).is_err() {
                break;
            }
            at = end;
            if rng.below(3) == 0 {
                if log.sync().is_err() {
                    break;
                }
                synced = at;
            }
        }
        device.lose_power(&mut rng);
        let again = open(&device);
        let file = again.open("log").unwrap();
        assert_eq!(file.len().unwrap(), 2_000_000);
        let mut content = vec![0; synced as usize];
        file.read_exact_at(0, &mut content).unwrap();
        assert!(content == bytes(7, 0..synced), "seed {seed}");
    }
}

#[test]
fn a_full_device_says_so_and_has_room_again_after_a_removal() {
    let device = MemoryDevice::new(DEVICE_BYTES);
    let storage = open(&device);
    let fill = |name: &str| {
        let mut file = storage.create(name, WriteHint::of(FileKind::Table)).unwrap();
        let written = file.append(&vec![1; 15 << 20]).and_then(|()| file.sync());
        (file, written)
    };
    fill("a").1.unwrap();
    let (mut file, full) = fill("b");
    assert_eq!(full.unwrap_err().io_kind(), Some(std::io::ErrorKind::StorageFull));
    assert!(file.append(b"more").is_err(), "a writer that failed takes nothing more");
    drop(file);
    let reader = storage.open("a").unwrap();
    storage.remove("a").unwrap();
    assert!(fill("c").1.is_err(), "it is still read");
    drop(reader);
    storage.remove("b").unwrap();
    storage.remove("c").unwrap();
    fill("d").1.unwrap();
}

#[test]
fn a_device_with_something_else_on_it_is_left_alone() {
    use esker_storage::blocks::BlockDevice;
    let device = MemoryDevice::new(DEVICE_BYTES);
    device.write(0, &[7; 4096]).unwrap();
    let error = BlockStorage::open(Arc::new(device.clone()), &Stepped).err().unwrap();
    assert!(error.to_string().contains("is not empty"), "{error}");
    let mut block = [0; 4096];
    device.read(0, &mut block).unwrap();
    assert_eq!(block, [7; 4096]);
}

#[test]
fn a_device_whose_first_block_was_cleared_is_empty() {
    use esker_storage::blocks::BlockDevice;
    let device = MemoryDevice::new(DEVICE_BYTES);
    let storage = open(&device);
    for name in ["a", "b", "c"] {
        storage.create(name, TABLE).unwrap();
    }
    drop(storage);
    device.write(0, &[0; 4096]).unwrap();
    assert_eq!(open(&device).list().unwrap(), [""; 0]);
    assert_eq!(open(&device).list().unwrap(), [""; 0], "and stays so");
}
