//! Files of records into a keyspace: any number of them, in bounded memory.
//!
//! ```text
//! source ──► lines ──► parser (delimited, json) ──► record ──► sink: batches
//! a thread   bounded   a record or a bad line                  committed as they fill
//! reads on   length
//! ```
//!
//! A bad line stops the import or is skipped, as the user wishes; what was read before it is
//! committed either way, and the tally says how much that is.

mod delimited;
mod json;
mod lines;
mod sink;
mod source;

pub use lines::longest_line;
pub use source::Source;

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::message::tell;
use crate::progress::Progress;
use crate::units;
use delimited::{Delimited, Opened};
use esker::{Db, Keyspace};
use json::JsonLines;
use lines::Lines;
use sink::Sink;
use std::io::{BufRead, ErrorKind};
use std::path::Path;

/// A file format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    /// Fields between tabs
    Tsv,
    /// Fields between commas, quoted where need be (RFC 4180)
    Csv,
    /// A JSON object on each line
    Jsonl,
}

impl Format {
    /// The format that a file's name tells.
    pub fn of_file(path: &Path) -> Outcome<Format> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match &extension[..] {
            "tsv" | "tab" => Ok(Format::Tsv),
            "csv" => Ok(Format::Csv),
            "jsonl" | "ndjson" => Ok(Format::Jsonl),
            _ => {
                let path = path.display();
                Err(Failure::Usage(format!(
                    "the name {path} does not say its format; add --format tsv, csv or jsonl"
                )))
            }
        }
    }
}

/// What to do about a line that holds no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum OnError {
    /// Stop there; what came before stays imported
    Fail,
    /// Say so and go on
    Skip,
}

/// How records become pairs.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The column or field that is the key. `None`: the file is an export, and says it itself.
    pub key: Option<String>,
    /// The column or field that is the value. `None`: the whole record, as a JSON object.
    pub value: Option<String>,
    /// Put before each key.
    pub key_prefix: Vec<u8>,
    /// The first line is a record already.
    pub no_header: bool,
    /// Fields follow the escape rule.
    pub escaped: bool,
}

/// A pair, and the line that it began on.
#[derive(Default)]
struct Record {
    line: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// What a parser found.
enum Step {
    /// A record.
    Record,
    /// A line that is none, and why.
    Bad { line: u64, what: String },
    /// The end.
    End,
}

enum Parser {
    Delimited(Delimited),
    Json(JsonLines),
}

impl Parser {
    fn next(
        &mut self,
        input: &mut Lines<impl BufRead>,
        record: &mut Record,
    ) -> std::io::Result<Step> {
        match self {
            Parser::Delimited(parser) => parser.next(input, record),
            Parser::Json(parser) => parser.next(input, record),
        }
    }
}

/// What an import came to.
#[derive(Debug, Default)]
pub struct Tally {
    /// Records committed.
    pub records: u64,
    /// Bad lines skipped.
    pub skipped: u64,
    /// Bytes read.
    pub bytes: u64,
    /// What stopped it before the end, if anything did.
    pub stopped: Option<Stopped>,
}

/// Why an import ended before its input.
#[derive(Debug)]
pub enum Stopped {
    /// The user wished so.
    Interrupted,
    /// A bad line, described.
    BadLine(String),
    /// The input could not be read, or the database not be written.
    Failed(Failure),
}

/// Bad lines are reported one by one up to here, then counted.
const REPORTED_MAX: u64 = 20;

/// One import.
pub struct Job<'a> {
    /// What to call the input in messages.
    pub name: String,
    /// Its format.
    pub format: Format,
    /// How records become pairs.
    pub rules: Rules,
    /// What to do about bad lines.
    pub on_error: OnError,
    /// How the user may stop it.
    pub interrupt: &'a Interrupt,
    /// Where it shows how far it is.
    pub progress: &'a Progress,
    /// The most that one write batch may hold, in bytes.
    pub batch_bytes: usize,
    /// The longest line, in bytes: see [`longest_line`].
    pub line_bytes: usize,
}

/// An input whose beginning was read, so far as it says what the records look like.
pub struct Begun<R> {
    lines: Lines<R>,
    /// `None` if there are no records.
    parser: Option<Parser>,
    /// Bad lines skipped already.
    skipped: u64,
}

