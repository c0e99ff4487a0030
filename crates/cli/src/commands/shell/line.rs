//! A line of the shell: its words, and the command that they are.

use crate::arguments::{self, Command};
use crate::failure::{Failure, Outcome};
use crate::output::use_json;
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The commands of a line: those that work on an open database.
const COMMANDS: [&str; 18] = [
    "get",
    "put",
    "merge",
    "delete",
    "scan",
    "count",
    "import",
    "export",
    "keyspaces",
    "drop-keyspace",
    "indexes",
    "prepared",
    "stats",
    "levels",
    "set",
    "compact",
    "checkpoint",
    "help",
];

/// Leaves the shell.
pub const LEAVE: [&str; 2] = ["exit", "quit"];

/// Arguments that say which database, and how it is opened.
const OF_THE_SHELL: [&str; 10] = [
    "log_dir",
    "pool",
    "emulated",
    "accept_torn_log",
    "create",
    "sync",
    "segment",
    "memory",
    "background_threads",
    "background_write_rate",
];

/// What a line asks for.
pub enum Line {
    Blank,
    Leave,
    Command(Box<Command>),
}

/// Parses lines.
pub struct Lines {
    /// The program's own definitions, with the arguments hidden that the shell has already.
    pub syntax: clap::Command,
    db: PathBuf,
    is_json: bool,
}

impl Lines {
    /// For commands on the database `db`, whose facts are JSON if `is_json` or the line has --json.
    pub fn of(db: &Path, is_json: bool) -> Self {
        let program = arguments::command();
        let is_hidden = |id: &str| id == "db" || OF_THE_SHELL.contains(&id);
        let hide = |command: clap::Command| {
            command.mut_args(|argument| match is_hidden(argument.get_id().as_str()) {
                true => argument.hide(true),
                false => argument,
            })
        };
        let is_here = |command: &&clap::Command| COMMANDS.contains(&command.get_name());
        let commands: Vec<_> =
            program.get_subcommands().filter(is_here).cloned().map(hide).collect();
        let syntax = clap::Command::new("esker shell")
            .no_binary_name(true)
            .subcommand_required(true)
            .override_usage("COMMAND [ARGUMENTS]")
            .after_help("exit, quit or Ctrl-D leaves the shell.")
            .args(program.get_arguments().cloned())
            .subcommands(commands);
        Lines { syntax, db: db.to_owned(), is_json }
    }

    /// The command of a line. Prints help if the line asks for it.
    pub fn parse(&self, line: &[u8]) -> Outcome<Line> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let words = shlex::bytes::split(line.strip_suffix(b"\r").unwrap_or(line));
        let words = words.ok_or_else(|| Failure::Usage("a quote is not closed".to_owned()))?;
        let mut words: Vec<_> = words.into_iter().map(OsString::from_vec).collect();
        match &words[..] {
            [] => return Ok(Line::Blank),
            [word] if LEAVE.iter().any(|leave| word == leave) => return Ok(Line::Leave),
            _ => {}
        }
        // A usage error is printed as JSON, too.
        let is_json = words.iter().take_while(|word| *word != "--").any(|word| word == "--json");
        use_json(self.is_json || is_json);
        // The first positional argument of each command.
        if words[0] != "help" && COMMANDS.iter().any(|command| words[0] == *command) {
            words.insert(1, self.db.clone().into_os_string());
        }
        let matches =
            self.syntax.clone().try_get_matches_from(words).map_err(esker_cli::refusal)?;
        expect_only_its_own(&matches)?;
        let command = Command::from_arg_matches(&matches).map_err(esker_cli::refusal)?;
        Ok(Line::Command(Box::new(command)))
    }
}

/// Fails if a line has an option that the shell alone takes.
fn expect_only_its_own(matches: &ArgMatches) -> Outcome {
    let Some((_, matches)) = matches.subcommand() else { return Ok(()) };
    for id in OF_THE_SHELL {
        let is_there = matches.try_contains_id(id).is_ok();
        if is_there && matches.value_source(id) == Some(ValueSource::CommandLine) {
            let flag = id.replace('_', "-");
            let what = format!("--{flag} is an option of `esker shell`, not of a command in it");
            return Err(Failure::Usage(what));
        }
    }
    Ok(())
}
