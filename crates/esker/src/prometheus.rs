//! Statistics as a page for Prometheus.

use crate::Stats;
pub use esker_lsm::stats::metric_table::{METRICS, Metric, MetricValue};
use esker_lsm::stats::{CallKind, LatencyHistogram, TimeHistogram};
use std::fmt::Write;
use std::time::Duration;

/// Returns the statistics of databases as a page for Prometheus, in its text format 0.0.4.
///
/// Each database has a name, which is the label `database` of its metrics. [`METRICS`] lists them.
/// `docs/operations/grafana.json` is a dashboard for them. Statistics of
/// [`Db::watched_stats`](crate::Db::watched_stats) have the times of calls.
///
/// # Examples
///
/// ```
/// use esker::{Db, Settings, stats::prometheus};
///
/// # let dir = tempfile::tempdir()?;
/// let db = Db::open(dir.path(), Settings::default())?;
/// db.default_keyspace().put("key", "value")?;
/// let page = prometheus::page([("users", &db.watched_stats())]);
/// assert!(page.contains("# TYPE esker_writes_total counter\n"));
/// assert!(page.contains("\nesker_writes_total{database=\"users\"} 1\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn page<'a>(databases: impl IntoIterator<Item = (&'a str, &'a Stats)>) -> String {
    let databases = databases.into_iter();
    let databases: Vec<_> =
        databases.map(|(name, stats)| (format!("database=\"{}\"", escaped(name)), stats)).collect();
    let mut page = String::new();
    for Metric { name, help, kind, value, .. } in METRICS {
        let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, stats) in &databases {
            match value {
                MetricValue::Number(value) => {
                    let value = value(stats);
                    let _ = writeln!(page, "{name}{{{labels}}} {value}");
                }
                MetricValue::Times(times) => add_times(&mut page, (name, labels), times(stats)),
                MetricValue::CallTimes(times) => {
                    for call in CallKind::ALL {
                        let labels = format!("{labels},call=\"{call}\"");
                        add_call_times(&mut page, (name, &labels), times(stats).of(call));
                    }
                }
                _ => {}
            }
        }
    }
    page
}

fn add_times(page: &mut String, metric: (&str, &str), times: &TimeHistogram) {
    let mut below = 0;
    let buckets = TimeHistogram::BOUNDS.iter().zip(times.counts).map(|(bound, count)| {
        below += count;
        (*bound, below)
    });
    add_histogram(page, metric, buckets, (times.count(), times.sum));
}

fn add_call_times(page: &mut String, metric: (&str, &str), times: &LatencyHistogram) {
    let buckets = LatencyHistogram::BOUNDS.into_iter().zip(times.cumulative());
    add_histogram(page, metric, buckets, (times.count(), times.sum()));
}

