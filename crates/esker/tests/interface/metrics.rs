//! What a recorder of the crate `metrics` gets.

use esker::stats::metrics::MetricsPublisher;
use esker::stats::prometheus::METRICS;
use esker::{Db, Settings};
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use std::collections::BTreeMap;

/// By name, with the kind of calls behind it: the kind, the help text, the value.
type Recorded = BTreeMap<String, (MetricKind, String, DebugValue)>;

/// What a recorder got by `publish`, all with the label.
fn recorded(publish: impl FnOnce()) -> Recorded {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, publish);
    let all = snapshotter.snapshot().into_vec().into_iter();
    let named = all.map(|(key, _unit, help, value)| {
        let (kind, key) = key.into_parts();
        let labels: Vec<_> = key.labels().map(|it| (it.key(), it.value())).collect();
        assert_eq!(labels[0], ("database", "users"));
        let name = match labels[1..] {
            [] => key.name().to_owned(),
            [("call", call)] => format!("{} {call}", key.name()),
            _ => panic!("{labels:?}"),
        };
        (name, (kind, help.unwrap_or_default().to_string(), value))
    });
    named.collect()
}

fn times(recorded: &Recorded, name: &str) -> usize {
    match recorded.get(name) {
        Some((MetricKind::Histogram, _, DebugValue::Histogram(values))) => values.len(),
        None => 0,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_recorder_gets_the_metrics_of_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Settings::default()).unwrap();
    (0..10).for_each(|_| db.put(&db.default_keyspace(), "key", "value").unwrap());
    (0..3).for_each(|n| {
        db.put(&db.default_keyspace(), format!("{n}"), "value").unwrap();
        db.flush().unwrap();
    });
    let mut publisher = MetricsPublisher::new("users");
    let first = recorded(|| publisher.publish(&db));
    for metric in METRICS {
        let Some((kind, help, value)) = first.get(metric.name) else {
            assert_eq!(metric.kind, "histogram", "{} is missing", metric.name);
            continue;
        };
        let expected = match value {
            DebugValue::Counter(_) => (MetricKind::Counter, "counter"),
            DebugValue::Gauge(_) => (MetricKind::Gauge, "gauge"),
            DebugValue::Histogram(_) => (MetricKind::Histogram, "histogram"),
        };
        assert_eq!((*kind, metric.kind), expected, "{}", metric.name);
        assert_eq!(help, metric.help);
    }
    assert_eq!(first["esker_writes_total"].2, DebugValue::Counter(13));
    assert_eq!(first["esker_memory_budget_bytes"].2, DebugValue::Gauge(f64::from(1 << 30).into()));
    assert_eq!(times(&first, "esker_flush_seconds"), 3);

    // What was published is not published again.
    let second = recorded(|| publisher.publish(&db));
    assert_eq!(times(&second, "esker_flush_seconds"), 0);
    db.put(&db.default_keyspace(), "key", "value").unwrap();
    db.flush().unwrap();
    let third = recorded(|| publisher.publish(&db));
    assert_eq!(times(&third, "esker_flush_seconds"), 1);
    assert_eq!(third["esker_writes_total"].2, DebugValue::Counter(14));
}

#[test]
fn a_database_that_was_opened_again_is_published_from_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut publisher = MetricsPublisher::new("users");
    let flushes = [3, 1].map(|flushes| {
        let db = Db::open(dir.path(), Settings::default()).unwrap();
        (0..flushes).for_each(|n| {
            db.put(&db.default_keyspace(), format!("{n}"), "value").unwrap();
            db.flush().unwrap();
        });
        times(&recorded(|| publisher.publish(&db)), "esker_flush_seconds")
    });
    assert_eq!(flushes, [3, 1]);
}

#[test]
fn calls_are_timed_from_the_first_publication_on() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Settings::default()).unwrap();
    let keyspace = db.default_keyspace();
    let mut publisher = MetricsPublisher::new("users");
    keyspace.put("key", "value").unwrap();
    let first = recorded(|| publisher.publish(&db));
    assert_eq!(times(&first, "esker_call_seconds write"), 0);
    (0..5).for_each(|_| assert!(keyspace.get("key").unwrap().is_some()));
    keyspace.put("key", "value").unwrap();
    let second = recorded(|| publisher.publish(&db));
    let counts = ["get", "multi_get", "write", "scan"]
        .map(|call| times(&second, &format!("esker_call_seconds {call}")));
    assert_eq!(counts, [5, 0, 1, 0]);
    let third = recorded(|| publisher.publish(&db));
    assert_eq!(times(&third, "esker_call_seconds get"), 0, "what was published is not again");
}

/// More than are kept as events.
#[test]
fn a_histogram_gets_as_many_times_as_there_were() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Settings::default()).unwrap();
    let mut publisher = MetricsPublisher::new("users");
    for n in 0..300 {
        db.put(&db.default_keyspace(), format!("{n}"), "value").unwrap();
        db.flush().unwrap();
    }
    let stats = db.stats();
    let all = recorded(|| publisher.publish(&db));
    assert_eq!(times(&all, "esker_flush_seconds") as u64, stats.job_times.flushes.count());
    assert!(stats.job_times.flushes.count() >= 300);
}
