//! Rows as tables for people: what each stage did, what it cost, how its latencies are spread.

use crate::Row;
use std::fmt::Write;

/// A column: its title, the metric it shows, and how.
struct Column {
    title: &'static str,
    metric: &'static str,
    show: fn(f64) -> String,
}

/// What a stage did.
const RESULTS: [Column; 11] = [
    Column { title: "ops/s", metric: "throughput", show: grouped },
    Column { title: "µs/op", metric: "latency_mean_us", show: short },
    Column { title: "p50", metric: "latency_p50_us", show: short },
    Column { title: "p99", metric: "latency_p99_us", show: short },
    Column { title: "p99.9", metric: "latency_p999_us", show: short },
    Column { title: "max", metric: "latency_max_us", show: short },
    Column { title: "MiB/s", metric: "bandwidth_mib_s", show: short },
    Column { title: "write amp", metric: "write_amp", show: short },
    Column { title: "found", metric: "found", show: percent },
    Column { title: "seconds", metric: "seconds", show: short },
    Column { title: "total", metric: "total_seconds", show: short },
];

/// What it cost.
const COSTS: [Column; 7] = [
    Column { title: "log MiB", metric: "log_bytes", show: mib },
    Column { title: "flush MiB", metric: "flush_bytes", show: mib },
    Column { title: "compaction MiB", metric: "compaction_bytes", show: mib },
    Column { title: "stalled s", metric: "stall_us", show: seconds_of_us },
    Column { title: "peak disk MiB", metric: "disk_peak_bytes", show: mib },
    Column { title: "peak memory MiB", metric: "rss_peak_mib", show: short },
    Column { title: "CPU s", metric: "cpu_s", show: short },
];

/// How its latencies are spread: each the longest, in microseconds, of this part of all operations.
const LADDER: [Column; 9] = [
    Column { title: "10%", metric: "latency_p10_us", show: short },
    Column { title: "25%", metric: "latency_p25_us", show: short },
    Column { title: "50%", metric: "latency_p50_us", show: short },
    Column { title: "75%", metric: "latency_p75_us", show: short },
    Column { title: "90%", metric: "latency_p90_us", show: short },
    Column { title: "99%", metric: "latency_p99_us", show: short },
    Column { title: "99.9%", metric: "latency_p999_us", show: short },
    Column { title: "99.99%", metric: "latency_p9999_us", show: short },
    Column { title: "100%", metric: "latency_max_us", show: short },
];

/// What the stages did: a line for each engine, stage and round, latencies in microseconds, and only
/// the columns that have something to say.
pub fn table(rows: &[Row]) -> String {
    table_of(rows, &RESULTS)
}

/// What the stages cost, likewise: bytes written by cause, space and memory at their peaks,
/// processor time.
pub fn cost_table(rows: &[Row]) -> String {
    table_of(rows, &COSTS)
}

/// How the latencies of the loads are spread, likewise, in microseconds by percentile.
pub fn latency_table(rows: &[Row]) -> String {
    let of_loads: Vec<_> = rows.iter().filter(|row| row.metric.starts_with("latency_")).collect();
    let rows: Vec<_> = of_loads.into_iter().cloned().collect();
    table_of(&rows, &LADDER)
}

fn table_of(rows: &[Row], wanted: &[Column]) -> String {
    let groups = groups(rows);
    let mut columns = vec![column("case", groups.iter().map(|group| group[0].case.clone()))];
    if groups.iter().any(|group| group[0].engine != rows[0].engine) {
        columns.insert(0, column("engine", groups.iter().map(|group| group[0].engine.clone())));
    }
    if groups.iter().any(|group| group[0].round != rows[0].round) {
        columns.push(column("round", groups.iter().map(|group| group[0].round.to_string())));
    }
    for Column { title, metric, show } in wanted {
        let cell = |group: &Vec<&Row>| {
            let row = group.iter().find(|row| row.metric == *metric);
            row.map_or(String::new(), |row| show(row.value))
        };
        let cells = column(title, groups.iter().map(cell));
        if cells[1..].iter().any(|cell| !cell.is_empty()) {
            columns.push(cells);
        }
    }
    lines(&columns)
}

fn column(title: &str, cells: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(title.to_owned()).chain(cells).collect()
}

/// The rows of each engine, stage and round, in order of appearance.
fn groups(rows: &[Row]) -> Vec<Vec<&Row>> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        let belongs = |group: &&mut Vec<&Row>| {
            let first = group[0];
            (&first.engine, &first.case, first.round) == (&row.engine, &row.case, row.round)
        };
        match groups.iter_mut().rev().find(belongs) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// A table out of its lines, the first of which is the header. A column without anything below its
