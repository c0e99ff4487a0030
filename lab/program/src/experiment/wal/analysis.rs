//! What is made of the numbers: what a log adds to a commit, how sure that is, and how far group commit
//! is from its ideal.
//!
//! Everything is reckoned round by round, an engine compared with the one of its family without a log in the same
//! round, and then over the rounds.

use super::model::Loop;
use crate::bench::engines;
use esker_bench::Row;
use esker_bench::results::{Paired, Results};
use esker_bench::table::columns_of;
use esker_storage::emulated_log_device::DeviceProfile;
use std::collections::BTreeMap;

/// The engine without a log that `engine` is held against.
pub fn without_log(engine: &str) -> &'static str {
    if engines::is_own(engine) { "esker-nolog" } else { "rocksdb-nolog" }
}

/// The rows of a round by case, engine and metric.
struct Round<'a>(BTreeMap<(&'a str, &'a str, &'a str), f64>);

impl<'a> Round<'a> {
    fn of(results: &'a Results, round: u32) -> Self {
        let rows = results.rows.iter().filter(|row| row.round == round);
        Round(rows.map(|row| ((&*row.case, &*row.engine, &*row.metric), row.value)).collect())
    }

    fn get(&self, case: &str, engine: &str, metric: &str) -> Option<f64> {
        self.0.get(&(case, engine, metric)).copied()
    }
}

/// The derived rows of a run.
pub fn rows(results: &Results) -> Vec<Row> {
    let rounds = results.rows.iter().map(|row| row.round + 1).max().unwrap_or(0);
    let (cases, engines) = (results.cases(), results.engines());
    let mut derived = Vec::new();
    for number in 0..rounds {
        let round = Round::of(results, number);
        for &case in &cases {
            for &engine in &engines {
                let values = added(&round, case, engine, results.machine.cores);
                derived.extend(values.into_iter().map(|(metric, value, unit)| Row {
                    engine: engine.to_owned(),
                    case: case.to_owned(),
                    metric: metric.to_owned(),
                    value,
                    unit: unit.to_owned(),
                    round: number,
                }));
            }
        }
    }
    derived
}

/// What the log of `engine` adds, by name, with its unit.
fn added(
    round: &Round<'_>,
    case: &str,
    engine: &str,
    cores: usize,
) -> Vec<(&'static str, f64, &'static str)> {
    let of = |metric: &'static str| round.get(case, engine, metric);
    let bare = |metric: &'static str| round.get(case, without_log(engine), metric);
    let mut values = Vec::new();
    if let Some(syncs) = of("syncs_per_commit").filter(|syncs| *syncs > 0.0) {
        values.push(("commits_per_sync", 1.0 / syncs, "ops"));
    }
    if engine == without_log(engine) {
        return values;
    }
    let mut less = |name, metric, unit| {
        if let (Some(with), Some(without)) = (of(metric), bare(metric)) {
            values.push((name, with - without, unit));
        }
    };
    less("commit_added_us", "client_us_per_commit", "us");
    less("commit_cpu_us", "commit_engine_cpu_us", "us");
    if let (Some(with), Some(without)) = (of("throughput"), bare("throughput")) {
        values.push(("loss_percent", 100.0 * (1.0 - with / without), "%"));
    }
    if let Some(ratios) = model_ratios(round, case, engine, cores) {
        let names = ["group_commit_model_ratio", "group_commit_model_ratio_as_served"];
        values.extend(names.into_iter().zip(ratios).map(|(name, ratio)| (name, ratio, "ratio")));
    }
    values
}

/// Commits a second by those of the ideal loop (see [`Loop`]), with the service time that was asked of the
/// device, and with what it took in the mean.
fn model_ratios(round: &Round<'_>, case: &str, engine: &str, cores: usize) -> Option<[f64; 2]> {
    let of = |metric: &str| round.get(case, engine, metric);
    let device = engine.rsplit_once("-log-").and_then(|(_, name)| DeviceProfile::named(name))?;
    let clients: usize = case.rsplit_once('-')?.1.parse().ok()?;
    let commits = of("commits")? / of("seconds")?;
    let bare = |metric: &str| round.get(case, without_log(engine), metric);
    let bare_cpu_us = bare("commit_engine_cpu_us")?;
    // Without a log all cores were busy, as far as there were any to have: a commit took longer than its
    // processor time by what others had of them, and by what is in no model.
    let bare_us = cores as f64 * 1e6 * bare("seconds")? / bare("commits")?;
    // What the emulator takes of the cores to wait, no commit can have.
    let compute_us = bare_us * (1.0 + of("emulator_cpu_us")? / bare_cpu_us);
    let asked = Loop {
        clients,
        cores,
        compute_us,
        sync_us: device.sync.as_secs_f64() * 1e6,
        commit_us: of("log_bytes_per_commit")? * 1e6 / device.bytes_per_second as f64,
    };
    // The time for bytes is part of what a sync took.
    let served = Loop { sync_us: of("service_achieved_us")?, commit_us: 0.0, ..asked };
    Some([asked, served].map(|ideal| commits / ideal.commits_per_second()))
}

