//! Threads, limits and failures of the driver, under a clock that moves a microsecond a look.

use super::*;
use esker_base::{Error, Rng};
use esker_workload::checker::Verify;
use esker_workload::db_bench::{Case, Job, Options};
use esker_workload::{Model, OperationKind, Worker};

/// Each inspection of this clock takes a microsecond, and nothing else takes any time.
#[derive(Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.fetch_add(1, Relaxed))
    }
    fn sleep(&self, _duration: Duration) {}
}

type Script = fn(usize, u64) -> Result<Step>;

/// A workload whose threads do what a function of the thread and the step says.
struct Scripted<F> {
    operations: u64,
    step: F,
    companion: Option<Script>,
}

struct ScriptedWorker<'a, F> {
    step: &'a F,
    thread: usize,
    steps: u64,
}

impl<F: Fn(usize, u64) -> Result<Step>> Worker for ScriptedWorker<'_, F> {
    fn step(&mut self) -> Result<Step> {
        self.steps += 1;
        (self.step)(self.thread, self.steps - 1)
    }
}

impl<F: Fn(usize, u64) -> Result<Step> + Sync> Workload for Scripted<F> {
    fn worker<'a>(
        &'a self,
        _store: &'a dyn Ordered,
        thread: usize,
        _rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        Ok(Box::new(ScriptedWorker { step: &self.step, thread, steps: 0 }))
    }
    fn operations(&self) -> u64 {
        self.operations
    }
    fn endless(&self) -> bool {
        true
    }
    fn looks_up(&self) -> bool {
        true
    }
    fn writes(&self) -> bool {
        false
    }
    fn companion(&self) -> Option<Box<dyn Workload + '_>> {
        let step = self.companion?;
        Some(Box::new(Scripted { operations: 0, step, companion: None }))
    }
}

const ONE: Step =
    Step { kind: OperationKind::Read, operations: 1, found: 1, bytes: 10, ..Step::END };

fn run_for(
    workload: &dyn Workload,
    threads: usize,
    duration: Option<Duration>,
) -> Result<Measurement> {
    let model = Model::new();
    let load = Load {
        workload,
        store: &model,
        threads,
        duration,
        rate: None,
        intervals: None,
        tick: TICK,
        seed: 1,
        label: "test",
    };
    load.run(&Ticking::default(), &mut |_| {})
}

fn run(workload: &dyn Workload, threads: usize) -> Result<Measurement> {
    run_for(workload, threads, None)
}

fn scripted<F: Fn(usize, u64) -> Result<Step>>(operations: u64, step: F) -> Scripted<F> {
    Scripted { operations, step, companion: None }
}

#[test]
fn time_that_a_worker_lets_pass_on_purpose_is_no_latency() {
    let waits = |_, at: u64| {
        let waited = Duration::from_nanos(if at.is_multiple_of(2) { 400 } else { 0 });
        Ok(Step { waited, ..ONE })
    };
    let measured = run(&scripted(10, waits), 1).unwrap();
    // A look at the clock takes a microsecond.
    assert_eq!(measured.latencies.mean_us(), 0.8);
}

#[test]
fn each_thread_does_the_whole_number_of_operations() {
    let measured = run(&scripted(1_000, |_, _| Ok(ONE)), 3).unwrap();
    assert_eq!((measured.operations, measured.found, measured.bytes), (3_000, 3_000, 30_000));
    assert_eq!(measured.latencies.count(), 3_000);
}

#[test]
fn the_clock_is_read_once_a_step() {
    let measured = run(&scripted(1_000, |_, _| Ok(ONE)), 1).unwrap();
    assert_eq!(measured.elapsed, Duration::from_micros(1_000));
    assert_eq!((measured.latencies.mean_us(), measured.throughput()), (1.0, Some(1e6)));
}

#[test]
fn a_time_limit_takes_the_place_of_the_number() {
    let limit = Some(Duration::from_micros(250));
    assert_eq!(run_for(&scripted(10, |_, _| Ok(ONE)), 1, limit).unwrap().operations, 250);
}

