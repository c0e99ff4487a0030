//! `esker tail` and `consumers`: the committed changes as JSON lines, and who reads them.

use crate::database_options::DatabaseOptions;
use crate::failure::{Failure, Outcome};
use crate::form::{Form, Notation};
use crate::interrupt::Interrupt;
use crate::output::{json_line, raw_stdout, show, tell};
use crate::place::Home;
use crate::units::{bytes, parse_bytes};
use esker::changes::{
    Change, ChangeConsumerInfo, ChangeEvent, Changes, IngestedKeyspace, Operation,
};
use esker::env::{Clock, SystemClock};
use serde_json::{Map, Value as Json, json};
use std::io::Write;
use std::time::Duration;

/// How often a followed database is opened again.
const INTERVAL: Duration = Duration::from_secs(1);

/// Print the committed changes of the database, one JSON object on a line
///
/// Flushed changes are there only as long as a consumer keeps their logs: see --name and `esker
/// consumers`. Without --name the database is opened for reading, also while another process writes to it;
/// then the last lines may be writes that the other process has not acknowledged yet. With --name no other
/// process may have it open.
#[derive(clap::Args)]
pub struct Tail {
    #[command(flatten)]
    home: Home,
    /// Start with this sequence number. Default: the oldest that the logs have
    #[arg(long, value_name = "SEQNO")]
    from: Option<u64>,
    /// Look for further changes every second, until an interrupt
    #[arg(long, short)]
    follow: bool,
    /// Go on as the consumer NAME, which is registered if there is none, and acknowledge what was printed
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from", "follow"])]
    name: Option<String>,
    /// The most bytes of flushed logs to keep for the consumer
    #[arg(long, value_name = "SIZE", requires = "name", value_parser = parse_bytes)]
    keep: Option<usize>,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    database: DatabaseOptions,
}

/// List the consumers of changes, or drop one
#[derive(clap::Args)]
pub struct Consumers {
    #[command(flatten)]
    home: Home,
    /// Drop the consumer NAME, and the logs that only it needs
    #[arg(long, value_name = "NAME")]
    drop: Option<String>,
    #[command(flatten)]
    database: DatabaseOptions,
}

/// What is kept for a new consumer if nothing else is asked for.
const KEEP_BYTES: u64 = 1 << 30;

/// What one reading printed.
#[derive(Default)]
struct Printed {
    has_any: bool,
    /// Events of keyspaces after the last batch, those of earlier readings included.
    at_end: usize,
}

impl Tail {
    pub fn run(self) -> Outcome {
        match &self.name {
            Some(name) => self.consume(name),
            None => self.read(),
        }
    }

