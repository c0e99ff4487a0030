//! Tests: what is moved for wear and what is not, and what may happen meanwhile.

mod choice;
mod concurrent;
mod failures;

use crate::chunk_device::{ChunkDevice, MemoryChunkDevice};
use crate::placement::Lifetime;
use crate::{Chunk, FlashStorage, Geometry};
use esker_base::{Result, WriteHint};
use esker_storage::Storage;
use parking_lot::Mutex;
use std::sync::Arc;

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
