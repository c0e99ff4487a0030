//! One step of background work: a job is picked and run.

use super::executor::{help, run};
use super::picker::next_job;
use crate::engine::Engine;
use crate::resources::lanes::{JobClass, Urgency};
use crate::scheduler::PanicGuard;

/// Does one job of `lane`, in a thread that serves it. False if there is none so urgent.
pub(super) fn visit(inner: &Engine, lane: JobClass, urgency: Urgency) -> bool {
    let _alarm = PanicGuard(&inner.schedule);
    let mut jobs = inner.schedule.jobs.lock();
    if jobs.closing || jobs.panicked {
        return false;
    }
    if let Some(job) = next_job(inner, &mut jobs, lane, urgency) {
        drop(jobs);
        // What failed is kept as the lane's error.
        let _ = run(inner, lane, job);
    } else if urgency == Urgency::Spare
        && let Some(merge) = jobs.next_to_help(lane)
    {
        drop(jobs);
        help(inner, merge);
    } else {
        return false;
    }
    true
}

/// Does one job of any lane in the calling thread. False if there is none, or it failed.
pub(crate) fn step(inner: &Engine) -> bool {
    JobClass::ALL.into_iter().any(|lane| step_lane(inner, lane))
}

/// Does one job of `lane` in the calling thread. False if there is none, or it failed.
pub(crate) fn step_lane(inner: &Engine, lane: JobClass) -> bool {
    let job = {
        let mut jobs = inner.schedule.jobs.lock();
        jobs.lane(lane).error = None;
        let mut urgencies = lane.urgencies().iter();
        urgencies.find_map(|urgency| next_job(inner, &mut jobs, lane, *urgency))
    };
    match job {
        Some(job) => run(inner, lane, job).is_ok(),
        None => false,
    }
}
