//! What the program prints, and where.
//!
//! Facts go to standard output, as text or as JSON. Messages go to standard error. Both pass through
//! here, so that no control character of a key, a value or a file name reaches a terminal. Exact bytes
//! go through [`raw_stdout`] alone.

use crate::failure::{Failure, Outcome};
use crate::text::{escape, visible};
use serde_json::{Value as Json, json};
use std::fmt::Display;
use std::io::{BufWriter, Result, StdoutLock, Write};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether `--json` was given.
static JSON: AtomicBool = AtomicBool::new(false);

/// The program's name, in front of its messages.
static NAME: OnceLock<&str> = OnceLock::new();

/// Sets the program's name, once.
pub fn use_name(name: &'static str) {
    NAME.get_or_init(|| name);
}

fn name() -> &'static str {
    NAME.get().copied().unwrap_or("esker")
}

/// From now on prints facts, messages and errors as JSON, if `wanted`.
pub fn use_json(wanted: bool) {
    JSON.store(wanted, Ordering::Relaxed);
}

/// Whether facts are printed as JSON.
pub fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Prints the facts of a command: as JSON on a line, or as text, which ends its own lines.
pub fn show(json: impl FnOnce() -> Json, text: impl FnOnce() -> String) -> Outcome {
    if is_json() {
        return print_json(&json());
    }
    let mut out = stdout();
    out.write_all(text().as_bytes())?;
    Ok(out.flush()?)
}

/// Standard output for text: control characters are escaped, except newlines and tabs.
pub fn stdout() -> Visible<BufWriter<StdoutLock<'static>>> {
    Visible(raw_stdout())
}

/// Standard output for bytes that are wanted as they are, and for text that is escaped already.
pub fn raw_stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::new(std::io::stdout().lock())
}

fn print_json(value: &Json) -> Outcome {
    let mut out = raw_stdout();
    put_json(&mut out, value)?;
    Ok(out.flush()?)
}

/// Writes a JSON value on a line to `out`.
pub fn put_json(out: &mut impl Write, value: &impl serde::Serialize) -> Outcome {
    Ok(out.write_all(json_line(value)?.as_bytes())?)
}

/// A JSON value with a newline after it.
pub fn json_line(value: &impl serde::Serialize) -> Outcome<String> {
    Ok(visible_json(serde_json::to_string(value)?) + "\n")
}

/// JSON text in which those control characters are escaped, too, that JSON allows in strings.
pub fn visible_json(text: String) -> String {
    // A newline is between values: in a string it is escaped already.
    let is_hidden = |character: char| character.is_control() && character != '\n';
    if !text.contains(is_hidden) {
        return text;
    }
    let shown = |character: char| match is_hidden(character) {
        true => format!("\\u{:04x}", character as u32),
        false => character.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Prints `message` on standard error: `esker: message`, or `{"message": …}`.
///
/// An error of this write is ignored: the reader may be gone, or its disk full, and the work goes on.
pub fn tell(message: impl Display) {
    let message = message.to_string();
    match is_json() {
        true => to_stderr(&json!({ "message": message }).to_string()),
        false => to_stderr(&format!("{}: {message}", name())),
    }
}

/// Prints why the program ends, on standard error: `esker: message`, or `{"error": …}`.
pub fn tell_error(kind: &str, message: &str, status: u8) {
    let error = json!({ "error": { "kind": kind, "message": message, "status": status } });
    match is_json() {
        true => to_stderr(&error.to_string()),
        false => to_stderr(&format!("{}: {message}", name())),
    }
}

impl Failure {
    /// Informs the user, and gives the exit status.
    pub fn report(self) -> ExitCode {
        let (kind, message, status) = match self {
            Failure::No(answer, message) => (answer.kind(), message, 1),
            Failure::Failed(message) => ("failed", message, 2),
            Failure::Usage(message) => ("usage", message, 2),
            Failure::Interrupted(message) => ("interrupted", message, 130),
            Failure::Said(status) => return ExitCode::from(status),
            Failure::PipeClosed => return ExitCode::SUCCESS,
        };
        tell_error(kind, &message, status);
        ExitCode::from(status)
    }
}

/// Prints text on standard error that is no message, such as help.
pub fn to_stderr(text: &str) {
    // In one piece, so that no line of another process comes between.
    let line = match is_json() {
        true => visible_json(text.to_owned()) + "\n",
        false => format!("{}\n", visible(text)),
    };
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Escapes control characters, except newlines and tabs, in text on its way to `W`.
pub struct Visible<W>(W);

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        for chunk in bytes.utf8_chunks() {
            self.0.write_all(visible(chunk.valid()).as_bytes())?;
            self.0.write_all(escape(chunk.invalid()).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_keeps_its_lines_and_loses_its_control_characters() {
        let mut out = Visible(Vec::new());
        out.write_all("a\tb\\\nc\r\x1b[2J\x7f\u{85}é".as_bytes()).unwrap();
        out.write_all(b"\xff").unwrap();
        let text = String::from_utf8(out.0).unwrap();
        assert_eq!(text, "a\tb\\\nc\\r\\x1b[2J\\x7f\\xc2\\x85é\\xff");
    }

    #[test]
    fn json_has_no_control_characters_and_is_read_back() {
        let text = "a\r\x7f\u{85}é\"";
        let line = json_line(&text).unwrap();
        assert_eq!(line, "\"a\\r\\u007f\\u0085é\\\"\"\n");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }
}
