//! The cases of the experiment, in the groups that the report shows them in.

use super::sizes::{Sizes, VALUE_BYTES};
use crate::bench::campaign::{Case, Rate};
use crate::bench::engines::{EngineSettings, ForwardingName};
use crate::bench::plan::YcsbTask;
use crate::bench::ycsb;
use crate::failure::{Failure, Outcome};
use esker_bench::WarmUp;
use esker_bench::results::Group;
use esker_workload::ycsb::Preset;

/// The workloads of the paper by its names. F is its own, not YCSB's.
pub(super) const WORKLOADS: [(&str, Preset); 7] = [
    ("A", Preset::A),
    ("B", Preset::B),
    ("C", Preset::C),
    ("D", Preset::D),
    ("F", Preset::Rmw),
    ("G", Preset::G),
    ("H", Preset::H),
];

/// Those of which at most one operation in twenty writes.
const READS: [Preset; 3] = [Preset::B, Preset::C, Preset::D];

/// Inserts as fast as can be, and at a rate that can be kept up.
const CLOSED: &str = "G closed-loop";
const OPEN: &str = "G open-loop";
/// The part of the sustained rate that the open loop has.
const OPEN_PART: f64 = 0.7;

/// The name of the case that is a burst of `workload`.
pub(super) fn burst(workload: &str) -> String {
    format!("{workload}-burst")
}

/// The cases of a group, and the group.
pub(super) type Part = (Vec<Case>, Group);

/// The cases of `parts` that the list `wanted` names, and the groups that are left.
pub(super) fn chosen(mut parts: Vec<Part>, wanted: &str) -> Outcome<Vec<Part>> {
    let wanted: Vec<&str> = wanted.split(',').map(str::trim).collect();
    let all: Vec<&str> = parts.iter().flat_map(|part| &part.0).map(|case| &case.name[..]).collect();
    for (place, name) in wanted.iter().enumerate() {
        if !all.contains(name) {
            let all = all.join(", ");
            return Err(Failure::Usage(format!("{name:?} is not a case of wbl: {all}")));
        }
        if wanted[..place].contains(name) {
            return Err(Failure::Usage(format!("case {name} is named twice")));
        }
    }
    if wanted.contains(&OPEN) && !wanted.contains(&CLOSED) {
        let message = format!("{OPEN} has a part of the rate of {CLOSED}: name both");
        return Err(Failure::Usage(message));
    }
    for (cases, group) in &mut parts {
        cases.retain(|case| wanted.contains(&&case.name[..]));
        group.cases.retain(|name| wanted.contains(&&name[..]));
    }
    parts.retain(|(cases, _)| !cases.is_empty());
    Ok(parts)
}

/// What cases are made from.
pub(super) struct Plan<'a> {
    pub(super) sizes: &'a Sizes,
    pub(super) settings: &'a EngineSettings,
    /// The engines that effects are measured on.
    pub(super) affected: &'a [String],
}

