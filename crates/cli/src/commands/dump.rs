//! `esker dump-frames`, `dump-table`, `dump-manifest`: what one file says, line by line.

use super::stdout;
use crate::failure::{Failure, Outcome};
use crate::place::Home;
use crate::text::{Form, shorten};
use clap::Args;
use esker::inspect::{Change, LogDump, Stop, TableMeta};
use esker_base::{EntryCursor, Kind, Seqno};
use serde_json::{Map, Value as Json, json};
use std::io::Write;

/// How much of a key or value is shown; JSON has all of it.
const SHOWN: usize = 40;

/// Print the log: its segments, their frames, and the frames' entries
#[derive(Args)]
pub struct DumpFrames {
    #[command(flatten)]
    home: Home,
    /// Only the segment with this number: 7 is the file 00000007.log
    segment: Option<u32>,
    /// Print one JSON object an entry
    #[arg(long)]
    json: bool,
}

/// Print a table: its properties and its versions
#[derive(Args)]
pub struct DumpTable {
    #[command(flatten)]
    home: Home,
    /// The table, FILE+OFFSET as `esker levels --tables` shows it
    #[arg(value_parser = parse_table)]
    table: (u64, u64),
    /// Print one JSON object a version
    #[arg(long)]
    json: bool,
}

/// Print the manifest: its edits, in order
#[derive(Args)]
pub struct DumpManifest {
    #[command(flatten)]
    home: Home,
    /// Print one JSON object a change
    #[arg(long)]
    json: bool,
}

/// `7+0`, or `7` for the first table of the file.
fn parse_table(text: &str) -> Result<(u64, u64), String> {
    let (file, offset) = text.split_once('+').unwrap_or((text, "0"));
    let number = |part: &str| part.parse().ok();
    number(file).zip(number(offset)).ok_or_else(|| format!("{text:?} is not a table such as 7+0"))
}

impl DumpFrames {
    pub fn run(self) -> Outcome {
        let inspector = self.home.inspect()?;
        let segments = match self.segment {
            Some(segment) => vec![segment],
            None => inspector.logs()?,
        };
        let mut out = stdout();
        for segment in segments {
            let log = inspector.log(segment)?;
            if self.json {
                frames_json(&mut out, &log)?;
            } else {
                frames_text(&mut out, &log)?;
            }
        }
        Ok(out.flush()?)
    }
}

fn frames_text(out: &mut impl Write, log: &LogDump) -> Outcome {
    let header = &log.header;
    writeln!(
        out,
        "{}: epoch {}, {} bytes, alignment {}",
        log.name, header.epoch, header.capacity, header.alignment
    )?;
    for frame in &log.scan.frames {
        writeln!(
            out,
            "  frame at {}: {} bytes, {} entries from {}, durable through {}",
            frame.offset, frame.bytes, frame.count, frame.first_seqno, frame.durable_through
        )?;
        for (seqno, entry) in log.entries(frame) {
            let (key, value) = (shorten(entry.key, SHOWN), shorten(entry.value, SHOWN));
            let keyspace = entry.keyspace;
            let kind = kind_name(entry.kind);
            writeln!(out, "    {seqno} keyspace {keyspace} {kind} {key} {value}")?;
        }
    }
    let end = log.scan.end;
    let why = match &log.scan.stop {
        Stop::Full => "the segment is full".to_owned(),
        Stop::Blank => "nothing follows".to_owned(),
        Stop::Bad { what, .. } => what.clone(),
    };
    writeln!(out, "  ends at {end}: {why}")?;
    if let Some(later) = &log.scan.later {
        let (offset, through) = (later.offset, later.durable_through);
        writeln!(out, "  but frames follow at {offset}; they say durable through {through}")?;
    }
    Ok(())
}

fn frames_json(out: &mut impl Write, log: &LogDump) -> Outcome {
    for frame in &log.scan.frames {
        for (seqno, entry) in log.entries(frame) {
            let mut object = Map::new();
            object.insert("segment".into(), log.header.epoch.into());
            object.insert("frame_offset".into(), frame.offset.into());
            object.insert("keyspace".into(), entry.keyspace.0.into());
            version(&mut object, seqno, entry.kind, entry.key, entry.value);
            writeln!(out, "{}", Json::from(object))?;
        }
    }
    Ok(())
}

fn version(object: &mut Map<String, Json>, seqno: Seqno, kind: Kind, key: &[u8], value: &[u8]) {
    object.insert("seqno".into(), seqno.into());
    object.insert("kind".into(), kind_name(kind).into());
    Form::default().insert(object, "key", key);
    match kind {
        Kind::Delete => {}
        Kind::Put => Form::default().insert(object, "value", value),
        Kind::RangeDelete => Form::default().insert(object, "end", value),
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Delete => "delete",
        Kind::Put => "put",
        Kind::RangeDelete => "range-delete",
    }
}

