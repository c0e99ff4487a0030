//! Waits for background work: writers for a segment, and others (`idle`) for what they name. Without
//! threads, the waiting thread does the work.

use super::executor::update_debt;
use super::segments::{can_prepare, give_back_unneeded};
use super::steps::step_lane;
use crate::engine::Engine;
use crate::log::segment_provider::LogSegment;
use crate::resources::crew::IDLE;
use crate::resources::lanes::JobClass;
use crate::scheduler::state::SchedulerState;
use crate::stats::events::{EventKind, STALL_LEAST};
use crate::version::readers::super_version::SuperVersion;
use crate::write::{ActiveSegmentGuard, MemTableSwitch};
use esker_base::{Error, Result};
use esker_memtable::{MemTable, Room};
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::time::Duration;

impl MemTableSwitch for Engine {
    fn rotate(&self, tail: &mut ActiveSegmentGuard<'_>) -> Result<bool> {
        let prepared = {
            let mut jobs = self.schedule.jobs.lock();
            if jobs.closing {
                return Err(Error::Closed);
            }
            jobs.wants_segment = true;
            let are_held_back = jobs.are_segments_held_back();
            jobs.needs_segment = jobs.prepared.is_empty() || are_held_back;
            let prepared = if are_held_back { None } else { jobs.prepared.pop_front() };
            jobs.small_is_next &= prepared.is_none();
            jobs.small_waits = prepared.is_none() && (jobs.small_waits || are_held_back);
            prepared
        };
        let Some(segment) = prepared else { return Ok(false) };
        self.begin(tail, segment);
        Ok(true)
    }

    fn wait_for_segment(&self) -> Result<()> {
        // Another writer may have taken the segment that this one waited for: then there is an active one
        // with space, and the next is not prepared yet.
        let look = |jobs: &mut SchedulerState| {
            if jobs.are_segments_held_back() {
                // The large batch may have come after this writer.
                jobs.small_waits = true;
                return Prepared::LargeBatchFirst;
            }
            let is_there = !jobs.prepared.is_empty() || !jobs.needs_segment;
            if is_there { Prepared::Enough } else { Prepared::TooFew }
        };
        self.wait_for_prepared(look).inspect_err(|_| {
            // Others that wait note that again, and still go before the next large batch.
            self.schedule.jobs.lock().small_waits = false;
            self.schedule.progress.notify_all();
        })
    }

    fn end_wait_for_segment(&self) {
        let mut jobs = self.schedule.jobs.lock();
        // The others that waited find the active segment, too.
        (jobs.small_waits, jobs.small_is_next) = (false, false);
        drop(jobs);
        self.schedule.progress.notify_all();
    }

    fn take_segments(&self, count: usize) -> Result<Option<Vec<LogSegment>>> {
        let mut jobs = self.schedule.jobs.lock();
        if jobs.closing {
            return Err(Error::Closed);
        }
        jobs.wants_segment = true;
        if !jobs.are_gathered(count) {
            return Ok(None);
        }
        jobs.segments_wanted = 0;
        jobs.small_is_next |= count > 0 && jobs.small_waits;
        self.schedule.progress.notify_all();
        Ok(Some(jobs.prepared.drain(..count).collect()))
    }

    fn begin(&self, tail: &mut ActiveSegmentGuard<'_>, segment: LogSegment) {
        let memtable = segment.memtable.clone();
        {
            let mut jobs = self.schedule.jobs.lock();
            jobs.growing = Some(segment.clone()).filter(|_| !memtable.is_whole());
            jobs.needs_segment = false;
        }
        tail.activate(segment);
        // Readers must find the MemTable before anything in it is visible.
        self.tree.view.change(|view| view.memtables.insert(0, memtable));
        update_debt(self);
        self.schedule.wake_for_memtables();
    }

    fn put_back(&self, segments: Vec<LogSegment>) {
        let mut jobs = self.schedule.jobs.lock();
        segments.into_iter().rev().for_each(|segment| jobs.prepared.push_front(segment));
        // A writer may have looked for them meanwhile.
        self.schedule.progress.notify_all();
    }

    fn wait_for_segments(&self, count: usize) -> Result<()> {
        self.schedule.jobs.lock().segments_wanted = count;
        let look = |jobs: &mut SchedulerState| match jobs.are_gathered(count) {
            true => Prepared::Enough,
            false => Prepared::TooFew,
        };
        let waited = self.wait_for_prepared(look);
        if waited.is_err() {
            self.want_no_segments();
            self.schedule.jobs.lock().set_unneeded_aside(self.tree.logs.segments_ahead());
            // If it fails, the prepare lane tries again. A close that has begun removes all segments.
            let _ = self.begin_upkeep().and_then(|upkeep| give_back_unneeded(&upkeep));
        }
        waited
    }

