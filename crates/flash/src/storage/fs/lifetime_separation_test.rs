//! Tests of the separation of tables of one level by expected lifetime: what it changes on a
//! device, and what it does not.

use super::FlashStorage;
use crate::Geometry;
use crate::chunk_device::ChunkDevice;
use crate::chunk_device::MemoryChunkDevice;
use crate::placement::Balanced;
use crate::placement::{LIFETIMES, Lifetime, PlacementPolicy};
use crate::{Chunk, Unit, placement};
use esker_base::{Result, WriteHint};
use esker_storage::Storage;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the device and the policy are called with: of chunks, which lifetime is written there, and of which a place is wanted.
#[derive(Clone, Default)]
struct Told {
    chunks: Arc<Mutex<BTreeMap<u32, Lifetime>>>,
    wanted: Arc<Mutex<BTreeSet<Lifetime>>>,
}

struct Noting {
    below: MemoryChunkDevice,
    told: Told,
}

impl ChunkDevice for Noting {
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
    fn expect(&self, chunk: Chunk, lifetime: Lifetime) {
        let index = self.geometry().index(chunk) as u32;
        self.told.chunks.lock().insert(index, lifetime);
    }
    fn write(&self, chunk: Chunk, at: u64, bytes: &[u8]) -> Result<()> {
        self.below.write(chunk, at, bytes)
    }
    fn read(&self, chunk: Chunk, at: u64, out: &mut [u8]) -> Result<()> {
        self.below.read(chunk, at, out)
    }
    fn reset(&self, chunk: Chunk) -> Result<()> {
        self.below.reset(chunk)
    }
    fn flush(&self) -> Result<()> {
        self.below.flush()
    }
    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        self.below.lock()
    }
}

/// Lets files of the longest lifetime wait until a chunk was written behind them.
struct Asked(Told);

impl PlacementPolicy for Asked {
    fn name(&self) -> &'static str {
        "asked"
    }
    fn stripe(
        &mut self,
        state: &placement::DeviceLoad,
        lifetime: Lifetime,
        needed: f64,
    ) -> Vec<Unit> {
        self.0.wanted.lock().insert(lifetime);
        Balanced.stripe(state, lifetime, needed)
    }
    fn settle_distance_chunks(
        &self,
        _: &placement::DeviceLoad,
        lifetime: Lifetime,
        _: f64,
    ) -> usize {
        usize::from(lifetime == LIFETIMES - 1)
    }
}

const CHUNK_BYTES: u32 = 64 << 10;
const BLOCK: usize = 4096;

/// 60 chunks in addition to the journal's.
fn device() -> MemoryChunkDevice {
    MemoryChunkDevice::new(Geometry::of_blocks(2, 4, 8, CHUNK_BYTES))
}

/// Opens a device, and says what is notified of it from then on.
fn open(device: &MemoryChunkDevice) -> (FlashStorage, Told) {
    let told = Told::default();
    let zones = Noting { below: device.clone(), told: told.clone() };
    let policy = Box::new(Asked(told.clone()));
    (FlashStorage::placed_by(Arc::new(zones), policy).unwrap(), told)
}

const LEVEL: u8 = 6;

/// A table of a deep level that is expected to live as long as most there.
fn usual() -> WriteHint {
    WriteHint::table(LEVEL).living(Some(64 * u64::from(CHUNK_BYTES)))
}

/// One that has the class of the tables that live shortest, and is separated if a usual one was before it.
fn short() -> WriteHint {
    WriteHint::table(LEVEL).living(Some(0))
}

/// Writes a file, and says on which chunks it is.
fn write(
    storage: &FlashStorage,
    name: &str,
    hint: WriteHint,
    blocks: usize,
) -> Result<BTreeSet<u32>> {
    let mut file = storage.create(name, hint)?;
    file.append(&vec![1; blocks * BLOCK]).and_then(|()| file.sync())?;
    Ok(chunks(storage, name))
}

fn chunks(storage: &FlashStorage, name: &str) -> BTreeSet<u32> {
    let extents = storage.core.state.lock().names[name].recorded();
    extents.iter().map(|extent| extent.chunk).collect()
}

/// A device on which one table is usual and one is separated, each at the beginning of a chunk.
fn begun() -> (MemoryChunkDevice, FlashStorage, Told) {
    let device = device();
    let (storage, told) = open(&device);
    write(&storage, "usual", usual(), 1).unwrap();
    write(&storage, "short", short(), 1).unwrap();
    (device, storage, told)
}

