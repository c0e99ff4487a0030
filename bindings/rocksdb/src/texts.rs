//! Options given as text: `rocksdb_set_options` and `rocksdb_get_options_from_string`.

use crate::border::{Array, Handle, Result, Status, Text, c_api};
use crate::database::{Database, Family};
use crate::knobs::{self, Knobs};
use crate::options::{Options, TableOptions};
use std::ffi::c_int;
use std::sync::Arc;

/// Options of RocksDB that a program may change while the database is open, and that have no function.
const MUTABLE: [&str; 3] =
    ["paranoid_file_checks", "block_based_table_factory", "compression_opts"];

/// The names of what `compaction_pri` can be.
const PRIORITIES: [&str; 5] = [
    "kByCompensatedSize",
    "kOldestLargestSeqFirst",
    "kOldestSmallestSeqFirst",
    "kMinOverlappingRatio",
    "kRoundRobin",
];

/// The text of a number that was set, as [`set`] reads it.
pub fn shown(name: &str, text: String) -> String {
    let named = (name == "compaction_pri").then(|| text.parse::<usize>().ok());
    let named = named.flatten().and_then(|number| PRIORITIES.get(number));
    named.map_or(text, |name| (*name).to_owned())
}

/// Sets a number of an options object by its name.
///
/// # Errors
/// If there is no such number, or the text is none.
pub fn set(knobs: &mut Knobs, name: &str, value: &str) -> Result<()> {
    let Some(knob) = knobs::of_databases(name) else {
        return Err(Status::invalid(format!("Could not find option: {name}")));
    };
    let wrong = || Status::invalid(format!("Error parsing: {name}: {value:?} is no such value"));
    let is_switch = matches!(value, "true" | "false");
    let enumerated = value.starts_with('k') || value.starts_with("Disable");
    if enumerated && !is_switch {
        // A name of an enumeration. Those that Esker uses have functions.
        return enumerate(knobs, name, value).ok_or_else(wrong);
    }
    (knob.parse)(knobs, value).ok_or_else(wrong)
}

/// Sets an option whose values have names.
fn enumerate(knobs: &mut Knobs, name: &str, value: &str) -> Option<()> {
    let number = match (name, value) {
        (_, "kNoCompression" | "kCompactionStyleLevel") => 0,
        (_, "kSnappyCompression" | "kCompactionStyleUniversal") => 1,
        (_, "kZlibCompression" | "kCompactionStyleFIFO") => 2,
        (_, "kBZip2Compression" | "kCompactionStyleNone") => 3,
        (_, "kLZ4Compression") => 4,
        (_, "kLZ4HCCompression") => 5,
        (_, "kXpressCompression") => 6,
        (_, "kZSTD") => 7,
        (_, "kDisableCompressionOption") => 255,
        ("compaction_pri", value) => PRIORITIES.iter().position(|name| *name == value)?,
        _ => return None,
    };
    let knob = knobs::of_databases(name)?;
    (knob.parse)(knobs, &number.to_string())
}

/// The names and values of a text like `a=1;b={c=2;d=3}`.
fn pairs(text: &str) -> Result<Vec<(&str, &str)>> {
    let wrong =
        || Status::invalid(format!("Mismatched key value pair, '=' or '}}' expected: {text}"));
    let (mut rest, mut found) = (text.trim(), Vec::new());
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').ok_or_else(wrong)?;
        let after = after.trim_start();
        let end = match after.strip_prefix('{') {
            None => after.find(';').unwrap_or(after.len()),
            Some(_) => closing(after).ok_or_else(wrong)? + 1,
        };
        let value = after[..end].trim();
        let value = value.strip_prefix('{').and_then(|it| it.strip_suffix('}')).unwrap_or(value);
        found.push((name.trim(), value.trim()));
        rest = after[end..].trim_start().trim_start_matches(';').trim_start();
    }
    Ok(found)
}

/// Where the bracket that begins `text` is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, character)| {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

/// Sets the options of a text.
fn set_all(options: &mut Options, text: &str) -> Result<()> {
    for (name, value) in pairs(text)? {
        if name != "block_based_table_factory" {
            set(&mut options.knobs, name, value)?;
            continue;
        }
        let table = options.table.get_or_insert_with(TableOptions::default);
        for (name, value) in pairs(value)? {
            let unknown = || Status::invalid(format!("Could not find option: {name}"));
            let knob = knobs::of_tables(name).ok_or_else(unknown)?;
            let wrong = || Status::invalid(format!("Error parsing: {name}"));
            (knob.parse)(&mut table.knobs, value).ok_or_else(wrong)?;
        }
    }
    Ok(())
}

/// Checks names and values that an open database is given. Esker adapts itself, so they change nothing.
fn check_changes(count: c_int, names: &Array<Text>, values: &Array<Text>) -> Result<()> {
    let count = usize::try_from(count).unwrap_or(0);
    if count == 0 {
        return Err(Status::invalid("empty input"));
    }
    let mut knobs = Knobs::default();
    for (name, value) in names.of(count).iter().zip(values.of(count)) {
        let name = name.get()?;
        if !MUTABLE.contains(&name) {
            set(&mut knobs, name, value.get()?)?;
        }
    }
    Ok(())
}

c_api! {
    /// Checks the names and the values, and changes nothing.
    try fn rocksdb_set_options | rocksdb_set_db_options(
        db: Handle<Database>,
        count: c_int,
        names: Array<Text>,
        values: Array<Text>,
    ) {
        db.get();
        check_changes(count, &names, &values)
    }

    /// Checks the names and the values, and changes nothing.
    try fn rocksdb_set_options_cf(
        db: Handle<Database>,
        family: Handle<Arc<Family>>,
        count: c_int,
        names: Array<Text>,
        values: Array<Text>,
    ) {
        db.get().open.check_own(family.get())?;
        check_changes(count, &names, &values)
    }

    try fn rocksdb_get_options_from_string(
        base: Handle<Options>,
        text: Text,
        new: Handle<Options>,
    ) {
        let mut options = base.get().clone();
        set_all(&mut options, text.get()?)?;
        new.change(|new| *new = options);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_text() {
        let mut options = Options::default();
        let text = "write_buffer_size=128M; max_write_buffer_number=4;compression=kZSTD;\
                    block_based_table_factory={block_size=8192;format_version=5};create_if_missing=true";
        set_all(&mut options, text).unwrap();
        assert_eq!(options.knobs.number("write_buffer_size", 0_u64), 128 << 20);
        assert_eq!(options.knobs.number("max_write_buffer_number", 0), 4);
        assert_eq!(options.knobs.number("compression", 0), 7);
        assert!(options.knobs.is_on("create_if_missing"));
        assert_eq!(options.table.unwrap().knobs.number("block_size", 0_usize), 8192);
    }

    #[test]
    fn what_is_no_option_is_an_error() {
        for text in ["no_such_option=1", "write_buffer_size=big", "write_buffer_size", "a={b=1"] {
            assert!(set_all(&mut Options::default(), text).is_err(), "{text}");
        }
    }
}
