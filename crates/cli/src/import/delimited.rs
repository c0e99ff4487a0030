//! TSV and CSV.
//!
//! TSV is plain: a tab always ends a field, a newline always ends a record. CSV is RFC 4180: a field
//! may be in double quotes, and then holds commas, newlines and doubled quotes; a quote inside an
//! unquoted field stands for itself. Empty lines are passed over in both.

use super::lines::{Line, Lines, split_end};
use super::record::{Bad, Format, Record, Rules, Step};
use crate::text::unescape;
use std::collections::HashSet;
use std::io::BufRead;

/// The header of a file that `esker export` wrote.
const EXPORT_HEADER: [&str; 2] = ["esker:key", "esker:value"];

/// A record's fields, back to back.
#[derive(Default)]
struct Fields {
    data: Vec<u8>,
    ends: Vec<usize>,
}

impl Fields {
    fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
    }

    fn end_field(&mut self) {
        self.ends.push(self.data.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.data[start..self.ends[at]]
    }
}

/// Where a CSV parser is, in a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Csv {
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote inside quotes: the field's end, or half of a doubled quote.
    AfterQuote,
}

/// A parser of one file.
pub struct Delimited {
    format: Format,
    rules: Rules,
    names: Vec<String>,
    columns: usize,
    key: usize,
    value: Option<usize>,
    fields: Fields,
    line: Vec<u8>,
    /// A first record that was read for the number of columns, when there is no header.
    first: Option<u64>,
}

/// What reading one record's fields came to.
enum Split {
    Fields { line: u64 },
    Bad(Bad),
    End,
}

/// What the beginning of a file came to.
pub enum Opened {
    /// A parser of the rest.
    Parser(Delimited),
    /// There are no records.
    Empty,
    /// A wish that the file can't meet, or a header that can't be read.
    Unfit(String),
    /// Without a header: lines that hold no record. Opening again goes on after them.
    BadRecord(Bad),
}

impl Delimited {
    /// Reads the header, or without one the first record, and finds the columns.
    pub fn open(
        format: Format,
        rules: Rules,
        input: &mut Lines<impl BufRead>,
    ) -> std::io::Result<Opened> {
        let mut parser = Delimited {
            format,
            rules,
            names: Vec::new(),
            columns: 0,
            key: 0,
            value: None,
            fields: Fields::default(),
            line: Vec::new(),
            first: None,
        };
        let line = match parser.split(input)? {
            Split::End => return Ok(Opened::Empty),
            Split::Bad(bad) if parser.rules.no_header => return Ok(Opened::BadRecord(bad)),
            Split::Bad(Bad { line, what, .. }) => {
                return Ok(Opened::Unfit(format!("line {line}, the header: {what}")));
            }
            Split::Fields { line } => line,
        };
        parser.columns = parser.fields.len();
        if parser.rules.no_header {
            parser.first = Some(line);
            parser.names = (1..=parser.columns).map(|number| number.to_string()).collect();
        } else {
            let names =
                (0..parser.columns).map(|at| String::from_utf8_lossy(parser.fields.get(at)));
            parser.names = names.map(|name| name.trim().to_owned()).collect();
        }
        Ok(match parser.find_columns() {
            Ok(()) => Opened::Parser(parser),
            Err(what) => Opened::Unfit(what),
        })
    }

    fn find_columns(&mut self) -> Result<(), String> {
        let Some(key) = &self.rules.key else {
            if self.names != EXPORT_HEADER {
                return Err(format!(
                    "say which column holds the key: --key COLUMN, one of {}",
                    self.names.join(", ")
                ));
            }
            (self.key, self.value, self.rules.escaped) = (0, Some(1), true);
            return Ok(());
        };
        self.key = self.column(key)?;
        self.value = self.rules.value.as_ref().map(|name| self.column(name)).transpose()?;
        if self.value.is_some() {
            return Ok(());
        }
        // An object has one field of a name.
        let mut seen = HashSet::new();
        match (0..self.columns).find(|&at| !seen.insert(&self.names[at])) {
            None => Ok(()),
            Some(at) => Err(format!(
                "two columns are called {:?}, which a JSON object can't hold; give a column as --value",
                self.names[at]
            )),
        }
    }

    /// The column of this name, or else of this number, from 1.
    fn column(&self, wanted: &str) -> Result<usize, String> {
        let mut named = (0..self.columns).filter(|&at| self.names[at] == wanted);
        if let Some(at) = named.next() {
            return match named.next() {
                None => Ok(at),
                Some(_) => Err(format!("two columns are called {wanted}; give the number of one")),
            };
        }
        let number: Option<usize> = wanted.parse().ok();
        number
            .filter(|number| (1..=self.columns).contains(number))
            .map(|number| number - 1)
            .ok_or_else(|| {
                format!("there is no column {wanted}; the columns are {}", self.names.join(", "))
            })
    }

