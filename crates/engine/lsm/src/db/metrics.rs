//! Hands statistics to the recorder of the crate `metrics`.

use super::Db;
use crate::stats::events::{Event, EventKind};
use crate::stats::metric_table::{METRICS, Metric, MetricValue};
use crate::stats::{CallHistograms, CallKind, JobTimes, LatencyHistogram, TimeHistogram};
use metrics::{SharedString, Unit};
use std::time::Duration;

/// A recorder keeps each value that it gets until it is read, so it gets at most so many times of calls
/// of a kind at once.
const CALL_TIMES_MOST: u64 = 10_000;

/// Hands the statistics of a database to the recorder of the crate `metrics`.
///
/// The metrics are those of the page for Prometheus, with the same names and the label `database`. The
/// program installs a recorder or an exporter, and calls [`MetricsPublisher::publish`] before each
/// scrape, or every few seconds. Counters of the crate are whole numbers, so seconds are rounded down.
/// Calls are watched for three minutes after each, as with [`Db::watched_stats`].
///
/// # Examples
///
/// ```
/// # extern crate esker_lsm as esker;
/// # fn main() -> esker_base::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::{Db, MetricsPublisher, Settings};
///
/// let db = Db::open(dir.path(), Settings::default())?;
/// let mut publisher = MetricsPublisher::new("users");
/// db.default_keyspace().put("key", "value")?;
/// publisher.publish(&db); // Once more every few seconds.
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MetricsPublisher {
    database: SharedString,
    is_described: bool,
    /// What histograms got so far, and the event up to which that was.
    published: JobTimes,
    published_calls: CallHistograms,
    seen: u64,
}

impl MetricsPublisher {
    /// Returns a publisher that gives metrics the label `database` with this name.
    pub fn new(database: impl Into<String>) -> Self {
        let database = SharedString::from(database.into());
        MetricsPublisher {
            database,
            is_described: false,
            published: JobTimes::default(),
            published_calls: CallHistograms::default(),
            seen: 0,
        }
    }

    /// Hands the statistics of `db` over: always the same database. If it was closed and opened again, its
    /// counters begin anew.
    ///
    /// Histograms get the time of each flush, compaction and stall since the last call. If more than 256
    /// events were noted since then, the oldest get the upper bound of their class in
    /// [`TimeHistogram`](crate::stats::TimeHistogram).
    ///
    /// The histogram of calls gets the times of a sample: at most 10,000 of a kind at once. They are at
    /// most an eighth too long.
    pub fn publish(&mut self, db: &Db) {
        // Events after this are those of the next call.
        let stats = db.watched_stats();
        if !std::mem::replace(&mut self.is_described, true) {
            METRICS.iter().for_each(describe);
        }
        for metric in METRICS {
            let Metric { name, kind, value, .. } = *metric;
            let MetricValue::Number(value) = value else { continue };
            let (value, database) = (value(&stats), self.database.clone());
            match kind {
                "counter" => metrics::counter!(name, "database" => database).absolute(value as u64),
                _ => metrics::gauge!(name, "database" => database).set(value),
            }
        }
        let begins_anew = is_before(&stats.job_times, &self.published);
        if begins_anew {
            (self.published, self.seen) = (JobTimes::default(), 0);
        }
        self.publish_times(stats.job_times, &db.events(self.seen));
        self.publish_calls(stats.call_times);
    }

    fn publish_calls(&mut self, calls: CallHistograms) {
        for kind in CallKind::ALL {
            let (now, before) = (calls.of(kind), self.published_calls.of(kind));
            // Fewer calls than before: the database was opened since.
            let new = if now.count() < before.count() { now.clone() } else { now.since(before) };
            let histogram = metrics::histogram!("esker_call_seconds", "database" => self.database.clone(), "call" => kind.name());
            for (took, count) in sample(&new) {
                histogram.record_many(took, count);
            }
        }
        self.published_calls = calls;
    }

