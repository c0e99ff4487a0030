//! How far a command is that takes its time: a bar or a line on a terminal, nothing elsewhere.

use crate::output::tell;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// How often a line changes while nothing is counted.
const TICK: Duration = Duration::from_millis(100);

/// A bar of bytes of which there is a known number.
const OF_BYTES: &str = "{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  eta {eta}";

/// A display on standard error. It goes when this is dropped.
pub struct Progress {
    bar: Option<ProgressBar>,
    /// Less than this is not shown: it keeps the bar's lock off the way of each record.
    step: u64,
}

impl Progress {
    /// A display of bytes, of this many if that is known, if standard error is a terminal.
    pub fn of_bytes(total: Option<u64>) -> Self {
        let (bar, template) = match total {
            Some(total) => (ProgressBar::new(total), OF_BYTES),
            None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {bytes_per_sec}"),
        };
        Self::on_terminal(bar, template, 64 << 10)
    }

    /// A display of how many entries there were, if standard error is a terminal.
    pub fn of_pairs() -> Self {
        Self::on_terminal(
            ProgressBar::new_spinner(),
            "{spinner} {human_pos} entries  {per_sec}",
            1000,
        )
    }

    /// Does `work`, and shows meanwhile that it is done and for how long.
    pub fn during<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
        let bar = ProgressBar::new_spinner().with_message(what);
        let progress = Self::on_terminal(bar, "{spinner} {msg}  {elapsed}", 0);
        if let Some(bar) = &progress.bar {
            bar.enable_steady_tick(TICK);
        }
        work()
    }

    /// No display.
    pub fn hidden() -> Self {
        Progress { bar: None, step: 0 }
    }

    fn on_terminal(bar: ProgressBar, template: &str, step: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            return Progress::hidden();
        }
        bar.set_style(style(template));
        Progress { bar: Some(bar), step }
    }

    /// So much is done.
    pub fn at(&self, done: u64) {
        if let Some(bar) = &self.bar
            && done >= bar.position() + self.step
        {
            bar.set_position(done);
        }
    }

    /// So much there is to do, which was not known before.
    pub fn total(&self, total: u64) {
        if let Some(bar) = &self.bar
            && bar.length() != Some(total)
        {
            bar.set_length(total);
            bar.set_style(style(OF_BYTES));
        }
    }

    /// Prints a line on standard error, above the bar if there is one.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| tell(line)),
            None => tell(line),
        }
    }

    /// Takes the display away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is well formed")
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
