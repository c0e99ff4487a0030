//! The measurement loop: reads in a closed loop, writes at a fixed rate.

use super::store::{LEVELS, Open, Store};
use crate::Preset;
use crate::device::sim::{Completion, Kind};
use crate::device::{Media, ReadPriority, Sim};
use crate::host_ftl::{Queues, Read, Reads, WriteOrder};
use crate::placement::PlacementPolicy;
use esker_base::Rng;

/// What is measured.
#[derive(Clone, Debug)]
pub struct InterferenceTest {
    /// The device.
    pub preset: Preset,
    /// What it does by itself.
    pub form: ReadPriority,
    /// Reads outstanding, each of one sector.
    pub reads: u32,
    /// How many of them the device has at a time at the most; all, if nothing is said.
    pub slots: Option<u32>,
    /// Writes, in bytes a second.
    pub write_bytes_per_second: u64,
    /// The part of the device that is alive.
    pub fill: f64,
    /// Virtual time that is measured, after a tenth of it that is not, in nanoseconds.
    pub measured_ns: u64,
    /// The random seed.
    pub seed: u64,
}

/// What came out, of the time that counts.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Reads a second.
    pub reads_per_second: f64,
    /// Latencies of all reads, in nanoseconds, sorted.
    pub latencies: Vec<u32>,
    /// Bytes written a second.
    pub written_per_second: f64,
    /// The part of all dies' time that went into writes and resets.
    pub write_share: f64,
    /// Whether the writes met their rate to 1% and 10 ms of it, and what waits has not grown by more.
    pub writes_met: bool,
    /// Reads of the mean unit that was written, as a part of those of the mean unit, each written unit
    /// counting as long as it was busy with writes. Over 1 if what is written is read more.
    pub heat: f64,
    /// How unevenly reads went to units: the mean square of each unit's part, 1 if all had the same.
    pub unevenness: f64,
    /// The part of the device's chunks that holds what is read.
    pub alive: f64,
    /// Events of the model, all time counted.
    pub events: u64,
}

impl Measurement {
    /// The latency that this part of all reads does not exceed, in nanoseconds.
    pub fn latency(&self, part: f64) -> u32 {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get((last as f64 * part).round() as usize).copied().unwrap_or(0)
    }
}

/// A time in four bytes: a longer one is stored as the maximum, 4.3 s.
pub fn saturated(ns: impl TryInto<u32>) -> u32 {
    ns.try_into().unwrap_or(u32::MAX)
}

const PACE: u32 = 0;

/// What may wait at the end of a run and not at its beginning: writes of so long, which is when the device puts writes before
/// reads.
const BACKLOG_SECONDS: f64 = 0.01;

/// Write units requested of one writer and not yet written because it is throttled.
#[derive(Clone, Copy, Default)]
struct Held {
    count: u64,
    /// Since when the first of them waits.
    since: u64,
}

/// A device that is filled and aged, ready to be measured.
pub struct Run<'a> {
    trial: &'a InterferenceTest,
    policy: &'a mut dyn PlacementPolicy,
    sim: Sim,
    store: Store,
    writer: Queues,
    rng: Rng,
    open: Vec<Open>,
    /// Units that one lifetime keeps busy.
    needed: f64,
    /// Write units asked for so far.
    asked: u64,
    /// What was asked for and not admitted, by lifetime.
    held: Vec<Held>,
    tables: u32,
    reads_of: Vec<u64>,
    /// When each of the reads outstanding came, by its tag.
    since: Vec<u64>,
}

impl InterferenceTest {
    /// Runs it. Panics if the policy leaves no space for the writes.
    pub fn run(&self, policy: &mut dyn PlacementPolicy) -> Measurement {
        self.prepare(policy).measure()
    }

    /// Fills and ages its device.
    pub fn prepare<'a>(&'a self, policy: &'a mut dyn PlacementPolicy) -> Run<'a> {
        let mut media = Media::new(&self.preset, self.seed);
        let unit_rate = f64::from(self.preset.geometry().write_unit_bytes) * 1e9
            / self.preset.write_unit_ns() as f64;
        let rate = self.write_bytes_per_second as f64;
        let needed = rate / unit_rate / if policy.is_read() { LEVELS as f64 } else { 1.0 };
        let store = Store::aged(policy, &mut media, self.fill, needed);
        let sim = Sim::with_media(&self.preset, self.form, media);
        let units = self.preset.geometry().units();
        let order = WriteOrder::of(policy.sending(), self.form);
        let room = u64::from(self.preset.geometry().mw_cunits.max(1)) * units as u64;
        let slots =
            |slots: u32| Reads::new(&self.preset, self.form, policy.reading(), slots as usize);
        let writer = Queues::new(units, order, room).with_slots(self.slots.map(slots));
        let since = vec![0; self.reads as usize];
        let rng = Rng::new(self.seed);
        let reads_of = vec![0; units];
        let (open, tables, asked) = (Vec::new(), 0, 0);
        let held = vec![Held::default(); if policy.is_read() { LEVELS } else { 1 }];
        let trial = self;
        Run {
            trial,
            policy,
            sim,
            store,
            writer,
            rng,
            open,
            needed,
            asked,
            held,
            tables,
            reads_of,
            since,
        }
    }
}