#[test]
fn a_scan_ends_with_its_pairs_whatever_the_time_limit() {
    let model = Model::new();
    let options = Options { num: 100, ..Options::default() };
    let run = |case| {
        let job = Job::new(case, &options);
        let duration = Some(Duration::from_secs(1));
        let load = Load {
            workload: &job,
            store: &model,
            threads: 2,
            duration,
            rate: None,
            intervals: None,
            tick: TICK,
            seed: 1,
            label: "scan",
        };
        assert_eq!(load.wanted(), Some(200));
        load.run(&Ticking::default(), &mut |_| {}).unwrap().operations
    };
    assert_eq!(run(Case::ReadSeq), 0);
    assert_eq!(run(Case::FillSeq), 200);
    assert_eq!(run(Case::ReadReverse), 200);
}

#[test]
fn the_second_half_is_told_apart_by_operations_or_by_time() {
    // Ten times as long from the hundredth step on.
    let slower = |_, at: u64| {
        let waited = Duration::from_nanos(if at < 100 { 900 } else { 0 });
        Ok(Step { waited, ..ONE })
    };
    let half = |measured: Measurement| {
        let all = measured.latencies.mean_us();
        (measured.second_half.count(), measured.second_half.mean_us(), all < 0.6)
    };
    assert_eq!(half(run(&scripted(200, slower), 1).unwrap()), (100, 1.0, true));
    // The step that ends with the first half belongs to the second.
    let limit = Some(Duration::from_micros(200));
    assert_eq!(half(run_for(&scripted(1, slower), 1, limit).unwrap()).0, 101);
}

#[test]
fn a_batch_is_one_latency_and_many_operations() {
    let batch = Step { operations: 50, ..Step::default() };
    let measured = run(&scripted(1_000, |_, _| Ok(batch)), 1).unwrap();
    assert_eq!((measured.operations, measured.latencies.count()), (1_000, 20));
}

#[test]
fn a_worker_with_nothing_left_ends_early_and_is_not_charged_for_it() {
    let step = |_, at| Ok(if at < 7 { ONE } else { Step::END });
    let measured = run(&scripted(1_000, step), 1).unwrap();
    assert_eq!((measured.operations, measured.latencies.count()), (7, 7));
    assert_eq!(measured.elapsed, Duration::from_micros(7));
}

#[test]
fn one_thread_that_fails_stops_all() {
    let step = |thread, at| if (thread, at) == (1, 10) { Err(Error::ReadOnly) } else { Ok(ONE) };
    let error = run(&scripted(u64::MAX, step), 3).unwrap_err();
    assert!(matches!(error, Error::ReadOnly));
}

#[test]
#[should_panic(expected = "this one breaks")]
fn a_thread_that_panics_is_passed_on_and_keeps_nobody_waiting() {
    let step = |thread: usize, _| if thread == 1 { panic!("this one breaks") } else { Ok(ONE) };
    let _ = run(&scripted(100, step), 3);
}

#[test]
fn a_companion_runs_beside_until_the_measured_threads_are_done() {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let wait_for_the_companion = |_, _| {
        while WRITES.load(Relaxed) < 5 {
            std::thread::yield_now();
        }
        Ok(ONE)
    };
    let companion: Script = |_, _| {
        WRITES.fetch_add(1, Relaxed);
        Ok(Step { operations: 1, bytes: 3, ..Step::default() })
    };
    let workload = Scripted { companion: Some(companion), ..scripted(20, wait_for_the_companion) };
    let measured = run(&workload, 2).unwrap();
    assert_eq!((measured.operations, measured.bytes), (40, 400), "the companion is not counted");
    let companion = measured.companion.unwrap();
    assert!(companion.operations >= 5);
    assert_eq!(companion.operations, WRITES.load(Relaxed));
}

#[test]
fn a_companion_that_fails_fails_the_load() {
    let workload = Scripted {
        companion: Some(|_, _| Err(Error::Closed)),
        ..scripted(u64::MAX, |_, _| Ok(ONE))
    };
    assert!(matches!(run(&workload, 2), Err(Error::Closed)));
}

