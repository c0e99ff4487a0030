//! A run: stages one after the other on one engine, and the rows they give.
//!
//! Metrics of a load: `throughput`, `operations`, `seconds`, `bandwidth_mib_s`,
//! `latency_{mean,p10,p25,p50,p75,p90,p99,p999,p9999,max}_us`; `found`, the part of the wanted reads that hit, where the load reads;
//! `writer_*`, where one more thread writes. Of every stage: `seconds`, `user_bytes`, `log_bytes`,
//! `flush_bytes`, `compaction_bytes`, `write_amp` (log included) where users wrote, `stall_us`,
//! `disk_peak_bytes`, `rss_peak_mib`, `mapped_peak_mib`, `cpu_s`. Of `settle`, when it follows a load that writes:
//! `total_seconds` and `total_write_amp`, from the start of that load until all is compacted.

use crate::accounting::{Costs, CpuAccount, Resident, look_at_memory};
use crate::driver::{Load, TICK, run_watched};
use crate::rows::Rows;
use crate::{Counters, Engine, Options, Progress, Row, Stage};
use esker_base::{Clock, Result};
use esker_workload::Workload;
use esker_workload::db_bench::{Case, Job};
use std::time::Duration;

/// A benchmark of one engine.
pub struct Bench<'a> {
    /// The engine.
    pub engine: &'a dyn Engine,
    /// The clock that everything is measured with.
    pub clock: &'a dyn Clock,
    /// The size of the loads.
    pub options: &'a Options,
    /// Which repetition this is, for the rows.
    pub round: u32,
}

impl Bench<'_> {
    /// Runs `stages` in order. `progress` is notified about ten times a second, and at each stage's end.
    pub fn run(
        &self,
        stages: &[Stage],
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Vec<Row>> {
        self.options.check()?;
        let labels = Stage::labels(stages);
        let mut rows = Vec::new();
        let mut unsettled = None;
        for (index, (&stage, label)) in stages.iter().zip(&labels).enumerate() {
            let now = Progress {
                stage: label,
                index,
                stages: stages.len(),
                operations: 0,
                wanted: None,
                elapsed: Duration::ZERO,
                is_done: false,
            };
            let of_stage = Rows::new(self.engine.name(), label, self.round);
            let mut run = StageRun { bench: self, now, progress, rows: of_stage };
            match stage {
                Stage::Case(case) => unsettled = run.case(case)?,
                Stage::Flush => run.flush(&mut unsettled)?,
                Stage::Settle => run.settle(unsettled.take())?,
            }
            rows.append(&mut run.rows.into_vec());
        }
        Ok(rows)
    }
}

/// A load that wrote, and what has passed since its start: `settle` completes the account.
struct Unsettled {
    elapsed: Duration,
    before: Counters,
}

/// One stage while it runs.
struct StageRun<'a> {
    bench: &'a Bench<'a>,
    now: Progress<'a>,
    progress: &'a mut dyn FnMut(&Progress<'_>),
    rows: Rows,
}

impl StageRun<'_> {
    /// Runs a load. Gives its account, if it writes.
    fn case(&mut self, case: Case) -> Result<Option<Unsettled>> {
        let options = self.bench.options;
        let job = Job::new(case, options);
        let label = self.now.stage;
        let load = Load {
            workload: &job,
            store: self.bench.engine.store(),
            threads: options.threads,
            duration: options.duration,
            rate: None,
            intervals: None,
            tick: TICK,
            seed: options.seed,
            label,
        };
        self.now.wanted = load.wanted();
        let clock = self.bench.clock;
        let before = self.bench.engine.counters();
        let (measured, costs) = self.accounted(|tick| load.run(clock, tick))?;
        self.done(measured.operations, measured.elapsed);
        let found_of = job.looks_up().then(|| load.wanted().unwrap_or(measured.operations));
        self.rows.add_measurement(&measured, found_of);
        self.rows.add_costs(&costs);
        Ok(case.writes().then_some(Unsettled { elapsed: measured.elapsed, before }))
    }

    fn flush(&mut self, unsettled: &mut Option<Unsettled>) -> Result<()> {
        let (elapsed, costs) = self.watched(|engine| engine.flush())?;
        if let Some(unsettled) = unsettled {
            unsettled.elapsed += elapsed;
        }
        self.rows.add("seconds", elapsed.as_secs_f64(), "s");
        self.rows.add_costs(&costs);
        Ok(())
    }

    fn settle(&mut self, unsettled: Option<Unsettled>) -> Result<()> {
        let (elapsed, costs) = self.watched(|engine| engine.settle())?;
        self.rows.add("seconds", elapsed.as_secs_f64(), "s");
        if let Some(unsettled) = unsettled {
            let total = (unsettled.elapsed + elapsed).as_secs_f64();
            self.rows.add("total_seconds", total, "s");
            let during = self.bench.engine.counters().since(&unsettled.before);
            if let Some(write_amp) = during.write_amp() {
                self.rows.add("total_write_amp", write_amp, "ratio");
            }
        }
        self.rows.add_costs(&costs);
        Ok(())
    }

    /// Runs `body`, which does one thing and does not count.
    fn watched(
        &mut self,
        body: impl Fn(&dyn Engine) -> Result<()> + Sync,
    ) -> Result<(Duration, Costs)> {
        let (engine, clock) = (self.bench.engine, self.bench.clock);
        let (elapsed, costs) = self.accounted(|tick| {
            let start = clock.now();
            run_watched(|| body(engine), TICK, &mut || tick(0))?;
            Ok(clock.now() - start)
        })?;
        self.done(0, elapsed);
        Ok((elapsed, costs))
    }

    /// Runs `body` and keeps the account meanwhile. `body` calls what it is given, now and then,
    /// with the operations done so far.
    fn accounted<T>(
        &mut self,
        body: impl FnOnce(&mut dyn FnMut(u64)) -> Result<T>,
    ) -> Result<(T, Costs)> {
        let Bench { engine, clock, .. } = *self.bench;
        let before = engine.counters();
        let mut disk_peak_bytes = engine.disk_bytes();
        let mut memory_peak = Resident::now();
        let cpu = CpuAccount::begin();
        let start = clock.now();
        let result = body(&mut |operations| {
            disk_peak_bytes = disk_peak_bytes.max(engine.disk_bytes());
            look_at_memory(&mut memory_peak);
            let elapsed = clock.now() - start;
            (self.progress)(&Progress { operations, elapsed, ..self.now });
        })?;
        let cpu = cpu.used();
        look_at_memory(&mut memory_peak);
        let costs = Costs {
            during: engine.counters().since(&before),
            disk_peak_bytes: disk_peak_bytes.max(engine.disk_bytes()),
            memory_peak,
            cpu,
        };
        Ok((result, costs))
    }

    fn done(&mut self, operations: u64, elapsed: Duration) {
        (self.progress)(&Progress { operations, elapsed, is_done: true, ..self.now });
    }
}

#[cfg(test)]
mod tests;
