//! Every engine against RocksDB on the compute node, in the same round.

use crate::bench::network::Network;
use esker_bench::Row;
use esker_bench::results::{Paired, Results, spread};
use esker_bench::table::columns_of;

/// What the others are held against: RocksDB, or Esker where that is not built in.
const BASELINES: [&str; 2] = ["rocksdb-compute", "esker-compute"];

/// What is compared, and what the ratio is called.
const COMPARED: [(&str, &str); 5] = [
    ("latency_mean_us", "mean_ratio"),
    ("latency_p50_us", "p50_ratio"),
    ("latency_p99_us", "p99_ratio"),
    ("latency_p999_us", "p999_ratio"),
    ("throughput", "throughput_ratio"),
];

fn baseline(results: &Results) -> Option<&'static str> {
    let engines = results.engines();
    BASELINES.into_iter().find(|name| engines.contains(name))
}

/// The ratios of each round.
pub fn rows(results: &Results) -> Vec<Row> {
    let Some(baseline) = baseline(results) else { return Vec::new() };
    let mut derived = Vec::new();
    for row in results.rows.iter().filter(|row| row.engine != baseline) {
        let Some((_, name)) = COMPARED.iter().find(|(metric, _)| *metric == row.metric) else {
            continue;
        };
        let is_its = |other: &&Row| {
            other.engine == baseline
                && (other.round, &other.case, &other.metric) == (row.round, &row.case, &row.metric)
        };
        let Some(base) = results.rows.iter().find(is_its).filter(|base| base.value > 0.0) else {
            continue;
        };
        derived.push(Row {
            metric: (*name).to_owned(),
            value: row.value / base.value,
            unit: "ratio".to_owned(),
            ..row.clone()
        });
    }
    derived
}

/// What is printed.
pub fn text(results: &Results) -> String {
    let Some(baseline) = baseline(results) else { return String::new() };
    let titles =
        ["case", "engine", "mean µs", "p99 µs", "mean", "p99", "throughput", "network", "device"];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    for case in results.cases() {
        for engine in results.engines() {
            let median = |metric: &str| {
                spread(&results.values(engine, case, metric)).map(|spread| spread.median)
            };
            let Some(mean) = median("latency_mean_us") else { continue };
            let number = |value: Option<f64>, digits: usize| {
                value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
            };
            let ratio = |metric: &str| match Paired::of(results, metric, case, engine, baseline) {
                _ if engine == baseline => "1".to_owned(),
                Some(Paired { ratio, low, high, .. }) => format!("{ratio:.2} ({low:.2}–{high:.2})"),
                None => {
                    let base = spread(&results.values(baseline, case, metric));
                    number(median(metric).zip(base).map(|(own, base)| own / base.median), 2)
                }
            };
            lines.push(vec![
                case.to_owned(),
                engine.to_owned(),
                number(Some(mean), 0),
                number(median("latency_p99_us"), 0),
                ratio("latency_mean_us"),
                ratio("latency_p99_us"),
                ratio("throughput"),
                number(median("network_amp"), 3),
                number(median("node_write_amp"), 2),
            ]);
        }
    }
    let about = format!(
        "\nAgainst {baseline} in the same rounds, with 95% bounds; bytes through the network and to the node's device \
         for each byte written by users\n"
    );
    about + &columns_of(&lines) + &relay_text(results)
}

/// What the emulation of a network costs by itself, if there is one: cases through its relay, which holds nothing back, by the same
/// cases without.
fn relay_text(results: &Results) -> String {
    let titles = ["case", "engine", "mean", "throughput", "relay's processor s"];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    for case in results.cases() {
        let Some(plain) = case.strip_suffix(Network::Relay.suffix()) else { continue };
        for engine in results.engines() {
            let median = |case: &str, metric: &str| {
                spread(&results.values(engine, case, metric)).map(|spread| spread.median)
            };
            let ratio = |metric: &str| Some(median(case, metric)? / median(plain, metric)?);
            let number =
                |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
            lines.push(vec![
                plain.to_owned(),
                engine.to_owned(),
                number(ratio("latency_mean_us")),
                number(ratio("throughput")),
                number(median(case, "relay_cpu_s")),
            ]);
        }
    }
    if lines.len() == 1 {
        return String::new();
    }
    let about = "\nWhat the emulation costs: through its relay, which holds nothing back, by the same case without one\n";
    about.to_owned() + &columns_of(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: &str, metric: &str, value: f64, round: u32) -> Row {
        let (engine, metric) = (engine.to_owned(), metric.to_owned());
        Row {
            engine,
            case: "paper-own-32k".to_owned(),
            metric,
            value,
            unit: "us".to_owned(),
            round,
        }
    }

    #[test]
    fn a_ratio_is_of_two_in_the_same_round() {
        let rows_of = vec![
            row("rocksdb-compute", "latency_mean_us", 100.0, 0),
            row("rocksdb-compute", "latency_mean_us", 200.0, 1),
            row("hashstore-node", "latency_mean_us", 20.0, 0),
            row("hashstore-node", "latency_mean_us", 60.0, 1),
            row("hashstore-node", "latency_mean_us", 60.0, 2),
        ];
        let results = Results { rows: rows_of, ..Results::default() };
        let ratios: Vec<(u32, f64)> =
            rows(&results).iter().map(|row| (row.round, row.value)).collect();
        assert_eq!(ratios, [(0, 0.2), (1, 0.3)]);
        assert!(text(&results).contains("hashstore-node"));
        assert!(!text(&results).contains("relay"), "there is none");
    }

    #[test]
    fn what_the_relay_costs_is_told_beside_what_the_network_does() {
        let of = |case: &str, value: f64| Row {
            case: case.to_owned(),
            ..row("rocksdb-compute", "latency_mean_us", value, 0)
        };
        let rows = vec![
            of("paper-own-32k", 100.0),
            of("paper-own-32k-relay-alone", 125.0),
            of("paper-own-32k-emulated-10gbe", 150.0),
        ];
        let told = relay_text(&Results { rows, ..Results::default() });
        assert!(told.contains("1.25") && !told.contains("1.50"), "{told}");
    }
}