impl Run<'_> {
    /// Measures it.
    pub fn measure(mut self) -> Measurement {
        if self.trial.write_bytes_per_second > 0 {
            self.sim.alarm(0, PACE);
        }
        (0..self.trial.reads).for_each(|tag| self.read(tag));
        let begin = self.trial.measured_ns / 10;
        self.go_until(begin, |_, _| ());
        let busy: Vec<u64> = self.write_times();
        let waiting = self.waiting();
        let asked = self.asked;
        self.reads_of.fill(0);
        let end = begin + self.trial.measured_ns;
        let expected = self.trial.measured_ns / 1_000;
        let mut latencies = Vec::with_capacity(expected as usize);
        let mut written = 0u64;
        self.go_until(end, |done, since| match done.kind {
            Kind::Read => latencies.push(saturated(done.at - since[done.tag as usize])),
            Kind::Write => written += 1,
            _ => {}
        });
        latencies.sort_unstable();
        let busy: Vec<u64> =
            self.write_times().iter().zip(busy).map(|(after, before)| after - before).collect();
        let seconds = self.trial.measured_ns as f64 / 1e9;
        let unit_bytes = f64::from(self.trial.preset.geometry().write_unit_bytes);
        let asked = (self.asked - asked) as f64;
        let grown = self.waiting().saturating_sub(waiting) as f64;
        let missed_most = asked * 0.01 + asked / seconds * BACKLOG_SECONDS;
        Measurement {
            reads_per_second: latencies.len() as f64 / seconds,
            written_per_second: written as f64 * unit_bytes / seconds,
            write_share: busy.iter().sum::<u64>() as f64
                / (self.trial.measured_ns * busy.len() as u64) as f64,
            writes_met: written as f64 >= asked - missed_most && grown <= missed_most,
            heat: heat(&busy, &self.reads_of),
            unevenness: unevenness(&self.reads_of),
            alive: self.store.readable().len() as f64 / self.sim.media().geometry().chunks() as f64,
            events: self.sim.events(),
            latencies,
        }
    }

    fn write_times(&self) -> Vec<u64> {
        let geometry = *self.sim.media().geometry();
        geometry.all_units().map(|unit| self.sim.write_ns(unit)).collect()
    }

    fn go_until(&mut self, end: u64, mut count: impl FnMut(&Completion, &[u64])) {
        while let Some(done) = self.sim.next_completion() {
            if done.at > end {
                // Whatever happens next belongs to later.
                self.take(&done);
                return;
            }
            count(&done, &self.since);
            self.take(&done);
        }
    }

    fn take(&mut self, done: &Completion) {
        let unit = usize::from(done.unit.0);
        match done.kind {
            Kind::Read => {
                self.reads_of[unit] += 1;
                self.writer.read_done(&mut self.sim, unit);
                self.read(done.tag);
            }
            Kind::Write => {
                self.writer.done(&mut self.sim, unit);
                self.written(done.tag);
                self.admit();
            }
            Kind::Reset => self.writer.done(&mut self.sim, unit),
            Kind::Alarm => self.tick(),
        }
    }

    fn read(&mut self, tag: u32) {
        let readable = self.store.readable();
        let chunk = readable[self.rng.below(readable.len() as u64) as usize];
        let geometry = self.sim.media().geometry();
        let (numbers, sectors) = (geometry.write_units(), geometry.sectors());
        let bytes = geometry.sector_bytes;
        let number = self.rng.below(numbers.into()) as u32;
        // Where in the write unit matters to a device that has its planes apart, and to no other.
        let from = match self.trial.preset.has_independent_plane_reads() {
            true => self.rng.below(sectors.into()) as u32 * bytes,
            false => 0,
        };
        let since = self.sim.now();
        self.since[tag as usize] = since;
        let read = Read { chunk, number, part: from..from + bytes, tag, since };
        self.writer.read(&mut self.sim, read).expect("it is readable");
    }

    /// It is time for the next write unit.
    fn tick(&mut self) {
        let lifetime = self.asked as usize % self.held.len();
        let held = &mut self.held[lifetime];
        if held.count == 0 {
            held.since = self.sim.now();
        }
        held.count += 1;
        self.asked += 1;
        let bytes = u128::from(self.sim.media().geometry().write_unit_bytes);
        let rate = u128::from(self.trial.write_bytes_per_second);
        let at = u128::from(self.asked) * bytes * 1_000_000_000 / rate;
        self.sim.alarm(at as u64, PACE);
        self.admit();
        self.writer.send_overdue(&mut self.sim);
    }

    /// Lets each lifetime's writer write what it may.
    fn admit(&mut self) {
        let now = self.sim.now();
        for lifetime in 0..self.held.len() {
            while self.held[lifetime].count > 0 && self.admits(now - self.held[lifetime].since) {
                let held = &mut self.held[lifetime];
                (held.count, held.since) = (held.count - 1, now);
                self.write(lifetime);
            }
        }
    }

    fn admits(&self, held_ns: u64) -> bool {
        let admission = self.policy.admission(self.trial.form);
        admission.is_none_or(|admission| admission.admits(&self.writer.pressure(held_ns)))
    }

    /// Write units that were asked for and are not sent.
    fn waiting(&self) -> u64 {
        self.writer.waiting + self.held.iter().map(|held| held.count).sum::<u64>()
    }

    /// Adds a write unit to the open table of a lifetime: to its chunks in turn.
    fn write(&mut self, lifetime: usize) {
        let found = self.open.iter().position(|open| open.takes(lifetime));
        let place = found.unwrap_or_else(|| self.open_table(lifetime));
        let open = &mut self.open[place];
        let width = open.table.len() as u32;
        let (chunk, number) = (open.table[(open.given % width) as usize], open.given / width);
        open.given += 1;
        self.writer.write(&mut self.sim, chunk, number, open.id);
    }

    fn open_table(&mut self, lifetime: usize) -> usize {
        let table = self.store.open(self.policy, lifetime, self.needed);
        let table = table.expect("live data leaves space for what is written");
        for &chunk in &table {
            if self.sim.media().written(chunk) > 0 {
                self.store.was_reset(chunk);
                self.writer.reset(&mut self.sim, chunk);
            }
        }
        let all = table.len() as u32 * self.sim.media().geometry().write_units();
        self.tables += 1;
        self.open.push(Open { id: self.tables, lifetime, table, given: 0, done: 0, all });
        self.open.len() - 1
    }

    /// A write unit of a table is done. When it was the last, the table is closed.
    fn written(&mut self, id: u32) {
        let place = self.open.iter().position(|open| open.id == id).expect("it is open");
        self.open[place].done += 1;
        if self.open[place].done == self.open[place].all {
            let open = self.open.remove(place);
            self.store.close(open.table, open.lifetime);
        }
    }
}

