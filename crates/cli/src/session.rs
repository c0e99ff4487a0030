//! The database that `esker shell` has open, for the commands of its lines.
//!
//! There is at most one, for as long as the process runs. [`crate::place::Home`] gives it to each
//! command instead of opening a database, and does not close it.

use crate::failure::{Failure, Outcome};
use esker::{Db, Settings};
use std::sync::OnceLock;

static SESSION: OnceLock<Session> = OnceLock::new();

/// An open database.
pub struct Session {
    pub db: Db,
    /// The settings with which it was opened.
    pub settings: Settings,
}

/// Keeps a database open for all commands to come.
pub fn begin(db: Db, settings: Settings) -> &'static Session {
    SESSION.get_or_init(|| Session { db, settings })
}

/// The open database, in a shell.
pub fn get() -> Option<&'static Session> {
    SESSION.get()
}

/// Fails in a shell, which needs `what` for its lines.
pub fn expect_none(what: &str) -> Outcome {
    match get() {
        Some(_) => Err(Failure::Usage(format!("a command in the shell cannot have {what}"))),
        None => Ok(()),
    }
}
