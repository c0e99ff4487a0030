//! What happened between two statuses of a database.

use esker::stats::{CallKind, LiveStatus};
use serde_json::{Map, Value as Json, json};
use std::time::Duration;

/// Rates and latencies between two statuses, and the later one.
pub struct Sample {
    /// The time between them.
    pub seconds: f64,
    pub calls: Vec<CallRate>,
    pub status: LiveStatus,
    /// Counters by their names, a second.
    rates: Map<String, Json>,
}

/// Calls of one kind.
pub struct CallRate {
    pub call: CallKind,
    pub per_second: f64,
    /// The times that 50, 99 and 99.9 percent of the calls did not exceed.
    pub times: [Option<Duration>; 3],
}

/// The quantiles of [`CallRate::times`], and their names.
pub const QUANTILES: [(f64, &str); 3] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")];

impl Sample {
    /// `None` if the statuses are not of one open of the database.
    pub fn between(before: &LiveStatus, status: LiveStatus) -> Option<Sample> {
        let passed = status.at.checked_sub(before.at).filter(|passed| !passed.is_zero())?;
        let seconds = passed.as_secs_f64();
        let counters = || status.metrics.iter().filter(|(name, _)| name.ends_with("_total"));
        let has_begun_anew = counters().any(|(name, &now)| now < before.metric(name));
        if before.pid != status.pid || has_begun_anew {
            return None;
        }
        let rate = |(name, &now): (&String, &f64)| {
            (name.clone(), Json::from((now - before.metric(name)) / seconds))
        };
        let rates = counters().map(rate).collect();
        let calls = status.calls.iter().map(|now| {
            let then = before.calls.iter().find(|then| then.call == now.call);
            let count = now.count.saturating_sub(then.map_or(0, |then| then.count));
            let times = then.map_or_else(|| now.times.clone(), |then| now.times.since(&then.times));
            CallRate {
                call: now.call,
                per_second: count as f64 / seconds,
                times: QUANTILES.map(|(q, _)| times.quantile(q)),
            }
        });
        Some(Sample { seconds, calls: calls.collect(), rates, status })
    }

    /// A counter's rise in a second.
    pub fn rate(&self, name: &str) -> f64 {
        self.rates.get(name).and_then(Json::as_f64).unwrap_or(0.0)
    }

    /// Calls of all kinds in a second.
    pub fn calls_per_second(&self) -> f64 {
        self.calls.iter().map(|call| call.per_second).sum()
    }

    /// The share of hits between the statuses; `None` without lookups.
    pub fn hit_share(&self, hits: &str, misses: &str) -> Option<f64> {
        let (hits, misses) = (self.rate(hits), self.rate(misses));
        (hits + misses > 0.0).then(|| hits / (hits + misses))
    }

    /// Rates and latencies of the calls, by kind.
    pub fn calls_json(&self) -> Json {
        let calls = self.calls.iter().map(|call| {
            let mut object = Map::new();
            object.insert("per_second".into(), call.per_second.into());
            for ((_, name), time) in QUANTILES.iter().zip(call.times) {
                let micros = time.map(|time| time.as_nanos() as f64 / 1e3);
                object.insert(format!("{}_us", name.replace('.', "_")), micros.into());
            }
            (call.call.name().to_owned(), Json::Object(object))
        });
        Json::Object(calls.collect())
    }

    /// The sample as one object.
    pub fn json(&self) -> Json {
        let levels = self.status.levels.iter().map(|level| {
            json!({
                "keyspace": level.keyspace,
                "level": level.level,
                "runs": level.runs,
                "tables": level.tables,
                "bytes": level.bytes,
                "fill": level.fill,
            })
        });
        let compactions = self.status.compactions.iter().map(|compaction| {
            json!({
                "keyspace": compaction.keyspace,
                "reason": compaction.reason,
                "from_level": compaction.from_level,
                "output_level": compaction.output_level,
                "expected_bytes": compaction.expected_bytes,
            })
        });
        json!({
            "pid": self.status.pid,
            "seconds": self.seconds,
            "calls": self.calls_json(),
            "per_second": self.rates,
            "metrics": self.status.metrics,
            "levels": levels.collect::<Vec<_>>(),
            "levels_left_out": self.status.levels_left_out,
            "compactions": compactions.collect::<Vec<_>>(),
            "events": self.status.events,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(seconds: u64, writes: f64) -> LiveStatus {
        let mut status = LiveStatus::default();
        (status.pid, status.at) = (7, Duration::from_secs(seconds));
        status.metrics.insert("esker_writes_total".into(), writes);
        status.metrics.insert("esker_tables".into(), 3.0);
        status
    }

    #[test]
    fn counters_are_rates_between_two_statuses() {
        let sample = Sample::between(&status(10, 100.0), status(12, 700.0)).unwrap();
        assert_eq!((sample.seconds, sample.rate("esker_writes_total")), (2.0, 300.0));
        assert_eq!(sample.rate("esker_tables"), 0.0, "a gauge has no rate");
        assert_eq!(sample.json()["per_second"], json!({ "esker_writes_total": 300.0 }));
        assert_eq!(sample.json()["metrics"]["esker_tables"], 3.0);
    }

    #[test]
    fn statuses_of_different_opens_have_nothing_between_them() {
        let before = status(10, 100.0);
        assert!(Sample::between(&before, status(12, 99.0)).is_none(), "counters began anew");
        assert!(Sample::between(&before, status(10, 100.0)).is_none());
        assert!(Sample::between(&before, status(9, 100.0)).is_none());
        let mut other = status(12, 200.0);
        other.pid = 8;
        assert!(Sample::between(&before, other).is_none());
    }
}
