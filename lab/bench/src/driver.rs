//! Runs a workload with threads and measures every step.
//!
//! Each thread makes its worker, waits until all are ready, and then steps as fast as the store lets
//! it: a closed loop. The clock is read once a step: the end of one is the start of the next, so what
//! the worker itself does counts as latency too, and nothing goes unmeasured. With a [`Load::rate`]
//! the loop is open: every step has a time at which it is due, and its latency counts from then
//! (`pace`). Steps that were due before the end are done after it, within limits. A thread fills histograms of its own, one for each kind of operation, and others from
//! the middle of the load on; they are merged at the end, and where [`Load::intervals`] are wanted, each piece of time as well (`intervals`).
//!
//! The calling thread runs no load. It ticks, ten times a second or as it is configured, for progress and for samples, until
//! the threads have ended. A workload's companion gets one thread more; it is stopped when the
//! measured ones are done.

mod intervals;
mod kinds;
mod pace;

pub use intervals::Interval;
pub use kinds::ByKind;

use crate::Latencies;
use esker_api::Ordered;
use esker_base::{Clock, Result};
use esker_workload::{Step, Transactions, Workload, stream};
use intervals::{Intervals, Ongoing};
use pace::Pace;
use std::convert::Infallible;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

/// How often the calling thread ticks, unless it is configured otherwise. Often enough to look alive, and to
/// see a peak of space that a large compaction causes.
pub const TICK: Duration = Duration::from_millis(100);

/// A load, ready to run.
pub struct Load<'a> {
    /// What is done.
    pub workload: &'a dyn Workload,
    /// To which store.
    pub store: &'a dyn Ordered,
    /// With how many threads.
    pub threads: usize,
    /// How long, if the workload is endless, instead of its number of operations.
    pub duration: Option<Duration>,
    /// How many steps all threads together are to start each second, instead of as many as they can.
    pub rate: Option<f64>,
    /// How long the pieces are that are measured by themselves as well, if any.
    pub intervals: Option<Duration>,
    /// How often the calling thread ticks.
    pub tick: Duration,
    /// The seed of all randomness, together with the label.
    pub seed: u64,
    /// The load's name within the run.
    pub label: &'a str,
}

/// What a load did and how long it took.
#[derive(Clone, Debug, Default)]
pub struct Measurement {
    /// Operations done.
    pub operations: u64,
    /// Operations among them that found what they looked for.
    pub found: u64,
    /// Bytes of keys and values that went in or came out.
    pub bytes: u64,
    /// How the transactions ended, of a workload that runs them.
    pub transactions: Transactions,
    /// From the first thread's start to the last one's end; of an open loop, to the end of its
    /// schedule if that is later.
    pub elapsed: Duration,
    /// Steps of an open loop that were due and never begun, because the store was too far behind.
    pub unstarted: u64,
    /// The latency of each step.
    pub latencies: Latencies,
    /// Of the steps of the second half, by time if that limits the load and by operations otherwise: what a
    /// beginning, before anything that was put off has to be done, does not change.
    pub second_half: Latencies,
    /// The same by the kind of operation.
    pub kinds: ByKind,
    /// What each piece was like, if that was wanted.
    pub intervals: Vec<Interval>,
    /// What the companion did meanwhile.
    pub companion: Option<Box<Measurement>>,
}

impl Measurement {
    /// Operations a second, or `None` if no time passed.
    pub fn throughput(&self) -> Option<f64> {
        let seconds = self.elapsed.as_secs_f64();
        (seconds > 0.0).then(|| self.operations as f64 / seconds)
    }
}

