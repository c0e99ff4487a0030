//! `esker-lab bench worker`: one case on one engine, in a process of its own.
//!
//! It reads a [`Plan`] from standard input and writes [`Message`]s to standard output. When standard
//! input ends, the program that started it has gone, and it goes too.

use super::fabric::{self, FabricEngine};
use super::plan::{Message, Plan, ShelfTask, Task};
use super::process::line;
use super::{engines, large, probes, reading, transactions};
use crate::failure::{Failure, Outcome};
use clap::Args;
use esker_base::{Background, Clock, Priority, SystemClock, Threads};
use esker_bench::driver::{Load, TICK};
use esker_bench::{Engine, Progress, Report, Row, Trial};
use esker_workload::shelf::{self, Shelf};
use esker_workload::updates::Updates;
use std::io::{BufRead, Write};

/// Measure one case of a campaign, as described on standard input
#[derive(Args)]
pub struct Worker {}

impl Worker {
    pub fn run(self) -> Outcome {
        let mut plan = String::new();
        let failed = |error| Failure::io("read", "standard input", error);
        std::io::stdin().lock().read_line(&mut plan).map_err(failed)?;
        let plan: Plan = serde_json::from_str(&plan)?;
        drop(Threads.spawn("esker-parent", Priority::Low, Box::new(end_with_parent))?);
        match measure(&plan) {
            Ok(outcome) => tell(&Message::Done(outcome)),
            Err(Failure::Usage(message)) => tell(&Message::Failed { message, is_usage: true }),
            Err(Failure::Failed(message)) => tell(&Message::Failed { message, is_usage: false }),
            Err(other) => Err(other),
        }
    }
}

fn end_with_parent() {
    // Nothing more comes: this returns when the other end is closed.
    let _ = std::io::stdin().lock().read_line(&mut String::new());
    std::process::exit(130);
}

fn measure(plan: &Plan) -> Outcome<esker_bench::Outcome> {
    if plan.task.runs_transactions() {
        let opened =
            engines::open(&plan.engine, &plan.dir, &plan.settings, plan.task.is_load(), true)?;
        tell(&Message::Settings(opened.settings()))?;
        let outcome = transactions::measure(plan, &opened, &mut |progress| {
            // As below.
            let _ = tell(&Message::progress(progress));
        })?;
        opened.close()?;
        return Ok(outcome);
    }
    if let Task::Probe(probe) = &plan.task {
        let opened = engines::open(&plan.engine, &plan.dir, &plan.settings, false, false)?;
        tell(&Message::Settings(opened.settings()))?;
        let outcome = probes::measure(plan, probe, &opened, &mut |progress| {
            // As below.
            let _ = tell(&Message::progress(progress));
        })?;
        opened.close()?;
        return Ok(outcome);
    }
    if let Task::Large(task) = &plan.task {
        return large::measure(plan, task, &mut |message| {
            // As below.
            let _ = tell(message);
        });
    }
    let updates = match &plan.task {
        Task::Updates(task) => Some((Updates::new(&task.resolve()?), task.reads)),
        _ => None,
    };
    let other;
    let workload = match &updates {
        Some((updates, _)) => updates,
        None => {
            other = plan.task.workload()?;
            &*other
        }
    };
    let is_loading = plan.task.is_load();
    let opened = engines::open(&plan.engine, &plan.dir, &plan.settings, is_loading, false)?;
    tell(&Message::Settings(opened.settings()))?;
    let clock = SystemClock::new();
    let trial = Trial {
        engine: opened.engine(),
        clock: &clock,
        workload,
        commits: None,
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
    let progress = &mut |progress: &Progress<'_>| {
        // Nobody listens any more: the thread that watches for that ends all.
        let _ = tell(&Message::progress(progress));
    };
    if let Task::Shelf(task) = &plan.task
        && task.starts_full()
    {
        fill(task, opened.engine(), progress)?;
    }
    let node = opened.fabric();
    let before = node.map(FabricEngine::node_spent).transpose()?;
    let user_bytes = opened.engine().counters().user_bytes;
    let mut outcome = trial.run(progress)?;
    if let Some((node, before)) = node.zip(before) {
        let user_bytes = opened.engine().counters().user_bytes - user_bytes;
        fabric::account(&mut outcome, before, node.node_spent()?, user_bytes);
    }
    outcome.rows.extend(limit_line_distance(plan, &outcome)?);
    if let Some((updates, reads)) = updates.as_ref().filter(|(_, reads)| *reads > 0) {
        outcome.rows.extend(reading::measure(&trial, updates, *reads, progress)?);
    }
    opened.close()?;
    Ok(outcome)
}

/// Puts what a load of reads is to find.
fn fill(task: &ShelfTask, engine: &dyn Engine, progress: &mut dyn FnMut(&Progress<'_>)) -> Outcome {
    let options = shelf::Options { access: shelf::Access::FillTogether, ..task.options() };
    let load = Load {
        workload: &Shelf::new(&options),
        store: engine.store(),
        threads: options.threads,
        duration: None,
        rate: None,
        intervals: None,
        tick: TICK,
        seed: task.seed,
        label: "filling",
    };
    let clock = SystemClock::new();
    let began = clock.now();
    let mut tell = |stage: &str, operations, wanted| {
        let elapsed = clock.now().saturating_sub(began);
        let (index, stages, is_done) = (0, 1, false);
        progress(&Progress { stage, index, stages, operations, wanted, elapsed, is_done });
    };
    load.run(&clock, &mut |operations| tell("filling", operations, Some(options.keys)))?;
    tell("settling what was filled", options.keys, None);
    engine.flush()?;
    Ok(engine.settle()?)
}

/// What the tables of a load of updates cost by what they would at least, in as much space on average.
/// `None` if that is not known, or the space is less than what is alive.
fn limit_line_distance(plan: &Plan, outcome: &esker_bench::Outcome) -> Outcome<Option<Row>> {
    let report = Report { rows: outcome.rows.clone() };
    let Some(line) = plan.task.limit_line(plan.settings.segment_bytes)? else { return Ok(None) };
    let space = report.value(&plan.case, "table_space_amp_mean");
    let written = report.value(&plan.case, "table_write_amp");
    let found = written.zip(space).and_then(|(written, space)| line.distance(written, space));
    Ok(found.map(|value| Row {
        engine: plan.engine.clone(),
        case: plan.case.clone(),
        metric: "limit_line_distance".to_owned(),
        value,
        unit: "ratio".to_owned(),
        round: plan.round,
    }))
}

fn tell(message: &Message) -> Outcome {
    let mut out = std::io::stdout().lock();
    out.write_all(&line(message)?)?;
    Ok(out.flush()?)
}