impl DumpTable {
    pub fn run(self) -> Outcome {
        let inspector = self.home.inspect()?;
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
        if !self.json {
            let (keyspace, level, run) = (place.keyspace, place.level, place.run);
            writeln!(out, "table {file}+{offset}: keyspace {keyspace}, level {level}, run {run}")?;
            writeln!(out, "  {:?}", table.properties())?;
        }
        for tombstone in table.tombstones().tombstones() {
            let (start, end) = (&tombstone.start, &tombstone.end);
            self.print(&mut out, tombstone.seqno, Kind::RangeDelete, start, end)?;
        }
        let mut cursor = table.cursor(esker::inspect::CursorPurpose::Compaction);
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
        if self.json {
            let mut object = Map::new();
            version(&mut object, seqno, kind, key, value);
            writeln!(out, "{}", Json::from(object))?;
        } else {
            let (key, value) = (shorten(key, SHOWN), shorten(value, SHOWN));
            writeln!(out, "  {seqno} {} {key} {value}", kind_name(kind))?;
        }
        Ok(())
    }
}

impl DumpManifest {
    pub fn run(self) -> Outcome {
        let manifest = self.home.inspect()?.manifest()?;
        let mut out = stdout();
        if !self.json {
            writeln!(out, "{}: database {:016x}", manifest.name, manifest.identity)?;
        }
        for record in &manifest.records {
            if !self.json {
                writeln!(out, "  edit at {}", record.offset)?;
            }
            for change in &record.edit.changes {
                if self.json {
                    writeln!(out, "{}", change_json(record.offset, change))?;
                } else {
                    writeln!(out, "    {}", change_text(change))?;
                }
            }
        }
        Ok(out.flush()?)
    }
}

fn change_text(change: &Change) -> String {
    match change {
        Change::CreateKeyspace { id, name, settings, .. } => {
            format!("create keyspace {id} {name:?}: {}", crate::options::describe(*settings))
        }
        Change::DropKeyspace(id) => format!("drop keyspace {id}"),
        Change::AddTable { keyspace, level, run, meta } => format!(
            "add table {}+{} to keyspace {keyspace} level {level} run {run}: {} bytes, {} entries, {} … {}",
            meta.id.file,
            meta.id.offset,
            meta.bytes,
            meta.entries,
            shorten(&meta.smallest, SHOWN),
            shorten(&meta.largest, SHOWN)
        ),
        Change::RemoveTable { keyspace, id } => {
            format!("remove table {}+{} from keyspace {keyspace}", id.file, id.offset)
        }
        Change::FlushedThrough(seqno) => format!("flushed through {seqno}"),
        Change::NextFile(id) => format!("next file {id}"),
        Change::NextKeyspace(id) => format!("next keyspace {id}"),
        Change::AddLog { epoch, end: None } => format!("add log {epoch}"),
        Change::AddLog { epoch, end: Some(end) } => {
            format!("add log {epoch}, which ends at {} after write {}", end.offset, end.last_seqno)
        }
        Change::RemoveLog(epoch) => format!("remove log {epoch}"),
        Change::Closed => "closed".to_owned(),
    }
}

fn change_json(offset: u64, change: &Change) -> Json {
    let mut object = match change {
        Change::CreateKeyspace { id, name, .. } => {
            json!({ "change": "create-keyspace", "keyspace": id.0, "name": name })
        }
        Change::DropKeyspace(id) => json!({ "change": "drop-keyspace", "keyspace": id.0 }),
        Change::AddTable { keyspace, level, run, meta } => json!({
            "change": "add-table", "keyspace": keyspace.0, "level": level, "run": run,
            "table": super::levels::table_json(meta),
        }),
        Change::RemoveTable { keyspace, id } => json!({
            "change": "remove-table", "keyspace": keyspace.0, "file": id.file, "offset": id.offset,
        }),
        Change::FlushedThrough(seqno) => json!({ "change": "flushed-through", "seqno": seqno }),
        Change::NextFile(id) => json!({ "change": "next-file", "file": id }),
        Change::NextKeyspace(id) => json!({ "change": "next-keyspace", "keyspace": id }),
        Change::AddLog { epoch, end } => json!({
            "change": "add-log", "segment": epoch,
            "end": end.map(|end| json!({ "offset": end.offset, "last_seqno": end.last_seqno })),
        }),
        Change::RemoveLog(epoch) => json!({ "change": "remove-log", "segment": epoch }),
        Change::Closed => json!({ "change": "closed" }),
    };
    object["edit_offset"] = offset.into();
    object
}
