//! Records, and the formats and rules by which lines become records.

use crate::failure::{Failure, Outcome};
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
    /// The format that a file's name says.
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

/// How records become entries.
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

/// An entry, and the line that it began on.
#[derive(Default)]
pub(super) struct Record {
    pub(super) line: u64,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// What a parser found.
pub(super) enum Step {
    /// A record.
    Record,
    /// Lines that hold none.
    Bad(Bad),
    /// The end.
    End,
}

/// Lines that hold no record, up to the one that was read last.
pub(super) struct Bad {
    /// The first of them.
    pub(super) line: u64,
    pub(super) what: String,
}

impl Bad {
    pub(super) fn new(line: u64, what: impl Into<String>) -> Self {
        Bad { line, what: what.into() }
    }
}
