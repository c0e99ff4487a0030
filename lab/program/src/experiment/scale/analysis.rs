//! The table that is printed: a line for each case and engine.

use crate::bench::campaign::LIMIT;
use esker_bench::results::{RUN, Results, spread};
use esker_bench::table::columns_of;

/// A column: its title, its metrics, of which the first that is there counts, what they are multiplied
/// with, and digits after the point.
type Column = (&'static str, &'static [&'static str], f64, usize);

const MEBI: f64 = 1.0 / 1_048_576.0;

const COLUMNS: [Column; 11] = [
    ("ops/s", &["throughput"], 1.0, 0),
    ("p99 µs", &["latency_p99_us"], 1.0, 1),
    ("written/put", &["write_amp"], 1.0, 2),
    ("disk MiB", &["disk_bytes"], MEBI, 0),
    ("peak MiB", &["resident_peak_mib"], 1.0, 0),
    ("end MiB", &["resident_end_mib"], 1.0, 0),
    ("files", &["descriptors_peak"], 1.0, 0),
    ("open ms", &["open_ms"], 1.0, 1),
    ("first read ms", &["first_read_ms"], 1.0, 1),
    ("reads/op", &["read_calls_per_get", "read_calls_per_scan"], 1.0, 2),
    ("device B/op", &["device_bytes_read_per_get", "device_bytes_read_per_scan"], 1.0, 0),
];

/// What is printed.
pub(super) fn text(results: &Results) -> String {
    let machine = &results.machine;
    let mut text = format!(
        "\n{}, {} processors; esker-lab {} of commit {}\n",
        machine.cpu, machine.cores, results.version, results.commit
    );
    text += &table(results);
    for (name, value) in results.settings.get(RUN).into_iter().flatten() {
        if name == LIMIT || name.starts_with("failed: ") || name.starts_with("not measured") {
            text += &format!("{name}: {value}\n");
        }
    }
    text + "written/put: bytes that the process gave the system (wchar), by the users' bytes; \
            reads/op: calls, whatever the page cache has\n"
}

fn table(results: &Results) -> String {
    let titles = ["case", "engine"].into_iter().chain(COLUMNS.map(|column| column.0));
    let mut lines = vec![titles.map(str::to_owned).collect::<Vec<_>>()];
    for case in results.cases() {
        for engine in results.engines() {
            if results.values(engine, case, "throughput").is_empty() {
                continue;
            }
            let number = |(_, metrics, factor, digits): Column| {
                let values = metrics.iter().map(|metric| results.values(engine, case, metric));
                let median = values.filter_map(|values| spread(&values)).next();
                median.map_or("–".to_owned(), |spread| {
                    format!("{:.digits$}", spread.median * factor)
                })
            };
            let names = [case, engine].map(str::to_owned);
            lines.push(names.into_iter().chain(COLUMNS.map(number)).collect());
        }
    }
    if lines.len() == 1 { String::new() } else { columns_of(&lines) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_bench::Row;

    #[test]
    fn a_line_has_what_was_measured_and_what_was_not_is_named() {
        let row = |case: &str, metric: &str, value| Row {
            engine: "fjall".to_owned(),
            case: case.to_owned(),
            metric: metric.to_owned(),
            value,
            unit: String::new(),
            round: 0,
        };
        let rows = vec![
            row("1kb-1x-get", "throughput", 1234.4),
            row("1kb-1x-get", "read_calls_per_get", 1.04),
            row("1kb-1x-scan", "throughput", 10.0),
            row("1kb-1x-scan", "read_calls_per_scan", 9.0),
        ];
        let told = [
            ("failed: 1kb-1x-A, fjall", "killed"),
            (LIMIT, "no cgroup: page cache is not limited (x)"),
            ("threads", "1"),
        ];
        let told = told.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = [(RUN.to_owned(), told.into_iter().collect())].into();
        let text = text(&Results { rows, settings, ..Results::default() });
        let line = |start: &str| {
            let found = text.lines().find(|line| line.starts_with(start));
            found
                .unwrap_or_else(|| panic!("{start}: {text}"))
                .split_whitespace()
                .collect::<Vec<_>>()
        };
        assert_eq!(line("1kb-1x-get")[1..4], ["fjall", "1234", "–"]);
        assert_eq!(line("1kb-1x-get")[11..13], ["1.04", "–"]);
        assert_eq!(line("1kb-1x-scan")[11], "9.00");
        assert!(text.contains("failed: 1kb-1x-A, fjall: killed"), "{text}");
        assert!(text.contains("no cgroup") && !text.contains("threads: 1"), "{text}");
    }
}
