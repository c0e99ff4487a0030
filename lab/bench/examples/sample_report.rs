//! Writes a report page of made-up results, to inspect while working on the page:
//!
//! ```text
//! cargo run -p esker-bench --example sample_report -- /tmp/report.html
//! ```
//!
//! The numbers are drawn at random around what such engines may do. They are of no machine.

use esker_base::Rng;
use esker_bench::Row;
use esker_bench::results::{Distribution, Machine, Results, Series};
use std::collections::BTreeMap;

/// With how fast it is compared with the first, in each kind of work.
const ENGINES: [(&str, f64, f64); 4] = [
    ("esker-wal", 1.0, 1.0),
    ("esker-nolog", 1.5, 1.0),
    ("rocksdb-wal", 0.55, 0.8),
    ("fjall-wal", 0.45, 0.95),
];
/// With the part of it that writes, and operations a second.
const CASES: [(&str, f64, f64); 8] = [
    ("load", 1.0, 420_000.0),
    ("A", 0.5, 390_000.0),
    ("B", 0.05, 450_000.0),
    ("C", 0.0, 480_000.0),
    ("D", 0.05, 610_000.0),
    ("E", 0.05, 31_000.0),
    ("F", 0.5, 240_000.0),
    ("G", 1.0, 400_000.0),
];
const ROUNDS: u32 = 3;
const SECONDS: u32 = 60;

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "report.html".to_owned());
    std::fs::write(path, esker_bench::html::page(&results()))
}

fn results() -> Results {
    let mut sample = Sample { rng: Rng::new(7), results: described() };
    for round in 0..ROUNDS {
        for case in CASES {
            for engine in ENGINES {
                sample.add(engine, case, round);
            }
        }
    }
    sample.results
}

fn described() -> Results {
    let machine = Machine {
        cpu: "Example CPU 9000 @ 3.00GHz".into(),
        cores: 2,
        memory_bytes: 24 << 30,
        kernel: "Linux 6.1.0 x86_64".into(),
        filesystem: "ext4".into(),
        disk: "/dev/vda1, not rotational".into(),
        os: "Example GNU/Linux 12".into(),
    };
    let settings = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let run = settings(&[("records", "1,000,000"), ("value size", "1000 B"), ("threads", "2")]);
    let mut all = BTreeMap::from([("run".to_owned(), run)]);
    for (engine, ..) in ENGINES {
        let own = [
            ("memory", "256 MiB"),
            ("log", if engine.contains("nolog") { "none" } else { "file" }),
        ];
        all.insert(engine.to_owned(), settings(&own));
    }
    let command = "esker-lab experiment ycsb --full --engines esker-wal,esker-nolog,rocksdb-wal,fjall-wal --out report";
    Results {
        experiment: "YCSB A–G".into(),
        scale: "full".into(),
        command: command.split(' ').map(str::to_owned).collect(),
        machine,
        started: "2026-11-21T05:00:00Z".into(),
        emulated: vec!["persistent memory, by files in tmpfs".into()],
        settings: all,
        ..Results::default()
    }
}

struct Sample {
    rng: Rng,
    results: Results,
}

impl Sample {
    /// Around one.
    fn noise(&mut self, width: f64) -> f64 {
        1.0 + (self.rng.unit() * 2.0 - 1.0) * width
    }