    fn read(&self) -> Outcome {
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::io("listen for", "interrupts", error))?;
        let mut from = self.from;
        let mut printed = None;
        loop {
            let db = self.home.open_for_reading()?;
            let start = from.map_or_else(|| db.oldest_change(), Ok)?;
            let mut changes = db.changes(start)?;
            let is_first = printed.is_none();
            let now = self.print(&mut changes, &interrupt, printed)?;
            printed = Some(now.at_end);
            if is_first && !now.has_any && !interrupt.is_set() {
                tell(format!(
                    "the logs have no changes before seqno {start}, which comes next; a consumer (--name) \
                     keeps the logs of flushed changes"
                ));
            }
            from = Some(changes.next_seqno());
            self.home.close(db)?;
            if !self.follow || interrupt.is_set() {
                return Ok(());
            }
            wait(&interrupt);
        }
    }

    fn consume(&self, name: &str) -> Outcome {
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::io("listen for", "interrupts", error))?;
        let db = self.home.open_existing(self.database.settings(&self.home)?)?;
        let known = db.change_consumers().into_iter().find(|info| info.name == name);
        let known = known.map_or(KEEP_BYTES, |info| info.bound_bytes);
        let keep = self.keep.map_or(known, |keep| keep as u64);
        let mut consumer = db.change_consumer(name, keep)?;
        self.print(&mut consumer, &interrupt, None)?;
        consumer.acknowledge(consumer.next_seqno() - 1)?;
        self.home.close(db)
    }

    /// Prints what there is. `printed` says how many events of keyspaces before the first batch were printed before;
    /// they come again. `None`: this is the first time.
    fn print(
        &self,
        changes: &mut Changes,
        interrupt: &Interrupt,
        printed: Option<usize>,
    ) -> Outcome<Printed> {
        let mut out = raw_stdout();
        let mut now = Printed::default();
        let mut from = changes.next_seqno();
        let mut to_pass = printed.unwrap_or(0);
        while !interrupt.is_set()
            && let Some(event) = changes.try_next()?
        {
            if changes.next_seqno() > from {
                from = changes.next_seqno();
                (to_pass, now.at_end) = (0, 0);
            } else if matches!(event, ChangeEvent::KeyspacesUnknown { .. }) {
                if printed.is_some() {
                    continue;
                }
            } else {
                now.at_end += 1;
                if to_pass > 0 {
                    to_pass -= 1;
                    continue;
                }
            }
            out.write_all(self.lines(&event)?.as_bytes())?;
            now.has_any = true;
        }
        out.flush()?;
        Ok(now)
    }

    fn lines(&self, event: &ChangeEvent) -> Outcome<String> {
        json_line(&match event {
            ChangeEvent::Batch(batch) => json!({
                "seqno": batch.last_seqno(),
                "first_seqno": batch.first_seqno(),
                "changes": batch.changes().map(|change| self.change(&change)).collect::<Vec<_>>(),
            }),
            ChangeEvent::KeyspaceCreated { at, keyspace, name, .. } => json!({
                "after": at, "event": "keyspace-created", "keyspace": &**name, "keyspace_id": keyspace.0,
            }),
            ChangeEvent::KeyspaceDropped { at, keyspace, name } => json!({
                "after": at, "event": "keyspace-dropped", "keyspace": &**name, "keyspace_id": keyspace.0,
            }),
            ChangeEvent::Ingested { seqno, keyspaces } => {
                let line = |it: &IngestedKeyspace| {
                    json_line(&json!({
                        "seqno": seqno, "event": "ingested",
                        "keyspace": it.name.as_deref(), "keyspace_id": it.keyspace.0,
                    }))
                };
                return keyspaces.iter().map(line).collect();
            }
            ChangeEvent::KeyspacesUnknown { through } => json!({
                "event": "keyspaces-unknown", "through": through,
            }),
            other => json!({ "event": format!("{other:?}") }),
        })
    }

    fn change(&self, change: &Change<'_>) -> Json {
        let mut object = Map::new();
        object.insert("seqno".into(), change.seqno.into());
        match change.keyspace_name {
            Some(name) => object.insert("keyspace".into(), name.into()),
            None => object.insert("keyspace_id".into(), change.keyspace.0.into()),
        };
        let (keys, values): (Notation, Notation) = (self.form.key(), self.form.value());
        let mut put = |operation: &str, fields: &[(&str, &[u8], Notation)]| {
            object.insert("operation".into(), operation.into());
            for (name, bytes, notation) in fields {
                notation.insert(&mut object, name, bytes);
            }
        };
        match &change.operation {
            Operation::Put { key, value } => {
                put("put", &[("key", key, keys), ("value", value, values)]);
            }
            Operation::PutExpiring { key, value, expires_at_ms } => {
                put("put", &[("key", key, keys), ("value", value, values)]);
                object.insert("expires_at_ms".into(), (*expires_at_ms).into());
            }
            Operation::Delete { key } => put("delete", &[("key", key, keys)]),
            Operation::DeleteRange { start, end: Some(end) } => {
                put("delete-range", &[("start", start, keys), ("end", end, keys)]);
            }
            Operation::DeleteRange { start, end: None } => {
                put("delete-range", &[("start", start, keys)]);
            }
            Operation::Merge { key, operand } => {
                put("merge", &[("key", key, keys), ("operand", operand, values)]);
            }
            other => put(&format!("{other:?}"), &[]),
        }
        object.into()
    }
}

fn wait(interrupt: &Interrupt) {
    const STEPS: u32 = 20;
    for _ in 0..STEPS {
        if !interrupt.is_set() {
            SystemClock::new().sleep(INTERVAL / STEPS);
        }
    }
}

impl Consumers {
    pub fn run(self) -> Outcome {
        let Some(name) = &self.drop else {
            let consumers = self.home.open_for_reading()?.change_consumers();
            return show(
                || json!({ "consumers": consumers.iter().map(info_json).collect::<Vec<_>>() }),
                || consumers.iter().map(info_text).collect(),
            );
        };
        let db = self.home.open_existing(self.database.settings(&self.home)?)?;
        db.drop_change_consumer(name)?;
        self.home.close(db)?;
        show(|| json!({ "dropped": name }), String::new)
    }
}

fn info_json(info: &ChangeConsumerInfo) -> Json {
    json!({
        "name": info.name, "acknowledged": info.acknowledged, "bound_bytes": info.bound_bytes,
        "kept_bytes": info.kept_bytes, "fell_behind": info.fell_behind,
    })
}

fn info_text(info: &ChangeConsumerInfo) -> String {
    let ChangeConsumerInfo { name, acknowledged, kept_bytes, bound_bytes, .. } = info;
    let state = if info.fell_behind { ", fell behind" } else { "" };
    let (kept, bound) = (bytes(*kept_bytes), bytes(*bound_bytes));
    format!("{name}\tacknowledged {acknowledged}, keeps {kept} of at most {bound}{state}\n")
}
