//! Tests the whole engine over a pool: commits of one writer or of several that overlap, flushes,
//! and processes that are killed and followed by others. At each point, it examines the states in
//! which a power loss may leave pool and disk. Each must open and contain all acknowledged writes,
//! and so must every state that a power loss during that opening leaves.

use super::{Seen, draw_batch, encode, one_line_batch};
use crate::clock::SimClock;
use crate::harness::check_pairs;
use crate::model::{Batch, Model};
use crate::settings::{LogMode, OpenSettings};
use esker_base::background::Stepped;
use esker_base::{Error, Result, Rng};
use esker_lsm::{Db, Env, Forwarding};
use esker_pmem::Pool;
use esker_pmem::sim::{CrashState, SimRegion, Trigger};
use esker_storage::FaultStorage;
use std::sync::{Arc, Condvar, Mutex};

const COMMITS_MAX: u64 = 6;

/// A point in time in a history: what a power loss may leave, and what must be found in it.
struct PausePoint {
    memory: CrashState,
    disk: FaultStorage,
    model: Model,
}

/// A machine whose every point in time is kept.
struct Machine {
    /// Frames take one line, and no writer is killed: so few images that all can be opened.
    small: bool,
    memory: Arc<SimRegion>,
    disk: FaultStorage,
    /// What must be found if the environment ended now.
    model: Arc<Mutex<Model>>,
    moments: Arc<Mutex<Vec<PausePoint>>>,
    rng: Rng,
}

impl Machine {
    fn new(seed: u64) -> Machine {
        let mut rng = Rng::new(seed ^ 0x0077_686f_6c65);
        let extents = 2 + rng.below(2) as usize;
        let memory = Arc::new(SimRegion::new((8 << 10) + extents * super::EXTENT_BYTES));
        Pool::format(memory.clone(), "pool", rng.next_u64()).expect("the size is in bounds");
        let disk = FaultStorage::new(Rng::new(rng.next_u64()));
        Machine::on(memory, disk, Model::new(), rng)
    }

    fn on(memory: Arc<SimRegion>, disk: FaultStorage, model: Model, rng: Rng) -> Machine {
        let model = Arc::new(Mutex::new(model));
        Machine { small: false, memory, disk, model, moments: Arc::default(), rng }
    }

    /// Keeps each point in time from here on.
    fn keep_moments(&mut self) {
        let (disk, model, moments) = (self.disk.clone(), self.model.clone(), self.moments.clone());
        let mut rng = Rng::new(self.rng.next_u64());
        self.memory.interrupt_after(1, move |moment| {
            let disk = disk.crash_image(Rng::new(rng.next_u64()));
            let model = model.lock().expect("no panic").clone();
            let moment = PausePoint { memory: moment.crash(), disk, model };
            moments.lock().expect("no panic").push(moment);
            Some(1)
        });
    }

    fn open(&mut self) -> Result<Db> {
        let settings = OpenSettings {
            log: LogMode::Pmem,
            segment_kib: 64,
            sealed: 1,
            dram_bytes: Some(0),
            forwarding: Forwarding::OnFlush,
        };
        let env = Env::over(Arc::new(self.disk.clone()))
            .pool(Pool::over(self.memory.clone(), "pool")?)
            .clock(Arc::new(SimClock::default()))
            .background(Arc::new(Stepped))
            .seed(self.rng.next_u64());
        Db::open_with(env, settings.settings())
    }

    fn model(&self) -> Model {
        self.model.lock().expect("no panic").clone()
    }

    fn set_model(&self, model: Model) {
        *self.model.lock().expect("no panic") = model;
    }

    fn commit(&mut self, db: &Db) -> Result<()> {
        let draw = if self.small { one_line_batch } else { draw_batch };
        let batch = draw(&mut self.rng);
        if batch.is_empty() {
            return Ok(());
        }
        let before = self.model();
        let mut after = before.clone();
        after.acknowledge(batch.clone());
        after.all_durable();
        let mut doubtful = before;
        doubtful.doubt(batch.clone());
        self.set_model(doubtful);
        db.write(&encode(&batch))?;
        self.set_model(after);
        Ok(())
    }