/// Reads that went to units as long as they were busy with writes, next to uniform reads.
fn heat(busy: &[u64], reads: &[u64]) -> f64 {
    let (all_busy, all_reads) = (busy.iter().sum::<u64>() as f64, reads.iter().sum::<u64>() as f64);
    let met: f64 = busy.iter().zip(reads).map(|(busy, reads)| *busy as f64 * *reads as f64).sum();
    if all_busy == 0.0 || all_reads == 0.0 {
        0.0
    } else {
        met * reads.len() as f64 / (all_busy * all_reads)
    }
}

/// The mean square of each unit's reads, as a part of the mean unit's.
fn unevenness(reads: &[u64]) -> f64 {
    let all = reads.iter().sum::<u64>() as f64;
    let squares: f64 = reads.iter().map(|reads| (*reads as f64).powi(2)).sum();
    if all == 0.0 { 1.0 } else { squares * reads.len() as f64 / (all * all) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Rotating;

    #[test]
    fn a_read_of_ten_seconds_counts_as_a_long_one() {
        assert_eq!([7u64, 10_000_000_000].map(saturated), [7, u32::MAX]);
    }

    #[test]
    fn reads_that_are_chosen_are_more_than_those_in_order_and_none_waits_for_long() {
        let preset = Preset::named("cnex-mlc").unwrap().with_chunks_per_unit(64);
        let rotating = || Rotating::new(LEVELS, false, preset.channel_units());
        let trial = InterferenceTest {
            preset: preset.clone(),
            form: ReadPriority::HostOnly,
            reads: 64,
            slots: Some(32),
            write_bytes_per_second: 375_000_000,
            fill: 0.7,
            measured_ns: 100_000_000,
            seed: 1,
        };
        let (chosen, in_order) =
            (trial.run(&mut rotating()), trial.run(&mut rotating().in_order()));
        let (more, less) = (chosen.reads_per_second, in_order.reads_per_second);
        assert!(more > 1.08 * less, "{more}, {less}");
        assert!(chosen.writes_met);
        assert!(chosen.latency(1.0) < 5_000_000, "{}", chosen.latency(1.0));
    }

    #[test]
    fn writers_that_are_held_back_leave_more_to_reads_and_do_not_starve() {
        let preset = Preset::named("cnex-mlc").unwrap().with_chunks_per_unit(64);
        let rotating = || Rotating::new(LEVELS, false, preset.channel_units());
        let trial = InterferenceTest {
            preset: preset.clone(),
            form: ReadPriority::HostOnly,
            reads: 64,
            slots: None,
            write_bytes_per_second: 1_500_000_000,
            fill: 0.7,
            measured_ns: 200_000_000,
            seed: 1,
        };
        let (held, unheld) = (trial.run(&mut rotating()), trial.run(&mut rotating().unheld()));
        let (more, less) = (held.reads_per_second, unheld.reads_per_second);
        assert!(more > 1.1 * less, "{more}, {less}");
        assert!(held.written_per_second < unheld.written_per_second);
        // Each level's writer writes one write unit in each of its deadlines at the least.
        assert!(held.written_per_second > LEVELS as f64 * 65_536.0 / 0.005);
    }
}
