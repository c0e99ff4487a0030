//! `esker bench worker`: one case on one engine, in a process of its own.
//!
//! It reads a [`Plan`] from standard input and writes [`Message`]s to standard output. When standard
//! input ends, whoever started it has gone, and it goes too.

use super::engines;
use super::plan::{Message, Plan, line};
use crate::failure::{Failure, Outcome};
use clap::Args;
use esker_base::{Background, Priority, SystemClock, Threads};
use esker_bench::Trial;
use std::io::{BufRead, Write};

/// Measure one case of a campaign, as told on standard input
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
    let workload = plan.task.workload()?;
    let is_loading = plan.task.is_load();
    let opened = engines::open(&plan.engine, &plan.dir, &plan.settings, is_loading)?;
    tell(&Message::Settings(opened.settings()))?;
    let clock = SystemClock::new();
    let trial = Trial {
        engine: opened.engine(),
        clock: &clock,
        workload: &*workload,
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
    let outcome = trial.run(&mut |progress| {
        // Nobody listens any more: the thread that watches for that ends all.
        let _ = tell(&Message::progress(progress));
    })?;
    opened.close()?;
    Ok(outcome)
}

fn tell(message: &Message) -> Outcome {
    let mut out = std::io::stdout().lock();
    out.write_all(&line(message)?)?;
    Ok(out.flush()?)
}
