//! The parts of the command line that the programs `esker` and `esker-lab` share.
//!
//! * [`parse`]: the command line itself;
//! * [`options`]: settings as flags; [`limits`]: input that no database accepts;
//! * [`form`]: how arguments stand for bytes; [`text`]: bytes as readable text, and back;
//! * [`units`]: sizes, counts and rates as text;
//! * [`output`]: results and messages on their way out; [`style`]: colour; [`progress`]: progress bars;
//! * [`failure`]: error messages and exit statuses;
//! * [`interrupt`]: Ctrl-C; [`temporary`]: directories that an interrupt removes.
//!
//! It has no stable interface: it exists for these two programs.

#![forbid(unsafe_code)]
// These panic when nobody hears them: `output::tell` and a `Write` that may fail are there instead.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod failure;
pub mod form;
pub mod interrupt;
pub mod limits;
pub mod options;
pub mod output;
pub mod progress;
pub mod style;
pub mod temporary;
pub mod text;
pub mod units;

use clap::Parser;
use clap::error::ErrorKind;
use failure::{Failure, Outcome};

/// Parses the command line of the program `name`. Prints help and version itself.
///
/// `is_json` says whether the parsed arguments ask for JSON output.
///
/// # Errors
///
/// A usage error; or [`Failure::Said`] after help was printed.
pub fn parse<T: Parser>(name: &'static str, is_json: impl Fn(&T) -> bool) -> Outcome<T> {
    output::use_name(name);
    let parsed = T::try_parse();
    output::use_json(match &parsed {
        Ok(arguments) => is_json(arguments),
        // A usage error is printed as JSON, too.
        Err(_) => std::env::args_os().take_while(|one| one != "--").any(|one| one == "--json"),
    });
    parsed.map_err(refusal)
}

/// What a command line comes to that clap does not accept, or that asks for help. Prints the help.
pub fn refusal(error: clap::Error) -> Failure {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        if output::is_json() {
            return Failure::Usage("no command was given; see --help".into());
        }
        // Nobody asked for this help, so it goes to standard error, and the status is 2.
        output::to_stderr(error.render().to_string().trim_end());
        return Failure::Said(2);
    }
    if !error.use_stderr() {
        return error.print().map_or_else(Failure::from, |()| Failure::Said(0));
    }
    let message = error.render().to_string();
    Failure::Usage(message.strip_prefix("error: ").unwrap_or(&message).trim_end().to_owned())
}
