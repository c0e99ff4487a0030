//! Many seeds, on several threads; and what is said of one that fails.

use crate::harness::{self, Failure, Outcome};
use crate::operations::History;
use crate::shrink::shrink;
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};

thread_local! {
    /// Where and why this thread panicked last while it ran a history.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    /// Whether it runs one.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `history`. A panic is a failure like others.
pub fn run(history: &History) -> Result<Outcome, Failure> {
    static HOOK: Once = Once::new();
    HOOK.call_once(keep_panics_quiet);
    RUNNING.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(|| harness::run(history)));
    RUNNING.set(false);
    outcome.unwrap_or_else(|_| {
        let what = PANIC.take().unwrap_or_default();
        Err(Failure { operation: history.operations.len(), what })
    })
}

/// A history that panics is reported once, when it is shrunk, and not each time it is run.
fn keep_panics_quiet() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if RUNNING.get() {
            PANIC.set(Some(info.to_string()));
        } else {
            others(info);
        }
    }));
}

/// Runs the histories of `seeds` on `threads` threads. The first failure ends it; its report is the
/// error.
pub fn run_all(
    seeds: Range<u64>,
    threads: usize,
    draw: fn(u64) -> History,
) -> Result<Outcome, String> {
    let next = AtomicU64::new(seeds.start);
    let total = Mutex::new(Outcome::default());
    let failed = Mutex::new(None::<(u64, Failure)>);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    match run(&draw(seed)) {
                        Ok(outcome) => add(&mut total.lock().expect("no panic"), &outcome),
                        Err(failure) => {
                            next.store(seeds.end, Ordering::Relaxed);
                            let mut failed = failed.lock().expect("no panic");
                            if failed.as_ref().is_none_or(|(other, _)| seed < *other) {
                                *failed = Some((seed, failure));
                            }
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner().expect("no panic") {
        Some((seed, failure)) => Err(report(&draw(seed), &failure)),
        None => Ok(total.into_inner().expect("no panic")),
    }
}

/// What there is to say of a history that failed, its smallest form included.
pub fn report(history: &History, failure: &Failure) -> String {
    let small = shrink(history, |candidate| run(candidate).is_err());
    let last = run(&small).expect_err("a shrunk history fails");
    let mut text = String::new();
    let (seed, argument) = (history.seed, history.argument);
    let mut line = |what: std::fmt::Arguments<'_>| {
        writeln!(text, "{what}").expect("a string takes all");
    };
    line(format_args!("seed {seed} fails at operation {}: {}", failure.operation, failure.what));
    let command = "cargo run --release -p esker-sim --";
    line(format_args!("again: {command} --first-seed {seed} --seeds 1{argument}"));
    line(format_args!(
        "shrunk to {} of {} operations, it fails at {}: {}",
        small.operations.len(),
        history.operations.len(),
        last.operation,
        last.what
    ));
    line(format_args!(
        "own log: {}, {} extents, {:?}",
        small.own_log, small.extents, small.settings
    ));
    line(format_args!(
        "default keyspace: {:?}; tables are settled after {} calls",
        small.default_keyspace, small.settles_after
    ));
    line(format_args!("creation: {:?}", small.creation));
    for (at, operation) in small.operations.iter().enumerate() {
        line(format_args!("{at:4} {operation:?}"));
    }
    text
}

fn add(total: &mut Outcome, one: &Outcome) {
    total.reads ^= one.reads;
    total.calls += one.calls;
    total.batches += one.batches;
    total.ingests += one.ingests;
    total.large_values += one.large_values;
    total.failed_ingests_found += one.failed_ingests_found;
    total.crashes += one.crashes;
    total.closes += one.closes;
    total.failed_logs += one.failed_logs;
    total.excused += one.excused;
    total.cut_off += one.cut_off;
    total.refused += one.refused;
    total.flushes += one.flushes;
    total.pool_flushes += one.pool_flushes;
    total.dram_hits += one.dram_hits;
    total.compactions += one.compactions;
    total.compactions_done += one.compactions_done;
    total.separated_values += one.separated_values;
    total.deferrals += one.deferrals;
    total.crashes_before_force += one.crashes_before_force;
}
