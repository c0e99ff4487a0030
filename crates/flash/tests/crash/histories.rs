//! Histories of a storage on a device that fails and loses power, and what may be left of them.

use esker_base::{Result, Rng, WriteHint};
use esker_flash::chunk_device::MemoryChunkDevice;
use esker_flash::device::fdp::EmulatedDisk;
use esker_flash::storage::Usage;
use esker_flash::{ChunkDevice, FdpDevice, FlashStorage};
use esker_storage::{Storage, WritableFile};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A device that can fail and lose power. Clones share it.
pub(crate) trait Device: Clone {
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

pub(crate) fn byte(id: u64, offset: u64) -> u8 {
    let mixed = ((id << 40) ^ (offset / 16)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u8 | 1
}

pub(crate) fn bytes(id: u64, range: Range<u64>) -> Vec<u8> {
    range.map(|offset| byte(id, offset)).collect()
}

pub(crate) type Names = BTreeMap<String, u64>;

/// What is known of a storage.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) names: Names,
    /// The names at every point in time since they were last made safe.
    pub(crate) moments: Vec<Names>,
    pub(crate) synced: BTreeMap<u64, u64>,
    pub(crate) next: u64,
    pub(crate) log_written: u64,
    pub(crate) log_synced: u64,
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

pub(crate) fn content(storage: &FlashStorage, name: &str) -> Vec<u8> {
    let file = storage.open(name).unwrap();
    let mut content = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut content).unwrap();
    content
}

impl Known {
    /// Fails unless `storage` is what power loss may leave of this.
    pub(crate) fn check(&self, storage: &FlashStorage, context: &str) {
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

/// At every call of small histories, and somewhere in long ones.
pub(crate) fn lose_power_everywhere<D: Device>(
    device: impl Fn() -> D,
    small: Range<u64>,
    long: Range<u64>,
) {
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
