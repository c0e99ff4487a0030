//! The `esker` program: a database in a directory, from the command line.
//!
//! Each command is a file under `commands`, with its arguments and its work. They share:
//!
//! * [`place`]: the database, the keyspace and the range that a command works on;
//! * [`database_options`]: settings of a database as flags;
//! * [`keys`]: the keys of an encrypted database;
//! * [`session`]: the database that a shell keeps open for the commands of its lines;
//! * [`machine`]: its host name;
//! * [`import`]: readers of the formats that `esker import` takes; [`tree`]: the picture of the levels;
//! * the library `esker_cli`: output, messages, exit statuses, units.
//!
//! Results go to standard output, everything else to standard error. A reader that goes away, such as
//! `head`, ends the program without a message.

#![forbid(unsafe_code)]
// These panic when nobody hears them: `output::tell` and a `Write` that may fail are there instead.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod arguments;
mod commands;
mod database_options;
mod demo;
mod import;
mod keys;
mod machine;
mod place;
mod secret_file;
mod session;
mod tree;

use esker_cli::{
    failure, form, interrupt, limits, options, output, progress, style, temporary, text, units,
};
use std::process::ExitCode;

fn main() -> ExitCode {
    match arguments::parse().and_then(arguments::Command::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
