//! The process that the demo kills: it writes batches, and acknowledges each on standard output once
//! the database has acknowledged it.

use super::proof::Books;
use crate::failure::{Failure, Outcome};
use esker::{Db, Log, Settings, SyncPolicy};
use std::io::Write;
use std::path::PathBuf;

/// Write batches until killed (for the demo)
#[derive(clap::Args)]
pub struct DemoWriter {
    /// The database directory
    db: PathBuf,
}

/// The name of the command.
pub const COMMAND: &str = "demo-writer";

/// An acknowledgement is a batch's number in so many bytes.
pub const ACKNOWLEDGEMENT_BYTES: usize = 8;

impl DemoWriter {
    pub fn run(self) -> Outcome {
        let log = Log::File { dir: None, sync: SyncPolicy::Always };
        let db = Db::open_existing(&self.db, Settings::default().log(log))?;
        let books = Books::open(&db)?;
        let mut number = books.latest(&db)?;
        let mut out = std::io::stdout().lock();
        let mut batch = db.batch();
        loop {
            number += 1;
            batch.clear();
            books.fill(number, &mut batch);
            db.write(&batch)?;
            let told = out.write_all(&number.to_le_bytes()).and_then(|()| out.flush());
            told.map_err(|error| Failure::io("write to", "the demo's pipe", error))?;
        }
    }
}
