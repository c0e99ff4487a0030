//! One workload on one engine, measured closely.
//!
//! A trial may begin with a warm-up, which is the workload itself, not counted, for a time or for a number of
//! operations. Then comes the load.
//! If it writes, the engine afterwards flushes and works off what the load has caused, and all that
//! is on the load's account: who puts work off has still to do it.
//!
//! Metrics of the load alone: `throughput`, `bandwidth_mib_s`, `operations`, `seconds`,
//! `latency_{mean,p10,p25,p50,p75,p90,p99,p999,p9999,max}_us`, and of loads that write those of the second half alone,
//! `second_half_latency_…`, for in the first one an engine may not yet have anything that it put off; `found`, the part of the operations that
//! look for something which found it; where kinds of operation are mixed, `KIND_operations` and
//! `KIND_latency_…` for `read`, `update`, `insert`, `scan`, `rmw`; in an open loop, `rate`,
//! `rate_reached`, the part of it that the engine kept up with, `unstarted`, operations that were
//! due and dropped, and `idle_latency_…`, those of operations that do nothing at the same rate before
//! it all: what the machine alone is late by.
//!
//! What the workload is known by, a minute: `new_orders_per_minute`, `tpmc`.
//! Of a workload of transactions: its kinds of operation by its own names; `commits`, `rollbacks` and
//! `retries`; `client_us_per_commit` (the clients' time, all that is no commit included),
//! `cpu_us_per_commit` (the process's, the looker-on apart), and where the engine reports them
//! `syncs_per_commit` and `log_bytes_per_commit`; `commit_latency_…`, if commits are timed ([`CommitTimes`]).
//!
//! `dram_hit_ratio` is the part of the point reads that DRAM answered, MemTables that are there and
//! copies of what is elsewhere, but not the block cache, whose `cache_hit_ratio` is that of the
//! blocks asked for. Both are where the engine counts them. `pmem_writes` is the part of the writes
//! that went to MemTables in persistent memory, of an engine that has some there and some in DRAM.
//!
//! Of load and the compactions after it together: `settle_seconds`, `sustained_throughput` (the operations by the
//! time of both), `user_bytes`, `written_bytes` (all that the
//! process wrote, as the system counts it, and what it stored in persistent memory), `log_bytes`, `flush_bytes`, `compaction_bytes`, `stall_us`
//! (where the engine reports them), `write_amp` (`written_bytes` by `user_bytes`), `live_bytes`,
//! `disk_peak_bytes`, `space_amp_mean` (during the load: space by live bytes of the same points in time),
//! `space_amp_peak` (the peak by the live bytes at the end), `table_write_amp` (`flush_bytes` and
//! `compaction_bytes` by `user_bytes`; where the engine does not report, `written_bytes` less the users'),
//! `table_space_amp_mean` and `table_space_amp_peak` (of the tables alone, once the live bytes grow no
//! more: the mean over the load, the peak with the compactions after it), `table_space_amp_settled` (when all is compacted), `predicted_reclaim_error` and
//! `reclaims_within_tenth` (what compactions were expected to free, by what they freed: in all, and
//! the part of them that was expected right, where the engine reports it), `cpu_s` (of all threads but the one that
//! looks on), `rss_peak_mib` (memory of the process's own, by ten looks a second) and
//! `mapped_peak_mib` (pages of mapped files and shared memory, likewise).
//!
//! A trial that does not wait for compactions is over with its last operation. What it wrote is then not yet all
//! that it will have cost, so there is no `sustained_throughput`, and `write_amp_so_far` in place of
//! `write_amp`.
//!
//! Series, a point for each [`Trial::interval`]: `throughput`, `latency_p99_us`, `latency_p999_us`,
//! `latency_max_us`, `stall_ms` (in each second), `disk_bytes`.

mod idle;
mod sampler;
mod warm_up;

pub use warm_up::WarmUp;

use crate::accounting::{self, Costs, CpuAccount, LoadCosts};
use crate::driver::{Interval, Load, Measurement, TICK, run_watched};
use crate::rows::Rows;
use crate::{CommitTimes, Distribution, Engine, Latencies, Progress, Row, Series};
use esker_base::{Clock, Result};
use esker_workload::{OperationKind, Workload};
use idle::Idle;
use sampler::{LOOK, Sampler};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use warm_up::Beginning;

