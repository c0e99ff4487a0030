//! Probes of a store, in a worker: what a single read, scan or write of one thread costs, timed in a
//! plain loop.
//!
//! Each begins with an empty store. Every read is checked: a probe of a store that returns something
//! else than it was given fails.

use super::engines::Opened;
use super::plan::{Plan, Probe};
use crate::failure::{Failure, Outcome};
use esker::api::{Cursor, KeyRange};
use esker_base::{Clock, Rng, SystemClock};
use esker_bench::accounting::Resident;
use esker_bench::{Engine, Progress, Row};
use esker_workload::{KeyBuffer, ValuePool};
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

/// Entries that are read after a seek.
const AFTER_SEEK: usize = 50;
/// Most gets of a probe, and how many gets there are to a seek.
const MOST_GETS: u64 = 500_000;
const GETS_A_SEEK: u64 = 20;
/// Scans of everything; their median counts.
const SCANS: usize = 3;
/// Scans of the hot key; their median counts.
const HOT_SCANS: usize = 11;
/// Entries that a queue holds.
const QUEUE_LENGTH: u64 = 1_000;
/// The pops whose mean is one figure.
const POPS_A_FIGURE: usize = 1_000;
/// Operations between two reports of progress.
const REPORT: u64 = 20_000;

/// Runs the plan's probe.
pub fn measure(
    plan: &Plan,
    probe: &Probe,
    opened: &Opened,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Outcome<esker_bench::Outcome> {
    let clock = SystemClock::new();
    let mut run = Run {
        plan,
        engine: opened.engine(),
        clock: &clock,
        progress,
        rng: Rng::new(plan.seed),
        memory: None,
        rows: Vec::new(),
    };
    match *probe {
        Probe::Pairs { pairs, value_bytes } => run.pairs(pairs, value_bytes)?,
        Probe::Queue { pops, limit } => run.queue(pops, limit)?,
        Probe::HotKey { writes, limit } => run.hot_key(writes, limit)?,
    }
    run.look_at_memory();
    if let Some(peak) = run.memory {
        run.add("rss_peak_mib", peak.own_bytes as f64 / MIB, "MiB");
        run.add("mapped_peak_mib", peak.mapped_bytes as f64 / MIB, "MiB");
    }
    Ok(esker_bench::Outcome { rows: run.rows, ..Default::default() })
}

const MIB: f64 = (1 << 20) as f64;

/// A probe that runs.
struct Run<'a> {
    plan: &'a Plan,
    engine: &'a dyn Engine,
    clock: &'a SystemClock,
    progress: &'a mut dyn FnMut(&Progress<'_>),
    rng: Rng,
    memory: Option<Resident>,
    rows: Vec<Row>,
}

