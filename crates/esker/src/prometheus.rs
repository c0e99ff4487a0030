//! Statistics as a page for Prometheus.

use crate::Stats;
use esker_lsm::stats::TimeHistogram;
use std::fmt::Write;

/// A metric of the [`page`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// What it counts or measures.
    pub help: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    value: Value,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Number(fn(&Stats) -> f64),
    Times(fn(&Stats) -> &TimeHistogram),
}

const fn counter(name: &'static str, help: &'static str, value: fn(&Stats) -> f64) -> Metric {
    Metric { name, help, kind: "counter", value: Value::Number(value) }
}

const fn gauge(name: &'static str, help: &'static str, value: fn(&Stats) -> f64) -> Metric {
    Metric { name, help, kind: "gauge", value: Value::Number(value) }
}

const fn times(
    name: &'static str,
    help: &'static str,
    value: fn(&Stats) -> &TimeHistogram,
) -> Metric {
    Metric { name, help, kind: "histogram", value: Value::Times(value) }
}

/// The metrics of the [`page`], in its order. Counters begin at 0 when the database is opened.
pub const METRICS: &[Metric] = &[
    counter("esker_writes_total", "Entries written.", |it| it.writes as f64),
    counter("esker_written_bytes_total", "Bytes of entries written by users.", |it| {
        it.user_bytes as f64
    }),
    counter("esker_log_bytes_total", "Bytes appended to the log.", |it| it.log_bytes as f64),
    counter("esker_log_appends_total", "Appends to log files.", |it| it.log_appends as f64),
    counter("esker_log_syncs_total", "Syncs of log files.", |it| it.log_syncs as f64),
    counter("esker_flushes_total", "Flushes.", |it| it.flushes as f64),
    counter("esker_flush_bytes_total", "Bytes that flushes wrote to tables.", |it| {
        it.flush_bytes as f64
    }),
    counter("esker_compactions_total", "Compactions, without moves of tables.", |it| {
        it.compactions as f64
    }),
    counter("esker_compaction_read_bytes_total", "Bytes that compactions read.", |it| {
        it.compaction_read_bytes as f64
    }),
    counter("esker_compaction_bytes_total", "Bytes that compactions wrote to tables.", |it| {
        it.compaction_bytes as f64
    }),
    counter("esker_stalled_seconds_total", "Time that writers were throttled or stalled.", |it| {
        it.stalled.as_secs_f64()
    }),
    counter(
        "esker_background_write_wait_seconds_total",
        "Time that flushes and compactions waited for the limit of their write rate.",
        |it| it.background_write_waits.as_secs_f64(),
    ),
    gauge(
        "esker_background_write_rate_bytes",
        "The most bytes per second that flushes and compactions may write; 0 is no limit.",
        |it| it.background_write_rate.unwrap_or(0) as f64,
    ),
    counter("esker_cache_hits_total", "Hits of the block cache.", |it| it.cache_hits as f64),
    counter("esker_cache_misses_total", "Misses of the block cache.", |it| it.cache_misses as f64),
    gauge("esker_cache_bytes", "Bytes in the block cache.", |it| it.cache_bytes as f64),
    gauge("esker_cache_capacity_bytes", "Capacity of the block cache.", |it| {
        it.cache_capacity_bytes as f64
    }),
    counter("esker_dram_table_hits_total", "Hits of the DRAMTable.", |it| {
        (it.dram_table.hits + it.dram_table.exact_hits) as f64
    }),
    counter("esker_dram_table_misses_total", "Misses of the DRAMTable.", |it| {
        (it.dram_table.misses + it.dram_table.exact_misses) as f64
    }),
    gauge("esker_memtables", "MemTables, with the active one.", |it| it.memtables as f64),
    gauge("esker_memtable_bytes", "Bytes of MemTables in memory.", |it| it.memtable_bytes as f64),
    gauge("esker_tables", "Tables.", |it| it.tables as f64),
    gauge("esker_table_bytes", "Bytes of tables.", |it| it.table_bytes as f64),
    gauge(
        "esker_table_file_bytes",
        "Bytes of table files, with unfinished and obsolete ones.",
        |it| it.table_file_bytes as f64,
    ),
    gauge("esker_table_memory_bytes", "Bytes of indexes and filters of tables in memory.", |it| {
        it.table_memory_bytes as f64
    }),
    gauge("esker_memory_budget_bytes", "The memory budget.", |it| it.memory_budget_bytes as f64),
    gauge("esker_memory_charged_bytes", "Bytes charged to the budget, without the cache.", |it| {
        it.memory_charged_bytes as f64
    }),
    gauge("esker_snapshots", "Open snapshots, with those of cursors.", |it| it.snapshots as f64),
    gauge(
        "esker_follower_behind_seconds",
        "Age of what a follower shows; 0 if it is none.",
        |it| it.follower.as_ref().map_or(0.0, |follower| follower.behind.as_secs_f64()),
    ),
    gauge("esker_log_segments", "Log segments.", |it| it.logs as f64),
    gauge("esker_unreadable_tables", "Tables that compaction skips because a read failed.", |it| {
        it.unreadable_tables.len() as f64
    }),
    gauge("esker_background_error", "1 if an error stops or limits background work.", |it| {
        f64::from(u8::from(it.background_error.is_some()))
    }),
    times("esker_flush_seconds", "How long flushes took.", |it| &it.job_times.flushes),
    times("esker_compaction_seconds", "How long compactions took.", |it| &it.job_times.compactions),
    times("esker_stall_seconds", "How long writers stalled, from 1 ms on.", |it| {
        &it.job_times.stalls
    }),
];

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
    for Metric { name, help, kind, value } in METRICS {
        let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (database, stats) in &databases {
            match value {
                Value::Number(value) => {
                    let value = value(stats);
                    let _ = writeln!(page, "{name}{{database=\"{database}\"}} {value}");
                }
                Value::Times(times) => add_times(&mut page, name, database, times(stats)),
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
