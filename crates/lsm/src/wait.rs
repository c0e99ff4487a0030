//! Waiting for background work: writers for a segment, and callers for a flush, a compaction, or
//! peace. Without threads, whoever waits does the work.

use crate::commit::{Rotation, TailGuard};
use crate::compact::compact;
use crate::compaction;
use crate::inner::Inner;
use crate::schedule::{IDLE, Jobs, Lane, next_plan, step_lane, update_debt};
use crate::view::View;
use esker_base::{Error, KeyspaceId, Result};
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::time::Duration;

impl Rotation for Inner {
    fn rotate(&self, tail: &mut TailGuard<'_>) -> Result<bool> {
        let prepared = {
            let mut jobs = self.schedule.jobs.lock();
            if jobs.closing {
                return Err(Error::Closed);
            }
            jobs.wants_segment = true;
            jobs.prepared.take()
        };
        let Some(segment) = prepared else { return Ok(false) };
        let memtable = segment.memtable.clone();
        tail.activate(segment);
        // Readers must find the MemTable before anything in it is visible.
        self.view.change(|view| view.memtables.insert(0, memtable));
        update_debt(self);
        self.schedule.wake();
        Ok(true)
    }

    fn wait_for_segment(&self) -> Result<()> {
        let started = self.clock.now();
        let waited = self.wait_until(Lane::Write, |jobs, _| jobs.prepared.is_some());
        self.stall.note_stalled(self.clock.now().saturating_sub(started));
        waited
    }
}

impl Inner {
    /// Has the first segment prepared, so that the first write need not wait for it. If that fails,
    /// the first write will say so: reads can do without.
    pub(crate) fn await_first_segment(&self) {
        {
            let mut jobs = self.schedule.jobs.lock();
            if !jobs.has_threads {
                return;
            }
            jobs.wants_segment = true;
        }
        let _ = self.wait_until(Lane::Write, |jobs, _| jobs.prepared.is_some());
    }

    /// Waits until `done`, doing the work itself if there are no threads. Fails with the lane's error
    /// if a try that started after this call failed.
    fn wait_until(&self, lane: Lane, mut done: impl FnMut(&mut Jobs, &View) -> bool) -> Result<()> {
        let schedule = &self.schedule;
        let mut jobs = schedule.jobs.lock();
        let mut failures_seen = None;
        loop {
            if done(&mut jobs, &self.view.pin()) {
                return Ok(());
            }
            if jobs.closing {
                return Err(Error::Closed);
            }
            if !jobs.has_threads {
                jobs = self.step_while_waiting(jobs, lane)?;
                continue;
            }
            let state = jobs.lane(lane);
            if let Some(error) = state.error.clone() {
                match failures_seen {
                    // An old error: ask for another try.
                    None => state.retry_at = Duration::ZERO,
                    Some(attempts) if state.attempts > attempts => return Err(error),
                    Some(_) => {}
                }
                failures_seen.get_or_insert(state.attempts);
            }
            schedule.work.notify_all();
            schedule.progress.wait_for(&mut jobs, IDLE);
        }
    }

    fn step_while_waiting<'a>(
        &'a self,
        jobs: MutexGuard<'a, Jobs>,
        lane: Lane,
    ) -> Result<MutexGuard<'a, Jobs>> {
        drop(jobs);
        let stepped = step_lane(self, lane);
        let mut jobs = self.schedule.jobs.lock();
        match jobs.lane(lane).error.clone() {
            Some(error) => Err(error),
            None if stepped => Ok(jobs),
            // Nothing to do in this lane and not done: only a failed log holds things up.
            None => Err(self
                .commit
                .failure()
                .map_or(Error::Closed, |cause| Error::LogFailed { cause: Arc::new(cause) })),
        }
    }

    /// Seals the active MemTable and waits until everything written before this call is in tables.
    pub(crate) fn flush_all(&self) -> Result<()> {
        let through = {
            let mut tail = self.commit.lock_tail();
            tail.seal();
            tail.last_seqno()
        };
        update_debt(self);
        self.schedule.wake();
        let failed = || self.commit.failure();
        let flushed = self.wait_until(Lane::Write, |_, view| {
            view.memtables.iter().all(|memtable| memtable.first_seqno() > through)
                || failed().is_some()
        });
        match failed() {
            Some(cause) => Err(Error::LogFailed { cause: Arc::new(cause) }),
            None => flushed,
        }
    }

    /// Waits until background work has nothing left to do.
    pub(crate) fn settle(&self) -> Result<()> {
        self.wait_until(Lane::Write, |jobs, view| {
            !jobs.writing && view.memtables.iter().all(|memtable| !memtable.is_sealed())
        })?;
        let settled =
            |jobs: &mut Jobs, _: &View| jobs.compacting == 0 && next_plan(self, jobs).is_none();
        self.wait_until(Lane::Compaction, settled)
    }

    /// Merges everything in `keyspace` down to one level, in the calling thread and beside the lanes.
    pub(crate) fn compact_fully(&self, keyspace: KeyspaceId) -> Result<()> {
        self.flush_all()?;
        let mut limit: Option<u64> = None;
        loop {
            let plan = {
                let mut jobs = self.schedule.jobs.lock();
                let view = self.view.load();
                let Some(keyspace) = view.version.keyspaces.get(&keyspace) else {
                    return Err(crate::read::unknown(keyspace));
                };
                // Tables written meanwhile are somebody else's work.
                let before_file = *limit.get_or_insert_with(|| self.installer.next_file());
                let plan = compaction::full(keyspace, before_file, self.sizes);
                if plan.is_none() && jobs.compacting == 0 {
                    return Ok(());
                }
                let plan = plan.filter(|plan| jobs.busy.permits(plan));
                if let Some(plan) = &plan {
                    jobs.busy.claim(plan);
                    jobs.compacting += 1;
                }
                plan
            };
            match plan {
                Some(plan) => {
                    let done = compact(self, &plan);
                    let mut jobs = self.schedule.jobs.lock();
                    jobs.busy.release(&plan);
                    jobs.compacting -= 1;
                    drop(jobs);
                    update_debt(self);
                    self.schedule.work.notify_all();
                    self.schedule.progress.notify_all();
                    done?;
                }
                None => {
                    let mut jobs = self.schedule.jobs.lock();
                    if jobs.closing {
                        return Err(Error::Closed);
                    }
                    if jobs.compacting > 0 {
                        self.schedule.progress.wait_for(&mut jobs, IDLE);
                    }
                }
            }
        }
    }
}