    /// Reads the next record.
    pub fn next(
        &mut self,
        input: &mut Lines<impl BufRead>,
        record: &mut Record,
    ) -> std::io::Result<Step> {
        let line = match self.first.take() {
            Some(line) => line,
            None => match self.split(input)? {
                Split::End => return Ok(Step::End),
                Split::Bad(bad) => return Ok(Step::Bad(bad)),
                Split::Fields { line } => line,
            },
        };
        record.line = line;
        Ok(match self.fill(record) {
            Ok(()) => Step::Record,
            Err(what) => Step::Bad(Bad::new(line, what)),
        })
    }

    fn fill(&self, record: &mut Record) -> Result<(), String> {
        if self.fields.len() != self.columns {
            let (found, expected) = (self.fields.len(), self.columns);
            return Err(format!("{found} fields where the first line has {expected}"));
        }
        record.key.clear();
        record.key.extend_from_slice(&self.rules.key_prefix);
        self.put_field(self.key, &mut record.key)?;
        record.value.clear();
        match self.value {
            Some(value) => self.put_field(value, &mut record.value),
            None => self.put_object(&mut record.value),
        }
    }

    fn put_field(&self, at: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let field = self.fields.get(at);
        if !self.rules.escaped {
            out.extend_from_slice(field);
            return Ok(());
        }
        let bytes = unescape(field).map_err(|what| format!("column {}: {what}", self.names[at]))?;
        out.extend_from_slice(&bytes);
        Ok(())
    }

    /// The whole record as a JSON object of its columns, in their order.
    fn put_object(&self, out: &mut Vec<u8>) -> Result<(), String> {
        let mut field = Vec::new();
        for (at, name) in self.names.iter().enumerate() {
            field.clear();
            self.put_field(at, &mut field)?;
            let text = std::str::from_utf8(&field).map_err(|_| {
                format!("column {name} is not UTF-8, which JSON can't hold; name one with --value")
            })?;
            out.push(if at == 0 { b'{' } else { b',' });
            put_json_string(name, out);
            out.push(b':');
            put_json_string(text, out);
        }
        out.push(b'}');
        Ok(())
    }

    fn split(&mut self, input: &mut Lines<impl BufRead>) -> std::io::Result<Split> {
        loop {
            let read = input.next(&mut self.line)?;
            let line = input.number();
            match read {
                Line::End => return Ok(Split::End),
                Line::TooLong => return Ok(Split::Bad(too_long(line, input.limit()))),
                Line::Whole if split_end(&self.line).0.is_empty() => {}
                Line::Whole if self.format == Format::Csv => return self.split_csv(input, line),
                Line::Whole => {
                    self.split_tsv();
                    return Ok(Split::Fields { line });
                }
            }
        }
    }

    fn split_tsv(&mut self) {
        self.fields.clear();
        for field in split_end(&self.line).0.split(|&byte| byte == b'\t') {
            self.fields.data.extend_from_slice(field);
            self.fields.end_field();
        }
    }

    /// Splits the record that begins with the line just read, reading on while a quote is open.
    fn split_csv(&mut self, input: &mut Lines<impl BufRead>, line: u64) -> std::io::Result<Split> {
        self.fields.clear();
        let mut state = Csv::FieldStart;
        loop {
            let (text, end) = split_end(&self.line);
            for &byte in text {
                match csv_step(state, byte, &mut self.fields) {
                    Some(next) => state = next,
                    None => {
                        let what = "text follows a closing quote; double a quote that is meant";
                        return Ok(Split::Bad(Bad::new(line, what)));
                    }
                }
            }
            if state != Csv::Quoted {
                self.fields.end_field();
                return Ok(Split::Fields { line });
            }
            self.fields.data.extend_from_slice(end);
            match input.next(&mut self.line)? {
                Line::Whole if self.fields.data.len() + self.line.len() <= input.limit() => {}
                Line::Whole | Line::TooLong => {
                    return Ok(Split::Bad(too_long(line, input.limit())));
                }
                Line::End => {
                    return Ok(Split::Bad(Bad::new(line, "a quote is never closed")));
                }
            }
        }
    }
}

/// One byte of CSV. `None` if it is not allowed there.
fn csv_step(state: Csv, byte: u8, fields: &mut Fields) -> Option<Csv> {
    Some(match (state, byte) {
        (Csv::FieldStart, b'"') => Csv::Quoted,
        (Csv::Quoted, b'"') => Csv::AfterQuote,
        (Csv::AfterQuote, b'"') => {
            fields.data.push(b'"');
            Csv::Quoted
        }
        (Csv::FieldStart | Csv::Unquoted | Csv::AfterQuote, b',') => {
            fields.end_field();
            Csv::FieldStart
        }
        (Csv::AfterQuote, _) => return None,
        (Csv::Quoted, byte) => {
            fields.data.push(byte);
            Csv::Quoted
        }
        (Csv::FieldStart | Csv::Unquoted, byte) => {
            fields.data.push(byte);
            Csv::Unquoted
        }
    })
}

fn too_long(line: u64, limit: usize) -> Bad {
    let limit = crate::units::bytes(limit as u64);
    Bad::new(line, format!("the record is longer than {limit}"))
}

fn put_json_string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a vector takes everything");
}
