//! Rows as they come out: kept for the report, and printed at once, because a full run takes long.

use crate::failure::Outcome;
use crate::output::tell;
use esker_base::{Clock, SystemClock};
use esker_bench::Row;

/// What has come out so far.
pub(super) struct Rows<'a> {
    clock: SystemClock,
    all: Vec<Row>,
    /// Keeps all of them, whenever there are more: a run may be ended before its end.
    keep: &'a mut dyn FnMut(&[Row]) -> Outcome,
    /// How that went.
    kept: Outcome,
}

impl<'a> Rows<'a> {
    pub(super) fn new(keep: &'a mut dyn FnMut(&[Row]) -> Outcome) -> Self {
        Rows { clock: SystemClock::new(), all: Vec::new(), keep, kept: Ok(()) }
    }

    /// Keeps and says what is known of one engine in one case.
    pub(super) fn add(&mut self, rows: Vec<Row>) {
        if let Some(first) = rows.first() {
            let parts = rows.iter().map(|row| format!("{} {}", row.metric, shown(row.value)));
            let parts: Vec<String> = parts.collect();
            self.say(&format!("{} {}: {}", first.case, first.engine, parts.join(", ")));
        }
        self.all.extend(rows);
        if self.kept.is_ok() {
            self.kept = (self.keep)(&self.all);
        }
    }

    /// All of them, if they could be kept.
    pub(super) fn all(self) -> Outcome<Vec<Row>> {
        self.kept.map(|()| self.all)
    }

    /// Says what is done now.
    pub(super) fn say(&self, what: &str) {
        let seconds = self.clock.now().as_secs();
        tell(format!("{:>2}:{:02} {what}", seconds / 60, seconds % 60));
    }
}

/// With as many digits as are significant.
fn shown(value: f64) -> String {
    let digits = if value.abs() >= 100.0 { 0 } else { 3 };
    format!("{value:.digits$}")
}