impl Load<'_> {
    /// How many operations all threads together are to do, if that is known.
    pub fn wanted(&self) -> Option<u64> {
        let is_timed = self.duration.is_some() && self.workload.endless();
        (!is_timed).then(|| (0..self.threads).map(|thread| self.workload.share(thread)).sum())
    }

    /// How long an open loop of so many steps is to take: zero for a closed one, which has no plan.
    fn schedule(&self, steps: u64) -> Duration {
        match (self.rate, self.duration) {
            (None, _) => Duration::ZERO,
            (Some(_), Some(duration)) if self.workload.endless() => duration,
            (Some(rate), _) => Duration::from_secs_f64(steps as f64 / rate),
        }
    }

    fn limit(&self, thread: usize) -> Limit {
        match self.duration {
            Some(duration) if self.workload.endless() => Limit { duration, ..Limit::NONE },
            _ => Limit { operations: self.workload.share(thread), ..Limit::NONE },
        }
    }

    /// Runs the load. `tick` is called every [`Load::tick`] with the operations done so far.
    pub fn run(&self, clock: &dyn Clock, tick: &mut dyn FnMut(u64)) -> Result<Measurement> {
        let companion = self.workload.companion();
        let shared = Shared {
            clock,
            start: Barrier::new(self.threads + usize::from(companion.is_some())),
            failed: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            intervals: self.intervals.map(|length| Intervals::new(self.threads, length)),
        };
        let done: Vec<Slot> = (0..self.threads + 1).map(|_| Slot::default()).collect();
        let (alive, threads) = channel();
        std::thread::scope(|scope| {
            let measured: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let alive = Some(alive.clone());
                    let part = Part { load: self, workload: self.workload, thread, alive };
                    part.spawn(scope, &shared, &done[thread], self.limit(thread))
                })
                .collect();
            let beside = companion.as_deref().map(|workload| {
                let part = Part { load: self, workload, thread: self.threads, alive: None };
                part.spawn(scope, &shared, &done[self.threads], Limit::NONE)
            });
            drop(alive);
            tick_while_alive(&threads, self.tick, &mut || {
                tick(done[..self.threads].iter().map(|slot| slot.0.load(Relaxed)).sum());
            });
            shared.finished.store(true, Relaxed);
            // Every thread is waited for before the first failure is passed on.
            let measured: Vec<_> = measured.into_iter().map(join).collect();
            let beside = beside.map(join);
            let mut total = merge(measured)?;
            total.elapsed = total.elapsed.max(self.schedule(total.latencies.count()));
            total.intervals = shared.intervals.as_ref().map(Intervals::take).unwrap_or_default();
            if let Some(beside) = beside {
                total.companion = Some(Box::new(merge(vec![beside])?));
            }
            Ok(total)
        })
    }
}

/// Runs `body` in a thread of its own, and `tick` in this one, every so often, until it has ended.
pub fn run_watched(
    body: impl FnOnce() -> Result<()> + Send,
    every: Duration,
    tick: &mut dyn FnMut(),
) -> Result<()> {
    let (alive, threads) = channel();
    std::thread::scope(|scope| {
        let handle = scope.spawn(move || {
            let _alive: Sender<Infallible> = alive;
            body()
        });
        tick_while_alive(&threads, every, tick);
        join(handle)
    })
}

/// Ticks until every sender is gone: a thread that panics drops its own as well.
fn tick_while_alive(threads: &Receiver<Infallible>, every: Duration, tick: &mut dyn FnMut()) {
    while let Err(RecvTimeoutError::Timeout) = threads.recv_timeout(every) {
        tick();
    }
}

fn join<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// When a thread stops.
#[derive(Clone, Copy)]
struct Limit {
    operations: u64,
    duration: Duration,
}

impl Limit {
    const NONE: Limit = Limit { operations: u64::MAX, duration: Duration::MAX };

    /// Where half of it is done.
    fn middle(self, start: Duration) -> Limit {
        let duration = start.saturating_add(self.duration / 2);
        Limit { operations: self.operations / 2, duration }
    }
}

/// A thread's count of operations, for the calling thread to inspect. Each on a cache line (and its
/// prefetched neighbour) of its own, so that threads do not slow each other down by counting.
#[derive(Default)]
#[repr(align(128))]
struct Slot(AtomicU64);

/// What all threads of a load share.
struct Shared<'a> {
    clock: &'a dyn Clock,
    start: Barrier,
    /// Some thread has failed: all others stop.
    failed: AtomicBool,
    /// The measured threads are done: the companion stops.
    finished: AtomicBool,
    /// Where threads bring what they measured in each piece.
    intervals: Option<Intervals>,
}

/// Waits for the other threads when dropped, so that one that panics early keeps no other waiting.
struct Ready<'a>(&'a Barrier);

impl Drop for Ready<'_> {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// What one thread did, on the load's clock.
struct Outcome {
    total: Step,
    /// Before the middle of the load, and after it.
    halves: [ByKind; 2],
    unstarted: u64,
    start: Duration,
    end: Duration,
}

