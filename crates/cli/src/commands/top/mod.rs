//! `esker top`: what a database does that another process has open.
//!
//! The process that has it open answers requests for its status: a file in the directory of the
//! database, once an interval. While it does, it counts all calls and times some of them.

pub mod sample;
mod screen;
mod terminal;

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{is_json, json_line, raw_stdout};
use crate::text::escape;
use esker::checkpoint::request_status;
use esker::env::{Clock, SystemClock};
use esker::stats::LiveStatus;
use sample::Sample;
use screen::View;
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use terminal::Terminal;

/// How often an interrupt is noticed while nothing else happens.
const NOTICED_EVERY: Duration = Duration::from_millis(50);

/// A database that does not answer is asked again after so long: each time, files are created in its
/// directory, and its lock is taken briefly.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Show what a database does that another process has open
///
/// Calls with their latencies, levels with their fill, compactions in progress, stalls, caches, memory.
/// The other process is `esker serve`, a command of this program that writes, or a program that has
/// `Settings::answers_requests` on. While it is watched, it counts its calls and times a sample of them.
/// With --json, prints a sample on each line.
#[derive(clap::Args)]
pub struct Top {
    /// The database directory
    db: PathBuf,
    /// Seconds between samples
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    interval: Duration,
    /// End after this number of samples
    #[arg(long, value_name = "NUMBER")]
    samples: Option<u64>,
}

/// Reads a number of seconds between samples.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.2..=60.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "it must be 0.2 to 60 seconds".to_owned())
}

/// How long after one status the next is asked for.
pub fn pause(interval: Duration, is_answered: bool) -> Duration {
    if is_answered { interval } else { interval.max(ASKED_AGAIN_AFTER) }
}

/// The status now of the database in `db`.
pub fn ask(db: &Path, goes_on: impl Fn() -> bool) -> Outcome<LiveStatus> {
    request_status(db, goes_on)?.ok_or_else(|| {
        let db = escape(db.as_os_str().as_bytes());
        Failure::new(format!("no process has the database {db:?} open; `esker stats` reads it"))
    })
}

impl Top {
    pub fn run(self) -> Outcome {
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::io("listen for", "interrupts", error))?;
        if !self.db.join("CURRENT").exists() {
            let db = escape(self.db.as_os_str().as_bytes());
            return Err(Failure::new(format!("no database at {db:?}")));
        }
        if is_json() {
            return self.print(&interrupt);
        }
        if !std::io::stdout().is_terminal() {
            let what = "standard output is no terminal; --json prints samples as lines";
            return Err(Failure::Usage(what.to_owned()));
        }
        self.draw(&interrupt)
    }

    fn ask(&self, goes_on: impl Fn() -> bool) -> Outcome<LiveStatus> {
        ask(&self.db, goes_on)
    }

    fn print(&self, interrupt: &Interrupt) -> Outcome {
        let clock = SystemClock::new();
        let goes_on = || !interrupt.is_set();
        let mut before = self.ask(goes_on)?;
        let mut printed = 0;
        while self.samples.is_none_or(|samples| printed < samples) {
            let until = clock.now() + self.interval;
            while clock.now() < until {
                if interrupt.is_set() {
                    return Ok(());
                }
                clock.sleep(NOTICED_EVERY.min(until.saturating_sub(clock.now())));
            }
            let status = match self.ask(goes_on) {
                Err(_) if interrupt.is_set() => return Ok(()),
                status => status?,
            };
            if let Some(sample) = Sample::between(&before, status.clone()) {
                let mut out = raw_stdout();
                out.write_all(json_line(&sample.json())?.as_bytes())?;
                out.flush()?;
                printed += 1;
            }
            before = status;
        }
        Ok(())
    }

    fn draw(&self, interrupt: &Interrupt) -> Outcome {
        let clock = SystemClock::new();
        // What fails at the start is said as other commands say it.
        let mut before = Some(self.ask(|| !interrupt.is_set())?);
        let view = View {
            database: escape(self.db.as_os_str().as_bytes()),
            interval: self.interval,
            ..View::default()
        };
        let terminal = Terminal::start(view, interrupt.clone())?;
        let (mut shown, mut is_answered) = (0, true);
        while self.samples.is_none_or(|samples| shown < samples) {
            let until = clock.now() + pause(self.interval, is_answered);
            terminal.draw()?;
            while clock.now() < until && !terminal.is_over() {
                terminal.attend(NOTICED_EVERY.min(until.saturating_sub(clock.now())))?;
            }
            // An error of the terminal comes again with the next drawing.
            let asked = self.ask(|| terminal.attend(Duration::ZERO).is_ok() && !terminal.is_over());
            if terminal.is_over() {
                break;
            }
            is_answered = asked.is_ok();
            match asked {
                Ok(status) => {
                    let sample = before.and_then(|it| Sample::between(&it, status.clone()));
                    if let Some(sample) = sample {
                        terminal.view().show(sample);
                        shown += 1;
                    }
                    before = Some(status);
                }
                Err(failure) => {
                    before = None;
                    terminal.view().notice = Some(failure.why());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_does_not_answer_is_asked_seldom() {
        let [short, long] = [1, 60].map(Duration::from_secs);
        assert_eq!([pause(short, true), pause(long, true)], [short, long]);
        assert_eq!([pause(short, false), pause(long, false)], [Duration::from_secs(10), long]);
    }
}
