//! A follower that catches up before and after each call of the writer's storage: what it shows is always what
//! the writer had after some call of its own.

use crate::support::*;
use esker_base::{Result, Seqno, WriteHint};
use esker_lsm::Db;
use esker_storage::{FileSystemWrapper, LogFile, MemoryStorage, Pace, Storage, WritableFile};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// What the follower showed.
#[derive(Default)]
struct Watch {
    follower: OnceLock<Db>,
    seen: Mutex<Vec<(Seqno, Mirror)>>,
}

impl Watch {
    fn look(&self) {
        let Some(follower) = self.follower.get() else { return };
        let through = follower.catch_up().unwrap().through;
        self.seen.lock().push((through, Mirror::of(follower)));
    }

    fn around<T>(&self, call: impl FnOnce() -> T) -> T {
        self.look();
        let outcome = call();
        self.look();
        outcome
    }
}

struct Watched {
    below: MemoryStorage,
    watch: Arc<Watch>,
}

struct WatchedFile {
    file: Box<dyn WritableFile>,
    watch: Arc<Watch>,
}

impl WritableFile for WatchedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        // A follower may see any part of it.
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        self.watch.around(|| self.file.append(first))?;
        self.watch.around(|| self.file.append(rest))
    }
    fn len(&self) -> u64 {
        self.file.len()
    }
    fn sync(&mut self) -> Result<()> {
        self.watch.around(|| self.file.sync())
    }
}

struct WatchedLog {
    file: Arc<dyn LogFile>,
    watch: Arc<Watch>,
}

impl LogFile for WatchedLog {
    fn prepare(&self, through: u64, pace: Pace) -> Result<()> {
        self.file.prepare(through, pace)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        // In parts, so that a frame is seen in the middle.
        const PART_BYTES: usize = 40 << 10;
        let part_bytes = bytes.len().div_ceil(2).clamp(1, PART_BYTES);
        for (start, part) in (offset..).step_by(part_bytes).zip(bytes.chunks(part_bytes)) {
            self.watch.around(|| self.file.write_at(start, part))?;
        }
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        self.watch.around(|| self.file.sync())
    }
    fn name(&self) -> &str {
        self.file.name()
    }
}

impl Watched {
    fn log(&self, file: Arc<dyn LogFile>) -> Arc<dyn LogFile> {
        Arc::new(WatchedLog { file, watch: self.watch.clone() })
    }
}

impl FileSystemWrapper for Watched {
    fn below(&self) -> &dyn Storage {
        &self.below
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let file = self.below.create(name, hint)?;
        Ok(Box::new(WatchedFile { file, watch: self.watch.clone() }))
    }
    fn create_log_in_steps(
        &self,
        name: &str,
        bytes: u64,
        prepared: u64,
    ) -> Result<Arc<dyn LogFile>> {
        Ok(self.log(self.below.create_log_in_steps(name, bytes, prepared)?))
    }
    fn recycle_log(&self, old: &str, new: &str, bytes: u64) -> Result<Option<Arc<dyn LogFile>>> {
        let recycled = self.watch.around(|| self.below.recycle_log(old, new, bytes))?;
        Ok(recycled.map(|file| self.log(file)))
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.watch.around(|| self.below.remove(name))
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.watch.around(|| self.below.rename(from, to))
    }
}

struct World {
    storage: Arc<Watched>,
    expected: BTreeMap<Seqno, Vec<Mirror>>,
}

impl World {
    fn new() -> (World, Db) {
        let (below, watch) = (MemoryStorage::new(), Arc::new(Watch::default()));
        let storage = Arc::new(Watched { below: below.clone(), watch: watch.clone() });
        let writer = write(storage.clone());
        let mut world = World { storage, expected: BTreeMap::new() };
        world.expect(&writer);
        assert!(watch.follower.set(follow(Arc::new(below))).is_ok());
        (world, writer)
    }

    /// Notes what the writer has after a call of its own.
    fn expect(&mut self, writer: &Db) {
        self.expected.entry(last_seqno(writer)).or_default().push(Mirror::of(writer));
    }

    /// Checks what was seen since the last time. Returns how often that was.
    fn check(&self) -> usize {
        let seen = std::mem::take(&mut *self.storage.watch.seen.lock());
        let count = seen.len();
        for (through, mirror) in seen {
            let states = self.expected.get(&through);
            let states = states.unwrap_or_else(|| panic!("{through} is inside a batch"));
            assert!(states.contains(&mirror), "at {through}: {:?}", mirror.0.keys());
        }
        count
    }
}

#[test]
fn whatever_the_writer_is_at_a_follower_shows_whole_batches_and_all_of_them() {
    for seed in 0..6 {
        let (mut world, mut writer) = World::new();
        let mut changes = Changes::new(seed);
        let mut seen = 0;
        for step in 0..150 {
            if step % 50 == 49 {
                writer.close().unwrap();
                writer = write(world.storage.clone());
            } else {
                changes.any(&writer).unwrap();
            }
            world.expect(&writer);
            seen += world.check();
        }
        assert!(seen > 500, "{seen}");
        let follower = world.storage.watch.follower.get().unwrap();
        assert!(follower.follower_stats().unwrap().new_beginnings >= 3);
    }
}

/// A batch may have frames in several segments.
#[test]
fn no_part_of_a_large_batch_is_shown() {
    let (mut world, writer) = World::new();
    let keyspace = writer.default_keyspace();
    for round in 0..4_u8 {
        let mut batch = writer.batch();
        (0..20_u8).for_each(|key| batch.put(&keyspace, [key], vec![round; 8_000]));
        writer.write(&batch).unwrap();
        world.expect(&writer);
        keyspace.put("between", [round]).unwrap();
        world.expect(&writer);
    }
    assert!(world.check() > 40);
}

/// A batch of a keyspace that the follower did not have when it read the manifest.
#[test]
fn a_batch_is_shown_with_the_keyspace_that_was_created_just_before() {
    let (mut world, writer) = World::new();
    for round in 0..5 {
        let keyspace = writer.keyspace(&format!("k{round}"), appending()).unwrap();
        world.expect(&writer);
        let mut batch = writer.batch();
        batch.put(&writer.default_keyspace(), "round", [round]);
        batch.put(&keyspace, "round", [round]);
        writer.write(&batch).unwrap();
        world.expect(&writer);
    }
    assert!(world.check() > 20);
}
