//! `esker ui`: a page of its own in the browser, of a database that another process has open.
//!
//! ```text
//! browser ── GET / ───────────► page.html, which is all: no other file, no other host
//!         ── GET /data ───────► samples, the latest status, the picture of the tree
//! ```
//!
//! A page that has the n-th sample of a run of this program asks for `/data?run=RUN&after=N`, and gets
//! the samples after it. One that has those of another run gets all.
//!
//! One thread: it asks for a status once an interval, as `esker top` does, and answers the browser while
//! it waits. The tree is read from the manifest. Nothing can be changed through the page.

mod history;
mod picture;
mod server;

use super::top::sample::Sample;
use super::top::{ask, pause};
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::show;
use crate::place::Files;
use crate::text::escape;
use esker::env::{Clock, SystemClock};
use esker::inspect::Inspector;
use esker_base::seed_from_os;
use history::History;
use serde_json::{Value as Json, json};
use server::{Seen, Server};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// The page.
const PAGE: &str = include_str!("page.html");

/// How long the program sleeps while it has nothing to do.
const IDLE: Duration = Duration::from_millis(10);

/// The tree is drawn at most so often, and at most for a twentieth of the time.
const TREE_EVERY: Duration = Duration::from_secs(3);
const TREE_SHARE: u32 = 20;

/// Show what a database does, on a page for the browser
///
/// The same as `esker top` shows, with the last ten minutes and a picture of the tree by key range. The
/// page is served on this machine only, unless --listen says otherwise: it has no password.
#[derive(clap::Args)]
pub struct Ui {
    #[command(flatten)]
    files: Files,
    /// Where to serve the page; port 0 is any
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// Seconds between samples
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = super::top::parse_interval)]
    interval: Duration,
}

/// What the page gets.
struct Shown {
    database: String,
    /// The samples are numbered within a run of the program.
    run: String,
    interval: Duration,
    history: History,
    latest: Json,
    /// Why there is no newer sample.
    notice: Option<String>,
    tree: Json,
}

impl Shown {
    fn data(&self, seen: Seen<'_>) -> Json {
        let after = if seen.run == self.run { seen.after } else { 0 };
        json!({
            "database": self.database,
            "run": self.run,
            "interval": self.interval.as_secs_f64(),
            "notice": self.notice,
            "samples": self.history.after(after),
            "latest": self.latest,
            "tree": self.tree,
        })
    }
}

impl Ui {
    pub fn run(self) -> Outcome {
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::io("listen for", "interrupts", error))?;
        let database = escape(self.files.db.as_os_str().as_bytes());
        let inspector = self.files.inspect()?;
        inspector.tables()?;
        let server = RefCell::new(Server::listen(self.listen)?);
        let address = server.borrow().address();
        show(
            || json!({ "address": address.to_string() }),
            || format!("http://{address} shows {database}; Ctrl-C ends it\n"),
        )?;
        let shown = RefCell::new(Shown {
            database,
            run: format!("{:016x}", seed_from_os()),
            interval: self.interval,
            history: History::default(),
            latest: Json::Null,
            notice: None,
            tree: Json::Null,
        });
        self.serve(&interrupt, &inspector, &server, &shown)
    }

    fn serve(
        &self,
        interrupt: &Interrupt,
        inspector: &Inspector,
        server: &RefCell<Server>,
        shown: &RefCell<Shown>,
    ) -> Outcome {
        let clock = SystemClock::new();
        let attend = || {
            let answer = |seen: Seen<'_>| shown.borrow().data(seen).to_string();
            server.borrow_mut().serve(&clock, PAGE, answer);
            !interrupt.is_set()
        };
        let (mut before, mut asked_at, mut tree_at) = (None, Duration::ZERO, Duration::ZERO);
        while attend() {
            let now = clock.now();
            if now >= tree_at {
                // While a new manifest replaces the old one, the picture stays.
                if let Ok(tables) = inspector.tables() {
                    shown.borrow_mut().tree = picture::of(&tables);
                }
                tree_at = clock.now() + TREE_EVERY.max((clock.now() - now) * TREE_SHARE);
            }
            if now < asked_at {
                clock.sleep(IDLE.min(asked_at - now));
                continue;
            }
            let asked = ask(&self.files.db, attend);
            asked_at = now + pause(self.interval, asked.is_ok());
            match asked {
                Ok(status) => {
                    let sample = before.and_then(|it| Sample::between(&it, status.clone()));
                    if let Some(sample) = sample {
                        let mut shown = shown.borrow_mut();
                        shown.history.add(&sample);
                        (shown.latest, shown.notice) = (sample.json(), None);
                    }
                    before = Some(status);
                }
                Err(failure) => {
                    before = None;
                    shown.borrow_mut().notice = Some(failure.why());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::stats::LiveStatus;

    #[test]
    fn a_page_of_another_run_gets_all_samples() {
        let status = |seconds| {
            let mut status = LiveStatus::default();
            status.at = Duration::from_secs(seconds);
            status
        };
        let sample = Sample::between(&status(1), status(2)).unwrap();
        let mut shown = Shown {
            database: "db".to_owned(),
            run: "this".to_owned(),
            interval: Duration::from_secs(1),
            history: History::default(),
            latest: Json::Null,
            notice: None,
            tree: Json::Null,
        };
        (0..5).for_each(|_| shown.history.add(&sample));
        let samples = |run, after| {
            let data = shown.data(Seen { run, after });
            assert_eq!(data["run"], "this");
            data["samples"].as_array().unwrap().len()
        };
        assert_eq!([samples("this", 0), samples("this", 3), samples("this", 5)], [5, 2, 0]);
        assert_eq!([samples("other", 3), samples("other", 5), samples("", 9)], [5; 3]);
    }
}
