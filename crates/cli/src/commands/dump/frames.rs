//! `esker dump-frames`.

use super::{SHOWN, kind_name, object, value_text, version};
use crate::failure::{Failure, Outcome};
use crate::output::{is_json, put_json, stdout};
use crate::place::Files;
use crate::text::shorten;
use clap::Args;
use esker::inspect::{FrameInfo, Inspector, LogDump, ScanEnd};
use serde_json::{Value as Json, json};
use std::io::Write;

/// Print the log: its segments, their frames, and the frames' entries
#[derive(Args)]
pub struct DumpFrames {
    #[command(flatten)]
    files: Files,
    /// Only the segment with this number: 7 is the file 00000007.log
    segment: Option<u32>,
}

impl DumpFrames {
    pub fn run(self) -> Outcome {
        let inspector = self.files.inspect()?;
        let segments = match self.segment {
            Some(segment) => vec![existing(&inspector, segment)?],
            None => inspector.logs()?,
        };
        let mut out = stdout();
        if let Some(domain) = inspector.pool_domain().filter(|_| !is_json()) {
            writeln!(out, "pool: {domain}")?;
        }
        for segment in segments {
            let log = inspector.log(segment)?;
            if is_json() {
                json_lines(&mut out, &log)?;
            } else {
                text_lines(&mut out, &log)?;
            }
        }
        Ok(out.flush()?)
    }
}

/// The segment, if there is one.
fn existing(inspector: &Inspector, segment: u32) -> Outcome<u32> {
    if inspector.has_log(segment)? {
        return Ok(segment);
    }
    let known: Vec<_> = inspector.logs()?.iter().map(u32::to_string).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(Failure::new(format!("there is no log segment {segment}; in use: {known}")))
}

fn text_lines(out: &mut impl Write, log: &LogDump) -> Outcome {
    let header = &log.header;
    writeln!(
        out,
        "{}: epoch {}, {} bytes, alignment {}",
        log.name, header.epoch, header.capacity, header.alignment
    )?;
    for frame in &log.scan.frames {
        let continues = if frame.continues { ", the batch continues" } else { "" };
        writeln!(
            out,
            "  frame at {}: {} bytes, {} entries from {}, durable through {}{continues}",
            frame.offset, frame.bytes, frame.count, frame.first_seqno, frame.durable_through
        )?;
        for (seqno, entry) in log.entries(frame) {
            let (key, value) = (shorten(entry.key, SHOWN), value_text(entry.kind, entry.value));
            let keyspace = entry.keyspace;
            let kind = kind_name(entry.kind);
            writeln!(out, "    {seqno} keyspace {keyspace} {kind} {key} {value}")?;
        }
    }
    let end = log.scan.end;
    let why = why(&log.scan.stop);
    writeln!(out, "  ends at {end}: {why}")?;
    if let Some(later) = &log.scan.later {
        let (offset, through) = (later.offset, later.durable_through);
        writeln!(out, "  but frames follow at {offset}; they say durable through {through}")?;
    }
    Ok(())
}

fn why(stop: &ScanEnd) -> &str {
    match stop {
        ScanEnd::Full => "the segment is full",
        ScanEnd::Blank => "nothing follows",
        ScanEnd::Bad { what, .. } => what,
    }
}

fn json_lines(out: &mut impl Write, log: &LogDump) -> Outcome {
    let header = &log.header;
    let segment = json!({
        "object": "segment", "segment": header.epoch, "file": log.name,
        "bytes": header.capacity, "alignment": header.alignment,
    });
    put_json(out, &segment)?;
    for frame in &log.scan.frames {
        put_json(out, &frame_json(header.epoch, frame))?;
        for (seqno, entry) in log.entries(frame) {
            let mut object = object("entry");
            object.insert("segment".into(), header.epoch.into());
            object.insert("frame_offset".into(), frame.offset.into());
            object.insert("keyspace".into(), entry.keyspace.0.into());
            version(&mut object, seqno, entry.kind, entry.key, entry.value);
            put_json(out, &Json::from(object))?;
        }
    }
    let later = log.scan.later.as_ref().map(
        |later| json!({ "frame_offset": later.offset, "durable_through": later.durable_through }),
    );
    let end = json!({
        "object": "end", "segment": header.epoch, "offset": log.scan.end,
        "reason": why(&log.scan.stop), "is_damaged": matches!(log.scan.stop, ScanEnd::Bad { .. }),
        "later": later,
    });
    put_json(out, &end)
}

fn frame_json(segment: u32, frame: &FrameInfo) -> Json {
    json!({
        "object": "frame", "segment": segment, "frame_offset": frame.offset, "bytes": frame.bytes,
        "entries": frame.count, "first_seqno": frame.first_seqno,
        "durable_through": frame.durable_through, "continues": frame.continues,
    })
}
