//! A load of transactions, in a worker: its commits are timed, the log's device gives its account, and
//! what it left is checked ([`super::audit`]).

use super::audit::{Bound, audit};
use super::engines::Opened;
use super::plan::Plan;
use crate::failure::{Failure, Outcome};
use esker_base::{Clock, SystemClock};
use esker_bench::{CommitTimes, Progress, Row, Trial};
use std::time::Duration;

/// Measures the plan's task on an engine that is open for it.
pub fn measure(
    plan: &Plan,
    opened: &Opened,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Outcome<esker_bench::Outcome> {
    let clock = SystemClock::new();
    let engine = opened.engine();
    let none = || Failure::Usage(format!("{} runs no transactions", plan.engine));
    let store = engine.transactional().ok_or_else(none)?;
    let times = CommitTimes::new(store, &clock);
    let bound = Bound::of(&plan.task, &times)?;
    let trial = Trial {
        engine,
        clock: &clock,
        workload: bound.workload(),
        commits: Some(&times),
        case: &plan.case,
        round: plan.round,
        threads: plan.threads,
        duration: plan.duration,
        rate: plan.rate,
        warm_up: plan.warm_up,
        settles: plan.settles,
        interval: plan.interval,
        seed: plan.seed,
    };
    let mut outcome = trial.run(progress)?;
    let of_log = log_rows(plan, opened, &outcome.rows);
    outcome.rows.extend(of_log);

    let stage = &format!("{}: checking", plan.case);
    let (index, stages, operations, elapsed) = (0, 1, 0, Duration::ZERO);
    let is_done = false;
    progress(&Progress { stage, index, stages, operations, wanted: None, elapsed, is_done });
    let begin = clock.now();
    if audit(&bound, store)? {
        let seconds = clock.now().saturating_sub(begin).as_secs_f64();
        outcome.rows.push(row(plan, "check_seconds", seconds, "s"));
    }
    Ok(outcome)
}

/// What the device of the log says of itself, and the load's processor time without what an emulator
/// took to wait.
fn log_rows(plan: &Plan, opened: &Opened, rows: &[Row]) -> Vec<Row> {
    let value = |metric: &str| rows.iter().find(|row| row.metric == metric).map(|row| row.value);
    let row = |metric: &str, value, unit: &str| row(plan, metric, value, unit);
    let cpu = value("cpu_us_per_commit");
    let Some(log) = opened.log() else {
        let cpu = cpu.map(|cpu| row("commit_engine_cpu_us", cpu, "us"));
        return cpu.into_iter().collect();
    };
    let served = log.device().served();
    if served.syncs == 0 {
        return Vec::new();
    }
    let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    // All syncs wait alike, those of a warm-up included.
    let waiting = micros(served.waiting_cpu) / served.syncs as f64;
    let waiting = waiting * value("syncs_per_commit").unwrap_or(0.0);
    let mut account = vec![
        row("service_achieved_us", micros(served.achieved_mean), "us"),
        row("service_achieved_p50_us", micros(served.achieved_p50), "us"),
        row("emulator_cpu_us", waiting, "us"),
        row("sync_bytes", served.bytes as f64 / served.syncs as f64, "bytes"),
    ];
    if log.device().profile().is_some() {
        account.extend([
            row("service_requested_us", micros(served.requested_mean), "us"),
            row("service_requested_p50_us", micros(served.requested_p50), "us"),
            row("service_ratio", served.ratio(), "ratio"),
            row("void", if served.is_within_tolerance() { 0.0 } else { 1.0 }, "bool"),
        ]);
    }
    account.extend(cpu.map(|cpu| row("commit_engine_cpu_us", cpu - waiting, "us")));
    account
}

fn row(plan: &Plan, metric: &str, value: f64, unit: &str) -> Row {
    Row {
        engine: plan.engine.clone(),
        case: plan.case.clone(),
        metric: metric.to_owned(),
        value,
        unit: unit.to_owned(),
        round: plan.round,
    }
}