    fn want_no_segments(&self) {
        self.schedule.jobs.lock().segments_wanted = 0;
        self.schedule.progress.notify_all();
    }

    fn wait_for_room(&self, memtable: &MemTable, room: Room) -> Result<()> {
        let started = self.tree.clock.now();
        let waited = self.wait_until(|jobs, view| {
            if memtable.is_sealed() || memtable.room().holds(room) {
                return WaitFor::Over;
            }
            let wanted = jobs.expected_entries.filter(|(epoch, _)| *epoch == memtable.epoch());
            let room = wanted.map_or(room, |(_, other)| room.or(other));
            jobs.expected_entries = Some((memtable.epoch(), room));
            match flush_may_make_room(jobs, view) {
                true => WaitFor::For(JobClass::Flush),
                false => WaitFor::For(JobClass::Prepare),
            }
        });
        self.note_stall(started);
        waited
    }

    fn look_ahead(&self) {
        self.schedule.wake_for_memtables();
    }
}

/// How often a full pool is inspected again: the last reader of a flushed MemTable, which gives its
/// extent back, wakes no waiter.
const FULL_POOL: Duration = Duration::from_millis(1);

/// Whether there was no space for a segment when one was last tried for, and a MemTable waits for its flush: its log
/// goes when it is a table, and makes space.
pub(super) fn flush_may_make_room(jobs: &mut SchedulerState, view: &SuperVersion) -> bool {
    let is_full = jobs.lane(JobClass::Prepare).error.as_ref().is_some_and(Error::is_out_of_space);
    is_full && view.memtables.iter().any(|memtable| memtable.is_sealed())
}

/// What a waiter waits for.
pub(super) enum WaitFor {
    Over,
    For(JobClass),
    /// Until a large batch has its segments or is refused. What fails meanwhile is that batch's error.
    ForLargeBatch,
}

/// What is prepared for a writer.
enum Prepared {
    Enough,
    TooFew,
    /// A large batch gathers segments, and goes first.
    LargeBatchFirst,
}

impl Engine {
    /// Waits until `look` finds enough prepared, or says why there never will be.
    fn wait_for_prepared(&self, look: impl Fn(&mut SchedulerState) -> Prepared) -> Result<()> {
        let started = self.tree.clock.now();
        let waited = self.wait_until(|jobs, view| {
            match look(jobs) {
                Prepared::Enough => return WaitFor::Over,
                Prepared::LargeBatchFirst => return WaitFor::ForLargeBatch,
                Prepared::TooFew => {}
            }
            if flush_may_make_room(jobs, view) {
                WaitFor::For(JobClass::Flush)
            } else if jobs.lane(JobClass::Prepare).running > 0 || can_prepare(self, jobs, view) {
                WaitFor::For(JobClass::Prepare)
            } else {
                // If a flush can't make room, the writer is to hear why.
                WaitFor::For(JobClass::Flush)
            }
        });
        self.note_stall(started);
        waited
    }

    /// Notes that a writer stalled from `started` until now.
    fn note_stall(&self, started: Duration) {
        let now = self.tree.clock.now();
        let took = now.saturating_sub(started);
        self.stall.note_stalled(took, now);
        if took >= STALL_LEAST {
            self.tree.note_event(EventKind::Stall { took });
        }
    }

    /// Has the first segment prepared, so that the first write need not wait for it. If that fails,
    /// the first write will say so: reads can do without.
    pub(crate) fn await_first_segment(&self) {
        if self.ask_for_first_segment() {
            let _ = self.wait_for_segment();
        }
    }

    /// The same without waiting. Whether anybody does it: not without threads.
    pub(crate) fn ask_for_first_segment(&self) -> bool {
        let mut jobs = self.schedule.jobs.lock();
        jobs.wants_segment |= jobs.has_threads;
        jobs.needs_segment |= jobs.has_threads;
        self.schedule.work.announce_to(&[JobClass::Prepare]);
        jobs.has_threads
    }

