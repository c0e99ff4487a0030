//! What background work there is, and how far it is. Which job is next, `background` decides.
//!
//! One lock protects the [`SchedulerState`]: writers take it for a segment, lanes for a job. Nothing
//! is read, written or picked under it that takes long. The engine owns the [`Scheduler`]; the jobs
//! themselves know no more of it than the trait [`SubcompactionPool`].

pub(crate) mod state;
pub(crate) mod table_opening;

use crate::compaction::execute::job::{CompactionJob, SubcompactionPool};
use crate::resources::crew::{IDLE, Signal};
use crate::resources::lanes::JobClass;
use esker_base::Error;
use parking_lot::{Condvar, Mutex};
use state::SchedulerState;
use std::sync::Arc;
use std::time::Duration;

/// The state of all background work.
#[derive(Default)]
pub(crate) struct Scheduler {
    pub(crate) jobs: Mutex<SchedulerState>,
    /// Wakes lanes.
    pub(crate) work: Arc<Signal>,
    /// Wakes threads that wait for a lane's results.
    pub(crate) progress: Condvar,
    /// Wakes those that only wait for the close.
    pub(crate) closing: Condvar,
}

impl Scheduler {
    /// A schedule whose work is announced to the threads that wait for `work`.
    pub(crate) fn announcing(work: Arc<Signal>) -> Self {
        Scheduler { work, ..Scheduler::default() }
    }

    /// Says that threads serve the lanes.
    pub(crate) fn set_threaded(&self) {
        self.jobs.lock().has_threads = true;
    }

    /// Says that there may be work for any lane.
    pub(crate) fn wake(&self) {
        self.work.announce();
    }

    /// Says that the active MemTable has grown, or that another has followed it.
    pub(crate) fn wake_for_memtables(&self) {
        self.work.announce_to(&[JobClass::Prepare, JobClass::Flush, JobClass::Sync]);
    }

    /// Ends the lanes after their present jobs.
    pub(crate) fn close(&self) {
        self.jobs.lock().closing = true;
        self.closing.notify_all();
        self.work.announce();
        self.progress.notify_all();
    }

    /// Why a lane makes no progress, if one does.
    pub(crate) fn error(&self) -> Option<Error> {
        self.jobs.lock().lanes.iter().find_map(|lane| lane.error.clone())
    }

    /// Has tables whose reads failed tried again, after a pause.
    pub(crate) fn retry_tables(&self, now: Duration) {
        self.jobs.lock().retry.plan(now);
    }

    /// Drops the memory and the segments held in readiness.
    pub(crate) fn release(&self) {
        let mut jobs = self.jobs.lock();
        jobs.prepared.clear();
        jobs.unneeded.clear();
        jobs.growing = None;
        jobs.retired.clear();
    }
}

impl SubcompactionPool for Scheduler {
    fn threads(&self, most: usize) -> usize {
        if self.jobs.lock().has_threads { most } else { 1 }
    }

    fn offer(&self, job: &Arc<CompactionJob>) {
        self.jobs.lock().shared.push(job.clone());
        self.work.announce_to(&[JobClass::Compaction]);
    }

    fn withdraw(&self, job: &Arc<CompactionJob>) {
        let mut jobs = self.jobs.lock();
        jobs.shared.retain(|other| !Arc::ptr_eq(other, job));
        while Arc::strong_count(job) > 1 {
            self.progress.wait_for(&mut jobs, IDLE);
        }
    }
}

/// Notifies the waiters if a background thread panics.
pub(crate) struct PanicGuard<'a>(pub(crate) &'a Scheduler);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.jobs.lock().panicked = true;
            self.0.progress.notify_all();
        }
    }
}

/// While it exists, a compaction is installed as soon as it is done.
pub(crate) struct ForceInstallGuard<'a>(&'a Scheduler);

impl<'a> ForceInstallGuard<'a> {
    /// For a caller that waits until all is done.
    pub(crate) fn begin(schedule: &'a Scheduler) -> Self {
        schedule.jobs.lock().deferred.begin_hurry();
        schedule.work.announce();
        ForceInstallGuard(schedule)
    }
}

impl Drop for ForceInstallGuard<'_> {
    fn drop(&mut self) {
        self.0.jobs.lock().deferred.end_hurry();
    }
}