#[test]
fn the_caller_ticks_while_the_threads_run() {
    let ticked = AtomicU64::new(0);
    let until_ticked = |_, _| {
        while ticked.load(Relaxed) < 2 {
            std::thread::yield_now();
        }
        Ok(ONE)
    };
    let model = Model::new();
    let workload = scripted(1, until_ticked);
    let load = Load {
        workload: &workload,
        store: &model,
        threads: 1,
        duration: None,
        rate: None,
        intervals: None,
        tick: TICK,
        seed: 1,
        label: "tick",
    };
    let mut tick = |operations| {
        assert_eq!(operations, 0);
        ticked.fetch_add(1, Relaxed);
    };
    load.run(&Ticking::default(), &mut tick).unwrap();
    assert!(ticked.load(Relaxed) >= 2);
}

#[test]
fn what_is_watched_gives_back_its_failure() {
    assert!(matches!(run_watched(|| Err(Error::Closed), TICK, &mut || {}), Err(Error::Closed)));
}

#[test]
fn a_verifying_workload_runs_like_any_other() {
    let verify = Verify::new(300, 3, 2_000);
    let measured = run(&verify, 3).unwrap();
    assert_eq!(measured.operations, 6_000);
    assert_eq!(verify.violations(), []);
    let acknowledged = (0..300).filter(|&key| verify.ledger().floor(key).0 > 0).count();
    assert!(acknowledged > 290, "nearly every key was written: {acknowledged}");
}

#[test]
fn time_passes_from_the_first_start_to_the_last_end() {
    let outcome = |start, end| {
        let (start, end) = (Duration::from_secs(start), Duration::from_secs(end));
        Ok(Outcome { total: ONE, halves: Default::default(), unstarted: 0, start, end })
    };
    let merged = merge(vec![outcome(5, 7), outcome(4, 6), outcome(5, 9), outcome(6, 8)]).unwrap();
    assert_eq!((merged.elapsed, merged.operations), (Duration::from_secs(5), 4));
}

/// Time passes only where a step or a sleep says so.
#[derive(Default)]
struct Slow(AtomicU64);

impl Slow {
    fn pass(&self, us: u64) {
        self.0.fetch_add(us, Relaxed);
    }
}

impl Clock for Slow {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.load(Relaxed))
    }
    fn sleep(&self, duration: Duration) {
        self.pass(duration.as_micros() as u64);
    }
}

/// Runs steps that take as long as `takes_us` says of each, one every millisecond.
fn run_at_a_thousand(operations: u64, takes_us: fn(u64) -> u64) -> Measurement {
    run_paced(operations, None, takes_us)
}

