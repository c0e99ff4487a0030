//! Inspects an engine while it works, and keeps a point for every interval.
//!
//! At each tick, a hundred times a second, it inspects the space of the tables, which a small
//! compaction changes for no longer than that; at every tenth tick at everything else. A point is made of
//! the engine's counters, which are quickly read, so that there may be more points than such looks; the
//! space of all files is an inspection of each, and has a point for each inspection of most.

mod tables;

use crate::Engine;
use crate::accounting::{Resident, look_at_memory};
use crate::driver::TICK;
use esker_base::Clock;
use esker_workload::Workload;
use std::time::Duration;
use tables::{TableSpaceAmp, Tables};

/// How often the caller is to tick.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// Ticks from one inspection of everything to the next.
const LOOKS: u32 = (TICK.as_millis() / LOOK.as_millis()) as u32;

/// What was seen so far.
pub(super) struct Sampler<'a> {
    engine: &'a dyn Engine,
    workload: &'a dyn Workload,
    clock: &'a dyn Clock,
    /// The distance of the points.
    interval: Duration,
    start: Duration,
    /// When the last point was made, and what was true then.
    last: Moment,
    pub(super) throughput: Vec<[f64; 2]>,
    pub(super) stall_ms: Vec<[f64; 2]>,
    pub(super) disk_bytes: Vec<[f64; 2]>,
    disk_peak_bytes: u64,
    memory_peak: Option<Resident>,
    live_bytes: Option<u64>,
    tables: Tables,
    ticks: u32,
    /// Sums over the looks during the load.
    disk_sum: u128,
    live_sum: u128,
}

struct Moment {
    at: Duration,
    operations: u64,
    stall_us: Option<u64>,
}

impl<'a> Sampler<'a> {
    /// Starts now.
    pub(super) fn new(
        engine: &'a dyn Engine,
        workload: &'a dyn Workload,
        clock: &'a dyn Clock,
        interval: Duration,
    ) -> Self {
        let stall_us = engine.counters().stall_us;
        let start = clock.now();
        Sampler {
            engine,
            workload,
            clock,
            interval,
            start,
            last: Moment { at: Duration::ZERO, operations: 0, stall_us },
            throughput: Vec::new(),
            stall_ms: Vec::new(),
            disk_bytes: Vec::new(),
            disk_peak_bytes: engine.disk_bytes(),
            memory_peak: Resident::now(),
            live_bytes: None,
            tables: Tables::default(),
            ticks: 0,
            disk_sum: 0,
            live_sum: 0,
        }
    }

    /// Looks while the load runs. Gives the time since its start if it inspected everything.
    pub(super) fn tick(&mut self, operations: u64) -> Option<Duration> {
        self.tables.look_if_cheap(self.engine, self.clock, self.workload.live_bytes(operations));
        let disk_bytes = self.is_time().then(|| self.look_at_load(operations));
        let elapsed = self.clock.now().saturating_sub(self.start);
        if elapsed.saturating_sub(self.last.at) >= self.interval {
            self.point(elapsed, operations);
        }
        let disk_bytes = disk_bytes?;
        let last = self.disk_bytes.last().map_or(0.0, |point| point[0]);
        if elapsed.as_secs_f64() - last >= self.interval.as_secs_f64() {
            self.disk_bytes.push([elapsed.as_secs_f64(), disk_bytes as f64]);
        }
        Some(elapsed)
    }

    /// A last inspect the load: a short one may have had no other.
    pub(super) fn end_load(&mut self, operations: u64) {
        self.look_at_load(operations);
        self.tables.look(self.engine, self.live_bytes);
        self.tables.end_load();
    }

    /// Looks while the engine compacts. Whether it inspected everything.
    pub(super) fn tick_settling(&mut self) -> bool {
        self.tables.look_if_cheap(self.engine, self.clock, self.live_bytes);
        let is_time = self.is_time();
        if is_time {
            self.look_at_process();
        }
        is_time
    }

    /// A last look when all is compacted.
    pub(super) fn end_settling(&mut self) {
        self.look_at_process();
        self.tables.look(self.engine, self.live_bytes);
    }

    fn is_time(&mut self) -> bool {
        self.ticks += 1;
        self.ticks.is_multiple_of(LOOKS)
    }

    /// Inspects space and memory alone.
    fn look_at_process(&mut self) -> u64 {
        look_at_memory(&mut self.memory_peak);
        let disk_bytes = self.engine.disk_bytes();
        self.disk_peak_bytes = self.disk_peak_bytes.max(disk_bytes);
        disk_bytes
    }

    pub(super) fn disk_peak_bytes(&self) -> u64 {
        self.disk_peak_bytes
    }

    pub(super) fn memory_peak(&self) -> Option<Resident> {
        self.memory_peak
    }

    /// What users could read at the end of the load.
    pub(super) fn live_bytes(&self) -> Option<u64> {
        self.live_bytes
    }

    /// Space by live bytes, on average and at its peak, if there are live bytes.
    pub(super) fn space_amp(&self) -> Option<(f64, f64)> {
        let live_bytes = self.live_bytes.filter(|&bytes| bytes > 0)?;
        let mean = self.disk_sum as f64 / self.live_sum as f64;
        Some((mean, self.disk_peak_bytes as f64 / live_bytes as f64))
    }

    /// The same of the tables alone, while the live bytes were what they were in the end.
    pub(super) fn table_space_amp(&self) -> Option<TableSpaceAmp> {
        self.tables.space_amp()
    }

    fn look_at_load(&mut self, operations: u64) -> u64 {
        let disk_bytes = self.look_at_process();
        self.live_bytes = self.workload.live_bytes(operations);
        if let Some(live_bytes) = self.live_bytes {
            self.disk_sum += u128::from(disk_bytes);
            self.live_sum += u128::from(live_bytes);
        }
        disk_bytes
    }

    fn point(&mut self, elapsed: Duration, operations: u64) {
        let stall_us = self.engine.counters().stall_us;
        let at = elapsed.as_secs_f64();
        let passed = (elapsed - self.last.at).as_secs_f64();
        let done = operations.saturating_sub(self.last.operations);
        self.throughput.push([at, done as f64 / passed]);
        if let Some((now, before)) = stall_us.zip(self.last.stall_us) {
            // In each second, summed over the threads.
            self.stall_ms.push([at, now.saturating_sub(before) as f64 / 1_000.0 / passed]);
        }
        self.last = Moment { at: elapsed, operations, stall_us };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Counting, Ticking};
    use esker_workload::updates::{Options, Updates};

    #[test]
    fn points_may_lie_closer_together_than_looks_at_everything() {
        let (engine, updates) = (Counting::default(), Updates::new(&Options::default()));
        let interval = Duration::from_millis(5);
        let mut sampler = Sampler::new(&engine, &updates, &Ticking, interval);
        // A tick takes two milliseconds or three: it looks at the clock.
        let looks =
            (1..=20 * LOOKS).filter_map(|operations| sampler.tick(operations.into())).count();
        assert_eq!(looks, 20);
        assert_eq!(sampler.disk_bytes.len(), looks, "one for each look");
        for points in [&sampler.throughput, &sampler.stall_ms] {
            let distances = points.windows(2).map(|pair| pair[1][0] - pair[0][0]);
            let longest = distances.fold(0.0, f64::max);
            assert!((0.005..0.009).contains(&longest), "{longest}: {points:?}");
        }
    }
}