/// Adds a histogram by its name and labels. `buckets` are bounds, and how many took at most so long.
fn add_histogram(
    page: &mut String,
    (name, labels): (&str, &str),
    buckets: impl Iterator<Item = (Duration, u64)>,
    (count, sum): (u64, Duration),
) {
    for (bound, below) in buckets {
        let bound = bound.as_secs_f64();
        let _ = writeln!(page, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
    }
    let sum = sum.as_secs_f64();
    let _ = write!(
        page,
        "{name}_bucket{{{labels},le=\"+Inf\"}} {count}\n\
         {name}_sum{{{labels}}} {sum}\n\
         {name}_count{{{labels}}} {count}\n"
    );
}

/// The value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_its_help_its_type_and_a_value_of_each_database() {
        let stats = [Stats::default(), Stats::default()];
        let page = page([("one", &stats[0]), ("t\"wo\\\n", &stats[1])]);
        let mut names = std::collections::BTreeSet::new();
        for Metric { name, help, kind, value, .. } in METRICS {
            assert!(names.insert(name), "{name} is there twice");
            assert!(page.contains(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name}")));
            let is_well_named = match *kind {
                "counter" => name.ends_with("_total"),
                "histogram" => name.ends_with("_seconds"),
                _ => !name.ends_with("_total"),
            };
            assert!(is_well_named && name.starts_with("esker_") && help.ends_with('.'), "{name}");
            let end = if *kind == "histogram" { "_count" } else { "" };
            let calls = match value {
                MetricValue::CallTimes(_) => &["get", "multi_get", "write", "scan"][..],
                _ => &[""],
            };
            for (database, call) in ["one", "t\\\"wo\\\\\\n"]
                .into_iter()
                .flat_map(|it| calls.iter().map(move |call| (it, call)))
            {
                let call =
                    if call.is_empty() { String::new() } else { format!(",call=\"{call}\"") };
                let line = format!("\n{name}{end}{{database=\"{database}\"{call}}} 0\n");
                assert!(page.contains(&line), "{line}");
            }
        }
        assert!(page.ends_with('\n') && !page.contains("\n\n"));
    }

    #[test]
    fn buckets_of_a_histogram_are_cumulative() {
        let mut stats = Stats::default();
        stats.job_times.flushes.counts[..3].copy_from_slice(&[2, 0, 3]);
        stats.job_times.flushes.counts[11] = 1;
        stats.job_times.flushes.sum = std::time::Duration::from_millis(1500);
        let page = page([("x", &stats)]);
        for line in [
            "_bucket{database=\"x\",le=\"0.001\"} 2",
            "_bucket{database=\"x\",le=\"0.005\"} 2",
            "_bucket{database=\"x\",le=\"0.01\"} 5",
            "_bucket{database=\"x\",le=\"300\"} 5",
            "_bucket{database=\"x\",le=\"+Inf\"} 6",
            "_sum{database=\"x\"} 1.5",
            "_count{database=\"x\"} 6",
        ] {
            assert!(page.contains(&format!("\nesker_flush_seconds{line}\n")), "{line}");
        }
    }

    #[test]
    fn calls_have_a_histogram_of_each_kind_in_seconds() {
        let mut stats = Stats::default();
        for micros in [1, 3, 3, 70_000_000] {
            stats.call_times.get.record(Duration::from_micros(micros));
        }
        let page = page([("x", &stats)]);
        for line in [
            "_bucket{database=\"x\",call=\"get\",le=\"0.000000512\"} 0",
            "_bucket{database=\"x\",call=\"get\",le=\"0.000001024\"} 1",
            "_bucket{database=\"x\",call=\"get\",le=\"0.000002048\"} 1",
            "_bucket{database=\"x\",call=\"get\",le=\"0.000004096\"} 3",
            "_bucket{database=\"x\",call=\"get\",le=\"34.359738368\"} 3",
            "_bucket{database=\"x\",call=\"get\",le=\"+Inf\"} 4",
            "_sum{database=\"x\",call=\"get\"} 70.000007",
            "_count{database=\"x\",call=\"get\"} 4",
            "_count{database=\"x\",call=\"write\"} 0",
        ] {
            assert!(page.contains(&format!("\nesker_call_seconds{line}\n")), "{line}");
        }
    }

    /// The names that the dashboard asks for.
    #[test]
    fn the_dashboard_names_metrics_that_exist() {
        let dashboard = include_str!("../../../docs/operations/grafana.json");
        let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
        let mut named = std::collections::BTreeSet::new();
        for target in targets {
            let expr = target["expr"].as_str().unwrap();
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let words = expr.split(|c: char| !is_name(c));
            let names: Vec<&str> = words.filter(|word| word.starts_with("esker_")).collect();
            assert!(!names.is_empty(), "{expr}");
            for name in names {
                let base = ["_bucket", "_sum", "_count"];
                let histogram = base.iter().find_map(|end| name.strip_suffix(end));
                let is_known = METRICS.iter().any(|metric| match metric.kind {
                    "histogram" => histogram == Some(metric.name),
                    _ => metric.name == name,
                });
                assert!(is_known, "{name} in {expr}");
                named.insert(name);
            }
        }
        assert!(panels.len() >= 8 && named.len() >= 16, "{named:?}");
    }
}
