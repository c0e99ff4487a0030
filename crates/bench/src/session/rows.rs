//! A stage's numbers as rows.

use super::{Costs, Measurement};
use crate::Row;

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
pub(super) struct Rows {
    engine: String,
    case: String,
    round: u32,
    rows: Vec<Row>,
}

impl Rows {
    pub(super) fn new(engine: &str, case: &str, round: u32) -> Self {
        Rows { engine: engine.to_owned(), case: case.to_owned(), round, rows: Vec::new() }
    }

    pub(super) fn into_vec(self) -> Vec<Row> {
        self.rows
    }

    pub(super) fn add(&mut self, metric: &str, value: f64, unit: &str) {
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
    pub(super) fn add_measurement(&mut self, measured: &Measurement, found_of: Option<u64>) {
        let seconds = measured.elapsed.as_secs_f64();
        if let Some(throughput) = measured.throughput() {
            self.add("throughput", throughput, "ops/s");
            self.add("bandwidth_mib_s", measured.bytes as f64 / MIB / seconds, "MiB/s");
        }
        self.add("operations", measured.operations as f64, "ops");
        self.add("seconds", seconds, "s");
        let latencies = &measured.latencies;
        self.add("latency_mean_us", latencies.mean_us(), "us");
        for (metric, percent) in LADDER {
            self.add(metric, latencies.percentile_us(percent), "us");
        }
        self.add("latency_max_us", latencies.max_us(), "us");
        if let Some(reads) = found_of.filter(|&reads| reads > 0) {
            self.add("found", measured.found as f64 / reads as f64, "ratio");
        }
        if let Some(writer) = &measured.companion {
            self.add("writer_operations", writer.operations as f64, "ops");
            self.add("writer_throughput", writer.throughput().unwrap_or(0.0), "ops/s");
            self.add("writer_latency_p99_us", writer.latencies.percentile_us(99.0), "us");
        }
    }

    /// What a stage cost.
    pub(super) fn add_costs(&mut self, costs: &Costs) {
        if let Some(write_amp) = costs.during.write_amp() {
            self.add("write_amp", write_amp, "ratio");
        }
        self.add("user_bytes", costs.during.user_bytes as f64, "bytes");
        self.add("log_bytes", costs.during.log_bytes as f64, "bytes");
        self.add("flush_bytes", costs.during.flush_bytes as f64, "bytes");
        self.add("compaction_bytes", costs.during.compaction_bytes as f64, "bytes");
        self.add("stall_us", costs.during.stall_us as f64, "us");
        self.add("disk_peak_bytes", costs.disk_peak_bytes as f64, "bytes");
        if let Some(bytes) = costs.rss_peak_bytes {
            self.add("rss_peak_mib", bytes as f64 / MIB, "MiB");
        }
        self.add("cpu_s", costs.cpu.as_secs_f64(), "s");
    }
}
