//! `esker checkpoint`: a copy that opens by itself.

use super::{print_json, stdout};
use crate::failure::Outcome;
use crate::options::DatabaseOptions;
use crate::place::Home;
use crate::progress::Progress;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Make a consistent copy of the database in a new directory
///
/// Tables are shared by hard links where the file system can, so this is quick and takes little
/// space. The copy is a database of its own.
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
        let db = self.home.open_existing(self.database.settings(&self.home)?)?;
        Progress::during("copying", || db.checkpoint(&self.target))?;
        db.close()?;
        let target = self.target.display();
        if self.json {
            return print_json(&json!({ "checkpoint": target.to_string() }));
        }
        Ok(writeln!(stdout(), "checkpoint {target}")?)
    }
}
