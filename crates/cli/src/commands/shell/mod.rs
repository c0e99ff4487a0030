//! `esker shell`: commands on one database, line after line.
//!
//! The database is opened once ([`crate::session`]). A line is a command line without the program's
//! name and without the database: [`line`] parses it by the definitions of the program itself, so
//! every option is there. At a terminal, [`prompt`] edits and completes lines, and an error ends
//! nothing. From anything else, the first command that fails ends the shell with its exit status.

mod line;
mod prompt;

use crate::database_options::{DatabaseOptions, SyncOptions};
use crate::failure::{Failure, Outcome};
use crate::output::is_json;
use crate::place::Home;
use crate::session::{self, Session};
use esker::{Settings, SyncPolicy};
use line::{Line, Lines};
use std::io::{BufRead, IsTerminal};

/// Run commands on one open database
///
/// A line is a command without `esker` and without the database: put greeting hello. Quotes are as in
/// a POSIX shell. help lists the commands; exit, quit or Ctrl-D leaves; Ctrl-C drops a line or stops
/// the command that runs. Without a terminal, there is no prompt, and the first command that fails
/// ends the shell with its exit status.
#[derive(clap::Args)]
pub struct Shell {
    #[command(flatten)]
    home: Home,
    /// Create the database if it is missing
    #[arg(long, conflicts_with = "read_only")]
    create: bool,
    /// Open the database for reading only, also while another process has it open
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    log: SyncOptions,
    #[command(flatten)]
    database: DatabaseOptions,
}

impl Shell {
    pub fn run(self) -> Outcome {
        let session = self.begin()?;
        let lines = Lines::of(&self.home.db, is_json());
        let result = match std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
            true => prompt::run(&lines, session),
            false => run_script(&lines, std::io::stdin().lock()),
        };
        let closed = session.db.clone().close().map_err(Failure::from);
        result.and(closed)
    }

    fn begin(&self) -> Outcome<&'static Session> {
        if self.read_only {
            let settings = Settings::default().log(self.home.log(SyncPolicy::Os));
            return Ok(session::begin(self.home.open_for_reading()?, settings));
        }
        let settings = self.database.settings_with(&self.home, &self.log)?;
        let db = match self.create {
            true => self.home.open(settings.clone())?,
            false => self.home.open_existing_or_advise(settings.clone())?,
        };
        Ok(session::begin(db, settings))
    }
}

/// Runs the commands of `input` up to the first that fails.
fn run_script(lines: &Lines, mut input: impl BufRead) -> Outcome {
    let mut bytes = Vec::new();
    for number in 1u64.. {
        bytes.clear();
        let read = input.read_until(b'\n', &mut bytes);
        if read.map_err(|error| Failure::io("read", "standard input", error))? == 0 {
            break;
        }
        let result = lines.parse(&bytes).and_then(|line| match line {
            Line::Leave => Ok(false),
            Line::Blank => Ok(true),
            Line::Command(command) => command.run().map(|()| true),
        });
        match result {
            // Help was asked for.
            Err(Failure::Said(0)) => {}
            Err(failure) => return Err(failure.at(&format!("line {number}"))),
            Ok(true) => {}
            Ok(false) => break,
        }
    }
    Ok(())
}