impl Plan<'_> {
    /// All of them, in order.
    pub(super) fn parts(&self) -> Outcome<Vec<Part>> {
        let mut parts = vec![self.bursts()?, self.sustained()?];
        if !self.affected.is_empty() {
            parts.extend([self.dram()?, self.forwarding()?, self.pool()?, self.delay()?]);
        }
        parts.push(self.over_time()?);
        Ok(parts)
    }

    /// So many operations of a workload on the records.
    pub(super) fn task(&self, preset: Preset, operations: u64) -> YcsbTask {
        YcsbTask {
            workload: ycsb::preset(preset).1,
            records: Some(self.sizes.records),
            operations: Some(operations),
            threads: Some(1),
            fields: Some(1),
            field_bytes: Some(VALUE_BYTES),
            verify: false,
            seed: 1,
        }
    }

    fn case(&self, name: &str, preset: Preset, operations: u64) -> Outcome<Case> {
        let case = ycsb::run(name.to_owned(), self.task(preset, operations))?;
        Ok(Case { interval: self.sizes.interval, ..case })
    }

    /// How many of a workload, where one that writes more has `operations`.
    fn operations(&self, preset: Preset, operations: u64) -> u64 {
        if READS.contains(&preset) { self.sizes.read_operations } else { operations }
    }

    fn bursts(&self) -> Outcome<Part> {
        let case = |(name, preset)| {
            let operations = self.operations(preset, self.sizes.burst_operations);
            Ok(Case { settles: false, ..self.case(&burst(name), preset, operations)? })
        };
        let about = "As many operations as fit into the pool, until the last of them: what was \
                     written is still to be flushed, so that neither the writes nor the space are \
                     all that they will have cost. What engines without a log have in DRAM alone has \
                     no space yet, and may leave them below 1.";
        let about = format!("{about} {HITS_ABOUT}");
        let metrics = ["throughput", "latency_p50_us", "latency_p99_us", "latency_p999_us"];
        let costs = ["write_amp_so_far", "space_amp_peak", "pmem_writes"];
        let cases = WORKLOADS.into_iter().map(case).collect::<Outcome<_>>()?;
        Ok(part("Bursts", &about, cases, &[&metrics[..], &costs, &HITS].concat()))
    }

    fn sustained(&self) -> Outcome<Part> {
        let case = |(name, preset)| {
            self.case(name, preset, self.operations(preset, self.sizes.operations))
        };
        let about = "Operations by the time that they and the settling after them took: flushes and \
                     compactions until nothing is left to do. Writes to a pool count as writes, and its \
                     extents, as long as they are held, as space.";
        let about = format!("{about} {HITS_ABOUT}");
        let metrics = ["sustained_throughput", "throughput", "settle_seconds", "latency_p99_us"];
        let costs = ["write_amp", "space_amp_peak", "pmem_writes"];
        let cases = WORKLOADS.into_iter().map(case).collect::<Outcome<_>>()?;
        Ok(part("Sustained", &about, cases, &[&metrics[..], &costs, &HITS].concat()))
    }

    /// One workload under other settings, by the engines that they have an effect on.
    fn effect(
        &self,
        name: &str,
        preset: Preset,
        change: impl FnOnce(&mut EngineSettings),
    ) -> Outcome<Case> {
        let mut settings = self.settings.clone();
        change(&mut settings);
        Ok(Case {
            engines: Some(self.affected.to_vec()),
            settings: Some(settings),
            ..self.case(name, preset, self.sizes.effect_operations)?
        })
    }

    fn dram(&self) -> Outcome<Part> {
        let memory = self.settings.memory_bytes;
        let sizes = [0, memory / 32, memory / 8, memory / 4, memory / 2];
        let case = |bytes| {
            let change = |own: &mut EngineSettings| own.dram_table_bytes = Some(bytes);
            let case = self.effect(&format!("B dram={}", size(bytes)), Preset::B, change)?;
            // So that the table is full of what is read, at the quick size too.
            Ok(Case { warm_up: Some(WarmUp::Operations(self.sizes.effect_operations)), ..case })
        };
        let about = "The table of copies in DRAM takes from the same memory as the block cache. \
                     As many operations as count go before them, to fill both. A hit is a read that \
                     a copy answered: MemTables lie in persistent memory here.";
        let cases = sizes.into_iter().map(case).collect::<Outcome<_>>()?;
        Ok(part("Size of the DRAMTable", about, cases, &EFFECTS))
    }

    fn forwarding(&self) -> Outcome<Part> {
        let names = [
            ("on-flush", ForwardingName::OnFlush),
            ("always", ForwardingName::Always),
            ("adaptive", ForwardingName::Adaptive),
        ];
        let mut cases = Vec::new();
        for delay in [0, FORWARDING_DELAY] {
            for (name, forwarding) in names {
                let with = if delay == 0 { String::new() } else { format!(" delay={delay}ns") };
                let name = format!("A forwarding={name}{with}");
                cases.push(self.effect(&name, Preset::A, |own| {
                    own.forwarding = forwarding;
                    own.pool.pool_delay = delay;
                })?);
            }
        }
        let about = "When writes reach the table of copies: with the flush of their MemTable, at \
                     once, or when they replace what is being read. A copy spares reading persistent \
                     memory, which costs something only where that is slower than DRAM.";
        Ok(part("Forwarding", about, cases, &EFFECTS))
    }

    fn pool(&self) -> Outcome<Part> {
        let sizes = [8, 4, 2, 1].map(|part| self.settings.pool.pool / part);
        let case = |bytes| {
            let change = |own: &mut EngineSettings| own.pool.pool = bytes;
            self.effect(&format!("G pool={}", size(bytes)), Preset::G, change)
        };
        let about = "The more of the inserts a pool takes in, the less they wait for flushes; what \
                     was put off has to be done all the same.";
        let metrics = ["throughput", "sustained_throughput", "settle_seconds", "stall_us"];
        let latencies = ["latency_p99_us", "latency_max_us", "write_amp"];
        let cases = sizes.into_iter().map(case).collect::<Outcome<_>>()?;
        Ok(part("Size of the pool", about, cases, &[&metrics[..], &latencies].concat()))
    }

    fn delay(&self) -> Outcome<Part> {
        let case = |delay| {
            let change = |own: &mut EngineSettings| own.pool.pool_delay = delay;
            self.effect(&format!("A delay={delay}ns"), Preset::A, change)
        };
        let about = "Persistent memory is slower than the DRAM that stands in for it. Every cache \
                     line of a key or value that is read in its place, and every fence, takes so much \
                     longer here: the thread waits. Passes over whole segments are not slowed.";
        let cases = [0, 100, 300, 600].into_iter().map(case).collect::<Outcome<_>>()?;
        Ok(part("Latency of persistent memory", about, cases, &EFFECTS))
    }

    fn over_time(&self) -> Outcome<Part> {
        let mut settings = self.settings.clone();
        settings.pool.pool = self.sizes.small_pool_bytes();
        let case = |name, rate| -> Outcome<Case> {
            let case = self.case(name, Preset::G, self.sizes.insert_operations)?;
            let interval = self.sizes.interval_over_time;
            Ok(Case { rate, settings: Some(settings.clone()), interval, ..case })
        };
        let rate = Rate::Part { of: CLOSED.to_owned(), part: OPEN_PART };
        let cases = vec![case(CLOSED, None)?, case(OPEN, Some(rate))?];
        let about = "Inserts while flushes and compactions go on, the pool being small against the \
                     data. In the open loop they are due at 70% of the rate that the same engine \
                     sustained in the closed one, settling included; a latency counts from the time \
                     at which the insert was due. What operations that do nothing had at that rate \
                     is the machine's own part of it. The second half is told apart: at first the \
                     pool is empty and nothing holds inserts back.";
        let series = ["throughput", "latency_p99_us", "latency_p999_us", "latency_max_us"];
        let half = ["p50", "p999", "max"].map(|part| format!("second_half_latency_{part}_us"));
        let half = half.each_ref().map(|metric| &metric[..]);
        let beside = ["latency_p50_us", "idle_latency_p999_us", "stall_us", "pmem_writes"];
        let (cases, group) =
            part("Inserts over time", about, cases, &[&series[..], &half, &beside].concat());
        let series = [&series[..], &["stall_ms"]].concat();
        let series = series.into_iter().map(str::to_owned).collect();
        Ok((cases, Group { series, ..group }))
    }
}

