//! A stage's numbers as rows.

use crate::accounting::{Costs, LoadCosts};
use crate::{Counters, Latencies, Measurement, Row};
use esker_workload::Transactions;

const MIB: f64 = (1u64 << 20) as f64;

/// Percentiles of the latency.
const LADDER: [(&str, f64); 8] = [
    ("latency_p10_us", 10.0),
    ("latency_p25_us", 25.0),
    ("latency_p50_us", 50.0),
    ("latency_p75_us", 75.0),
    ("latency_p90_us", 90.0),
    ("latency_p99_us", 99.0),
    ("latency_p999_us", 99.9),
    ("latency_p9999_us", 99.99),
];

/// The rows of one stage.
pub(crate) struct Rows {
    engine: String,
    case: String,
    round: u32,
    rows: Vec<Row>,
}

impl Rows {
    pub(crate) fn new(engine: &str, case: &str, round: u32) -> Self {
        Rows { engine: engine.to_owned(), case: case.to_owned(), round, rows: Vec::new() }
    }

    pub(crate) fn into_vec(self) -> Vec<Row> {
        self.rows
    }

    pub(crate) fn add(&mut self, metric: &str, value: f64, unit: &str) {
        debug_assert!(value.is_finite(), "{metric} is {value}");
        self.rows.push(Row {
            engine: self.engine.clone(),
            case: self.case.clone(),
            metric: metric.to_owned(),
            value,
            unit: unit.to_owned(),
            round: self.round,
        });
    }

    /// What a load did. `found_of` is the number of reads that could have hit.
    pub(crate) fn add_measurement(&mut self, measured: &Measurement, found_of: Option<u64>) {
        let seconds = measured.elapsed.as_secs_f64();
        if let Some(throughput) = measured.throughput() {
            self.add("throughput", throughput, "ops/s");
            self.add("bandwidth_mib_s", measured.bytes as f64 / MIB / seconds, "MiB/s");
        }
        self.add("operations", measured.operations as f64, "ops");
        self.add("seconds", seconds, "s");
        self.add_latencies("", &measured.latencies);
        if let Some(reads) = found_of.filter(|&reads| reads > 0) {
            self.add("found", measured.found as f64 / reads as f64, "ratio");
        }
        if let Some(writer) = &measured.companion {
            self.add("writer_operations", writer.operations as f64, "ops");
            self.add("writer_throughput", writer.throughput().unwrap_or(0.0), "ops/s");
            self.add("writer_latency_p99_us", writer.latencies.percentile_us(99.0), "us");
        }
    }

    /// Mean, percentiles and maximum.
    pub(crate) fn add_latencies(&mut self, prefix: &str, latencies: &Latencies) {
        self.add(&format!("{prefix}latency_mean_us"), latencies.mean_us(), "us");
        for (metric, percent) in LADDER {
            self.add(&format!("{prefix}{metric}"), latencies.percentile_us(percent), "us");
        }
        self.add(&format!("{prefix}latency_max_us"), latencies.max_us(), "us");
    }

    /// The kinds of operation by themselves, if there were several.
    pub(crate) fn add_kinds(&mut self, measured: &Measurement) {
        if measured.kinds.iter().count() < 2 {
            return;
        }
        for (kind, latencies) in measured.kinds.iter() {
            self.add(&format!("{kind}_operations"), latencies.count() as f64, "ops");
            self.add_latencies(&format!("{kind}_"), latencies);
        }
    }

    /// How transactions ended and what a commit took, if there was one.
    pub(crate) fn add_transactions(&mut self, measured: &Measurement, of_load: &LoadCosts) {
        let Transactions { commits, rollbacks, retries } = measured.transactions;
        if measured.transactions == Transactions::NONE {
            return;
        }
        self.add("commits", commits as f64, "ops");
        self.add("rollbacks", rollbacks as f64, "ops");
        self.add("retries", retries as f64, "ops");
        if commits == 0 {
            return;
        }
        let each = |total: f64| total / commits as f64;
        let client_us = measured.elapsed.as_secs_f64() * 1e6 * of_load.threads as f64;
        self.add("client_us_per_commit", each(client_us), "us");
        self.add("cpu_us_per_commit", each(of_load.cpu.as_secs_f64() * 1e6), "us");
        if let Some(syncs) = of_load.during.log_syncs {
            self.add("syncs_per_commit", each(syncs as f64), "ratio");
        }
        if let Some(bytes) = of_load.during.log_bytes {
            self.add("log_bytes_per_commit", each(bytes as f64), "bytes");
        }
    }

