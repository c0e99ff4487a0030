//! A writer that does something between any two reads of a follower that is catching up.

use crate::support::*;
use esker_base::{Result, Seqno};
use esker_lsm::Db;
use esker_storage::{FileSystemWrapper, MemoryStorage, ReadableFile, Storage};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

type Step = Box<dyn FnOnce(&Db) + Send>;

/// What the writer does, one after another, and what it has after each.
struct Script {
    writer: OnceLock<Db>,
    steps: Mutex<VecDeque<Step>>,
    expected: Mutex<BTreeMap<Seqno, Vec<Mirror>>>,
}

impl Script {
    /// Does the next step, if there is one.
    fn step(&self) {
        let Some(step) = self.steps.lock().pop_front() else { return };
        self.step_now(step);
    }

    fn step_now(&self, step: impl FnOnce(&Db)) {
        let writer = self.writer.get().unwrap();
        step(writer);
        self.expect(writer);
    }

    fn expect(&self, writer: &Db) {
        let now = Mirror::of(writer);
        self.expected.lock().entry(last_seqno(writer)).or_default().push(now);
    }
}

/// The follower's storage.
struct Read {
    below: MemoryStorage,
    script: Arc<Script>,
}

struct ReadFile {
    file: Arc<dyn ReadableFile>,
    script: Arc<Script>,
}

impl ReadableFile for ReadFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(offset, out);
        self.script.step();
        read
    }
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn name(&self) -> &str {
        self.file.name()
    }
}

impl FileSystemWrapper for Read {
    fn below(&self) -> &dyn Storage {
        &self.below
    }
    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        let file = self.below.open(name)?;
        self.script.step();
        Ok(Arc::new(ReadFile { file, script: self.script.clone() }))
    }
}

struct World {
    script: Arc<Script>,
    follower: Db,
}

impl World {
    fn new() -> World {
        let below = MemoryStorage::new();
        let script = Arc::new(Script {
            writer: OnceLock::new(),
            steps: Mutex::default(),
            expected: Mutex::default(),
        });
        let writer = write(Arc::new(below.clone()));
        script.expect(&writer);
        assert!(script.writer.set(writer).is_ok());
        let follower = follow(Arc::new(Read { below, script: script.clone() }));
        World { script, follower }
    }

    /// Has the writer do `step` behind one of the next reads.
    fn then(&self, step: impl FnOnce(&Db) + Send + 'static) {
        self.script.steps.lock().push_back(Box::new(step));
    }

    /// Catches up until all steps are done, and checks what is shown each time.
    fn run(&self) {
        while !self.script.steps.lock().is_empty() {
            self.check();
        }
        self.check();
        assert_eq!(Mirror::of(&self.follower), Mirror::of(self.script.writer.get().unwrap()));
    }

    fn check(&self) {
        let through = self.follower.catch_up().unwrap().through;
        let steps = std::mem::take(&mut *self.script.steps.lock());
        let shown = Mirror::of(&self.follower);
        *self.script.steps.lock() = steps;
        let expected = self.script.expected.lock();
        let states = expected.get(&through);
        let states = states.unwrap_or_else(|| panic!("{through} is inside a batch"));
        assert!(states.contains(&shown), "at {through}: {:?}", shown.0.keys());
    }
}

#[test]
fn a_follower_shows_what_the_writer_had_whatever_it_does_meanwhile() {
    for seed in 0..20 {
        let world = World::new();
        let changes = Arc::new(Mutex::new(Changes::new(seed)));
        for _ in 0..200 {
            let changes = changes.clone();
            world.then(move |writer| changes.lock().any(writer).unwrap());
        }
        world.run();
        assert_eq!(world.follower.follower_stats().unwrap().new_beginnings, 0);
    }
}

/// A batch of a keyspace that the manifest did not have when the follower read it.
#[test]
fn a_batch_is_shown_with_the_keyspace_that_was_created_after_the_manifest_was_read() {
    let world = World::new();
    for round in 0..40 {
        world.then(move |writer| drop(writer.keyspace(&format!("k{round}"), appending()).unwrap()));
        world.then(move |writer| {
            let keyspace = writer.open_keyspace(&format!("k{round}")).unwrap();
            let mut batch = writer.batch();
            batch.put(&writer.default_keyspace(), "round", [round]);
            batch.put(&keyspace, "round", [round]);
            writer.write(&batch).unwrap();
        });
        if round % 3 == 0 {
            world.then(|writer| writer.default_keyspace().put("other", "1").unwrap());
        }
    }
    world.run();
}

/// The log that has a write is used again before the follower comes to it.
#[test]
fn a_drop_is_not_shown_without_the_writes_before_it_whose_log_is_used_again() {
    for reads in 0..12 {
        let world = World::new();
        for round in 0..8 {
            let name = format!("k{round}");
            world.script.step_now(|writer| drop(writer.keyspace(&name, appending()).unwrap()));
            world.script.step_now(|writer| writer.default_keyspace().put("a", [round]).unwrap());
            world.run();
            world.script.step_now(|writer| writer.default_keyspace().put("b", [round]).unwrap());
            world.script.step_now(|writer| {
                writer.drop_keyspace(&writer.open_keyspace(&name).unwrap()).unwrap();
            });
            for _ in 0..reads {
                world.then(|_| ());
            }
            world.then(move |writer| use_logs_again(writer, round));
            world.run();
        }
    }
}

/// Fills logs and flushes them, so that later ones are in the files of earlier ones.
fn use_logs_again(writer: &Db, round: u8) {
    for turn in 0..3 {
        // Only a file that was allocated as a whole is used again.
        for part in 0..7 {
            let value = vec![round * 3 + turn; 8 << 10];
            writer.default_keyspace().put([part], value).unwrap();
        }
        writer.flush().unwrap();
        while writer.run_background_job() {}
    }
}
