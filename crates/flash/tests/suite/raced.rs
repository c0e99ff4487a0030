//! Two that make a log of the same name at the same time. One that inspects a device while another writes it.

use esker_base::{Result, WriteHint};
use esker_flash::chunk_device::{ChunkDevice, MemoryChunkDevice};
use esker_flash::storage::look;
use esker_flash::{Chunk, FlashStorage, Geometry};
use esker_storage::Storage;
use std::sync::{Arc, OnceLock};

/// A device that does something else once: in the midst of a flush, or when it
/// says how far a chunk was written.
struct Interrupted {
    device: MemoryChunkDevice,
    chunk: Option<Chunk>,
    work: OnceLock<Box<dyn Fn() + Send + Sync>>,
    is_done: OnceLock<()>,
}

impl Interrupted {
    fn interrupt(&self) {
        if let Some(work) = self.work.get()
            && self.is_done.set(()).is_ok()
        {
            work();
        }
    }
}

impl ChunkDevice for Interrupted {
    fn describe(&self) -> String {
        self.device.describe()
    }
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn is_bad(&self, chunk: Chunk) -> bool {
        self.device.is_bad(chunk)
    }
    fn written(&self, chunk: Chunk) -> Result<u64> {
        if self.chunk == Some(chunk) {
            self.interrupt();
        }
        self.device.written(chunk)
    }
    fn write(&self, chunk: Chunk, at: u64, bytes: &[u8]) -> Result<()> {
        self.device.write(chunk, at, bytes)
    }
    fn read(&self, chunk: Chunk, at: u64, out: &mut [u8]) -> Result<()> {
        self.device.read(chunk, at, out)
    }
    fn reset(&self, chunk: Chunk) -> Result<()> {
        self.device.reset(chunk)
    }
    fn flush(&self) -> Result<()> {
        if self.chunk.is_none() {
            self.interrupt();
        }
        self.device.flush()
    }
    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        self.device.lock()
    }
}

#[test]
fn the_second_of_two_gives_its_chunks_back() {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 16, 32 << 10));
    let (work, is_done) = Default::default();
    let zones = Arc::new(Interrupted { device, chunk: None, work, is_done });
    let storage = Arc::new(FlashStorage::open(zones.clone()).unwrap());
    let other = Arc::downgrade(&storage);
    let work = move || drop(other.upgrade().unwrap().create_log("log", 5_000).unwrap());
    zones.work.set(Box::new(work)).ok().unwrap();
    let free = storage.usage().free_chunks;
    let refused = storage.create_log("log", 100_000).err().unwrap();
    assert_eq!(refused.io_kind(), Some(std::io::ErrorKind::AlreadyExists), "{refused}");
    assert_eq!(storage.usage().free_chunks, free - 1, "the chunk of the first");
    assert_eq!(storage.list().unwrap(), ["log"]);
}

#[test]
fn a_look_while_another_writes_has_no_doubt() {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 16, 32 << 10));
    let storage = Arc::new(FlashStorage::open(Arc::new(device.clone())).unwrap());
    drop(storage.create_log("log", 30_000).unwrap());
    storage.sync_names().unwrap();
    let writer = storage.clone();
    let work = move || {
        let mut file = writer.create("file", WriteHint::table(1)).unwrap();
        file.append(&[1; 9_000]).and_then(|()| file.sync()).unwrap();
        let log = writer.open_log("log").unwrap();
        log.write_at(0, &[1; 100]).and_then(|()| log.sync()).unwrap();
    };
    let chunk = Some(device.geometry().chunk(4));
    let zones = Interrupted { device, chunk, work: OnceLock::new(), is_done: OnceLock::new() };
    zones.work.set(Box::new(work)).ok().unwrap();
    assert_eq!(look(&zones).unwrap().doubt, None);
    assert!(zones.is_done.get().is_some() && storage.exists("file").unwrap());
}
