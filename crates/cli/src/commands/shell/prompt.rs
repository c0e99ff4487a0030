//! The prompt: editing, history, and completion of commands, options and keyspaces.

use super::line::{LEAVE, Line, Lines};
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::session::Session;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};
use std::ffi::OsString;
use std::path::PathBuf;

const PROMPT: &str = "esker> ";

/// Names the file of the history; if it is empty, there is none.
const HISTORY: &str = "ESKER_HISTORY";

/// Runs what is typed until the user leaves.
pub fn run(lines: &Lines, session: &Session) -> Outcome {
    let interrupt = Interrupt::listen_in_shell();
    let interrupt = interrupt.map_err(|error| Failure::io("listen for", "interrupts", error))?;
    let config = Config::builder().auto_add_history(true).build();
    let mut editor: Editor<Completions, FileHistory> =
        Editor::with_config(config).map_err(of_terminal)?;
    let keyspaces = || session.db.keyspaces().into_iter().map(|keyspace| keyspace.name).collect();
    editor.set_helper(Some(Completions { lines, keyspaces: &keyspaces }));
    let history = history_file(std::env::var_os(HISTORY), std::env::var_os("HOME"));
    if let Some(file) = &history {
        // There is none before the first time.
        _ = editor.load_history(file);
    }
    let result = loop {
        match editor.readline(PROMPT) {
            Ok(text) => {
                if !run_typed(lines, &text, &interrupt) {
                    break Ok(());
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break Ok(()),
            Err(error) => break Err(of_terminal(error)),
        }
    };
    if let Some(file) = &history {
        // A history that cannot be kept harms no data.
        _ = editor.append_history(file);
    }
    result
}

/// Runs one line that was typed. Gives whether more is to come.
fn run_typed(lines: &Lines, text: &str, interrupt: &Interrupt) -> bool {
    interrupt.clear();
    let result = match lines.parse(text.as_bytes()) {
        Ok(Line::Leave) => return false,
        Ok(Line::Blank) => Ok(()),
        Ok(Line::Command(command)) => command.run(),
        Err(failure) => Err(failure),
    };
    if let Err(failure) = result {
        _ = failure.report();
    }
    true
}

fn of_terminal(error: ReadlineError) -> Failure {
    Failure::new(format!("could not read from the terminal: {error}"))
}

/// The file that `named` says, or one in `home`.
fn history_file(named: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    match named {
        Some(file) => (!file.is_empty()).then(|| file.into()),
        None => home.map(|home| PathBuf::from(home).join(".esker_history")),
    }
}

/// Completes the word at the cursor.
struct Completions<'a> {
    lines: &'a Lines,
    /// The keyspaces that there are now.
    keyspaces: &'a dyn Fn() -> Vec<String>,
}

impl Completions<'_> {
    /// The words that may follow `before`, whichever way they begin.
    fn words(&self, before: &[&str], word: &str) -> Vec<String> {
        let syntax = &self.lines.syntax;
        let commands = || {
            let names = syntax.get_subcommands().map(|command| command.get_name());
            names.chain(LEAVE).chain(["help"]).map(str::to_owned).collect()
        };
        match before {
            [] | ["help"] => commands(),
            [.., "-k" | "--keyspace"] => (self.keyspaces)(),
            ["drop-keyspace"] => (self.keyspaces)(),
            [command, ..] if word.starts_with('-') => {
                let Some(command) = syntax.find_subcommand(command) else { return Vec::new() };
                let arguments = command.get_arguments().filter(|one| !one.is_hide_set());
                let flags = arguments.filter_map(|one| one.get_long());
                flags.chain(["json", "help"]).map(|flag| format!("--{flag}")).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Where the word at the cursor begins, and what may follow there, in order.
    fn at(&self, line: &str, position: usize) -> (usize, Vec<String>) {
        let line = &line[..position];
        let start = line.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let (before, word) = line.split_at(start);
        let before: Vec<_> = before.split_whitespace().collect();
        let mut words = self.words(&before, word);
        words.retain(|one| one.starts_with(word));
        words.sort();
        // Nothing can follow but another argument.
        let words = words.into_iter().map(|word| word + " ");
        (start, words.collect())
    }
}

impl Completer for Completions<'_> {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.at(line, position))
    }
}

impl Helper for Completions<'_> {}
impl Highlighter for Completions<'_> {}
impl Hinter for Completions<'_> {
    type Hint = String;
}
impl Validator for Completions<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// What completes the word before `|`, with the place where the word begins.
    fn completions(line: &str) -> (usize, Vec<String>) {
        let lines = Lines::of(Path::new("db"), false);
        let keyspaces = || ["users", "default", "usage"].map(str::to_owned).into();
        let position = line.find('|').unwrap();
        Completions { lines: &lines, keyspaces: &keyspaces }.at(&line.replace('|', ""), position)
    }

    #[test]
    fn the_first_word_is_completed_to_commands() {
        assert_eq!(completions("co|"), (0, vec!["compact ".into(), "count ".into()]));
        assert_eq!(completions("help sc|"), (5, vec!["scan ".into()]));
        assert_eq!(completions("ex|it"), (0, vec!["exit ".into(), "export ".into()]));
        let (_, all) = completions("|");
        assert!(all.contains(&"quit ".into()) && !all.contains(&"repair ".into()), "{all:?}");
        assert_eq!(completions("repair|"), (0, vec![]));
    }

    #[test]
    fn options_are_those_of_the_command_without_those_of_the_shell() {
        assert_eq!(completions("scan --rev|"), (5, vec!["--reverse ".into()]));
        assert_eq!(completions("get a --js|"), (6, vec!["--json ".into()]));
        assert_eq!(completions("put --mem|"), (4, vec![]));
        assert_eq!(completions("put --cr|"), (4, vec![]));
        assert_eq!(completions("none --js|"), (5, vec![]));
        assert_eq!(completions("get a|"), (4, vec![]), "keys are not completed");
    }

    #[test]
    fn keyspaces_follow_their_option_and_the_command_that_drops_one() {
        let users = vec!["usage ".to_owned(), "users ".to_owned()];
        assert_eq!(completions("scan -k us|"), (8, users.clone()));
        assert_eq!(completions("put --keyspace us| key value"), (15, users));
        assert_eq!(completions("drop-keyspace d|"), (14, vec!["default ".into()]));
    }

    #[test]
    fn the_history_is_where_the_variable_says_or_at_home() {
        let file = |named: Option<&str>, home: Option<&str>| {
            history_file(named.map(Into::into), home.map(Into::into))
        };
        assert_eq!(file(None, Some("/home/me")), Some("/home/me/.esker_history".into()));
        assert_eq!(file(Some("/tmp/h"), Some("/home/me")), Some("/tmp/h".into()));
        assert_eq!(file(Some(""), Some("/home/me")), None);
        assert_eq!(file(None, None), None);
    }
}