/// What is counted as answered from DRAM, and why RocksDB has no such figure.
const HITS_ABOUT: &str = "\
    Reads answered from DRAM: of esker-wbl, whose MemTables lie in persistent memory, those \
    that copies answered, and no others; of engines with MemTables in DRAM, those that these \
    answered, too. The block cache is counted apart. RocksDB has no baseline of either: its \
    statistics would tell, and are off, because counting took 3 to 5% of its processor time \
    (statistics, in its settings). Writes to persistent memory: of esker-novelsm the part of \
    them that went there because its MemTables in DRAM were full.";

/// Where reads were answered.
const HITS: [&str; 2] = ["dram_hit_ratio", "cache_hit_ratio"];

/// What is shown of an effect.
const EFFECTS: [&str; 9] = [
    "throughput",
    "sustained_throughput",
    "dram_hit_ratio",
    "dram_fills",
    "dram_invalidations",
    "dram_evictions",
    "cache_hit_ratio",
    "latency_p50_us",
    "latency_p99_us",
];

/// What a line of Optane takes longer than one of DRAM, about: the delay at which forwarding is
/// inspected again.
const FORWARDING_DELAY: u64 = 300;

fn part(title: &str, about: &str, cases: Vec<Case>, metrics: &[&str]) -> Part {
    let group = Group {
        title: title.to_owned(),
        about: about.to_owned(),
        cases: cases.iter().map(|case| case.name.clone()).collect(),
        metrics: metrics.iter().map(|&metric| metric.to_owned()).collect(),
        ..Group::default()
    };
    (cases, group)
}

/// A size in the largest unit that it is a whole number of.
fn size(bytes: usize) -> String {
    match bytes {
        0 => "0".to_owned(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{}GiB", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
        _ => format!("{bytes}B"),
    }
}