/// Columns of the table: title, metric, whether it is the mean of something small.
const COLUMNS: [(&str, &str); 10] = [
    ("added µs", "commit_added_us"),
    ("added CPU µs", "commit_cpu_us"),
    ("commit p50 µs", "commit_latency_p50_us"),
    ("p99 µs", "commit_latency_p99_us"),
    ("bytes/commit", "log_bytes_per_commit"),
    ("syncs/commit", "syncs_per_commit"),
    ("commits/sync", "commits_per_sync"),
    ("by the model", "group_commit_model_ratio"),
    ("as served", "group_commit_model_ratio_as_served"),
    ("loss %", "loss_percent"),
];

/// What is printed.
pub fn text(results: &Results) -> String {
    let mut text = "\nAgainst the same engines without a log, a commit each; medians\n".to_owned();
    text += &columns_of(&table(results));
    let services = services(results);
    if services.len() > 1 {
        text += "\nTime asked of the log's device and taken, µs a sync\n";
        text += &columns_of(&services);
    }
    text
}

fn table(results: &Results) -> Vec<Vec<String>> {
    let titles = ["case", "engine"].into_iter().chain(COLUMNS.map(|(title, _)| title));
    let titles = titles.chain(["95% of the loss lie below", "pairs"]).map(str::to_owned);
    let mut lines = vec![titles.collect::<Vec<_>>()];
    let sound = results.sound();
    for case in results.cases() {
        for engine in results.engines() {
            // Where a device did not do as it was asked, the round says nothing. If none of them did, that is
            // shown and said.
            let is_void = results.values(engine, case, "void").iter().all(|void| *void > 0.0)
                && !results.values(engine, case, "void").is_empty();
            let results = if is_void { results } else { &sound };
            let median = |metric| {
                let spread = esker_bench::results::spread(&results.values(engine, case, metric));
                spread.map(|spread| spread.median)
            };
            if median("commits").is_none() {
                continue;
            }
            let name = if is_void { format!("{engine} (VOID)") } else { engine.to_owned() };
            let mut line = vec![case.to_owned(), name];
            let shown = |value: Option<f64>| value.map_or(String::new(), short);
            line.extend(COLUMNS.map(|(_, metric)| shown(median(metric))));
            let paired = Paired::of(results, "throughput", case, engine, without_log(engine))
                .filter(|_| engine != without_log(engine));
            line.push(
                paired
                    .as_ref()
                    .map_or(String::new(), |paired| format!("{:.1}%", 100.0 * (1.0 - paired.low))),
            );
            line.push(paired.map_or(String::new(), |paired| paired.pairs.to_string()));
            lines.push(line);
        }
    }
    lines
}

const SERVICES: [(&str, &str); 5] = [
    ("asked p50", "service_requested_p50_us"),
    ("asked mean", "service_requested_us"),
    ("taken p50", "service_achieved_p50_us"),
    ("taken mean", "service_achieved_us"),
    ("bytes", "sync_bytes"),
];

fn services(results: &Results) -> Vec<Vec<String>> {
    let titles = ["case", "engine"].into_iter().chain(SERVICES.map(|(title, _)| title));
    let mut lines = vec![titles.chain(["void rounds"]).map(str::to_owned).collect::<Vec<_>>()];
    for case in results.cases() {
        for engine in results.engines() {
            let of = |metric| results.values(engine, case, metric);
            if of("service_achieved_us").is_empty() {
                continue;
            }
            let mut line = vec![case.to_owned(), engine.to_owned()];
            line.extend(SERVICES.map(|(_, metric)| {
                let spread = esker_bench::results::spread(&of(metric));
                spread.map_or(String::new(), |spread| short(spread.median))
            }));
            let void = of("void");
            let count = void.iter().filter(|void| **void > 0.0).count();
            line.push(if void.is_empty() {
                "measured as it is".to_owned()
            } else {
                format!("{count} of {}", void.len())
            });
            lines.push(line);
        }
    }
    lines
}

fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: &str, metric: &str, value: f64) -> Row {
        Row {
            engine: engine.to_owned(),
            case: "linkbench-1".to_owned(),
            metric: metric.to_owned(),
            value,
            unit: String::new(),
            round: 0,
        }
    }

    /// One client: 50 µs of computing, and 1,000 µs for each sync.
    fn results(seconds: f64) -> Results {
        let mut results = Results::default();
        results.machine.cores = 2;
        let log = "esker-log-sata";
        results.rows = vec![
            row("esker-nolog", "client_us_per_commit", 50.0),
            row("esker-nolog", "commit_engine_cpu_us", 50.0),
            row("esker-nolog", "throughput", 20_000.0),
            // Two cores, each a commit in 50 µs.
            row("esker-nolog", "commits", 40_000.0),
            row("esker-nolog", "seconds", 1.0),
            row(log, "client_us_per_commit", 1_060.0),
            row(log, "commit_engine_cpu_us", 57.0),
            row(log, "emulator_cpu_us", 0.0),
            row(log, "throughput", 940.0),
            row(log, "commits", 1_000.0),
            row(log, "seconds", seconds),
            row(log, "log_bytes_per_commit", 0.0),
            row(log, "syncs_per_commit", 0.5),
            row(log, "void", 1.0),
            row(log, "service_achieved_us", 1_300.0),
        ];
        results
    }

    fn value(rows: &[Row], metric: &str) -> f64 {
        rows.iter().find(|row| row.metric == metric).unwrap().value
    }

    #[test]
    fn a_log_is_charged_with_what_the_engine_without_one_does_not_need() {
        let derived = rows(&results(1.05));
        assert!(derived.iter().all(|row| row.engine == "esker-log-sata"));
        assert_eq!(value(&derived, "commit_added_us"), 1_010.0);
        assert_eq!(value(&derived, "commit_cpu_us"), 7.0);
        assert_eq!(value(&derived, "commits_per_sync"), 2.0);
        assert!((value(&derived, "loss_percent") - 95.3).abs() < 1e-9);
    }

    #[test]
    fn the_model_is_reached_by_whoever_only_computes_and_syncs() {
        for (seconds, expected) in [(1.05, 1.0), (2.1, 0.5)] {
            let ratio = value(&rows(&results(seconds)), "group_commit_model_ratio");
            assert!((ratio / expected - 1.0).abs() < 0.02, "{ratio}");
        }
    }

    #[test]
    fn a_device_that_took_longer_than_asked_is_not_held_against_the_engine() {
        // 50 µs and 1,300 µs for each commit: more than was asked, and no more than it took.
        let rows = rows(&results(1.35));
        let ratio = |metric| value(&rows, metric);
        assert!(ratio("group_commit_model_ratio") < 0.8);
        let as_served = ratio("group_commit_model_ratio_as_served");
        assert!((as_served - 1.0).abs() < 0.02, "{as_served}");
    }

    #[test]
    fn a_void_row_says_so() {
        let text = text(&results(1.05));
        assert!(text.contains("esker-log-sata (VOID)") && text.contains("1 of 1"), "{text}");
    }

    #[test]
    fn a_void_round_counts_in_no_median() {
        let mut all = Results::default();
        for round in 0..3 {
            let mut one = results(1.05);
            for row in &mut one.rows {
                row.round = round;
                match &row.metric[..] {
                    "void" => row.value = f64::from(u8::from(round == 2)),
                    "throughput" if round == 2 => row.value /= 2.0,
                    _ => {}
                }
            }
            all.machine.cores = one.machine.cores;
            all.rows.extend(one.rows);
        }
        let derived = rows(&all);
        all.rows.extend(derived);
        let lines = table(&all);
        let line = lines.iter().find(|line| line[1] == "esker-log-sata").expect("it is not void");
        assert_eq!(line.last().map(String::as_str), Some("2"), "{lines:?}");
    }
}