#[test]
fn a_device_is_told_the_class_of_what_it_is_to_hold_and_the_level_of_what_is_usual() {
    let (device, storage, told) = begun();
    let told_of = |told: &Told, storage: &FlashStorage, name: &str| {
        let chunk = chunks(storage, name).pop_first().unwrap();
        told.chunks.lock()[&chunk]
    };
    assert_eq!(["usual", "short"].map(|name| told_of(&told, &storage, name)), [7, 1]);
    drop(storage);
    let (storage, told) = open(&device);
    assert_eq!(["usual", "short"].map(|name| told_of(&told, &storage, name)), [7, 1]);
}

#[test]
fn a_policy_is_asked_for_a_place_by_level_alone() {
    let (_, storage, told) = begun();
    write(&storage, "long", WriteHint::table(LEVEL).living(Some(u64::MAX)), 40).unwrap();
    assert_eq!(*told.wanted.lock(), BTreeSet::from([usize::from(1 + LEVEL)]));
}

/// Tables of level 0 are on four chunks, and have the class of those that live shortest.
#[test]
fn a_table_lies_on_as_many_chunks_as_its_level_says() {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(2, 4, 4, 2 << 20));
    let (storage, _) = open(&device);
    write(&storage, "usual", usual(), 1).unwrap();
    assert_eq!(write(&storage, "short", short(), 4 * 64).unwrap().len(), 1);
}

#[test]
fn a_table_leaves_the_room_to_logs_and_their_tables_that_its_level_says() {
    let free = |hint: WriteHint| {
        let (_, storage, _) = begun();
        let _log = storage.create_log("log", 5 * u64::from(CHUNK_BYTES)).unwrap();
        let mut names = 0..;
        let mut full = || write(&storage, &format!("{}", names.next().unwrap()), hint, 16).is_err();
        while !full() {}
        storage.usage().free_chunks
    };
    assert_eq!(free(short()), free(WriteHint::table(LEVEL)));
}

#[test]
fn a_table_is_settled_when_enough_of_its_level_was_written_behind_it() {
    let (_, storage, _) = begun();
    write(&storage, "a", short(), 1).unwrap();
    assert!(!storage.is_settled("a"));
    write(&storage, "b", short(), 16).unwrap();
    assert!(storage.is_settled("a") && !storage.is_settled("b"));
}

/// The first open writes the journal anew, and the second one reads that.
#[test]
fn tables_that_are_told_apart_go_on_in_their_chunks_after_opens() {
    let (device, storage, _) = begun();
    let begun = ["usual", "short"].map(|name| chunks(&storage, name));
    drop(storage);
    for opened in 1..3 {
        let (storage, _) = open(&device);
        // What is usual is learnt anew. The files that began the chunks are found first, by their names.
        let go_on =
            |name: &str, hint| write(&storage, &format!("{name}-{opened}"), hint, 1).unwrap();
        let found = [go_on("usual", usual()), go_on("short", short())];
        assert_eq!(found, begun, "open {opened}");
    }
}

#[test]
fn what_is_moved_to_make_room_goes_where_its_class_is() {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 16, CHUNK_BYTES));
    let (storage, _) = open(&device);
    write(&storage, "usual", usual(), 1).unwrap();
    // Four chunks of it, and a fifth that is begun.
    for number in 0..66 {
        write(&storage, &format!("short-{number}"), short(), 1).unwrap();
    }
    let kept: Vec<String> = [0, 16, 32, 48, 64, 65].map(|number| format!("short-{number}")).into();
    for number in (0..66).filter(|number| !kept.contains(&format!("short-{number}"))) {
        storage.remove(&format!("short-{number}")).unwrap();
    }
    // The chunk with the most room, which takes what has no other place.
    let other = write(&storage, "other", WriteHint::table(0), 1).unwrap();
    let begun = chunks(&storage, "short-65");
    for number in 0.. {
        if storage.usage().moved_bytes > 0 {
            break;
        }
        write(&storage, &format!("usual-{number}"), usual(), 1).unwrap();
    }
    let moved = kept.iter().filter(|name| chunks(&storage, name) == begun).count();
    assert!(moved > 2 && kept.iter().all(|name| chunks(&storage, name) != other), "{moved}");
}
