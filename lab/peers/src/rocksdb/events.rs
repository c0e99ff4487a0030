//! What RocksDB wrote to tables, from its information log.
//!
//! Its statistics would say as well, but they count at every read and write, while they are timed.
//! The log, which RocksDB keeps anyway and which comes here line by line instead of into a file, has
//! an event for each table that was made, with the job that made it, and one for each compaction that
//! began:
//!
//! ```text
//! EVENT_LOG_v1 {"time_micros": 1, "job": 4, "event": "compaction_started", "cf_name": "default", …}
//! EVENT_LOG_v1 {"time_micros": 2, "cf_name": "default", "job": 4, "event": "table_file_creation",
//!               "file_number": 11, "file_size": 12345, …}
//! EVENT_LOG_v1 {"time_micros": 3, "job": 4, "event": "compaction_finished", …}
//! ```
//!
//! What no compaction made a flush did, or the recovery of a log, which flushes.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Totals of what the log has said so far.
#[derive(Default)]
pub(super) struct Events {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    written: TableBytes,
    /// The jobs of compactions that began and have not ended.
    compactions: HashSet<u64>,
}

/// Bytes of tables that were made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct TableBytes {
    pub(super) flush: u64,
    pub(super) compaction: u64,
}

impl Events {
    /// Takes in a line. What it does not know says nothing of tables.
    pub(super) fn take_in(&self, line: &str) {
        let Some((_, event)) = line.split_once("EVENT_LOG_v1 ") else { return };
        let Some(job) = number(event, "job") else { return };
        let is = |name: &str| event.contains(&format!("\"event\": \"{name}\""));
        if is("table_file_creation") {
            let bytes = number(event, "file_size").unwrap_or(0);
            let mut state = self.lock();
            match state.compactions.contains(&job) {
                true => state.written.compaction += bytes,
                false => state.written.flush += bytes,
            }
        } else if is("compaction_started") {
            self.lock().compactions.insert(job);
        } else if is("compaction_finished") {
            self.lock().compactions.remove(&job);
        }
    }

    pub(super) fn written(&self) -> TableBytes {
        self.lock().written
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing panics with the lock, and every change is one number.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number that a JSON object has under `name`.
fn number(object: &str, name: &str) -> Option<u64> {
    let (_, rest) = object.split_once(&format!("\"{name}\": "))?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Microseconds in which writers were throttled, of the property `rocksdb.dbstats`:
/// `Cumulative stall: 00:01:2.345 H:M:S, 0.1 percent`.
pub(super) fn stall_us(stats: &str) -> Option<u64> {
    let (_, rest) = stats.split_once("Cumulative stall: ")?;
    let (time, _) = rest.split_once(" H:M:S")?;
    let mut parts = time.split(':');
    let mut part = || parts.next()?.trim().parse::<f64>().ok();
    let (hours, minutes, seconds) = (part()?, part()?, part()?);
    let all = (hours * 60.0 + minutes) * 60.0 + seconds;
    Some((all * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_told_apart_by_the_jobs_that_made_them() {
        let events = Events::default();
        let table = |job: u32, bytes: u32| {
            let line = format!(
                "EVENT_LOG_v1 {{\"time_micros\": 9, \"cf_name\": \"default\", \"job\": {job}, \"event\": \
                 \"table_file_creation\", \"file_number\": 8, \"file_size\": {bytes}, \"x\": \"\"}}"
            );
            events.take_in(&line);
        };
        let compaction = |job: u32, what: &str| {
            events.take_in(&format!(
                "EVENT_LOG_v1 {{\"time_micros\": 9, \"job\": {job}, \"event\": \"compaction_{what}\"}}"
            ));
        };
        table(3, 100);
        compaction(4, "started");
        table(4, 20);
        table(5, 100);
        table(4, 30);
        compaction(4, "finished");
        events.take_in("[default] [JOB 4] Generated table #12: 1 keys, 2345 bytes");
        events.take_in("EVENT_LOG_v1 {\"event\": \"table_file_creation\", \"file_size\": 5}");
        assert_eq!(events.written(), TableBytes { flush: 200, compaction: 50 });
    }

    #[test]
    fn a_stall_is_read_as_rocksdb_prints_it() {
        let stats = "Interval WAL: 0 writes\nCumulative stall: 01:02:3.456 H:M:S, 0.1 percent\n";
        assert_eq!(stall_us(stats), Some(3_723_456_000));
        assert_eq!(stall_us("Cumulative stall: none"), None);
    }
}
