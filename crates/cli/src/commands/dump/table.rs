//! `esker dump-table`.

use super::{SHOWN, kind_name, object, value_text, version};
use crate::commands::levels;
use crate::failure::{Failure, Outcome};
use crate::form::Notation;
use crate::output::{is_json, put_json, stdout};
use crate::place::Files;
use crate::text::shorten;
use clap::Args;
use esker::inspect::{Properties, ReadPurpose, TableMeta, TablePlace};
use esker_base::{EntryCursor, Kind, Seqno};
use serde_json::{Map, Value as Json};
use std::io::Write;

/// Print a table: its properties and its versions
#[derive(Args)]
pub struct DumpTable {
    #[command(flatten)]
    files: Files,
    /// The table, FILE+OFFSET as `esker levels --tables` shows it
    #[arg(value_parser = parse_table)]
    table: (u64, u64),
}

/// `7+0`, or `7` for the first table of the file.
fn parse_table(text: &str) -> Result<(u64, u64), String> {
    let (file, offset) = text.split_once('+').unwrap_or((text, "0"));
    let number = |part: &str| part.parse().ok();
    number(file).zip(number(offset)).ok_or_else(|| format!("{text:?} is not a table such as 7+0"))
}

impl DumpTable {
    pub fn run(self) -> Outcome {
        let inspector = self.files.inspect()?;
        let tables = inspector.tables()?;
        let (file, offset) = self.table;
        let is_wanted = |meta: &TableMeta| (meta.id.file, meta.id.offset) == self.table;
        let place = tables.iter().find(|place| is_wanted(&place.meta));
        let place = place.ok_or_else(|| {
            Failure::new(format!(
                "the tree has no table {file}+{offset}; see esker levels --tables"
            ))
        })?;
        let table = inspector.table(&place.meta)?;
        let mut out = stdout();
        if is_json() {
            put_json(&mut out, &table_json(place, table.properties()))?;
        } else {
            text_head(&mut out, place, table.properties())?;
        }
        for tombstone in table.tombstones().tombstones() {
            let (start, end) = (&tombstone.start, &tombstone.end);
            self.print(&mut out, tombstone.seqno, Kind::RangeDelete, start, end)?;
        }
        let mut cursor = table.cursor(ReadPurpose::Compaction);
        cursor.seek_first()?;
        while cursor.valid() {
            self.print(&mut out, cursor.seqno(), cursor.kind(), cursor.key(), cursor.value())?;
            cursor.next()?;
        }
        Ok(out.flush()?)
    }

    fn print(
        &self,
        out: &mut impl Write,
        seqno: Seqno,
        kind: Kind,
        key: &[u8],
        value: &[u8],
    ) -> Outcome {
        if is_json() {
            let mut object = object("version");
            version(&mut object, seqno, kind, key, value);
            put_json(out, &Json::from(object))?;
        } else {
            let (key, value) = (shorten(key, SHOWN), value_text(kind, value));
            writeln!(out, "  {seqno} {} {key} {value}", kind_name(kind))?;
        }
        Ok(())
    }
}

/// What a table says of itself, number by number.
fn numbers(properties: &Properties) -> [(&'static str, u64); 10] {
    [
        ("level_written", properties.level.into()),
        ("fingerprint_bits", properties.fingerprint_bits.into()),
        ("entries", properties.entries),
        ("deletes", properties.deletes),
        ("keys", properties.keys),
        ("range_tombstones", properties.range_tombstones),
        ("raw_key_bytes", properties.raw_key_bytes),
        ("raw_value_bytes", properties.raw_value_bytes),
        ("data_blocks", properties.data_blocks),
        ("data_bytes", properties.data_bytes),
    ]
}

fn text_head(out: &mut impl Write, place: &TablePlace, properties: &Properties) -> Outcome {
    let TablePlace { keyspace, level, run, meta, .. } = place;
    let (file, offset) = (meta.id.file, meta.id.offset);
    writeln!(out, "table {file}+{offset}: keyspace {keyspace}, level {level}, run {run}")?;
    let (smallest, largest) =
        (shorten(&properties.smallest, SHOWN), shorten(&properties.largest, SHOWN));
    writeln!(out, "  keys {smallest} … {largest}")?;
    let (from, to) = (properties.smallest_seqno, properties.largest_seqno);
    writeln!(out, "  writes {from} … {to}, compression {}", properties.compression)?;
    for (name, number) in numbers(properties) {
        writeln!(out, "  {} {number}", name.replace('_', " "))?;
    }
    Ok(())
}

fn table_json(place: &TablePlace, properties: &Properties) -> Json {
    let mut own = Map::new();
    own.insert("keyspace".into(), properties.keyspace.0.into());
    own.insert("file".into(), properties.file_id.into());
    own.insert("compression".into(), properties.compression.to_string().into());
    for (name, number) in numbers(properties) {
        own.insert(name.into(), number.into());
    }
    own.insert("min_seqno".into(), properties.smallest_seqno.into());
    own.insert("max_seqno".into(), properties.largest_seqno.into());
    own.insert("oldest_delete_seqno".into(), properties.oldest_delete.into());
    Notation::Text.insert(&mut own, "smallest", &properties.smallest);
    Notation::Text.insert(&mut own, "largest", &properties.largest);
    let mut object = object("table");
    object.insert("keyspace".into(), place.keyspace.0.into());
    object.insert("level".into(), place.level.into());
    object.insert("run".into(), place.run.into());
    object.insert("manifest".into(), levels::table_json(&place.meta));
    object.insert("properties".into(), own.into());
    object.into()
}