impl Run<'_> {
    /// Puts entries in random order, compacts, and reads them in every way.
    fn pairs(&mut self, pairs: u64, value_bytes: usize) -> Outcome {
        let engine = self.engine;
        let store = engine.store();
        let mut key = KeyBuffer::new(Probe::KEY_BYTES);
        self.fill(pairs, value_bytes)?;
        let begin = self.clock.now();
        engine.flush()?;
        engine.settle()?;
        let settling = self.since(begin);
        self.add("settle_seconds", settling.as_secs_f64(), "s");
        self.add("disk_bytes", engine.disk_bytes() as f64, "bytes");
        self.look_at_memory();

        let gets = pairs.min(MOST_GETS);
        let mut get = |run: &mut Self, stage, numbers: &[u64]| {
            run.each(stage, numbers, |number| {
                let value = store.get(key.set(number))?;
                expect(value.is_some_and(|value| value.len() == value_bytes))
            })
        };
        let numbers = self.numbers(gets, pairs);
        let first = get(self, "first get", &numbers)?;
        self.add("get_first_us", first, "us");
        let all: Vec<u64> = (0..pairs).collect();
        get(self, "get of each", &all)?;
        let numbers = self.numbers(gets, pairs);
        let again = get(self, "get", &numbers)?;
        self.add("get_us", again, "us");

        let numbers = self.numbers((gets / GETS_A_SEEK).max(1), pairs);
        let wanted = |number: u64| (AFTER_SEEK as u64).min(pairs - 1 - number) as usize;
        let seek = self.each("seek", &numbers, |number| {
            let mut cursor = store.cursor(KeyRange::all())?;
            cursor.seek(key.set(number))?;
            expect(read_on(&mut *cursor, AFTER_SEEK)? == wanted(number))
        })?;
        self.add("seek_50_us", seek, "us");
        let mut cursor = store.cursor(KeyRange::all())?;
        let seek = self.each("seek", &numbers, |number| {
            cursor.seek(key.set(number))?;
            expect(read_on(&mut *cursor, AFTER_SEEK)? == wanted(number))
        })?;
        drop(cursor);
        self.add("seek_50_kept_us", seek, "us");
        if engine.iterates() {
            let seek = self.each("seek", &numbers, |number| {
                let range = KeyRange::from(key.set(number)..);
                expect(engine.iterate(range, AFTER_SEEK + 1)? == wanted(number) as u64 + 1)
            })?;
            self.add("seek_50_range_us", seek, "us");
        }

        let scan = self.median_of(SCANS, |_| {
            let mut cursor = store.cursor(KeyRange::all())?;
            cursor.seek_first()?;
            expect(read_on(&mut *cursor, usize::MAX)? as u64 + 1 == pairs)
        })?;
        self.add("scan_us", scan / pairs as f64, "us");
        if engine.iterates() {
            let scan = self.median_of(SCANS, |_| {
                expect(engine.iterate(KeyRange::all(), usize::MAX)? == pairs)
            })?;
            self.add("scan_range_us", scan / pairs as f64, "us");
        }
        Ok(())
    }

    fn fill(&mut self, pairs: u64, value_bytes: usize) -> Outcome {
        let store = self.engine.store();
        let pool = ValuePool::new(value_bytes, &mut self.rng);
        let (mut key, mut values) = (KeyBuffer::new(Probe::KEY_BYTES), pool.values());
        let mut numbers: Vec<u64> = (0..pairs).collect();
        for at in (1..numbers.len()).rev() {
            numbers.swap(at, self.rng.below(at as u64 + 1) as usize);
        }
        let fill = self.each("fill", &numbers, |number| {
            Ok(store.put(key.set(number), values.next_value())?)
        })?;
        self.add("fill_us", fill, "us");
        Ok(())
    }

    /// Puts at a queue's tail, and takes from its head: the first entry is read and deleted.
    fn queue(&mut self, pops: u64, limit: Duration) -> Outcome {
        let store = self.engine.store();
        let pool = ValuePool::new(Probe::SMALL_VALUE_BYTES, &mut self.rng);
        let (mut key, mut values) = (KeyBuffer::new(Probe::KEY_BYTES), pool.values());
        for number in 0..QUEUE_LENGTH {
            store.put(key.set(number), values.next_value())?;
        }
        let (begin, mut done) = (self.clock.now(), pops);
        let (mut first, mut last) = (Vec::new(), VecDeque::new());
        for head in 0..pops {
            store.put(key.set(head + QUEUE_LENGTH), values.next_value())?;
            let started = self.clock.now();
            let mut cursor = store.cursor(KeyRange::all())?;
            cursor.seek_first()?;
            let found = cursor.current().map(|(key, _)| key.to_vec());
            // Before the delete: bf-tree's cursor locks the leaf that it is in.
            drop(cursor);
            let found = found.filter(|found| found == key.set(head));
            store.delete(&found.ok_or_else(wrong)?)?;
            let took = micros(self.since(started));
            if first.len() < POPS_A_FIGURE {
                first.push(took);
            }
            if last.len() == POPS_A_FIGURE {
                last.pop_front();
            }
            last.push_back(took);
            if head % REPORT == 0 {
                self.report("pop", head, pops, begin);
            }
            if self.since(begin) > limit {
                done = head + 1;
                break;
            }
        }
        self.add("pops", done as f64, "ops");
        self.add("pop_first_us", mean(&first), "us");
        self.add("pop_last_us", mean(last.make_contiguous()), "us");
        Ok(())
    }

    /// Overwrites one key, and scans the store that has nothing else.
    fn hot_key(&mut self, writes: u64, limit: Duration) -> Outcome {
        let store = self.engine.store();
        let pool = ValuePool::new(Probe::SMALL_VALUE_BYTES, &mut self.rng);
        let (key, mut values) = (KeyBuffer::new(Probe::KEY_BYTES), pool.values());
        let (begin, mut done) = (self.clock.now(), 0);
        while done < writes && self.since(begin) < limit {
            for _ in 0..REPORT.min(writes - done) {
                store.put(key.bytes(), values.next_value())?;
                done += 1;
            }
            self.report("overwrite", done, writes, begin);
        }
        let took = micros(self.since(begin));
        self.add("overwrites", done as f64, "ops");
        self.add("overwrite_us", took / done.max(1) as f64, "us");
        let mut first = None;
        let scan = self.median_of(HOT_SCANS, |took| {
            let mut cursor = store.cursor(KeyRange::all())?;
            cursor.seek_first()?;
            let read = read_on(&mut *cursor, usize::MAX)?;
            drop(cursor);
            first.get_or_insert(took());
            expect(read == 0)
        })?;
        self.add("hot_scan_first_us", first.unwrap_or(scan), "us");
        self.add("hot_scan_us", scan, "us");
        Ok(())
    }

    /// So many numbers below `bound`.
    fn numbers(&mut self, count: u64, bound: u64) -> Vec<u64> {
        (0..count).map(|_| self.rng.below(bound)).collect()
    }

    /// Does something with each number. Returns the mean time, in microseconds.
    fn each(
        &mut self,
        stage: &str,
        numbers: &[u64],
        mut operation: impl FnMut(u64) -> Outcome,
    ) -> Outcome<f64> {
        let (begin, mut spent, mut done) = (self.clock.now(), Duration::ZERO, 0);
        for numbers in numbers.chunks(REPORT as usize) {
            let started = self.clock.now();
            numbers.iter().try_for_each(|number| operation(*number))?;
            spent += self.since(started);
            done += numbers.len();
            self.look_at_memory();
            self.report(stage, done as u64, numbers.len() as u64, begin);
        }
        Ok(micros(spent) / done.max(1) as f64)
    }

    /// The median time of so many runs, in microseconds. A run may ask how long it has taken.
    fn median_of(
        &mut self,
        runs: usize,
        mut operation: impl FnMut(&dyn Fn() -> f64) -> Outcome,
    ) -> Outcome<f64> {
        let mut times = Vec::new();
        for _ in 0..runs {
            let (clock, started) = (self.clock, self.clock.now());
            let took = || micros(clock.now().saturating_sub(started));
            operation(&took)?;
            times.push(took());
            self.look_at_memory();
        }
        times.sort_by(f64::total_cmp);
        Ok(times[runs / 2])
    }

    fn since(&self, begin: Duration) -> Duration {
        self.clock.now().saturating_sub(begin)
    }

    fn look_at_memory(&mut self) {
        let now = Resident::now();
        self.memory = self.memory.zip(now).map(|(peak, now)| peak.most(now)).or(now);
    }

    fn report(&mut self, stage: &str, operations: u64, wanted: u64, begin: Duration) {
        let stage = &format!("{}: {stage}", self.plan.case);
        let (wanted, elapsed) = (Some(wanted), self.since(begin));
        let (index, stages, is_done) = (0, 1, false);
        let now = Progress { stage, index, stages, operations, wanted, elapsed, is_done };
        (self.progress)(&now);
    }

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
}