/// One thread of a load.
struct Part<'a> {
    load: &'a Load<'a>,
    workload: &'a dyn Workload,
    thread: usize,
    /// Held by measured threads for as long as they run.
    alive: Option<Sender<Infallible>>,
}

impl<'a> Part<'a> {
    fn spawn<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        shared: &'a Shared<'a>,
        done: &'a Slot,
        limit: Limit,
    ) -> ScopedJoinHandle<'scope, Result<Outcome>>
    where
        'a: 'scope,
    {
        scope.spawn(move || {
            let outcome = self.run(shared, done, limit);
            if outcome.is_err() {
                shared.failed.store(true, Relaxed);
            }
            drop(self.alive);
            outcome
        })
    }

    fn run(&self, shared: &Shared<'_>, done: &Slot, limit: Limit) -> Result<Outcome> {
        let is_companion = self.alive.is_none();
        let ready = Ready(&shared.start);
        let rng = stream(self.load.seed, self.load.label, self.thread as u64);
        let worker = self.workload.worker(self.load.store, self.thread, rng);
        let mut halves = [ByKind::default(), ByKind::default()];
        drop(ready);

        let mut worker = worker?;
        let mut total = Step::default();
        let start = shared.clock.now();
        let stop_at = start.saturating_add(limit.duration);
        let middle = limit.middle(start);
        let mut pace = self.pace(start, stop_at);
        let mut ongoing = self.ongoing(shared, start);
        let (mut last, mut end) = (start, start);
        // A closed loop ends with its time, an open one when all that was due is done.
        while total.operations < limit.operations
            && (pace.is_some() || last < stop_at)
            && !shared.failed.load(Relaxed)
            && !(is_companion && shared.finished.load(Relaxed))
        {
            if let Some(pace) = &mut pace {
                match pace.next(shared.clock, last, &shared.failed) {
                    Some(due) => last = due,
                    None => break,
                }
            }
            let step = worker.step()?;
            if step.operations == 0 {
                break;
            }
            end = shared.clock.now();
            let latency = (end - last).saturating_sub(step.waited);
            last = end;
            let is_late = total.operations >= middle.operations || end >= middle.duration;
            halves[usize::from(is_late)].record(step.kind, latency);
            if let Some(ongoing) = &mut ongoing
                && ongoing.record(end, latency, step.operations)
            {
                // Bringing it away took time that no operation is to be charged for.
                last = shared.clock.now();
            }
            total.operations += step.operations;
            total.found += step.found;
            total.bytes += step.bytes;
            total.transactions += step.transactions;
            done.0.store(total.operations, Relaxed);
        }
        let unstarted = pace.map_or(0, |pace| pace.given_up());
        Ok(Outcome { total, halves, unstarted, start, end })
    }

    fn pace(&self, start: Duration, stop_at: Duration) -> Option<Pace> {
        let rate = self.load.rate.filter(|_| self.alive.is_some())?;
        Some(Pace::new(rate, self.thread, self.load.threads, start, stop_at))
    }

    fn ongoing<'s>(&self, shared: &'s Shared<'_>, start: Duration) -> Option<Ongoing<'s>> {
        let intervals = shared.intervals.as_ref().filter(|_| self.alive.is_some())?;
        Some(intervals.join(self.thread, start))
    }
}

fn merge(outcomes: Vec<Result<Outcome>>) -> Result<Measurement> {
    let mut merged = Measurement::default();
    let (mut start, mut end) = (Duration::MAX, Duration::ZERO);
    for outcome in outcomes {
        let outcome = outcome?;
        merged.operations += outcome.total.operations;
        merged.found += outcome.total.found;
        merged.bytes += outcome.total.bytes;
        merged.transactions += outcome.total.transactions;
        merged.unstarted += outcome.unstarted;
        let [first, second] = &outcome.halves;
        merged.kinds.merge(first);
        merged.kinds.merge(second);
        merged.second_half.merge(&second.all());
        start = start.min(outcome.start);
        end = end.max(outcome.end);
    }
    merged.latencies = merged.kinds.all();
    merged.elapsed = end.saturating_sub(start);
    Ok(merged)
}

#[cfg(test)]
mod tests;