    /// Commits batches whose writers overlap: each stores its frame, and fences it only when all that come
    /// after it have fenced theirs. At any time before the end, none of them is acknowledged.
    fn commit_together(&mut self, db: &Db) -> Result<()> {
        // First by itself: then a segment is there to be written to, and each writer fences once.
        let before = db.stats().visible_seqno;
        while db.stats().visible_seqno == before {
            self.commit(db)?;
        }
        let count = 2 + self.rng.below(2) as usize;
        let drawn = std::iter::repeat_with(|| draw_batch(&mut self.rng));
        let batches: Vec<_> = drawn.filter(|batch| !batch.is_empty()).take(count).collect();
        let mut model = self.model();
        // There, but not durable: any number of them may be left, in their order.
        batches.iter().for_each(|batch| model.acknowledge(batch.clone()));
        self.set_model(model.clone());
        let turns = Arc::new(Turns::new(count));
        let watch = turns.clone();
        self.memory.watch_fences(move |when| watch.at_fence(when));
        let written = std::thread::scope(|scope| {
            let write = |(place, batch): (usize, &Batch)| {
                turns.wait_for_start(place);
                let written = db.write(&encode(batch));
                turns.ended(written.is_ok());
                written
            };
            let writers: Vec<_> = batches
                .iter()
                .enumerate()
                .map(|writer| scope.spawn(move || write(writer)))
                .collect();
            // All of them are waited for, whatever the first says.
            let written: Vec<_> =
                writers.into_iter().map(|writer| writer.join().expect("no panic")).collect();
            written.into_iter().try_for_each(|one| one.map(drop))
        });
        self.memory.unwatch_fences();
        written?;
        model.all_durable();
        self.set_model(model);
        Ok(())
    }

    /// The process dies, at an end of a call or in the middle of a commit, and another opens what it
    /// left.
    fn kill(&mut self, db: Db) -> std::result::Result<Db, String> {
        if self.rng.one_in(2) {
            self.memory = Arc::new(self.memory.kill());
            self.disk = self.disk.kill();
        } else {
            let left = Arc::new(Mutex::new(None));
            let (slot, disk) = (left.clone(), self.disk.clone());
            self.memory.interrupt_after(1 + self.rng.below(2), move |moment| {
                *slot.lock().expect("no panic") = Some((moment.kill(), disk.kill()));
                None
            });
            // What it acknowledges after its death counts for nothing.
            let before = self.model();
            let written = self.commit(&db);
            match left.lock().expect("no panic").take() {
                Some((memory, disk)) => {
                    let mut model = before;
                    if let Some(batch) = self.model().last() {
                        model.doubt(batch.clone());
                    }
                    self.set_model(model);
                    (self.memory, self.disk) = (Arc::new(memory), disk);
                }
                None => {
                    written.map_err(|error| error.to_string())?;
                    (self.memory, self.disk) = (Arc::new(self.memory.kill()), self.disk.kill());
                }
            }
        }
        drop(db);
        self.keep_moments();
        let db = self.open().map_err(|error| format!("after a kill: {error}"))?;
        let mut model = self.model();
        recover(&db, &mut model)?;
        self.set_model(model);
        Ok(db)
    }

    /// The process that creates the database dies before it is done.
    fn kill_creation(&mut self) {
        let left = Arc::new(Mutex::new(None));
        let (slot, disk) = (left.clone(), self.disk.clone());
        self.memory.interrupt_after(1 + self.rng.below(30), move |moment| {
            *slot.lock().expect("no panic") = Some((moment.kill(), disk.kill()));
            None
        });
        // What comes of it counts for nothing.
        drop(self.open());
        if let Some((memory, disk)) = left.lock().expect("no panic").take() {
            (self.memory, self.disk) = (Arc::new(memory), disk);
        }
    }

