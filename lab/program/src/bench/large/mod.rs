//! Loads of a store larger than the engine's memory, in a worker: the load alone, gets, scans, and
//! YCSB.
//!
//! In addition to the rows of a trial there are, as far as the system reports them:
//!
//! * `open_ms`, `first_read_ms`: from the beginning of the open until its end, and until the first get
//!   has its value;
//! * `resident_peak_mib`, `resident_end_mib`: memory of the whole process, mapped files included;
//! * `descriptors_peak`, `descriptors_end`: open descriptors of the process, by ten looks a second;
//! * `read_calls_per_get`, `device_bytes_read_per_get`, or `…_per_scan`: of loads that read alone;
//! * `disk_bytes`, `space_amp_end`: when everything is compacted;
//! * `inserted`: records that the load added.

mod process;

use super::engines;
use super::plan::{Message, Plan};
use crate::failure::{Failure, Outcome};
use esker::Result;
use esker_base::{Clock, SystemClock};
use esker_bench::driver::{Load, TICK};
use esker_bench::{Engine, Progress, Row, Trial, WarmUp};
use esker_workload::Workload;
use esker_workload::ycsb::{self, Lengths, Mix, Preset, RecordKey, Requests, Scans};
use process::{Reads, Resident, descriptors, limit_descriptors};
use serde::{Deserialize, Serialize};

/// The records that are read after a seek, with the one that it found.
const SCANNED: u64 = 51;
/// The engines that read their files through memory maps.
const MAPPED: [&str; 2] = ["lmdb", "leveldb"];
const MIB: f64 = (1 << 20) as f64;

/// What is done with a large store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LargeTask {
    pub access: LargeAccess,
    /// Those of the load.
    pub records: u64,
    /// Those that earlier tasks have added.
    pub inserted: u64,
    /// How many there are, if the plan has no duration. As many as records if not given.
    pub operations: Option<u64>,
    pub values: ValueSizes,
    pub threads: usize,
    /// The most descriptors of the process, if not as many as the system allows.
    pub descriptors: Option<u64>,
    pub seed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LargeAccess {
    Load,
    /// Gets of random records.
    Get,
    /// Seeks to random records, and the 50 after each.
    Scan,
    /// A workload of YCSB, by its letter.
    Ycsb(String),
}

/// The sizes of values: each power of two from `least` to `most` is equally frequent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueSizes {
    pub least: usize,
    pub most: usize,
}

impl LargeTask {
    /// The length of the longest key.
    pub const KEY_BYTES: usize = "user".len() + 20;

    /// The options of the YCSB workload that it is.
    pub fn options(&self) -> Result<ycsb::Options> {
        let ValueSizes { least, most } = self.values;
        let base = ycsb::Options {
            records: self.records + self.inserted,
            operations: self.operations.unwrap_or(self.records),
            threads: self.threads,
            fields: 1,
            field_bytes: most,
            least_value_bytes: (least < most).then_some(least),
            seed: self.seed,
            ..ycsb::Options::default()
        };
        let uniform = |mix| ycsb::Options { mix, requests: Requests::Uniform, ..base.clone() };
        let options = match &self.access {
            LargeAccess::Load => base,
            LargeAccess::Get => uniform(Mix { read: 1.0, ..Mix::NONE }),
            LargeAccess::Scan => ycsb::Options {
                scans: Scans { least: SCANNED, most: SCANNED, lengths: Lengths::Uniform },
                ..uniform(Mix { scan: 1.0, ..Mix::NONE })
            },
            LargeAccess::Ycsb(letter) => letter.parse::<Preset>()?.options(&base),
        };
        options.check()?;
        Ok(options)
    }

    pub fn is_load(&self) -> bool {
        self.access == LargeAccess::Load
    }
}

/// Runs the plan's task.
pub fn measure(
    plan: &Plan,
    task: &LargeTask,
    tell: &mut dyn FnMut(&Message),
) -> Outcome<esker_bench::Outcome> {
    if let Some(most) = task.descriptors {
        limit_descriptors(most)?;
    }
    let options = task.options()?;
    let clock = SystemClock::new();
    let begin = clock.now();
    let opened = engines::open(&plan.engine, &plan.dir, &plan.settings, task.is_load(), false)?;
    let open = clock.now().saturating_sub(begin);
    let engine = opened.engine();
    let operation = if task.access == LargeAccess::Scan { "scan" } else { "get" };
    let mut rows = Added { plan, operation, rows: Vec::new() };
    if !task.is_load() {
        let mut key = RecordKey::new(options.key_order, options.key_digits);
        if engine.store().get(key.set(0))?.is_none() {
            return Err(Failure::new("a record of the load is not in the store".to_owned()));
        }
        rows.add("open_ms", open.as_secs_f64() * 1e3, "ms");
        let first = clock.now().saturating_sub(begin);
        rows.add("first_read_ms", first.as_secs_f64() * 1e3, "ms");
    }
    tell(&Message::Settings(opened.settings()));
    let run = Run { plan, engine, clock: &clock };
    let outcome = match task.is_load() {
        true => run.measure(&ycsb::Load::new(&options), &mut rows, tell)?,
        false => {
            let workload = ycsb::Run::new(&options);
            let outcome = run.measure(&workload, &mut rows, tell)?;
            rows.add("inserted", workload.inserted() as f64, "ops");
            outcome
        }
    };
    opened.close()?;
    let all = outcome.rows.into_iter().chain(rows.rows).collect();
    Ok(esker_bench::Outcome { rows: all, ..outcome })
}

