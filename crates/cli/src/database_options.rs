//! Settings of a database as flags.

use crate::failure::Outcome;
use crate::options::parse_sync;
use crate::place::Home;
use crate::session;
use crate::units::parse_bytes;
use clap::Args;
use esker::options::BackgroundWriteRate;
use esker::{Settings, SyncPolicy};

/// Settings of a database.
#[derive(Args, Default)]
#[command(next_help_heading = "Settings of the database")]
pub struct DatabaseOptions {
    /// The size of a log segment, and so of a MemTable; with --pool, that of its extents [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub segment: Option<usize>,
    /// The memory budget [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub memory: Option<usize>,
    /// Threads for compaction [default: 2]
    #[arg(long, value_name = "N")]
    pub background_threads: Option<usize>,
    /// The most bytes per second that flushes and compactions write, as 20MiB or 5MiB..100MiB [default: unlimited]
    #[arg(long, value_name = "RATE")]
    pub background_write_rate: Option<BackgroundWriteRate>,
}

/// When the log is synced, of commands that do not sync each write themselves.
#[derive(Args, Default)]
#[command(next_help_heading = "Settings of the database")]
pub struct SyncOptions {
    /// When the log is synced: always, os (never by the engine), or a number of milliseconds [default: os]
    #[arg(long, value_name = "always|os|MS", value_parser = parse_sync)]
    pub sync: Option<SyncPolicy>,
}

impl DatabaseOptions {
    /// The settings of the database `home`, in their ranges.
    pub fn settings(&self, home: &Home) -> Outcome<Settings> {
        self.settings_with(home, &SyncOptions::default())
    }

    /// The same, with a log that is synced as `log` says.
    pub fn settings_with(&self, home: &Home, log: &SyncOptions) -> Outcome<Settings> {
        if let Some(session) = session::get() {
            return Ok(session.settings.clone());
        }
        let default = Settings::default();
        let settings = Settings::default()
            .log(home.log(log.sync.unwrap_or(SyncPolicy::Os)))
            .segment_bytes(home.extent_bytes().or(self.segment).unwrap_or(default.segment_bytes))
            .memory_bytes(self.memory.unwrap_or(default.memory_bytes))
            .background_threads(self.background_threads.unwrap_or(default.background_threads))
            .background_write_rate(self.background_write_rate.unwrap_or_default())
            .answers_requests(true);
        let settings = home.keys.apply(settings)?;
        settings.validate()?;
        Ok(settings)
    }
}
