//! The status of an open database, for an observer in another process, and its text.
//!
//! The text has a line for each fact, which begins with its kind. A reader skips kinds that it does not
//! know, so that programs of different versions understand each other. The line `end` comes last: a text
//! without it is not whole.

use super::call_watch::CallTimes;
use super::events::CallKind;
use super::latency::LatencyHistogram;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// The first line.
const HEAD: &str = "esker status 1";

/// Levels are left out once the text has so many bytes, and compactions once it has so many.
const BYTES_WITH_LEVELS: usize = 36 << 10;
const BYTES_WITH_COMPACTIONS: usize = 44 << 10;
/// So many of the latest events are in the text.
const EVENTS_MOST: usize = 16;
/// A line of an event is cut after so many characters.
const EVENT_CHARACTERS: usize = 200;

/// The status of an open database: see [`Db::status`](crate::Db::status).
#[derive(Clone, PartialEq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LiveStatus {
    /// The process that has the database open.
    pub pid: u32,
    /// When it was taken, on a clock of that process. Two statuses of one process have the time between
    /// them as their difference.
    pub at: Duration,
    /// The counters and gauges of [`METRICS`](crate::stats::metric_table::METRICS), by name.
    pub metrics: BTreeMap<String, f64>,
    /// Calls by their kind. They are watched for ten seconds after each status.
    pub calls: Vec<CallTimes>,
    /// Levels that are not empty, by keyspace.
    pub levels: Vec<LevelStatus>,
    /// Levels that are left out, because there are too many.
    pub levels_left_out: u64,
    /// Compactions in progress.
    pub compactions: Vec<CompactionStatus>,
    /// The latest events as text, the oldest first.
    pub events: Vec<String>,
}

/// A level of a keyspace.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LevelStatus {
    /// The name of the keyspace.
    pub keyspace: String,
    /// The number of the level.
    pub level: usize,
    /// Its runs.
    pub runs: u64,
    /// Its tables.
    pub tables: u64,
    /// Bytes of its tables.
    pub bytes: u64,
    /// How full it is: 1 and above is due for a compaction. `None` if it has no limit.
    pub fill: Option<f64>,
}

/// A compaction in progress.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CompactionStatus {
    /// The name of the keyspace.
    pub keyspace: String,
    /// The reason.
    pub reason: String,
    /// The level of its newest input.
    pub from_level: usize,
    /// The level of its output, or `None` if it only drops tables.
    pub output_level: Option<usize>,
    /// About how many bytes it writes.
    pub expected_bytes: u64,
}

impl LevelStatus {
    /// Returns a level of a keyspace, without tables.
    pub fn new(keyspace: impl Into<String>, level: usize) -> Self {
        LevelStatus { keyspace: keyspace.into(), level, runs: 0, tables: 0, bytes: 0, fill: None }
    }
}

impl CompactionStatus {
    /// Returns a compaction that only drops tables of a level.
    pub fn new(keyspace: impl Into<String>, reason: impl Into<String>, from_level: usize) -> Self {
        let (keyspace, reason) = (keyspace.into(), reason.into());
        CompactionStatus { keyspace, reason, from_level, output_level: None, expected_bytes: 0 }
    }
}

impl LiveStatus {
    /// Returns the metric with this name; 0 if there is none.
    pub fn metric(&self, name: &str) -> f64 {
        self.metrics.get(name).copied().unwrap_or(0.0)
    }

    /// The status as text, of bounded length.
    pub(crate) fn encode(&self) -> String {
        let mut out = format!("{HEAD}\npid {}\nat {}\n", self.pid, self.at.as_nanos());
        for (name, value) in &self.metrics {
            let _ = writeln!(out, "metric {name} {value}");
        }
        for CallTimes { call, count, times } in &self.calls {
            let _ = writeln!(out, "call {call} {count} {}", times.encode());
            let _ = writeln!(out, "call_sum {call} {}", times.sum().as_nanos());
        }
        let mut left_out = self.levels_left_out;
        for it in &self.levels {
            if out.len() >= BYTES_WITH_LEVELS {
                left_out += 1;
                continue;
            }
            let fill = it.fill.map_or("-".to_owned(), |fill| fill.to_string());
            let LevelStatus { keyspace, level, runs, tables, bytes, .. } = it;
            let keyspace = visible(keyspace);
            let _ = writeln!(out, "level {level} {runs} {tables} {bytes} {fill} {keyspace}");
        }
        let _ = writeln!(out, "levels_left_out {left_out}");
        for it in &self.compactions {
            if out.len() >= BYTES_WITH_COMPACTIONS {
                break;
            }
            let output = it.output_level.map_or("-".to_owned(), |level| level.to_string());
            let CompactionStatus { keyspace, reason, from_level, expected_bytes, .. } = it;
            let (keyspace, reason) = (visible(keyspace), visible(reason));
            let _ = writeln!(
                out,
                "compaction {from_level} {output} {expected_bytes} {reason}\t{keyspace}"
            );
        }
        for event in &self.events[self.events.len().saturating_sub(EVENTS_MOST)..] {
            let shown: String = visible(event).chars().take(EVENT_CHARACTERS).collect();
            let _ = writeln!(out, "event {shown}");
        }
        out.push_str("end\n");
        out
    }