    /// Where reads were answered, as far as the engine counts it.
    pub(crate) fn add_hits(&mut self, of_load: &Counters, point_reads: u64) {
        if let Some(ratio) = of_load.dram_hit_ratio(point_reads) {
            self.add("dram_hit_ratio", ratio, "share");
        }
        if let Some(copies) = of_load.copies {
            self.add("dram_fills", copies.fills as f64, "copies");
            self.add("dram_invalidations", copies.invalidations as f64, "copies");
            self.add("dram_evictions", copies.evictions as f64, "copies");
        }
        if let Some(ratio) = of_load.cache_hit_ratio() {
            self.add("cache_hit_ratio", ratio, "share");
        }
        if let Some(reads) = of_load.table_hits.and_then(|hits| hits.mean()) {
            self.add("table_reads_per_hit", reads, "ratio");
        }
        if let Some(reads) = of_load.table_misses.and_then(|misses| misses.mean()) {
            self.add("table_reads_per_miss", reads, "ratio");
        }
        let Some(cost) = of_load.table_cost else { return };
        for (metric, sum, unit) in [
            ("table_runs_per_get", cost.runs, "ratio"),
            ("table_blocks_read_per_get", cost.blocks, "ratio"),
            ("table_bytes_read_per_get", cost.bytes, "bytes"),
        ] {
            if let Some(each) = cost.each(sum) {
                self.add(metric, each, unit);
            }
        }
    }

    /// Where writes went, of an engine with MemTables in either kind of memory.
    pub(crate) fn add_placement(&mut self, of_load: &Counters) {
        if let Some(share) = of_load.placed.and_then(|placed| placed.pmem_share()) {
            self.add("pmem_writes", share, "share");
        }
    }

    /// A number of bytes, if it is known.
    pub(crate) fn add_bytes(&mut self, metric: &str, bytes: Option<u64>) {
        if let Some(bytes) = bytes {
            self.add(metric, bytes as f64, "bytes");
        }
    }

    /// What a stage cost.
    pub(crate) fn add_costs(&mut self, costs: &Costs) {
        if let Some(write_amp) = costs.during.write_amp() {
            self.add("write_amp", write_amp, "ratio");
        }
        self.add_costs_but_amplification(costs);
    }

    /// What a load cost, for a caller that knows better how much was written.
    pub(crate) fn add_costs_but_amplification(&mut self, costs: &Costs) {
        let during = &costs.during;
        self.add_bytes("user_bytes", Some(during.user_bytes));
        self.add_bytes("log_bytes", during.log_bytes);
        self.add_bytes("flush_bytes", during.flush_bytes);
        self.add_bytes("compaction_bytes", during.compaction_bytes);
        if let Some(stall_us) = during.stall_us {
            self.add("stall_us", stall_us as f64, "us");
        }
        self.add("disk_peak_bytes", costs.disk_peak_bytes as f64, "bytes");
        if let Some(memory) = costs.memory_peak {
            self.add("rss_peak_mib", memory.own_bytes as f64 / MIB, "MiB");
            self.add("mapped_peak_mib", memory.mapped_bytes as f64 / MIB, "MiB");
        }
        self.add("cpu_s", costs.cpu.as_secs_f64(), "s");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_a_commit_took_is_its_share_of_the_load_alone() {
        let transactions = Transactions { commits: 50, rollbacks: 2, retries: 5 };
        let elapsed = Duration::from_millis(10);
        let measured = Measurement { transactions, elapsed, ..Measurement::default() };
        let during =
            Counters { log_syncs: Some(10), log_bytes: Some(5_000), ..Counters::default() };
        let of_load = LoadCosts { during, cpu: Duration::from_millis(15), threads: 4 };
        let mut rows = Rows::new("engine", "case", 1);
        rows.add_transactions(&measured, &of_load);
        let rows = rows.into_vec();
        let numbers: Vec<_> = rows.iter().map(|row| (&row.metric[..], row.value)).collect();
        let expected = [
            ("commits", 50.0),
            ("rollbacks", 2.0),
            ("retries", 5.0),
            ("client_us_per_commit", 800.0),
            ("cpu_us_per_commit", 300.0),
            ("syncs_per_commit", 0.2),
            ("log_bytes_per_commit", 100.0),
        ];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn a_load_without_transactions_says_nothing_of_them() {
        let (measured, during) = (Measurement::default(), Counters::default());
        let of_load = LoadCosts { during, cpu: Duration::ZERO, threads: 1 };
        let mut rows = Rows::new("engine", "case", 1);
        rows.add_transactions(&measured, &of_load);
        assert_eq!(rows.into_vec(), []);
    }
}
