//! `esker dump-manifest`.

use super::SHOWN;
use crate::commands::levels::table_json;
use crate::failure::Outcome;
use crate::options::describe;
use crate::output::{is_json, put_json, stdout};
use crate::place::Files;
use crate::text::shorten;
use clap::Args;
use esker::inspect::{Dates, FeedChange, KeyFormat, VersionChange};
use serde_json::{Value as Json, json};
use std::io::Write;

/// Print the manifest: its edits, in order
#[derive(Args)]
pub struct DumpManifest {
    #[command(flatten)]
    files: Files,
}

impl DumpManifest {
    pub fn run(self) -> Outcome {
        let manifest = self.files.inspect()?.manifest()?;
        let mut out = stdout();
        let identity = format!("{:016x}", manifest.identity);
        if is_json() {
            let json = json!({ "object": "manifest", "file": manifest.name, "identity": identity });
            put_json(&mut out, &json)?;
        } else {
            writeln!(out, "{}: database {identity}", manifest.name)?;
        }
        for record in &manifest.records {
            if !is_json() {
                writeln!(out, "  edit at {}", record.offset)?;
            }
            for change in &record.edit.changes {
                if is_json() {
                    put_json(&mut out, &change_json(record.offset, change))?;
                } else {
                    writeln!(out, "    {}", change_text(change))?;
                }
            }
        }
        Ok(out.flush()?)
    }
}

fn change_text(change: &VersionChange) -> String {
    match change {
        VersionChange::CreateKeyspace { id, name, settings, .. } => {
            format!("create keyspace {id} {name:?}: {}", describe(*settings))
        }
        VersionChange::ChangeSettings { id, settings, changed } => {
            let changed: Vec<_> = changed.names().collect();
            let (changed, settings) = (changed.join(", "), describe(*settings));
            format!("change settings of keyspace {id}: {settings}; changed by now: {changed}")
        }
        VersionChange::DropKeyspace(id) => format!("drop keyspace {id}"),
        VersionChange::AddTable { keyspace, level, run, meta } => format!(
            "add table {}+{} to keyspace {keyspace} level {level} run {run}: {} bytes, {} entries, {} … {}",
            meta.id.file,
            meta.id.offset,
            meta.bytes,
            meta.entries,
            shorten(&meta.smallest, SHOWN),
            shorten(&meta.largest, SHOWN)
        ),
        VersionChange::AddValueFile { keyspace, meta } => format!(
            "add value file {} to keyspace {keyspace}: {} bytes, {} values",
            meta.file, meta.bytes, meta.values
        ),
        VersionChange::SeparationThreshold { keyspace, bytes: Some(bytes) } => {
            format!("values of {bytes} bytes and more of keyspace {keyspace} are separated")
        }
        VersionChange::SeparationThreshold { keyspace, bytes: None } => {
            format!("values of keyspace {keyspace} are not separated any more")
        }
        VersionChange::RemoveTable { keyspace, id } => {
            format!("remove table {}+{} from keyspace {keyspace}", id.file, id.offset)
        }
        VersionChange::FlushedThrough(seqno) => format!("flushed through {seqno}"),
        VersionChange::NextFile(id) => format!("next file {id}"),
        VersionChange::NextKeyspace(id) => format!("next keyspace {id}"),
        VersionChange::AddLog { epoch, end: None } => format!("add log {epoch}"),
        VersionChange::AddLog { epoch, end: Some(end) } => {
            format!("add log {epoch}, which ends at {} after write {}", end.offset, end.last_seqno)
        }
        VersionChange::RemoveLog(epoch) => format!("remove log {epoch}"),
        VersionChange::Closed => "closed".to_owned(),
        VersionChange::Feed(change) => feed_text(change),
        VersionChange::HasMerges => "has merges".to_owned(),
        VersionChange::Ttl { keyspace, millis: Some(millis), zeroed_as } => format!(
            "time to live of keyspace {keyspace}: {millis} ms, entries without a seqno count as {zeroed_as}"
        ),
        VersionChange::Ttl { keyspace, millis: None, .. } => {
            format!("keyspace {keyspace} has no time to live any more")
        }
        VersionChange::ExpiredThrough { keyspace, through } => {
            format!("entries of keyspace {keyspace} have expired through {through}")
        }
        VersionChange::ExpiryMark(time) => format!("time is at least {time} ms since 1970"),
        VersionChange::KeyFormat(format) => format!("key format: {}", key_format_name(*format)),
        VersionChange::Numbered { edits, first_file } => {
            format!("edit number {edits}, by a process whose first file is {first_file}")
        }
        VersionChange::Dates(dates) => format!("dates: {}", dates_text(dates)),
        VersionChange::Account(account) => format!(
            "account: {} bytes written by users, {} by flushes, {} by compactions",
            account.user_bytes, account.flush_bytes, account.compaction_bytes
        ),
        VersionChange::Lifetimes { keyspace, born, .. } => {
            format!("lifetimes in keyspace {keyspace}, and of {} tables", born.len())
        }
    }
}

fn feed_text(change: &FeedChange) -> String {
    match change {
        FeedChange::KeepLog { epoch, log } => format!(
            "keep log {epoch} with writes {} to {}, which ends at {}",
            log.first_seqno, log.end.last_seqno, log.end.offset
        ),
        FeedChange::Consumer { name, record } => format!(
            "consumer {name:?} has acknowledged {} and keeps {} bytes",
            record.acknowledged, record.bound_bytes
        ),
        FeedChange::DropConsumer(name) => format!("drop consumer {name:?}"),
        FeedChange::Keyspace(event) => {
            let what = if event.created.is_none() { "dropped" } else { "created" };
            format!(
                "keyspace {} {:?} was {what} after write {}",
                event.keyspace, event.name, event.at
            )
        }
        other => format!("{other:?}"),
    }
}