/// Reads the current entry and up to `most` more. Returns how many more there were.
fn read_on(cursor: &mut dyn Cursor, most: usize) -> Outcome<usize> {
    let mut read = 0;
    black_box(cursor.current().ok_or_else(wrong)?);
    while read < most {
        cursor.next()?;
        let Some(pair) = cursor.current() else { break };
        black_box(pair);
        read += 1;
    }
    Ok(read)
}

fn expect(is_right: bool) -> Outcome {
    if is_right { Ok(()) } else { Err(wrong()) }
}

fn wrong() -> Failure {
    Failure::new("the store returned something else than was put".to_owned())
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len().max(1) as f64
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::super::engines::{self, EngineSettings, ForwardingName};
    use super::super::plan::Task;
    use super::super::pool::PoolSettings;
    use super::*;
    use esker_bench::WarmUp;
    use std::collections::BTreeMap;

    /// The numbers of a probe of Esker, by metric.
    fn measured(probe: Probe) -> BTreeMap<String, f64> {
        let dir = tempfile::tempdir().unwrap();
        let settings = EngineSettings {
            memory_bytes: 16 << 20,
            segment_bytes: 1 << 20,
            background_threads: 1,
            compression: "none".into(),
            dram_table_bytes: None,
            forwarding: ForwardingName::OnFlush,
            pool: PoolSettings::default(),
            log_dir: None,
            fabric: Default::default(),
            large_store: Default::default(),
        };
        let plan = Plan {
            engine: "esker-wal".into(),
            dir: dir.path().to_owned(),
            settings,
            case: "probe".into(),
            round: 2,
            task: Task::Probe(probe),
            threads: 1,
            duration: None,
            rate: None,
            warm_up: WarmUp::NONE,
            settles: false,
            interval: Duration::from_secs(1),
            seed: 1,
        };
        let opened = engines::open(&plan.engine, &plan.dir, &plan.settings, false, false).unwrap();
        let outcome = measure(&plan, &probe, &opened, &mut |_| {}).unwrap();
        opened.close().unwrap();
        assert!(outcome.rows.iter().all(|row| (&row.case[..], row.round) == ("probe", 2)));
        outcome.rows.into_iter().map(|row| (row.metric, row.value)).collect()
    }

    #[test]
    fn every_way_to_read_is_measured() {
        let numbers = measured(Probe::Pairs { pairs: 400, value_bytes: 100 });
        for metric in [
            "fill_us",
            "get_first_us",
            "get_us",
            "seek_50_us",
            "seek_50_kept_us",
            "seek_50_range_us",
            "scan_us",
            "scan_range_us",
        ] {
            assert!(numbers[metric] > 0.0, "{metric}: {numbers:?}");
        }
        assert!(numbers["disk_bytes"] > 40_000.0, "{numbers:?}");
    }

    #[test]
    fn probes_with_a_limit_count_what_they_did() {
        let limit = Duration::from_secs(600);
        let numbers = measured(Probe::Queue { pops: 1_500, limit });
        assert_eq!(numbers["pops"], 1_500.0);
        assert!(numbers["pop_first_us"] > 0.0 && numbers["pop_last_us"] > 0.0, "{numbers:?}");
        assert_eq!(measured(Probe::Queue { pops: 1_500, limit: Duration::ZERO })["pops"], 1.0);
        let numbers = measured(Probe::HotKey { writes: 3_000, limit });
        assert_eq!(numbers["overwrites"], 3_000.0);
        assert!(numbers["hot_scan_us"] > 0.0 && numbers["hot_scan_first_us"] > 0.0);
    }
}
