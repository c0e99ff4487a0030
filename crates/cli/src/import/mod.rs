//! Files of records into a keyspace: any number of them, in bounded memory.
//!
//! ```text
//! source ──► lines ──► parser (delimited, json) ──► record ──► sink: batches
//! a thread   bounded   a record or a bad line                  committed as they fill
//! reads on   length
//! ```
//!
//! A bad line stops the import or is skipped, as the user wishes. What was read before it is
//! committed either way, unless all becomes visible at once. The tally says how much that is.

mod delimited;
mod json;
mod lines;
mod record;
mod sink;
mod source;

pub use lines::longest_line;
pub use record::{Format, Rules};
pub use sink::Way;
pub use source::Source;

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::tell;
use crate::progress::Progress;
use crate::units;
use delimited::{Delimited, Opened};
use esker::{Db, Keyspace};
use json::JsonLines;
use lines::Lines;
use record::{Bad, Record, Step};
use sink::Sink;
use std::io::{BufRead, ErrorKind};

/// What to do about a line that holds no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum OnError {
    /// Stop; what came before stays imported
    Fail,
    /// Report it and continue
    Skip,
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
    pub skipped: Skipped,
    /// Bytes read.
    pub bytes: u64,
    /// What stopped it before the end, if anything did.
    pub stopped: Option<Stopped>,
}

/// Lines that hold no record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Skipped {
    pub lines: u64,
    /// Messages about them.
    reports: u64,
    /// Lines that no message was about.
    unreported: u64,
}

/// Why an import ended before its input.
#[derive(Debug)]
pub enum Stopped {
    /// The user wished so.
    Interrupted,
    /// Bad lines, described.
    BadLine(String),
    /// The input could not be read, or the database not be written.
    Failed(Failure),
}

/// Bad records are reported one by one up to here, then counted.
const REPORTS_MAX: u64 = 20;

/// One import.
pub struct Job<'a> {
    /// What to call the input in messages.
    pub name: String,
    /// Its format.
    pub format: Format,
    /// How records become entries.
    pub rules: Rules,
    /// What to do about bad lines.
    pub on_error: OnError,
    /// How the user may stop it.
    pub interrupt: &'a Interrupt,
    /// Where it shows how far it is.
    pub progress: &'a Progress,
    /// How records get into the keyspace.
    pub way: Way,
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
    skipped: Skipped,
}

impl Job<'_> {
    /// Reads the beginning of `input`. Fails if the file can't be what the user meant.
    pub fn begin<R: BufRead>(&self, input: R) -> Outcome<Begun<R>> {
        let rules = || self.rules.clone();
        let mut begun = Begun {
            lines: Lines::with_limit(input, self.line_bytes),
            parser: None,
            skipped: Skipped::default(),
        };
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
                Opened::BadRecord(bad) => {
                    let skipped = self.skip(&bad, begun.lines.number(), &mut begun.skipped);
                    match skipped {
                        Ok(()) => continue,
                        Err(message) => {
                            return Err(Failure::new(format!("{message}; nothing was imported")));
                        }
                    }
                }
            }
            return Ok(begun);
        }
    }

    /// Skips bad lines, of which `last` is the last, if that may be. Else says why the import stops.
    fn skip(&self, bad: &Bad, last: u64, skipped: &mut Skipped) -> Result<(), String> {
        let Bad { line, what } = bad;
        let lines = 1 + last - line;
        let mut message = format!("{}:{line}: {what}", self.name);
        if lines > 1 {
            let (lines, last) = (units::count(lines), units::count(last));
            message += &format!("; the record takes {lines} lines, up to line {last}");
        }
        // A quote that nobody meant to open may have swallowed sound records.
        if lines > 1 {
            return Err(
                message + ", and records may be among them: close or double its first quote"
            );
        }
        if self.on_error == OnError::Fail {
            return Err(message + " (--on-error skip goes on)");
        }
        skipped.lines += lines;
        if skipped.reports < REPORTS_MAX {
            skipped.reports += 1;
            self.progress.say(&format!("{message}; skipped"));
        } else {
            skipped.unreported += lines;
        }
        Ok(())
    }

    /// Imports all of the input. Everything counted in the tally is committed when this returns, and survives
    /// power loss; unless the tally says that something failed: then it survives the process.
    pub fn run<R: BufRead>(self, db: &Db, keyspace: &Keyspace, begun: Begun<R>) -> Tally {
        let Begun { mut lines, parser, skipped } = begun;
        let mut tally = Tally { skipped, ..Tally::default() };
        let Some(mut parser) = parser else { return tally };
        let mut sink = match Sink::new(self.way, db, keyspace, self.batch_bytes) {
            Ok(sink) => sink,
            Err(failure) => return Tally { stopped: Some(Stopped::Failed(failure)), ..tally },
        };
        let moved = self.move_all(&mut parser, &mut lines, &mut sink, &mut tally.skipped);
        self.progress.finish();
        let (records, ended) = sink.finish(matches!(moved, Ok(None)), self.interrupt);
        tally.records = records;
        tally.stopped = match (moved, ended) {
            (Err(failure), _) | (Ok(_), Err(failure)) => Some(Stopped::Failed(failure)),
            (Ok(stopped), Ok(())) => stopped,
        };
        tally.bytes = lines.bytes_read();
        if tally.skipped.unreported > 0 {
            let more = units::counted(tally.skipped.unreported, "more bad line");
            tell(format_args!("{}: {more} skipped", self.name));
        }
        tally
    }

    /// Moves records until the input ends, or gives what stopped it.
    fn move_all(
        &self,
        parser: &mut Parser,
        lines: &mut Lines<impl BufRead>,
        sink: &mut Sink<'_>,
        skipped: &mut Skipped,
    ) -> Outcome<Option<Stopped>> {
        let mut record = Record::default();
        loop {
            let step = match parser.next(lines, &mut record) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    return Ok(Some(Stopped::Interrupted));
                }
                step => step.map_err(|error| self.read_failed(error))?,
            };
            let bad = match step {
                Step::End => return Ok(None),
                Step::Bad(bad) => bad,
                Step::Record => match sink.add(&record)? {
                    Ok(()) => {
                        self.progress.at(lines.bytes_read());
                        if self.interrupt.is_set() {
                            return Ok(Some(Stopped::Interrupted));
                        }
                        continue;
                    }
                    Err(what) => Bad::new(record.line, what),
                },
            };
            if let Err(message) = self.skip(&bad, lines.number(), skipped) {
                return Ok(Some(Stopped::BadLine(message)));
            }
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