    fn add(
        &mut self,
        engine: (&str, f64, f64),
        (case, writes, speed): (&str, f64, f64),
        round: u32,
    ) {
        let (engine, write_speed, read_speed) = engine;
        let mean = speed * (write_speed * writes + read_speed * (1.0 - writes));
        let throughput = mean * self.noise(0.06);
        let us = 2e6 / throughput;
        let tail = if writes > 0.2 { 40.0 } else { 9.0 };
        let mut rows = vec![
            ("throughput", throughput, "ops/s"),
            ("operations", throughput * f64::from(SECONDS), "ops"),
            ("latency_mean_us", us, "us"),
            ("latency_p50_us", us * 0.8 * self.noise(0.05), "us"),
            ("latency_p99_us", us * 3.0 * self.noise(0.1), "us"),
            ("latency_p999_us", us * tail * self.noise(0.2), "us"),
            ("latency_max_us", us * tail * 60.0 * self.noise(0.5), "us"),
            ("cpu_s", 1.7 * f64::from(SECONDS) * self.noise(0.04), "s"),
            ("rss_peak_mib", 300.0 / read_speed * self.noise(0.03), "MiB"),
            ("space_amp_mean", 1.0 + 0.2 / write_speed * self.noise(0.1), "ratio"),
            ("space_amp_peak", 1.3 + 0.4 / write_speed * self.noise(0.1), "ratio"),
        ];
        if writes > 0.0 {
            let user = throughput * writes * 60_000.0;
            let log = if engine.ends_with("nolog") { 0.0 } else { user * 1.03 };
            let (flush, compaction) = (user * 0.98, user * 3.2 / write_speed * self.noise(0.1));
            rows.extend([
                ("write_amp", (1.4 * log + flush + compaction) / user, "ratio"),
                ("user_bytes", user, "bytes"),
                ("log_bytes", log, "bytes"),
                ("flush_bytes", flush, "bytes"),
                ("compaction_bytes", compaction, "bytes"),
            ]);
        }
        if writes > 0.0 && writes < 1.0 {
            rows.push(("read_latency_p99_us", us * 2.5 * self.noise(0.1), "us"));
            rows.push(("update_latency_p99_us", us * 4.0 * self.noise(0.1), "us"));
        }
        self.results.rows.extend(rows.into_iter().map(|(metric, value, unit)| Row {
            engine: engine.to_owned(),
            case: case.to_owned(),
            metric: metric.to_owned(),
            value,
            unit: unit.to_owned(),
            round,
        }));
        self.add_curves(engine, case, round, throughput, writes, tail);
    }

    fn add_curves(
        &mut self,
        engine: &str,
        case: &str,
        round: u32,
        throughput: f64,
        writes: f64,
        tail: f64,
    ) {
        let us = 2e6 / throughput;
        let mut disk = 1.1e9;
        let mut curves: [(&str, &str, Vec<[f64; 2]>); 4] = [
            ("throughput", "ops/s", Vec::new()),
            ("latency_p99_us", "us", Vec::new()),
            ("stall_ms", "ms", Vec::new()),
            ("disk_bytes", "bytes", Vec::new()),
        ];
        for second in 1..=SECONDS {
            let is_slow = writes > 0.2 && self.rng.one_in(11);
            let slow = if is_slow { 0.55 } else { 1.0 };
            disk += throughput * writes * 300.0;
            if self.rng.one_in(9) {
                disk *= 0.8;
            }
            let values = [
                throughput * slow * self.noise(0.05),
                us * 3.0 / (slow * slow) * self.noise(0.2),
                if is_slow { 250.0 * self.noise(0.6) } else { 0.0 },
                disk,
            ];
            for (curve, value) in curves.iter_mut().zip(values) {
                curve.2.push([f64::from(second), value]);
            }
        }
        self.results.series.extend(curves.into_iter().map(|(metric, unit, points)| Series {
            engine: engine.to_owned(),
            case: case.to_owned(),
            round,
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            points,
        }));
        let part = |step: u32| 1.0 - 10f64.powf(-f64::from(step) / 40.0);
        let points = (0..=240).map(|step| {
            let nines = f64::from(step) / 40.0;
            [
                us * 0.5 * (1.0 + nines * nines * nines * tail / 30.0),
                if step == 240 { 1.0 } else { part(step) },
            ]
        });
        self.results.distributions.push(Distribution {
            engine: engine.to_owned(),
            case: case.to_owned(),
            round,
            operation: "all".to_owned(),
            points: points.collect(),
        });
    }
}