    /// Runs a history from an empty database on.
    fn run(&mut self) -> std::result::Result<(), String> {
        let fails = |error: Error| error.to_string();
        if !self.small && self.rng.one_in(2) {
            self.kill_creation();
        }
        self.keep_moments();
        let mut db = self.open().map_err(fails)?;
        for _ in 0..1 + self.rng.below(COMMITS_MAX) {
            if !self.small && self.rng.one_in(3) {
                self.commit_together(&db).map_err(fails)?;
            } else {
                self.commit(&db).map_err(fails)?;
            }
            match self.rng.below(8) {
                0 | 1 => db.flush().map_err(fails)?,
                2 if !self.small => db = self.kill(db)?,
                3 => {
                    db.close().map_err(fails)?;
                    db = self.open().map_err(fails)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Has each of some writers begin when the one before it has stored its frame, and fence when all after it
/// have fenced.
struct Turns {
    writers: usize,
    /// How many are at their fence, and how many are beyond it. Both are beyond all bounds once a writer
    /// has failed, which no thread may wait for.
    reached: Mutex<(usize, usize)>,
    changed: Condvar,
}

const NOBODY_WAITS: usize = usize::MAX / 2;

impl Turns {
    fn new(writers: usize) -> Turns {
        Turns { writers, reached: Mutex::new((0, 0)), changed: Condvar::new() }
    }

    /// Waits until `place` writers are at their fences.
    fn wait_for_start(&self, place: usize) {
        let reached = self.reached.lock().expect("no panic");
        drop(self.changed.wait_while(reached, |(at, _)| *at < place).expect("no panic"));
    }

    fn ended(&self, well: bool) {
        if !well {
            *self.reached.lock().expect("no panic") = (NOBODY_WAITS, NOBODY_WAITS);
            self.changed.notify_all();
        }
    }

    fn at_fence(&self, when: Trigger) {
        let mut reached = self.reached.lock().expect("no panic");
        match when {
            Trigger::Before => {
                reached.0 += 1;
                let after = self.writers.saturating_sub(reached.0);
                self.changed.notify_all();
                let waited = self.changed.wait_while(reached, |(_, beyond)| *beyond < after);
                drop(waited.expect("no panic"));
            }
            Trigger::After => {
                reached.1 += 1;
                self.changed.notify_all();
            }
        }
    }
}

/// Sees to it that no reader sees a commit before it is durable. `Err` says who did, and `Ok` how many commits
/// were judged: those that are a store and a fence, and nothing else.
pub fn watch_commits(seed: u64) -> std::result::Result<u64, String> {
    let mut judged = 0;
    let mut machine = Machine::new(seed);
    let db = machine.open().map_err(|error| error.to_string())?;
    for _ in 0..COMMITS_MAX {
        machine.commit(&db).map_err(|error| error.to_string())?;
        let before = db.stats().visible_seqno;
        let (watched, seen) = (db.clone(), Arc::new(Mutex::new(Vec::new())));
        let sink = seen.clone();
        machine.memory.interrupt_after(1, move |_| {
            sink.lock().expect("no panic").push(watched.stats().visible_seqno);
            (sink.lock().expect("no panic").len() < 2).then_some(1)
        });
        // A store and a fence.
        machine.commit(&db).map_err(|error| error.to_string())?;
        let seen = std::mem::take(&mut *seen.lock().expect("no panic"));
        if seen.len() == 2 {
            judged += 1;
            if seen != [before; 2] {
                return Err(format!("seqno {before} was the last, and readers saw {seen:?}"));
            }
        }
    }
    Ok(judged)
}

/// Compares `db` with `model`, which goes on from what was recovered. The seqno recovered.
fn recover(db: &Db, model: &mut Model) -> std::result::Result<u64, String> {
    let seqno = db.stats().visible_seqno;
    // Not all that the process had taken in: what is not durable is on its way.
    let promised = model.promised(false);
    model.recover(seqno, promised)?;
    let pairs = model.now().pairs(0);
    check_pairs(db, &db.default_keyspace(), &pairs, None)
        .map_err(|mismatch| mismatch.describe())?;
    Ok(seqno)
}

/// How the images of a history are inspected.
#[derive(Clone, Copy)]
struct Looks {
    /// Up to so many images of a point in time are opened.
    most: u64,
    /// One opening in so many is crashed in its turn.
    again_every: u64,
    /// Up to so many images of each point in time of such an opening are opened.
    again_most: u64,
}

/// Crashes the history of `seed` after each of its events in the pool, opens up to `most` images each
/// time, and crashes some of these openings in the same way.
pub fn crash_everywhere(seed: u64, most: u64) -> std::result::Result<Seen, String> {
    crash(Machine::new(seed), seed, Looks { most, again_every: 8, again_most: 2 })
}

/// Opens every image that a crash may leave of a small history, after each of its events in the pool. One
/// opening in `again_every` is crashed after each of its own events, up to the end of a commit, and every
/// image that this may leave is opened too.
pub fn enumerate(seed: u64, again_every: u64) -> std::result::Result<Seen, String> {
    let looks = Looks { most: u64::MAX, again_every, again_most: u64::MAX };
    crash(Machine { small: true, ..Machine::new(seed) }, seed, looks)
}

fn crash(mut machine: Machine, seed: u64, looks: Looks) -> std::result::Result<Seen, String> {
    let named = |what: String| format!("whole, seed {seed}: {what}");
    machine.run().map_err(named)?;
    let moments = std::mem::take(&mut *machine.moments.lock().expect("no panic"));
    let mut seen = Seen { histories: 1, ..Seen::default() };
    let mut rng = Rng::new(seed);
    for (at, moment) in moments.iter().enumerate() {
        open_images(moment, machine.small, looks, &mut rng, &mut seen)
            .map_err(|what| named(format!("moment {at}: {what}")))?;
    }
    Ok(seen)
}

fn open_images(
    moment: &PausePoint,
    small: bool,
    looks: Looks,
    rng: &mut Rng,
    seen: &mut Seen,
) -> std::result::Result<(), String> {
    let mut images = 0;
    for image in moment.memory.images(looks.most, Rng::new(rng.next_u64())) {
        images += 1;
        let disk = moment.disk.crash_image(Rng::new(rng.next_u64()));
        let memory = Arc::new(image.to_region());
        let mut next = Machine::on(memory, disk, moment.model.clone(), Rng::new(rng.next_u64()));
        next.small = small;
        let crash_again = rng.one_in(looks.again_every);
        if crash_again {
            next.keep_moments();
        }
        let db = next.open().map_err(|error| error.to_string())?;
        let mut model = next.model();
        recover(&db, &mut model)?;
        seen.unacknowledged += u64::from(model.seqno() > moment.model.seqno());
        if crash_again {
            let in_recovery = next.moments.lock().expect("no panic").len();
            next.set_model(model);
            next.commit(&db).map_err(|error| format!("after recovery: {error}"))?;
            let again = std::mem::take(&mut *next.moments.lock().expect("no panic"));
            for (at, second) in again.iter().enumerate() {
                let images = open_once_more(second, looks.again_most, rng)
                    .map_err(|what| format!("crashed again: {what}"))?;
                seen.count_moment(&second.memory, images);
                seen.recoveries += if at < in_recovery { images } else { 0 };
            }
        }
    }
    seen.count_moment(&moment.memory, images);
    Ok(())
}

/// Opens what a crash of a recovery, or of the first commit after it, may leave. The number of images.
fn open_once_more(
    moment: &PausePoint,
    most: u64,
    rng: &mut Rng,
) -> std::result::Result<u64, String> {
    let mut images = 0;
    for image in moment.memory.images(most, Rng::new(rng.next_u64())) {
        images += 1;
        let disk = moment.disk.crash_image(Rng::new(rng.next_u64()));
        let memory = Arc::new(image.to_region());
        let mut next = Machine::on(memory, disk, moment.model.clone(), Rng::new(rng.next_u64()));
        let db = next.open().map_err(|error| error.to_string())?;
        recover(&db, &mut next.model())?;
    }
    Ok(images)
}