impl Job<'_> {
    /// Reads the beginning of `input`. Fails if the file can't be what the user meant.
    pub fn begin<R: BufRead>(&self, input: R) -> Outcome<Begun<R>> {
        let rules = || self.rules.clone();
        let mut begun =
            Begun { lines: Lines::with_limit(input, self.line_bytes), parser: None, skipped: 0 };
        if self.format == Format::Jsonl {
            begun.parser = Some(Parser::Json(JsonLines::new(rules())));
            return Ok(begun);
        }
        loop {
            let opened = Delimited::open(self.format, rules(), &mut begun.lines);
            match opened.map_err(|error| self.read_failed(error))? {
                Opened::Parser(parser) => begun.parser = Some(Parser::Delimited(parser)),
                Opened::Empty => {}
                Opened::Unfit(what) => {
                    return Err(Failure::Usage(format!("{}: {what}", self.name)));
                }
                Opened::BadRecord { line, what } => {
                    let message = format!("{}:{line}: {what}", self.name);
                    if self.on_error == OnError::Fail {
                        return Err(Failure::new(format!("{message}; nothing was imported")));
                    }
                    self.skip(&mut begun.skipped, &message);
                    continue;
                }
            }
            return Ok(begun);
        }
    }

    fn skip(&self, skipped: &mut u64, message: &str) {
        *skipped += 1;
        if *skipped <= REPORTED_MAX {
            self.progress.say(&format!("esker: {message}; skipped"));
        }
    }

    /// Imports all of the input. Everything counted in the tally is committed when this returns, and survives
    /// power loss; unless the tally says that something failed: then it survives the process.
    pub fn run<R: BufRead>(self, db: &Db, keyspace: &Keyspace, begun: Begun<R>) -> Tally {
        let Begun { mut lines, parser, skipped } = begun;
        let mut sink = Sink::new(db, keyspace, self.batch_bytes);
        let mut tally = Tally { skipped, ..Tally::default() };
        let Some(mut parser) = parser else { return tally };
        let moved = self.move_all(&mut parser, &mut lines, &mut sink, &mut tally.skipped);
        let (records, ended) = sink.finish();
        tally.records = records;
        tally.stopped = match (moved, ended) {
            (Err(failure), _) | (Ok(_), Err(failure)) => Some(Stopped::Failed(failure)),
            (Ok(stopped), Ok(())) => stopped,
        };
        tally.bytes = lines.bytes_read();
        self.progress.finish();
        if tally.skipped > REPORTED_MAX {
            let more = units::counted(tally.skipped - REPORTED_MAX, "more bad line");
            tell(format_args!("esker: {}: {more} skipped", self.name));
        }
        tally
    }

    /// Moves records until the input ends, or gives what stopped it.
    fn move_all(
        &self,
        parser: &mut Parser,
        lines: &mut Lines<impl BufRead>,
        sink: &mut Sink<'_>,
        skipped: &mut u64,
    ) -> Outcome<Option<Stopped>> {
        let mut record = Record::default();
        loop {
            let step = match parser.next(lines, &mut record) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    return Ok(Some(Stopped::Interrupted));
                }
                step => step.map_err(|error| self.read_failed(error))?,
            };
            let (line, what) = match step {
                Step::End => return Ok(None),
                Step::Bad { line, what } => (line, what),
                Step::Record => match sink.add(&record)? {
                    Ok(()) => {
                        self.progress.at(lines.bytes_read());
                        if self.interrupt.is_set() {
                            return Ok(Some(Stopped::Interrupted));
                        }
                        continue;
                    }
                    Err(what) => (record.line, what),
                },
            };
            let message = format!("{}:{line}: {what}", self.name);
            if self.on_error == OnError::Fail {
                return Ok(Some(Stopped::BadLine(message)));
            }
            self.skip(skipped, &message);
        }
    }

    fn read_failed(&self, error: std::io::Error) -> Failure {
        match error.kind() {
            ErrorKind::Interrupted => {
                Failure::Interrupted("interrupted; nothing was imported".into())
            }
            _ => Failure::io("read", &self.name, error),
        }
    }
}

#[cfg(test)]
mod tests;