    /// Waits until `look` says that it is over, doing the work itself if there are no threads. Fails
    /// with the error of the lane waited for if a try that started after this call failed.
    pub(super) fn wait_until(
        &self,
        mut look: impl FnMut(&mut SchedulerState, &SuperVersion) -> WaitFor,
    ) -> Result<()> {
        let schedule = &self.schedule;
        let mut jobs = schedule.jobs.lock();
        // The lane waited for that had failed before, and its tries then.
        let mut failed_before: Option<(JobClass, u64)> = None;
        loop {
            let lane = match look(&mut jobs, &self.tree.view.pin()) {
                WaitFor::Over => return Ok(()),
                WaitFor::For(lane) => Some(lane),
                WaitFor::ForLargeBatch => None,
            };
            if jobs.closing || jobs.panicked {
                return Err(Error::Closed);
            }
            if lane != Some(JobClass::Compaction)
                && let Some(cause) = self.commit.failure()
            {
                // What was not acknowledged is never flushed, and fails no lane.
                return Err(Error::LogFailed { cause: Arc::new(cause) });
            }
            let Some(lane) = lane else {
                failed_before = None;
                schedule.progress.wait_for(&mut jobs, IDLE);
                continue;
            };
            if !jobs.has_threads {
                jobs = self.step_while_waiting(jobs, lane)?;
                continue;
            }
            let state = jobs.lane(lane);
            if let Some(error) = state.error.clone() {
                match failed_before {
                    Some((before, attempts)) if before == lane && state.attempts > attempts => {
                        return Err(error);
                    }
                    // Counted as failed while it still cleans up, a try may be asked for that comes later.
                    Some((before, _)) if before == lane => state.retry_at = Duration::ZERO,
                    // An old error: ask for another try.
                    _ => {
                        // A try under way began before this call.
                        failed_before = Some((lane, state.attempts + state.running as u64));
                        state.retry_at = Duration::ZERO;
                    }
                }
            }
            schedule.work.announce();
            let pause = if self.tree.logs.has_room() { IDLE } else { FULL_POOL };
            schedule.progress.wait_for(&mut jobs, pause);
        }
    }