/// header is left out.
pub fn columns_of(table: &[Vec<String>]) -> String {
    let width = table.first().map_or(0, Vec::len);
    let columns = (0..width).map(|at| table.iter().map(|line| line[at].clone()).collect());
    let has_content = |column: &Vec<String>| column[1..].iter().any(|cell| !cell.is_empty());
    let columns: Vec<Vec<String>> = columns.filter(has_content).collect();
    if columns.is_empty() { String::new() } else { lines(&columns) }
}

/// Words to the left, numbers to the right.
fn lines(columns: &[Vec<String>]) -> String {
    let mut text = String::new();
    for line in 0..columns[0].len() {
        let mut row = String::new();
        for (at, cells) in columns.iter().enumerate() {
            let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
            let gap = if at == 0 { "" } else { "  " };
            let is_words = matches!(&cells[0][..], "case" | "engine");
            let written = if is_words {
                write!(row, "{gap}{:<width$}", cells[line])
            } else {
                write!(row, "{gap}{:>width$}", cells[line])
            };
            written.expect("a string takes all that is written to it");
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

/// A whole number with separators: `1,234,567`.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// About three digits.
pub(crate) fn short(value: f64) -> String {
    match value {
        value if value >= 1_000.0 => grouped(value),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

fn mib(bytes: f64) -> String {
    short(bytes / (1 << 20) as f64)
}

fn seconds_of_us(us: f64) -> String {
    short(us / 1e6)
}

fn percent(value: f64) -> String {
    format!("{:.1}%", value * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: &str, case: &str, metric: &str, value: f64) -> Row {
        Row {
            engine: engine.into(),
            case: case.into(),
            metric: metric.into(),
            value,
            unit: String::new(),
            round: 0,
        }
    }

    #[test]
    fn a_line_for_each_stage_and_only_columns_with_content() {
        let rows = [
            row("esker", "overwrite", "throughput", 1_234_567.8),
            row("esker", "overwrite", "latency_p99_us", 12.34),
            row("esker", "overwrite", "disk_peak_bytes", 9.0),
            row("esker", "settle", "seconds", 0.5),
            row("esker", "settle", "total_seconds", 2_345.6),
        ];
        let expected = "\
case           ops/s   p99  seconds  total
overwrite  1,234,568  12.3
settle                        0.500  2,346
";
        assert_eq!(table(&rows), expected);
    }

    #[test]
    fn engines_and_rounds_are_named_when_there_are_several() {
        let mut rows = [
            row("esker", "readseq", "found", 1.0),
            row("rocksdb", "readseq", "found", 0.632),
            row("esker", "readseq", "found", 1.0),
        ];
        rows[2].round = 1;
        let expected = "\
engine   case     round   found
esker    readseq      0  100.0%
rocksdb  readseq      0   63.2%
esker    readseq      1  100.0%
";
        assert_eq!(table(&rows), expected);
    }

    #[test]
    fn costs_are_a_table_of_their_own() {
        let rows = [
            row("esker", "overwrite", "throughput", 10.0),
            row("esker", "overwrite", "log_bytes", 3_145_728.0),
            row("esker", "overwrite", "stall_us", 1_500_000.0),
            row("esker", "overwrite", "rss_peak_mib", 42.0),
            row("esker", "settle", "compaction_bytes", 2_097_152.0),
        ];
        let expected = "\
case       log MiB  compaction MiB  stalled s  peak memory MiB
overwrite     3.00                       1.50             42.0
settle                        2.00
";
        assert_eq!(cost_table(&rows), expected);
    }

    #[test]
    fn only_loads_have_latencies() {
        let rows = [
            row("esker", "readseq", "latency_p25_us", 1.25),
            row("esker", "readseq", "latency_max_us", 80.0),
            row("esker", "settle", "seconds", 1.0),
        ];
        assert_eq!(latency_table(&rows), "case      25%  100%\nreadseq  1.25  80.0\n");
    }

    #[test]
    fn no_rows_make_an_empty_table() {
        assert_eq!(table(&[]), "case\n");
    }

    #[test]
    fn numbers_are_shown_to_about_three_digits() {
        let shown = [0.0, 0.5, 9.99, 42.25, 500.5, 1_000.0, 1e9].map(short);
        assert_eq!(shown, ["0.000", "0.500", "9.99", "42.2", "500", "1,000", "1,000,000,000"]);
    }
}
