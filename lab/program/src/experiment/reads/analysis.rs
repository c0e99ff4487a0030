//! The tables that are printed, and what each engine keeps after a crash.

use crate::bench::engines;
use esker_bench::results::{Results, spread};
use esker_bench::table::columns_of;

/// A column: its title, its metric, what the metric is multiplied with, and digits after the point.
type Column = (&'static str, &'static str, f64, usize);

const MEBI: f64 = 1.0 / 1_048_576.0;

const PAIRS: [Column; 12] = [
    ("fill µs", "fill_us", 1.0, 2),
    ("first get µs", "get_first_us", 1.0, 2),
    ("get µs", "get_us", 1.0, 2),
    ("seek+50 µs", "seek_50_us", 1.0, 1),
    ("cursor kept", "seek_50_kept_us", 1.0, 1),
    ("by range", "seek_50_range_us", 1.0, 1),
    ("scan ns/pair", "scan_us", 1e3, 0),
    ("by range", "scan_range_us", 1e3, 0),
    ("settle s", "settle_seconds", 1.0, 2),
    ("disk MiB", "disk_bytes", MEBI, 0),
    ("memory MiB", "rss_peak_mib", 1.0, 0),
    ("mapped MiB", "mapped_peak_mib", 1.0, 0),
];

const QUEUE: [Column; 3] = [
    ("pop µs, first 1,000", "pop_first_us", 1.0, 2),
    ("last 1,000", "pop_last_us", 1.0, 2),
    ("pops", "pops", 1.0, 0),
];

const HOT: [Column; 4] = [
    ("overwrite µs", "overwrite_us", 1.0, 2),
    ("first scan µs", "hot_scan_first_us", 1.0, 1),
    ("scan µs", "hot_scan_us", 1.0, 1),
    ("overwrites", "overwrites", 1.0, 0),
];

/// What is printed.
pub fn text(results: &Results) -> String {
    let machine = &results.machine;
    let mut text = format!(
        "\n{}, {} processors; esker-lab {} of commit {}; medians of the rounds\n",
        machine.cpu, machine.cores, results.version, results.commit
    );
    text += &table(results, &["100b", "1kb"], &PAIRS);
    text += &table(results, &["queue"], &QUEUE);
    text += &table(results, &["hot"], &HOT);
    text += "\nAfter a crash of the process, and after a power loss, of the writes that were acknowledged:\n";
    let promises = results.engines().into_iter().map(|engine| {
        vec![engine.to_owned(), engines::after_a_crash(engine).unwrap_or("not known").to_owned()]
    });
    let head = vec!["engine".to_owned(), "keeps".to_owned()];
    text += &columns_of(&[head].into_iter().chain(promises).collect::<Vec<_>>());
    text
}

/// The medians of these cases, an engine a line. Nothing if none of them was measured.
fn table(results: &Results, cases: &[&str], columns: &[Column]) -> String {
    let titles = ["case", "engine"].into_iter().chain(columns.iter().map(|column| column.0));
    let mut lines = vec![titles.map(str::to_owned).collect::<Vec<_>>()];
    for &case in cases.iter().filter(|&case| results.cases().contains(case)) {
        for engine in results.engines() {
            let number = |&(_, metric, factor, digits): &Column| {
                let median = spread(&results.values(engine, case, metric));
                median.map_or("–".to_owned(), |spread| {
                    format!("{:.digits$}", spread.median * factor)
                })
            };
            let numbers = columns.iter().map(number);
            lines.push([case, engine].map(str::to_owned).into_iter().chain(numbers).collect());
        }
    }
    if lines.len() == 1 { String::new() } else { format!("\n{}", columns_of(&lines)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_bench::Row;

    #[test]
    fn medians_are_printed_in_their_units_with_the_promise_of_each_engine() {
        let row = |metric: &str, round, value| Row {
            engine: "redb".to_owned(),
            case: "100b".to_owned(),
            metric: metric.to_owned(),
            value,
            unit: "us".to_owned(),
            round,
        };
        let rows = vec![row("scan_us", 0, 0.1), row("scan_us", 1, 0.3), row("scan_us", 2, 0.2)];
        let results =
            Results { rows, version: "1.2".into(), commit: "abc".into(), ..Results::default() };
        let text = text(&results);
        let line = text.lines().find(|line| line.starts_with("100b")).unwrap();
        assert!(line.contains("redb") && line.contains(" 200"), "{text}");
        assert!(text.contains("esker-lab 1.2 of commit abc"), "{text}");
        assert!(text.contains("what the last flush made durable"), "{text}");
        assert!(!text.contains("pops"), "{text}");
    }
}
