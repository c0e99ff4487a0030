//! `esker checkpoint`: a copy that opens by itself.

use crate::failure::Outcome;
use crate::options::DatabaseOptions;
use crate::output::{print_json, stdout};
use crate::place::Home;
use crate::progress::Progress;
use esker::{Requested, request_checkpoint};
use esker_base::{SystemClock, ambient_seed};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Make a consistent copy of the database in a new directory
///
/// Tables are shared by hard links where the file system can, so this is quick and takes little
/// space. The copy is a database of its own. If another process has the database open, that one makes
/// the copy: `esker serve` and every command of this program do, and any program that has
/// `Settings::answers_requests` on.
#[derive(clap::Args)]
pub struct Checkpoint {
    #[command(flatten)]
    home: Home,
    /// The directory to make
    target: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: DatabaseOptions,
}

impl Checkpoint {
    pub fn run(self) -> Outcome {
        Progress::during("copying", || self.copy())?;
        let target = self.target.display();
        if self.json {
            return print_json(&json!({ "checkpoint": target.to_string() }));
        }
        Ok(writeln!(stdout(), "checkpoint {target}")?)
    }

    /// Copies the database; if another process has it open, through that one.
    fn copy(&self) -> Outcome {
        let settings = self.database.settings(&self.home)?;
        let opened = self.home.try_open_existing(settings.clone())?;
        let db = match opened {
            Ok(db) => db,
            // On a device of chunks there is no place for a request.
            Err(esker::Error::Locked { .. }) if !self.home.is_on_flash() => {
                let (clock, seed) = (SystemClock::new(), ambient_seed());
                match request_checkpoint(&self.home.db, &self.target, &clock, seed)? {
                    Requested::Done => return Ok(()),
                    Requested::NotOpen => self.home.open_existing(settings)?,
                }
            }
            Err(error) => return Err(error.into()),
        };
        db.checkpoint(&self.target)?;
        Ok(db.close()?)
    }
}