/// A workload to be measured on an engine.
pub struct Trial<'a> {
    /// The engine.
    pub engine: &'a dyn Engine,
    /// The clock that everything is measured with.
    pub clock: &'a dyn Clock,
    /// What is done.
    pub workload: &'a dyn Workload,
    /// What times the commits, if it is to: the workload must be bound to it.
    pub commits: Option<&'a CommitTimes<'a>>,
    /// What the rows call it.
    pub case: &'a str,
    /// Which repetition this is, for the rows.
    pub round: u32,
    /// Threads.
    pub threads: usize,
    /// How long, if the workload is endless, instead of its number of operations.
    pub duration: Option<Duration>,
    /// How many operations to start each second, instead of as many as can be.
    pub rate: Option<f64>,
    /// How long the workload runs before it counts, if it is endless.
    pub warm_up: WarmUp,
    /// Whether the time and the cost of the compactions after a load are measured.
    pub settles: bool,
    /// The distance of the points of series: 20 ms or more. Those of `disk_bytes` are a tenth of a second
    /// apart at least.
    pub interval: Duration,
    /// The seed of all randomness.
    pub seed: u64,
}

/// What a trial gives: parts of [`Results`](crate::Results).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The numbers.
    pub rows: Vec<Row>,
    /// The curves over time.
    pub series: Vec<Series>,
    /// The distributions of latencies.
    pub distributions: Vec<Distribution>,
}

/// For how long an open loop watches operations that do nothing.
const IDLE: Duration = Duration::from_secs(2);

/// All that rows are made of.
struct Numbers<'a> {
    idle: Option<Latencies>,
    measured: &'a Measurement,
    of_load: &'a LoadCosts,
    commits: Option<Latencies>,
    sampler: &'a Sampler<'a>,
    settling: Option<Duration>,
    costs: &'a Costs,
    written: Option<u64>,
}

/// Operations that read one key each.
fn point_reads(measured: &Measurement) -> u64 {
    let kinds = [OperationKind::Read, OperationKind::ReadModifyWrite];
    kinds.into_iter().map(|kind| measured.kinds.count(kind)).sum()
}