fn feed_json(change: &FeedChange) -> Json {
    match change {
        FeedChange::KeepLog { epoch, log } => json!({
            "change": "keep-log", "segment": epoch, "first_seqno": log.first_seqno,
            "end": { "offset": log.end.offset, "last_seqno": log.end.last_seqno },
            "begins_in_batch": log.begins_in_batch,
        }),
        FeedChange::Consumer { name, record } => json!({
            "change": "consumer", "name": name, "registered": record.registered,
            "acknowledged": record.acknowledged, "bound_bytes": record.bound_bytes,
        }),
        FeedChange::DropConsumer(name) => json!({ "change": "drop-consumer", "name": name }),
        FeedChange::Keyspace(event) => json!({
            "change": "keyspace-event", "after": event.at, "keyspace": event.keyspace.0,
            "name": event.name, "is_drop": event.created.is_none(),
        }),
        other => json!({ "change": format!("{other:?}") }),
    }
}

fn dates_text(dates: &Dates) -> String {
    let marks = dates.marks().iter();
    let marks: Vec<_> = marks.map(|it| format!("{} by {} s", it.through, it.at)).collect();
    marks.join(", ")
}

fn key_format_name(format: KeyFormat) -> &'static str {
    match format {
        KeyFormat::AsGiven => "as given",
        KeyFormat::Mapped => "mapped",
    }
}

fn change_json(offset: u64, change: &VersionChange) -> Json {
    let mut object = match change {
        VersionChange::CreateKeyspace { id, name, settings, retention_seqno } => json!({
            "change": "create-keyspace", "keyspace": id.0, "name": name,
            "shape": settings.shape.to_string(), "dedup": settings.dedup.to_string(),
            "compression": settings.compression.to_string(), "filter_bits": settings.filter_bits,
            "merge": settings.merge.map(String::from),
            "compaction_filter": settings.compaction_filter.map(String::from),
            "retention_seqno": retention_seqno,
        }),
        VersionChange::ChangeSettings { id, settings, changed } => json!({
            "change": "change-settings", "keyspace": id.0, "dedup": settings.dedup.to_string(),
            "compression": settings.compression.to_string(), "filter_bits": settings.filter_bits,
            "changed": changed.names().collect::<Vec<_>>(),
        }),
        VersionChange::DropKeyspace(id) => json!({ "change": "drop-keyspace", "keyspace": id.0 }),
        VersionChange::AddTable { keyspace, level, run, meta } => json!({
            "change": "add-table", "keyspace": keyspace.0, "level": level, "run": run,
            "table": table_json(meta),
        }),
        VersionChange::AddValueFile { keyspace, meta } => json!({
            "change": "add-value-file", "keyspace": keyspace.0, "file": meta.file,
            "bytes": meta.bytes, "values": meta.values, "value_bytes": meta.value_bytes,
        }),
        VersionChange::SeparationThreshold { keyspace, bytes } => json!({
            "change": "separation-threshold", "keyspace": keyspace.0, "bytes": bytes,
        }),
        VersionChange::RemoveTable { keyspace, id } => json!({
            "change": "remove-table", "keyspace": keyspace.0, "file": id.file, "offset": id.offset,
        }),
        VersionChange::FlushedThrough(seqno) => {
            json!({ "change": "flushed-through", "seqno": seqno })
        }
        VersionChange::NextFile(id) => json!({ "change": "next-file", "file": id }),
        VersionChange::NextKeyspace(id) => json!({ "change": "next-keyspace", "keyspace": id }),
        VersionChange::AddLog { epoch, end } => json!({
            "change": "add-log", "segment": epoch,
            "end": end.map(|end| json!({ "offset": end.offset, "last_seqno": end.last_seqno })),
        }),
        VersionChange::RemoveLog(epoch) => json!({ "change": "remove-log", "segment": epoch }),
        VersionChange::Closed => json!({ "change": "closed" }),
        VersionChange::Feed(change) => feed_json(change),
        VersionChange::HasMerges => json!({ "change": "has-merges" }),
        VersionChange::Ttl { keyspace, millis, zeroed_as } => json!({
            "change": "ttl", "keyspace": keyspace.0, "milliseconds": millis, "zeroed_as": zeroed_as,
        }),
        VersionChange::ExpiredThrough { keyspace, through } => json!({
            "change": "expired-through", "keyspace": keyspace.0, "seqno": through,
        }),
        VersionChange::ExpiryMark(time) => json!({ "change": "expiry-mark", "time_ms": time }),
        VersionChange::KeyFormat(format) => json!({
            "change": "key-format", "format": key_format_name(*format),
        }),
        VersionChange::Numbered { edits, first_file } => json!({
            "change": "numbered", "edits": edits, "first_file": first_file,
        }),
        VersionChange::Dates(dates) => json!({
            "change": "dates",
            "marks": dates.marks().iter().map(|mark| {
                json!({ "seqno": mark.through, "unix_seconds": mark.at })
            }).collect::<Vec<_>>(),
        }),
        VersionChange::Account(account) => json!({
            "change": "account", "user_bytes": account.user_bytes,
            "log_bytes": account.log_bytes, "flush_bytes": account.flush_bytes,
            "compaction_bytes": account.compaction_bytes,
        }),
        VersionChange::Lifetimes { keyspace, born, .. } => json!({
            "change": "lifetimes", "keyspace": keyspace.0, "tables": born.len(),
        }),
    };
    object["object"] = "change".into();
    object["edit_offset"] = offset.into();
    object
}