    /// Reads what [`LiveStatus::encode`] wrote, here or in another version. `None` if it is not whole.
    pub(crate) fn decode(text: &str) -> Option<LiveStatus> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) || !text.ends_with("\nend\n") {
            return None;
        }
        let mut status = LiveStatus::default();
        for line in lines {
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            match kind {
                "pid" => status.pid = rest.parse().ok()?,
                "at" => status.at = Duration::from_nanos(rest.parse().ok()?),
                "metric" => {
                    let (name, value) = rest.split_once(' ')?;
                    status.metrics.insert(name.to_owned(), value.parse().ok()?);
                }
                // Of a kind that is not known here, too.
                "call" => status.calls.extend(decode_call(rest)?),
                "call_sum" => {
                    let (name, sum) = rest.split_once(' ')?;
                    let sum = Duration::from_nanos(sum.parse().ok()?);
                    let of = status.calls.iter_mut().filter(|it| it.call.name() == name);
                    of.for_each(|it| it.times.set_sum(sum));
                }
                "level" => status.levels.push(decode_level(rest)?),
                "levels_left_out" => status.levels_left_out = rest.parse().ok()?,
                "compaction" => status.compactions.push(decode_compaction(rest)?),
                "event" => status.events.push(rest.to_owned()),
                _ => {}
            }
        }
        Some(status)
    }
}

fn decode_call(text: &str) -> Option<Option<CallTimes>> {
    let mut words = text.split_whitespace();
    let (name, count) = (words.next()?, words.next()?.parse().ok()?);
    let Some(call) = CallKind::ALL.into_iter().find(|call| call.name() == name) else {
        return Some(None);
    };
    Some(Some(CallTimes::new(call, count, LatencyHistogram::decode(words)?)))
}

fn decode_level(text: &str) -> Option<LevelStatus> {
    let mut words = text.splitn(6, ' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (level, runs, tables, bytes) = (number()? as usize, number()?, number()?, number()?);
    let fill = match words.next()? {
        "-" => None,
        fill => Some(fill.parse().ok()?),
    };
    Some(LevelStatus { keyspace: words.next()?.to_owned(), level, runs, tables, bytes, fill })
}

fn decode_compaction(text: &str) -> Option<CompactionStatus> {
    let mut words = text.splitn(4, ' ');
    let from_level = words.next()?.parse().ok()?;
    let output_level = match words.next()? {
        "-" => None,
        level => Some(level.parse().ok()?),
    };
    let expected_bytes = words.next()?.parse().ok()?;
    let (reason, keyspace) = words.next()?.split_once('\t')?;
    let (reason, keyspace) = (reason.to_owned(), keyspace.to_owned());
    Some(CompactionStatus { keyspace, reason, from_level, output_level, expected_bytes })
}

/// Without control characters, which would end a line.
fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::latency::LatencyRecorder;
    use super::*;

    fn sample() -> LiveStatus {
        let recorder = LatencyRecorder::default();
        (1..50).for_each(|n| recorder.record(Duration::from_nanos(n * n * 1_000), 1));
        let level =
            LevelStatus { runs: 3, tables: 7, bytes: 1 << 40, ..LevelStatus::new("a b", 0) };
        let compaction = CompactionStatus {
            output_level: Some(2),
            expected_bytes: 5,
            ..CompactionStatus::new("x y", "level size", 1)
        };
        LiveStatus {
            pid: 7,
            at: Duration::from_nanos(1_234_567_890_123),
            metrics: [("esker_a_total".to_owned(), 1e15), ("esker_b".to_owned(), 0.25)].into(),
            calls: vec![
                CallTimes::new(CallKind::Get, 99, recorder.histogram()),
                CallTimes::new(CallKind::Scan, 0, LatencyHistogram::default()),
            ],
            levels: vec![LevelStatus { fill: Some(0.75), ..level.clone() }, level],
            levels_left_out: 3,
            compactions: vec![compaction, CompactionStatus::new("", "deleted", 4)],
            events: vec!["flush of 5 bytes".to_owned(), String::new()],
        }
    }

    #[test]
    fn a_status_is_read_as_it_is_written() {
        for status in [sample(), LiveStatus::default()] {
            assert_eq!(LiveStatus::decode(&status.encode()), Some(status));
        }
    }

    #[test]
    fn a_status_of_another_version_is_read_as_far_as_it_is_known() {
        let text = sample()
            .encode()
            .replace("end\n", "later 1 2 3\ncall sync 5 1:2\ncall_sum sync 7\nend\n");
        assert_eq!(LiveStatus::decode(&text), Some(sample()));
    }

    #[test]
    fn half_of_a_status_is_none() {
        let text = sample().encode();
        for end in 0..text.len() {
            assert_eq!(LiveStatus::decode(&text[..end]), None, "{end}");
        }
        assert_eq!(LiveStatus::decode(&text.replace("status 1", "status 2")), None);
        assert_eq!(LiveStatus::decode(&text.replace("pid 7", "pid x")), None);
        assert_eq!(LiveStatus::decode(&text.replace("level 0 3", "level 0")), None);
    }

    #[test]
    fn it_is_bounded_and_each_fact_keeps_to_its_line() {
        let mut status = sample();
        status.levels = vec![LevelStatus::new("k".repeat(100), 1); 5_000];
        status.compactions = vec![CompactionStatus::new("k".repeat(100), "r", 1); 5_000];
        status.events = vec!["two\nlines \t".repeat(1_000); 5_000];
        let text = status.encode();
        assert!(text.len() < 60 << 10, "{}", text.len());
        let read = LiveStatus::decode(&text).unwrap();
        assert!(read.levels.len() > 100);
        assert_eq!(read.levels.len() as u64 + read.levels_left_out, 5_003);
        assert_eq!((read.events.len(), &read.events[0][..11]), (16, "two lines  "));
    }
}
