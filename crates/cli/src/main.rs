//! The `esker` program: a database in a directory, from the command line.
//!
//! Each command is a file under `commands`, with its arguments and its work. What they share:
//!
//! * [`place`]: the database, the keyspace and the range that a command works on;
//! * [`options`]: settings as flags;
//! * [`limits`]: what is refused before a database is created;
//! * [`temporary`]: directories that do not outlive the program;
//! * [`text`]: bytes as text that can be read, and read back; [`form`]: how arguments stand for bytes;
//! * [`progress`]: how far a command is, on a terminal;
//! * [`output`]: facts and messages on their way out;
//! * [`failure`]: what the user is told, and the exit status: 0 done, 1 not found, 2 failed or wrong
//!   usage, 130 interrupted.
//!
//! Facts go to standard output, everything else to standard error. A reader that goes away, such as
//! `head`, ends the program quietly.

#![forbid(unsafe_code)]
// These panic when nobody hears them: `output::tell` and a `Write` that may fail are there instead.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod arguments;
mod commands;
mod demo;
mod failure;
mod form;
mod import;
mod interrupt;
mod limits;
mod options;
mod output;
mod place;
mod progress;
mod style;
mod temporary;
mod text;
mod tree;
mod units;

use std::process::ExitCode;

fn main() -> ExitCode {
    match arguments::parse().and_then(arguments::Command::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
