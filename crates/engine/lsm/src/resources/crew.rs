//! The background threads and the databases that they serve.
//!
//! Each thread serves one lane of all databases, in turn and one job at a time. So the compaction
//! of one database delays no flush of another, and a busy database does not starve the others. One
//! database begins no long compaction in the last free thread of several.
//! Compactions that are due, of any database, come before compactions for deletes and before parts
//! of another plan. The threads start with the first database that joins and end with the last that
//! leaves.
//!
//! A thread that finds no work sleeps only if nothing was announced since it began to search: the
//! counts of [`Signal`] show that.

use super::lanes::JobClass;
use super::served::Served;
use esker_base::background::Running;
use esker_base::{Background, Priority, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A thread with nothing to do looks again after this, as a precaution.
pub(crate) const IDLE: Duration = Duration::from_millis(200);

/// Wakes the threads, those of each lane by themselves: a thread that is woken for nothing looks through
/// all databases.
///
/// Its lock is one of the standard library. `parking_lot` keeps waiting threads in a table of the process,
/// so a forked child would find the parent's idle threads there, which it does not have.
#[derive(Default)]
pub(crate) struct Signal {
    /// How often there was an announcement for each lane.
    announced: std::sync::Mutex<[u64; JobClass::ALL.len()]>,
    work: [std::sync::Condvar; JobClass::ALL.len()],
}

impl Signal {
    /// Says that there may be work for any lane. What makes it so was stored before.
    pub(crate) fn announce(&self) {
        self.announce_to(&JobClass::ALL);
    }

    /// The same for `lanes` only.
    pub(crate) fn announce_to(&self, lanes: &[JobClass]) {
        let mut announced = self.lock();
        lanes.iter().for_each(|lane| announced[*lane as usize] += 1);
        drop(announced);
        lanes.iter().for_each(|lane| self.work[*lane as usize].notify_all());
    }

    fn count(&self, lane: JobClass) -> u64 {
        self.lock()[lane as usize]
    }

    /// Returns once something was announced to `lane` after `seen`, or after a while.
    fn wait(&self, lane: JobClass, seen: u64, most: Duration) {
        let announced = self.lock();
        if announced[lane as usize] == seen {
            drop(self.work[lane as usize].wait_timeout(announced, most));
        }
    }

    /// A panic elsewhere leaves the counts as they were.
    fn lock(&self) -> std::sync::MutexGuard<'_, [u64; JobClass::ALL.len()]> {
        self.announced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the file's head.
pub(crate) struct Crew {
    /// How many threads do compactions. Those beyond have nothing to do.
    compaction_threads: AtomicUsize,
    pub(crate) signal: Arc<Signal>,
    state: Mutex<State>,
    /// Held while threads start or end.
    threads: Mutex<Vec<Box<dyn Running>>>,
}

/// What a thread does: the jobs of a lane. Of the threads for compactions, each has a number.
#[derive(Clone, Copy)]
struct Post {
    lane: JobClass,
    number: usize,
}

#[derive(Default)]
struct State {
    members: Arc<[Arc<Member>]>,
    /// Databases that are leaving: a thread may still be at work for them.
    leaving: usize,
    ends: bool,
}

/// A database that is served.
pub(crate) struct Member {
    place: Mutex<Place>,
    left: Condvar,
}

struct Place {
    /// `None`: it has left.
    inner: Option<Arc<dyn Served>>,
    /// Threads that look for work in it, or do it.
    visitors: usize,
}

impl Crew {
    pub(crate) fn new(compaction_threads: usize) -> Arc<Crew> {
        Arc::new(Crew {
            compaction_threads: AtomicUsize::new(compaction_threads),
            signal: Arc::default(),
            state: Mutex::default(),
            threads: Mutex::default(),
        })
    }

    pub(crate) fn compaction_threads(&self) -> usize {
        self.compaction_threads.load(Ordering::Relaxed)
    }

    /// Changes how many threads do compactions. A thread that is not to goes on until its job ends.
    pub(crate) fn set_compaction_threads(
        self: &Arc<Self>,
        count: usize,
        background: &dyn Background,
    ) -> Result<()> {
        let mut threads = self.threads.lock();
        let others = JobClass::ALL.len() - 1;
        // Without threads the owner does the work.
        if let Some(started) = threads.len().checked_sub(others) {
            for number in started..count {
                threads.extend(self.start_compacting(number, background)?);
            }
        }
        self.compaction_threads.store(count, Ordering::Relaxed);
        drop(threads);
        self.signal.announce();
        Ok(())
    }

    fn start_compacting(
        self: &Arc<Self>,
        number: usize,
        background: &dyn Background,
    ) -> Result<Option<Box<dyn Running>>> {
        let (crew, post) = (self.clone(), Post { lane: JobClass::Compaction, number });
        // Readers and writers come first. A compaction that falls behind slows writers in time.
        let body = Box::new(move || crew.serve(post));
        background.spawn(&format!("esker-compact-{number}"), Priority::Low, body)
    }

    /// Serves `inner` from now on. `None` if `background` has no threads: then its owner does the work.
    pub(crate) fn join(
        self: &Arc<Self>,
        inner: Arc<dyn Served>,
        background: &dyn Background,
    ) -> Result<Option<Arc<Member>>> {
        let mut threads = self.threads.lock();
        if threads.is_empty() {
            *threads = self.start(background)?;
        }
        if threads.is_empty() {
            return Ok(None);
        }
        let place = Place { inner: Some(inner), visitors: 0 };
        let member = Arc::new(Member { place: Mutex::new(place), left: Condvar::new() });
        self.change_members(|members| members.push(member.clone()));
        Ok(Some(member))
    }

    /// Serves `member` no more. Returns once no thread is at work for it.
    pub(crate) fn leave(&self, member: &Arc<Member>) {
        self.state.lock().leaving += 1;
        self.change_members(|members| members.retain(|other| !Arc::ptr_eq(other, member)));
        // Without the lock of the threads: a slow job must not keep others from joining and leaving.
        member.leave();
        let mut threads = self.threads.lock();
        let is_last = {
            let mut state = self.state.lock();
            state.leaving -= 1;
            state.members.is_empty() && state.leaving == 0
        };
        if is_last {
            self.end(&mut threads);
        }
    }

    /// Does `work` for each database that it serves.
    pub(crate) fn for_each(&self, mut work: impl FnMut(&Arc<dyn Served>)) {
        let members = self.state.lock().members.clone();
        for member in members.iter() {
            // Its threads can't end it meanwhile: they don't own it.
            member.visit(|inner| work(inner));
        }
    }

    fn change_members(&self, change: impl FnOnce(&mut Vec<Arc<Member>>)) {
        let mut state = self.state.lock();
        let mut members = state.members.to_vec();
        change(&mut members);
        state.members = members.into();
        drop(state);
        self.signal.announce();
    }

    fn start(self: &Arc<Self>, background: &dyn Background) -> Result<Vec<Box<dyn Running>>> {
        self.state.lock().ends = false;
        let lanes = [
            (JobClass::Prepare, "esker-prepare"),
            (JobClass::Flush, "esker-flush"),
            (JobClass::Sync, "esker-sync"),
        ];
        let mut threads = Vec::new();
        let started = lanes.into_iter().try_for_each(|(lane, name)| {
            let (crew, post) = (self.clone(), Post { lane, number: 0 });
            let body = Box::new(move || crew.serve(post));
            threads.extend(background.spawn(name, Priority::Normal, body)?);
            Ok(())
        });
        let started = started.and_then(|()| {
            (0..self.compaction_threads()).try_for_each(|number| {
                threads.extend(self.start_compacting(number, background)?);
                Ok(())
            })
        });
        if let Err(error) = started {
            // If one can't be had, nobody may wait for what it would have done.
            self.end(&mut threads);
            return Err(error);
        }
        Ok(threads)
    }

    fn end(&self, threads: &mut Vec<Box<dyn Running>>) {
        self.state.lock().ends = true;
        self.signal.announce();
        for thread in threads.drain(..) {
            thread.join();
        }
    }

    /// What a thread runs.
    fn serve(&self, Post { lane, number }: Post) {
        let is_posted = || lane != JobClass::Compaction || number < self.compaction_threads();
        let mut turn = 0;
        loop {
            let seen = self.signal.count(lane);
            let members = match &*self.state.lock() {
                State { ends: true, .. } => return,
                State { members, .. } => members.clone(),
            };
            if !is_posted() || !work(&members, lane, &mut turn) {
                self.signal.wait(lane, seen, pause(&members, lane));
            }
        }
    }
}

/// Does one job of `lane` for one of `members`, the first one at `turn`. Returns whether there was one.
fn work(members: &[Arc<Member>], lane: JobClass, turn: &mut usize) -> bool {
    for &urgency in lane.urgencies() {
        for at in 0..members.len() {
            let at = (*turn + at) % members.len();
            // A database whose job has panicked says so itself, and the others are served on.
            let does_job = |inner: &Arc<dyn Served>| {
                catch_unwind(AssertUnwindSafe(|| inner.visit(lane, urgency))).unwrap_or(true)
            };
            if members[at].visit(does_job) {
                *turn = (at + 1) % members.len();
                return true;
            }
        }
    }
    false
}

/// How long a thread of `lane` sleeps at most.
fn pause(members: &[Arc<Member>], lane: JobClass) -> Duration {
    let mut pause = IDLE;
    // Only the lane that syncs wakes at the interval of a database.
    for member in members.iter().filter(|_| lane == JobClass::Sync) {
        member.visit(|inner| pause = pause.min(inner.sync_interval().unwrap_or(IDLE)));
    }
    pause
}

impl Member {
    /// Ends the visits. Returns once no thread is at work for the database.
    fn leave(&self) {
        let mut place = self.place.lock();
        place.inner = None;
        while place.visitors > 0 {
            self.left.wait(&mut place);
        }
    }

    /// Does `work` unless the database has left. False if it has.
    fn visit<T: Default>(&self, work: impl FnOnce(&Arc<dyn Served>) -> T) -> T {
        let inner = {
            let mut place: MutexGuard<'_, Place> = self.place.lock();
            let Some(inner) = place.inner.clone() else { return T::default() };
            place.visitors += 1;
            inner
        };
        let result = work(&inner);
        // Before the visit ends: who closes the database drops it last.
        drop(inner);
        self.place.lock().visitors -= 1;
        self.left.notify_all();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::plan::CompactionReason;
    use crate::db::Db;
    use crate::options::settings::{KeyspaceSettings, Log, Settings, Shape, SyncPolicy};
    use crate::recovery::env::Env;
    use crate::resources::Resources;
    use esker_base::Clock;
    use esker_base::background::Stepped;
    use esker_storage::MemoryStorage;

    #[derive(Default)]
    struct Hand(Mutex<Duration>);

    impl Clock for Hand {
        fn now(&self) -> Duration {
            *self.0.lock()
        }
        fn sleep(&self, duration: Duration) {
            *self.0.lock() += duration;
        }
    }

    /// A database with `runs` runs of which the last deletes all, and what serves it.
    fn member(clock: &Arc<Hand>, runs: u32, log: Log) -> (Db, Arc<Member>) {
        let env = Env::over(Arc::new(MemoryStorage::new()))
            .background(Arc::new(Stepped))
            .clock(clock.clone());
        let db = Db::open_with(env, Settings::default().log(log)).unwrap();
        let shape = Shape::Tiered { runs: 4 };
        let settings = KeyspaceSettings::default().shape(shape);
        let keyspace = db.keyspace("k", settings).unwrap();
        for run in 1..=runs {
            let keys = (0..100u32).map(|key| key.to_be_bytes());
            match run == runs {
                true => keys.for_each(|key| db.delete(&keyspace, key).unwrap()),
                false => keys.for_each(|key| db.put(&keyspace, key, [7; 100]).unwrap()),
            }
            db.flush().unwrap();
        }
        let member = member_of(&db);
        (db, member)
    }

    fn member_of(db: &Db) -> Arc<Member> {
        let place = Place { inner: Some(db.handle.inner.clone()), visitors: 0 };
        Arc::new(Member { place: Mutex::new(place), left: Condvar::new() })
    }

    #[test]
    fn no_second_memtable_is_sealed_while_the_flush_of_one_is_enough() {
        let resources = Resources::new(16 << 20, 1).unwrap();
        let databases = [(); 2].map(|()| {
            let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
            let settings = Settings::default()
                .log(Log::None)
                .segment_bytes(4 << 20)
                .resources(resources.clone());
            let db = Db::open_with(env, settings).unwrap();
            let keys = (0..7_000u32).map(|key| key.to_be_bytes());
            keys.for_each(|key| db.put(&db.default_keyspace(), key, [7; 400]).unwrap());
            db
        });
        let crew = resources.crew();
        crew.change_members(|members| members.extend(databases.iter().map(member_of)));
        let sealed = || {
            let active =
                databases.iter().map(|db| db.inner().tree.view.load().memtables[0].clone());
            active.filter(|memtable| memtable.is_sealed()).count()
        };
        assert!(resources.is_short() && sealed() == 0);
        (0..2).for_each(|_| resources.relieve());
        assert_eq!(sealed(), 1);
        crew.change_members(Vec::clear);
    }

    #[test]
    fn what_is_due_in_any_database_comes_before_deletes_of_another() {
        let clock = Arc::new(Hand::default());
        let (idle, first) = member(&clock, 2, Log::None);
        let (busy, second) = member(&clock, 4, Log::None);
        clock.sleep(Duration::from_secs(10));
        let (members, mut turn) = ([first, second], 0);
        let done = |db: &Db| {
            let done = db.stats().compactions_done;
            [CompactionReason::RunsFull, CompactionReason::Deletes].map(|reason| {
                let done = done.of(reason);
                done.down + done.in_place
            })
        };
        assert!(work(&members, JobClass::Compaction, &mut turn));
        assert_eq!((done(&idle), done(&busy)), ([0, 0], [1, 0]));
        assert!(work(&members, JobClass::Compaction, &mut turn));
        assert_eq!((done(&idle), done(&busy)), ([0, 1], [1, 0]));
    }

    /// How often each lane is woken by `work`.
    fn wakes(db: &Db, work: impl FnOnce(&Db)) -> [u64; 4] {
        let signal = &db.inner().schedule.work;
        let before = JobClass::ALL.map(|lane| signal.count(lane));
        work(db);
        JobClass::ALL.map(|lane| signal.count(lane) - before[lane as usize])
    }

    #[test]
    fn a_segment_that_grows_or_follows_another_wakes_no_compaction() {
        let (db, _) = member(&Arc::new(Hand::default()), 0, Log::None);
        let put_all = |db: &Db| {
            let keys = (0..100_000u32).map(|key| key.to_be_bytes());
            keys.for_each(|key| db.put(&db.default_keyspace(), key, [7; 100]).unwrap());
        };
        let [prepare, flush, sync, compaction] = wakes(&db, put_all);
        assert!(prepare > 0 && flush == prepare && sync == prepare, "{prepare} {flush} {sync}");
        assert_eq!(compaction, 0);
    }

    #[test]
    fn a_flush_that_ends_wakes_every_lane() {
        let (db, _) = member(&Arc::new(Hand::default()), 0, Log::None);
        db.put(&db.default_keyspace(), b"k", b"v").unwrap();
        let woken = wakes(&db, |db| db.flush().unwrap());
        assert!(woken.iter().all(|times| *times > 0), "{woken:?}");
    }

    #[test]
    fn only_the_sync_lane_wakes_at_the_interval_of_syncs() {
        let interval = Duration::from_millis(1);
        let log = Log::File { dir: None, sync: SyncPolicy::Every(interval) };
        let (_db, member) = member(&Arc::new(Hand::default()), 0, log);
        let pauses = JobClass::ALL.map(|lane| pause(std::slice::from_ref(&member), lane));
        assert_eq!(pauses, [IDLE, IDLE, interval, IDLE]);
    }
}