/// Likewise, for a number of operations or for a time.
fn run_paced(operations: u64, duration: Option<Duration>, takes_us: fn(u64) -> u64) -> Measurement {
    let clock = Slow::default();
    // What remains after a sleep is watched: each look must let time pass.
    struct Watched(&'static Slow);
    impl Clock for Watched {
        fn now(&self) -> Duration {
            self.0.pass(1);
            self.0.now()
        }
        fn sleep(&self, duration: Duration) {
            self.0.sleep(duration);
        }
    }
    let clock: &'static Slow = Box::leak(Box::new(clock));
    let workload = scripted(operations, move |_, at| {
        clock.pass(takes_us(at));
        Ok(ONE)
    });
    let model = Model::new();
    let load = Load {
        workload: &workload,
        store: &model,
        threads: 1,
        duration,
        rate: Some(1_000.0),
        intervals: None,
        tick: TICK,
        seed: 1,
        label: "open",
    };
    load.run(&Watched(clock), &mut |_| {}).unwrap()
}

#[test]
fn an_open_loop_keeps_its_rate_when_the_store_is_fast() {
    let measured = run_at_a_thousand(500, |_| 100);
    let seconds = measured.elapsed.as_secs_f64();
    assert_eq!(seconds, 0.5, "the last one is due a millisecond before the end");
    assert!(
        (measured.latencies.max_us() - 101.0).abs() <= 3.0,
        "{:?}",
        measured.latencies.max_us()
    );
}

#[test]
fn an_open_loop_counts_the_time_spent_waiting_for_a_slow_operation() {
    // One step stands still for a tenth of a second, in which a hundred others come due.
    let measured = run_at_a_thousand(500, |at| if at == 100 { 100_000 } else { 100 });
    let waited = |percent| measured.latencies.percentile_us(percent);
    assert!(waited(99.0) > 80_000.0, "{}", waited(99.0));
    assert!(waited(85.0) > 20_000.0, "{}", waited(85.0));
    assert!(waited(50.0) < 200.0, "{}", waited(50.0));
}

#[test]
fn an_open_loop_falls_behind_a_store_that_is_too_slow() {
    let measured = run_at_a_thousand(100, |_| 10_000);
    // Step n is due at n ms and ends at (n + 1) * 10 ms.
    assert!((measured.latencies.mean_us() / 455_500.0 - 1.0).abs() < 0.01);
    assert!(measured.throughput().unwrap() < 101.0);
}

#[test]
fn what_was_due_before_the_end_is_done_after_it() {
    let limit = Some(Duration::from_millis(100));
    let measured = run_paced(1, limit, |at| if at == 50 { 100_000 } else { 100 });
    assert_eq!((measured.operations, measured.unstarted), (100, 0));
    assert!(measured.elapsed > Duration::from_millis(150), "{:?}", measured.elapsed);
    assert!(measured.latencies.percentile_us(99.0) > 90_000.0);
}

#[test]
fn a_rate_far_beyond_the_store_is_given_up_in_time() {
    let limit = Some(Duration::from_millis(100));
    let measured = run_paced(1, limit, |_| 10_000);
    assert_eq!((measured.operations, measured.unstarted), (20, 80));
}

#[test]
fn a_short_open_loop_takes_as_long_as_its_schedule() {
    let measured = run_at_a_thousand(1, |_| 100);
    assert_eq!(measured.throughput(), Some(1_000.0));
    let idle = run_paced(1, Some(Duration::from_micros(5_500)), |_| 100);
    assert_eq!((idle.operations, idle.elapsed), (6, Duration::from_micros(5_500)));
}

#[test]
fn threads_share_the_rate() {
    let failed = AtomicBool::new(false);
    let clock = Ticking::default();
    let due = |thread| {
        let mut pace =
            pace::Pace::new(100.0, thread, 2, Duration::from_secs(1), Duration::from_secs(2));
        let mut next = || pace.next(&clock, Duration::from_secs(2), &failed);
        [next(), next()].map(|due| due.unwrap().as_millis())
    };
    assert_eq!((due(0), due(1)), ([1_000, 1_020], [1_010, 1_030]));
}

#[test]
fn an_open_loop_ends_in_time() {
    let limit = Some(Duration::from_millis(100));
    let workload = scripted(1, |_, _| Ok(ONE));
    let model = Model::new();
    let load = Load {
        workload: &workload,
        store: &model,
        threads: 1,
        duration: limit,
        rate: Some(1_000.0),
        intervals: None,
        tick: TICK,
        seed: 1,
        label: "open",
    };
    assert_eq!(load.run(&Ticking::default(), &mut |_| {}).unwrap().operations, 100);
}

#[test]
fn seconds_are_measured_when_they_are_wanted() {
    let workload = scripted(2_500_000, |_, _| Ok(ONE));
    let model = Model::new();
    let load = Load {
        workload: &workload,
        store: &model,
        threads: 1,
        duration: None,
        rate: None,
        intervals: Some(Duration::from_secs(1)),
        tick: TICK,
        seed: 1,
        label: "seconds",
    };
    let measured = load.run(&Ticking::default(), &mut |_| {}).unwrap();
    assert_eq!(measured.intervals.len(), 2);
    for (interval, second) in measured.intervals.iter().zip(1..) {
        assert_eq!(interval.end, Duration::from_secs(second));
        assert!((999_990..=1_000_000).contains(&interval.operations), "{interval:?}");
        assert_eq!(interval.latency_p99_us, 1.0);
    }
    assert_eq!(measured.operations, 2_500_000);
}