    fn publish_times(&mut self, times: JobTimes, events: &[Event]) {
        let mut due = [
            Due::new("esker_flush_seconds", &times.flushes, &self.published.flushes),
            Due::new("esker_compaction_seconds", &times.compactions, &self.published.compactions),
            Due::new("esker_stall_seconds", &times.stalls, &self.published.stalls),
        ];
        for event in events {
            let (at, took) = match event.kind {
                EventKind::Flush { took, .. } => (0, took),
                EventKind::Compaction { took, .. } => (1, took),
                EventKind::Stall { took } => (2, took),
                _ => continue,
            };
            if !due[at].record(took, &self.database) {
                // It was noted after the statistics were taken, and so were those behind it.
                break;
            }
            self.seen = event.number;
        }
        due.iter_mut().for_each(|due| due.record_rest(&self.database));
        self.published = times;
    }
}

/// At most [`CALL_TIMES_MOST`] of the calls, as many of each class as it has a share of them.
fn sample(calls: &LatencyHistogram) -> impl Iterator<Item = (Duration, usize)> {
    let each = calls.count().div_ceil(CALL_TIMES_MOST).max(1);
    let mut left = 0;
    calls.classes().filter_map(move |(took, count)| {
        // What is no whole one counts with the next class.
        left += count;
        let taken = left / each;
        left %= each;
        (taken > 0).then_some((took, taken as usize))
    })
}

/// Whether `now` counts less than `before` in any class: then the database was opened since.
fn is_before(now: &JobTimes, before: &JobTimes) -> bool {
    let all = |it: &JobTimes| [it.flushes.counts, it.compactions.counts, it.stalls.counts];
    let (now, before) = (all(now), all(before));
    now.as_flattened().iter().zip(before.as_flattened()).any(|(now, before)| now < before)
}

/// What a histogram is yet to get, by class.
struct Due {
    name: &'static str,
    counts: [u64; TimeHistogram::BOUNDS.len() + 1],
}

impl Due {
    fn new(name: &'static str, now: &TimeHistogram, before: &TimeHistogram) -> Due {
        let mut counts = now.counts;
        counts.iter_mut().zip(before.counts).for_each(|(now, before)| *now -= before);
        Due { name, counts }
    }

    /// Records a time. Returns false if none of its class is due.
    fn record(&mut self, took: Duration, database: &SharedString) -> bool {
        let count = &mut self.counts[TimeHistogram::class_of(took)];
        if *count == 0 {
            return false;
        }
        *count -= 1;
        metrics::histogram!(self.name, "database" => database.clone()).record(took);
        true
    }

    /// Records what is left by the bounds of the classes.
    fn record_rest(&mut self, database: &SharedString) {
        let bounds = TimeHistogram::BOUNDS;
        for (class, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let bound = bounds[class.min(bounds.len() - 1)];
            let histogram = metrics::histogram!(self.name, "database" => database.clone());
            histogram.record_many(bound, *count as usize);
        }
    }
}

fn describe(metric: &Metric) {
    let Metric { name, help, kind, .. } = *metric;
    let unit = match name.trim_end_matches("_total") {
        name if name.ends_with("_bytes") => Unit::Bytes,
        name if name.ends_with("_seconds") => Unit::Seconds,
        _ => Unit::Count,
    };
    match kind {
        "counter" => metrics::describe_counter!(name, unit, help),
        "gauge" => metrics::describe_gauge!(name, unit, help),
        _ => metrics::describe_histogram!(name, unit, help),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_many_calls_is_bounded_and_has_the_same_quantiles() {
        let micros = Duration::from_micros;
        let mut calls = LatencyHistogram::default();
        (1..=40_000).for_each(|n| calls.record(micros(n)));
        let mut sampled = LatencyHistogram::default();
        for (took, count) in sample(&calls) {
            (0..count).for_each(|_| sampled.record(took));
        }
        assert_eq!(sampled.count(), CALL_TIMES_MOST);
        for q in [0.01, 0.5, 0.999] {
            assert_eq!(sampled.quantile(q), calls.quantile(q), "{q}");
        }
        let few = LatencyHistogram::default();
        assert_eq!(sample(&few).count(), 0);
    }
}
