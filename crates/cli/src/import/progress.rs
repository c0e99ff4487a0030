//! How far an import is: a bar on a terminal, nothing elsewhere.

use crate::message::tell;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// A progress display on standard error.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// A display for an input of this many bytes, if standard error is a terminal.
    pub fn on_terminal(total_bytes: Option<u64>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Progress::hidden();
        }
        let (bar, template) = match total_bytes {
            Some(total) => (
                ProgressBar::new(total),
                "{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  eta {eta}",
            ),
            None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {bytes_per_sec}"),
        };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
        Progress(Some(bar))
    }

    /// No display.
    pub fn hidden() -> Self {
        Progress(None)
    }

    /// So many bytes were read.
    pub fn at(&self, bytes: u64) {
        // Drawing is throttled by the bar itself; this keeps its lock off the way of each record.
        if let Some(bar) = &self.0
            && bytes >= bar.position() + (64 << 10)
        {
            bar.set_position(bytes);
        }
    }

    /// Prints a line on standard error, above the bar if there is one.
    pub fn say(&self, line: &str) {
        match &self.0 {
            Some(bar) => bar.suspend(|| tell(line)),
            None => tell(line),
        }
    }

    /// Takes the display away.
    pub fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