    fn step_while_waiting<'a>(
        &'a self,
        jobs: MutexGuard<'a, SchedulerState>,
        lane: JobClass,
    ) -> Result<MutexGuard<'a, SchedulerState>> {
        drop(jobs);
        // A flush may wait for compaction to make room for it; not once compaction has failed.
        let make_room = || step_lane(self, JobClass::Compaction) || step_lane(self, lane);
        let stepped = step_lane(self, lane) || (lane == JobClass::Flush && make_room());
        let mut jobs = self.schedule.jobs.lock();
        match jobs.lane(lane).error.clone() {
            Some(_)
                if lane == JobClass::Prepare
                    && flush_may_make_room(&mut jobs, &self.tree.view.pin()) =>
            {
                Ok(jobs)
            }
            Some(error) => Err(error),
            None if stepped => Ok(jobs),
            // Nothing to do in this lane and not done: only a failed log holds things up.
            None => Err(self
                .commit
                .failure()
                .map_or(Error::Closed, |cause| Error::LogFailed { cause: Arc::new(cause) })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::steps::step_lane;
    use crate::{Db, Env, Log, Settings};
    use esker_base::background::Stepped;
    use esker_base::{Clock, SystemClock};
    use esker_storage::MemoryStorage;

    const SEGMENT_BYTES: usize = 64 << 10;

    fn open() -> Db {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let (log, segment_bytes, memory_bytes) = (Log::None, SEGMENT_BYTES, 4 << 20);
        Db::open_with(
            env,
            Settings::default().log(log).segment_bytes(segment_bytes).memory_bytes(memory_bytes),
        )
        .unwrap()
    }

    #[test]
    fn a_writer_that_waited_for_one_large_batch_goes_before_the_next() {
        let db = open();
        let inner = db.inner();
        let prepare = || while step_lane(inner, JobClass::Prepare) {};
        let begins = || inner.rotate(&mut inner.commit.lock_active()).unwrap();
        // No thread serves the lanes: the test does.
        inner.schedule.set_threaded();
        inner.schedule.jobs.lock().segments_wanted = 2;
        assert!(!begins());
        prepare();
        assert!(!begins(), "the batch gathers");
        let taken = inner.take_segments(2).unwrap().expect("two are there");
        inner.schedule.jobs.lock().segments_wanted = 2;
        assert!(begins(), "before the next batch");
        prepare();
        assert!(!begins(), "one goes before it, and no more");
        prepare();
        assert_eq!((taken.len(), inner.take_segments(2).unwrap().unwrap().len()), (2, 2));
        inner.schedule.jobs.lock().has_threads = false;
    }

    #[test]
    fn a_writer_that_came_before_a_large_batch_gets_a_segment_with_it() {
        let db = open();
        let inner = db.inner();
        inner.schedule.set_threaded();
        assert!(!inner.rotate(&mut inner.commit.lock_active()).unwrap(), "none is prepared");
        inner.schedule.jobs.lock().segments_wanted = 2;
        std::thread::scope(|scope| {
            let small = scope.spawn(|| inner.wait_for_segment());
            let is_noted = || inner.schedule.jobs.lock().small_waits;
            let mut looks = 1_000;
            while looks > 0 && !is_noted() {
                looks -= 1;
                SystemClock::new().sleep(Duration::from_millis(10));
            }
            while step_lane(inner, JobClass::Prepare) {}
            let taken = inner.take_segments(2).unwrap().expect("two are there");
            let is_left = !inner.schedule.jobs.lock().prepared.is_empty();
            if !is_left {
                inner.schedule.close();
            }
            small.join().unwrap().expect("one is left for it");
            assert_eq!(taken.len(), 2);
        });
        inner.schedule.jobs.lock().has_threads = false;
    }

    /// A writer that waited finds free space in the segment that the large batch began.
    #[test]
    fn a_writer_that_needs_no_segment_any_more_does_not_go_before_the_next_large_batch() {
        let db = open();
        let (keyspace, inner) = (db.default_keyspace(), db.inner());
        inner.schedule.set_threaded();
        inner.schedule.jobs.lock().segments_wanted = 1;
        let flags = || {
            let jobs = inner.schedule.jobs.lock();
            (jobs.small_waits, jobs.small_is_next)
        };
        std::thread::scope(|scope| {
            let small = scope.spawn(|| db.put(&keyspace, b"key", b"value"));
            let mut looks = 1_000;
            while looks > 0 && !flags().0 {
                looks -= 1;
                SystemClock::new().sleep(Duration::from_millis(10));
            }
            while step_lane(inner, JobClass::Prepare) {}
            {
                let mut tail = inner.commit.lock_active();
                let taken = inner.take_segments(1).unwrap().expect("two are there");
                taken.into_iter().for_each(|segment| inner.begin(&mut tail, segment));
                assert_eq!(flags(), (true, true));
            }
            small.join().unwrap().unwrap();
        });
        assert_eq!(flags(), (false, false));
        assert!(!inner.schedule.jobs.lock().prepared.is_empty(), "the writer took no segment");
        inner.schedule.jobs.lock().has_threads = false;
    }

    #[test]
    fn a_writer_that_gives_up_keeps_the_others_before_the_next_large_batch() {
        let db = open();
        let inner = db.inner();
        inner.schedule.set_threaded();
        {
            let mut jobs = inner.schedule.jobs.lock();
            (jobs.small_waits, jobs.small_is_next) = (true, true);
            (jobs.needs_segment, jobs.closing) = (true, true);
        }
        assert!(matches!(inner.wait_for_segment(), Err(Error::Closed)));
        let mut jobs = inner.schedule.jobs.lock();
        assert_eq!((jobs.small_waits, jobs.small_is_next), (false, true));
        (jobs.has_threads, jobs.closing) = (false, false);
    }

    /// While a large batch waits, another writer begins a segment that it would fit, and that can't grow.
    struct Overtaken<'a>(&'a Engine);

    impl MemTableSwitch for Overtaken<'_> {
        fn wait_for_segments(&self, count: usize) -> Result<()> {
            assert!(self.0.rotate(&mut self.0.commit.lock_active()).unwrap());
            self.0.wait_for_segments(count)
        }
        fn wait_for_room(&self, _: &MemTable, _: Room) -> Result<()> {
            Err(Error::Closed)
        }
        fn want_no_segments(&self) {
            self.0.want_no_segments();
        }
        fn rotate(&self, tail: &mut ActiveSegmentGuard<'_>) -> Result<bool> {
            self.0.rotate(tail)
        }
        fn wait_for_segment(&self) -> Result<()> {
            self.0.wait_for_segment()
        }
        fn end_wait_for_segment(&self) {
            self.0.end_wait_for_segment();
        }
        fn look_ahead(&self) {}
        fn take_segments(&self, count: usize) -> Result<Option<Vec<LogSegment>>> {
            self.0.take_segments(count)
        }
        fn begin(&self, tail: &mut ActiveSegmentGuard<'_>, segment: LogSegment) {
            self.0.begin(tail, segment);
        }
        fn put_back(&self, segments: Vec<LogSegment>) {
            self.0.put_back(segments);
        }
    }

    #[test]
    fn a_large_batch_that_is_refused_its_growth_holds_no_segments_back() {
        let db = open();
        let (keyspace, inner) = (db.default_keyspace(), db.inner());
        (0..9u8).for_each(|key| db.put(&keyspace, [key], [1; 4_000]).unwrap());
        while step_lane(inner, JobClass::Prepare) {}
        let mut batch = db.batch();
        (0..10u8).for_each(|key| batch.put(&keyspace, [key], [2; 4_000]));
        let refused = inner.commit.write_large(&batch, SEGMENT_BYTES, 0, &Overtaken(inner));
        assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
        assert_eq!(inner.schedule.jobs.lock().segments_wanted, 0);
    }
}
