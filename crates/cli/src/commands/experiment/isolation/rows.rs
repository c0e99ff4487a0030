//! Rows as they come out: kept for the report, and told at once, for a full run takes half an hour.

use crate::message::tell;
use esker_base::{Clock, SystemClock};
use esker_bench::Row;

/// What has come out so far.
pub(super) struct Rows {
    clock: SystemClock,
    all: Vec<Row>,
}

impl Rows {
    pub(super) fn new() -> Self {
        Rows { clock: SystemClock::new(), all: Vec::new() }
    }

    /// Keeps and tells what is known of one engine in one case.
    pub(super) fn add(&mut self, rows: Vec<Row>) {
        if let Some(first) = rows.first() {
            let parts = rows.iter().map(|row| format!("{} {}", row.metric, shown(row.value)));
            let parts: Vec<String> = parts.collect();
            self.say(&format!("{} {}: {}", first.case, first.engine, parts.join(", ")));
        }
        self.all.extend(rows);
    }

    /// Says what is done now.
    pub(super) fn say(&self, what: &str) {
        let seconds = self.clock.now().as_secs();
        tell(format!("{:>2}:{:02} {what}", seconds / 60, seconds % 60));
    }

    pub(super) fn all(self) -> Vec<Row> {
        self.all
    }
}

/// With as many digits as tell something.
fn shown(value: f64) -> String {
    let digits = if value.abs() >= 100.0 { 0 } else { 3 };
    format!("{value:.digits$}")
}