impl Trial<'_> {
    /// Runs it. `progress` is notified about ten times a second.
    pub fn run(&self, progress: &mut dyn FnMut(&Progress<'_>)) -> Result<Outcome> {
        let idle = self.rate.is_some().then(|| self.idle()).transpose()?;
        if self.workload.endless() && self.warm_up != WarmUp::NONE {
            self.warm_up(progress)?;
        }
        let Trial { engine, clock, .. } = *self;
        let before = engine.counters();
        let written_before = accounting::written_bytes();
        let cpu = CpuAccount::begin();

        let _ = self.commits.map(CommitTimes::take);
        let mut sampler = Sampler::new(engine, self.workload, clock, self.interval);
        let intervals = Some(self.interval);
        let load = Load { duration: self.duration, intervals, tick: LOOK, ..self.load(self.case) };
        let wanted = load.wanted();
        let measured = load.run(clock, &mut |operations| {
            if let Some(elapsed) = sampler.tick(operations) {
                self.tell(progress, self.case, operations, wanted, elapsed);
            }
        })?;
        sampler.end_load(measured.operations);
        let of_load = LoadCosts {
            during: engine.counters().since(&before),
            cpu: cpu.used(),
            threads: self.threads,
        };
        let commits = self.commits.map(CommitTimes::take);
        let settling = self.settle(&mut sampler, progress)?;

        let cpu = cpu.used();
        let costs = Costs {
            during: engine.counters().since(&before),
            disk_peak_bytes: sampler.disk_peak_bytes(),
            memory_peak: sampler.memory_peak(),
            cpu,
        };
        let written = accounting::written_bytes().zip(written_before);
        let pool_bytes = costs.during.pool_bytes;
        let written = written.map(|(now, before)| now.saturating_sub(before) + pool_bytes);
        Ok(Outcome {
            rows: self.rows(&Numbers {
                idle,
                measured: &measured,
                of_load: &of_load,
                commits,
                sampler: &sampler,
                settling,
                costs: &costs,
                written,
            }),
            series: self.series(&measured, sampler),
            distributions: self.distributions(&measured),
        })
    }

    fn load<'a>(&'a self, label: &'a str) -> Load<'a> {
        Load {
            workload: self.workload,
            store: self.engine.store(),
            threads: self.threads,
            duration: None,
            rate: self.rate,
            intervals: None,
            tick: TICK,
            seed: self.seed,
            label,
        }
    }

    /// The latencies of operations that do nothing.
    fn idle(&self) -> Result<Latencies> {
        let load = Load { workload: &Idle, duration: Some(IDLE), ..self.load("idle") };
        Ok(load.run(self.clock, &mut |_| {})?.latencies)
    }

    fn warm_up(&self, progress: &mut dyn FnMut(&Progress<'_>)) -> Result<()> {
        let label = format!("{}: warming up", self.case);
        let beginning;
        let load = match self.warm_up {
            WarmUp::For(duration) => Load { duration: Some(duration), ..self.load(&label) },
            WarmUp::Operations(operations) => {
                let threads = self.threads as u64;
                beginning = Beginning { workload: self.workload, operations, threads };
                Load { workload: &beginning, ..self.load(&label) }
            }
        };
        let (start, wanted) = (self.clock.now(), load.wanted());
        load.run(self.clock, &mut |operations| {
            let elapsed = self.clock.now().saturating_sub(start);
            self.tell(progress, &label, operations, wanted, elapsed);
        })?;
        if self.workload.writes() && self.commits.is_none() {
            // What the warm-up wrote is not on the account of what follows, nor in the pool that a burst
            // is to find empty. Transactions go on as they are: of them only commits are timed.
            self.engine.flush()?;
            self.engine.settle()?;
        }
        Ok(())
    }

    /// Lets the engine finish what the load has caused. `None` if that is nothing.
    fn settle(
        &self,
        sampler: &mut Sampler<'_>,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Option<Duration>> {
        if !self.workload.writes() || !self.settles {
            return Ok(None);
        }
        let label = format!("{}: settling", self.case);
        let start = self.clock.now();
        let body = || {
            self.engine.flush()?;
            self.engine.settle()
        };
        run_watched(body, LOOK, &mut || {
            if sampler.tick_settling() {
                let elapsed = self.clock.now().saturating_sub(start);
                self.tell(progress, &label, 0, None, elapsed);
            }
        })?;
        sampler.end_settling();
        Ok(Some(self.clock.now().saturating_sub(start)))
    }

    fn tell(
        &self,
        progress: &mut dyn FnMut(&Progress<'_>),
        stage: &str,
        operations: u64,
        wanted: Option<u64>,
        elapsed: Duration,
    ) {
        let (index, stages, is_done) = (0, 1, false);
        progress(&Progress { stage, index, stages, operations, wanted, elapsed, is_done });
    }

    fn rows(&self, numbers: &Numbers<'_>) -> Vec<Row> {
        let Numbers { measured, of_load, sampler, settling, costs, written, .. } = *numbers;
        let mut rows = Rows::new(self.engine.name(), self.case, self.round);
        let lookups: u64 = OperationKind::ALL
            .into_iter()
            .filter(|kind| kind.looks_up())
            .map(|kind| measured.kinds.count(kind))
            .sum();
        rows.add_measurement(measured, Some(lookups));
        rows.add_kinds(measured);
        if self.workload.writes() {
            rows.add_latencies("second_half_", &measured.second_half);
        }
        if let Some((rate, reached)) = self.rate.zip(measured.throughput()) {
            rows.add("rate", rate, "ops/s");
            rows.add("rate_reached", (reached / rate).min(1.0), "ratio");
            rows.add("unstarted", measured.unstarted as f64, "ops");
        }
        if let Some(idle) = &numbers.idle {
            rows.add_latencies("idle_", idle);
        }
        rows.add_transactions(measured, of_load);
        if let Some((kind, name)) = self.workload.figure()
            && !measured.elapsed.is_zero()
        {
            let minutes = measured.elapsed.as_secs_f64() / 60.0;
            rows.add(name, measured.kinds.count(kind) as f64 / minutes, "1/min");
        }
        if let Some(commits) = &numbers.commits {
            rows.add_latencies("commit_", commits);
        }
        rows.add_hits(&of_load.during, point_reads(measured));
        rows.add_placement(&of_load.during);
        if let Some(settling) = settling {
            rows.add("settle_seconds", settling.as_secs_f64(), "s");
        }
        let seconds = (measured.elapsed + settling.unwrap_or_default()).as_secs_f64();
        if self.settles && seconds > 0.0 {
            rows.add("sustained_throughput", measured.operations as f64 / seconds, "ops/s");
        }
        rows.add_costs_but_amplification(costs);
        rows.add_bytes("written_bytes", written);
        let user_bytes = costs.during.user_bytes;
        if let Some(written) = written.filter(|_| user_bytes > 0) {
            let metric = if self.settles { "write_amp" } else { "write_amp_so_far" };
            rows.add(metric, written as f64 / user_bytes as f64, "ratio");
        }
        if let Some(amp) = costs.during.table_write_amp(written).filter(|_| self.settles) {
            rows.add("table_write_amp", amp, "ratio");
        }
        if let Some(live_bytes) = sampler.live_bytes() {
            rows.add("live_bytes", live_bytes as f64, "bytes");
        }
        if let Some(live_bytes) = self.engine.live_table_bytes().filter(|_| self.settles) {
            rows.add("live_table_bytes", live_bytes, "bytes");
        }
        if let Some((mean, peak)) = sampler.space_amp() {
            rows.add("space_amp_mean", mean, "ratio");
            rows.add("space_amp_peak", peak, "ratio");
        }
        if let Some(amp) = sampler.table_space_amp() {
            rows.add("table_space_amp_mean", amp.mean, "ratio");
            rows.add("table_space_amp_peak", amp.peak, "ratio");
            if self.settles {
                rows.add("table_space_amp_settled", amp.last, "ratio");
            }
        }
        self.add_reclaim(&mut rows);
        rows.into_vec()
    }

    /// How well compactions were chosen, since the store was opened.
    fn add_reclaim(&self, rows: &mut Rows) {
        let Some(reclaim) = self.engine.reclaim() else { return };
        if let Some(error) = reclaim.error() {
            rows.add("predicted_reclaim_error", error, "share");
        }
        if let Some(share) = reclaim.share_within_tenth() {
            rows.add("reclaims_within_tenth", share, "share");
        }
    }

    fn series(&self, measured: &Measurement, sampler: Sampler<'_>) -> Vec<Series> {
        let latency = |of: fn(&Interval) -> f64| {
            let point = |piece: &Interval| [piece.end.as_secs_f64(), of(piece)];
            measured.intervals.iter().map(point).collect()
        };
        let named = [
            ("throughput", "ops/s", sampler.throughput),
            ("latency_p99_us", "us", latency(|piece| piece.latency_p99_us)),
            ("latency_p999_us", "us", latency(|piece| piece.latency_p999_us)),
            ("latency_max_us", "us", latency(|piece| piece.latency_max_us)),
            ("stall_ms", "ms", sampler.stall_ms),
            ("disk_bytes", "bytes", sampler.disk_bytes),
        ];
        let full =
            named.into_iter().filter(|(.., points): &(_, _, Vec<[f64; 2]>)| !points.is_empty());
        full.map(|(metric, unit, points)| Series {
            engine: self.engine.name().to_owned(),
            case: self.case.to_owned(),
            round: self.round,
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            points,
        })
        .collect()
    }

    fn distributions(&self, measured: &Measurement) -> Vec<Distribution> {
        let kinds = measured.kinds.iter().map(|(kind, latencies)| (kind.name(), latencies));
        let is_mixed = measured.kinds.iter().count() > 1;
        let all = is_mixed.then_some(("all", &measured.latencies));
        all.into_iter()
            .chain(kinds)
            .map(|(operation, latencies)| Distribution {
                engine: self.engine.name().to_owned(),
                case: self.case.to_owned(),
                round: self.round,
                operation: operation.to_owned(),
                points: latencies.distribution(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