/// An open store, and what is measured on it.
struct Run<'a> {
    plan: &'a Plan,
    engine: &'a dyn Engine,
    clock: &'a SystemClock,
}

impl Run<'_> {
    fn measure(
        &self,
        workload: &dyn Workload,
        rows: &mut Added<'_>,
        tell: &mut dyn FnMut(&Message),
    ) -> Outcome<esker_bench::Outcome> {
        let Run { plan, engine, clock } = *self;
        let mut most_descriptors = descriptors();
        let mut progress = |progress: &Progress<'_>| {
            most_descriptors = most_descriptors.max(descriptors());
            tell(&Message::progress(progress));
        };
        if workload.endless() {
            self.warm_up(workload, &mut progress)?;
        }
        let trial = Trial {
            engine,
            clock,
            workload,
            commits: None,
            case: &plan.case,
            round: plan.round,
            threads: plan.threads,
            duration: plan.duration,
            rate: plan.rate,
            // It is over: its reads are not among those that are counted.
            warm_up: WarmUp::NONE,
            settles: plan.settles,
            interval: plan.interval,
            seed: plan.seed,
        };
        let before = Reads::now();
        let outcome = trial.run(&mut progress)?;
        let reads = before.zip(Reads::now());

        let mut operations =
            outcome.rows.iter().filter(|row| row.metric == "operations").map(|row| row.value);
        let operations = operations.next().unwrap_or(0.0);
        if let Some((before, after)) = reads
            && !workload.writes()
            && operations > 0.0
        {
            rows.add_reads(before, after, operations);
        }
        if let Some(resident) = Resident::now() {
            rows.add("resident_peak_mib", resident.peak as f64 / MIB, "MiB");
            rows.add("resident_end_mib", resident.now as f64 / MIB, "MiB");
        }
        if let Some((peak, end)) = most_descriptors.zip(descriptors()) {
            rows.add("descriptors_peak", peak.max(end) as f64, "");
            rows.add("descriptors_end", end as f64, "");
        }
        let disk_bytes = engine.disk_bytes() as f64;
        rows.add("disk_bytes", disk_bytes, "bytes");
        if let Some(live) = workload.live_bytes(operations as u64) {
            rows.add("space_amp_end", disk_bytes / live as f64, "ratio");
        }
        Ok(outcome)
    }

    /// Runs the workload for the time of the warm-up, uncounted, and lets the engine finish what that and the
    /// cases before have caused: otherwise it would be counted as written for the writes that follow.
    fn warm_up(&self, workload: &dyn Workload, progress: &mut dyn FnMut(&Progress<'_>)) -> Outcome {
        let WarmUp::For(duration) = self.plan.warm_up else { return Ok(()) };
        if duration.is_zero() {
            return Ok(());
        }
        let stage = format!("{}: warming up", self.plan.case);
        let load = Load {
            workload,
            store: self.engine.store(),
            threads: self.plan.threads,
            duration: Some(duration),
            rate: None,
            intervals: None,
            tick: TICK,
            seed: self.plan.seed,
            label: &stage,
        };
        let begin = self.clock.now();
        load.run(self.clock, &mut |operations| {
            let elapsed = self.clock.now().saturating_sub(begin);
            let (index, stages, is_done, wanted) = (0, 1, false, None);
            progress(&Progress {
                stage: &stage,
                index,
                stages,
                operations,
                wanted,
                elapsed,
                is_done,
            });
        })?;
        if workload.writes() && self.plan.settles {
            self.engine.flush()?;
            self.engine.settle()?;
        }
        Ok(())
    }
}

/// The rows that are not the trial's.
struct Added<'a> {
    plan: &'a Plan,
    /// What an operation that reads is called.
    operation: &'static str,
    rows: Vec<Row>,
}

impl Added<'_> {
    fn add(&mut self, metric: &str, value: f64, unit: &str) {
        self.rows.push(Row {
            engine: self.plan.engine.clone(),
            case: self.plan.case.clone(),
            metric: metric.to_owned(),
            value,
            unit: unit.to_owned(),
            round: self.plan.round,
        });
    }

    fn add_reads(&mut self, before: Reads, after: Reads, operations: f64) {
        let operation = self.operation;
        let each = |from: u64, to: u64| to.saturating_sub(from) as f64 / operations;
        // Reads of mapped files are not calls.
        if !MAPPED.contains(&&*self.plan.engine) {
            let calls = each(before.calls, after.calls);
            self.add(&format!("read_calls_per_{operation}"), calls, "ratio");
        }
        let bytes = each(before.device_bytes, after.device_bytes);
        self.add(&format!("device_bytes_read_per_{operation}"), bytes, "bytes");
    }
}

#[cfg(test)]
mod tests;
