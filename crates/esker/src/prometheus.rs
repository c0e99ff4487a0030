//! Statistics as a page for Prometheus.

use crate::Stats;
use esker_lsm::stats::TimeHistogram;
pub use esker_lsm::stats::metric_table::{METRICS, Metric, MetricValue};
use std::fmt::Write;

/// Returns the statistics of databases as a page for Prometheus, in its text format 0.0.4.
///
/// Each database has a name, which is the label `database` of its metrics. [`METRICS`] lists them.
/// `docs/operations/grafana.json` is a dashboard for them.
///
/// # Examples
///
/// ```
/// use esker::{Db, Settings, stats::prometheus};
///
/// # let dir = tempfile::tempdir()?;
/// let db = Db::open(dir.path(), Settings::default())?;
/// db.default_keyspace().put("key", "value")?;
/// let page = prometheus::page([("users", &db.stats())]);
/// assert!(page.contains("# TYPE esker_writes_total counter\n"));
/// assert!(page.contains("\nesker_writes_total{database=\"users\"} 1\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn page<'a>(databases: impl IntoIterator<Item = (&'a str, &'a Stats)>) -> String {
    let databases: Vec<_> =
        databases.into_iter().map(|(name, stats)| (escaped(name), stats)).collect();
    let mut page = String::new();
    for Metric { name, help, kind, value, .. } in METRICS {
        let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (database, stats) in &databases {
            match value {
                MetricValue::Number(value) => {
                    let value = value(stats);
                    let _ = writeln!(page, "{name}{{database=\"{database}\"}} {value}");
                }
                MetricValue::Times(times) => add_times(&mut page, name, database, times(stats)),
                _ => {}
            }
        }
    }
    page
}

fn add_times(page: &mut String, name: &str, database: &str, times: &TimeHistogram) {
    let mut below = 0;
    for (bound, count) in TimeHistogram::BOUNDS.iter().zip(times.counts) {
        below += count;
        let bound = bound.as_secs_f64();
        let _ = writeln!(page, "{name}_bucket{{database=\"{database}\",le=\"{bound}\"}} {below}");
    }
    let (count, sum) = (times.count(), times.sum.as_secs_f64());
    let _ = write!(
        page,
        "{name}_bucket{{database=\"{database}\",le=\"+Inf\"}} {count}\n\
         {name}_sum{{database=\"{database}\"}} {sum}\n\
         {name}_count{{database=\"{database}\"}} {count}\n"
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
        for Metric { name, help, kind, .. } in METRICS {
            assert!(names.insert(name), "{name} is there twice");
            assert!(page.contains(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name}")));
            let is_well_named = match *kind {
                "counter" => name.ends_with("_total"),
                "histogram" => name.ends_with("_seconds"),
                _ => !name.ends_with("_total"),
            };
            assert!(is_well_named && name.starts_with("esker_") && help.ends_with('.'), "{name}");
            let value = if *kind == "histogram" { "_count" } else { "" };
            for database in ["one", "t\\\"wo\\\\\\n"] {
                let line = format!("\n{name}{value}{{database=\"{database}\"}} 0\n");
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
