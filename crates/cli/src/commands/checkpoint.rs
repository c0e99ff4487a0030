//! `esker checkpoint`: a copy that opens by itself.

use crate::database_options::DatabaseOptions;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::show;
use crate::place::Home;
use crate::progress::Progress;
use esker::checkpoint::{self, Requested};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Make a consistent copy of the database in a new directory
///
/// Tables are shared by hard links where the file system can, so this is quick and takes little
/// space. The copy is a database of its own. If another process has the database open, that one makes
/// the copy: `esker serve` and the commands of this program that write do, and any program that has
/// `Settings::answers_requests` on.
#[derive(clap::Args)]
pub struct Checkpoint {
    #[command(flatten)]
    home: Home,
    /// The directory to make
    target: PathBuf,
    #[command(flatten)]
    database: DatabaseOptions,
}

impl Checkpoint {
    pub fn run(self) -> Outcome {
        Progress::during("copying", || self.copy())?;
        let target = self.target.display().to_string();
        show(|| json!({ "checkpoint": target }), || format!("checkpoint {target}\n"))
    }

    /// Copies the database; if another process has it open, through that one.
    fn copy(&self) -> Outcome {
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::io("listen for", "interrupts", error))?;
        let goes_on = || !interrupt.is_set();
        let settings = self.database.settings(&self.home)?;
        let opened = self.home.try_open_existing(settings.clone())?;
        let db = match opened {
            Ok(db) => db,
            // On a device of chunks there is no place for a request.
            Err(esker::Error::Locked { .. }) if !self.home.is_on_flash() => {
                match checkpoint::request(&self.home.db, &self.target, goes_on)? {
                    Requested::Done => return Ok(()),
                    Requested::Abandoned => return Err(abandoned(&self.target)),
                    Requested::NotOpen => self.home.open_existing(settings)?,
                }
            }
            Err(error) => return Err(error.into()),
        };
        db.checkpoint_while(&self.target, &goes_on)?;
        self.home.close(db)
    }
}

fn abandoned(target: &Path) -> Failure {
    let target = target.display();
    let what = "interrupted; the process that has the database open may still make the copy in";
    Failure::Interrupted(format!("{what} {target}"))
}
