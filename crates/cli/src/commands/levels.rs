//! `esker levels`: the tree of tables.

use crate::failure::{Failure, Outcome};
use crate::form::Notation;
use crate::output::{is_json, raw_stdout, show};
use crate::place::Home;
use crate::style::Style;
use crate::tree;
use esker::Error;
use esker::stats::{KeyspaceLevels, TableMeta};
use serde_json::{Map, Value as Json, json};
use std::io::Write;

/// Print the levels of each keyspace, with their runs and tables
#[derive(clap::Args)]
pub struct Levels {
    #[command(flatten)]
    home: Home,
    /// Only this keyspace
    #[arg(short, long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Show each table too
    #[arg(long)]
    tables: bool,
}

impl Levels {
    pub fn run(self) -> Outcome {
        let db = self.home.open_for_reading()?;
        let mut trees = db.levels();
        if let Some(name) = self.keyspace {
            trees.retain(|tree| tree.name == name);
            if trees.is_empty() {
                return Err(Failure::from(Error::UnknownKeyspace { name }));
            }
        }
        if is_json() {
            let trees: Vec<_> = trees.iter().map(keyspace_json).collect();
            return show(|| json!({ "keyspaces": trees }), String::new);
        }
        // Colours are control characters, too. The tree escapes its keys, and names of keyspaces hold none.
        let mut out = raw_stdout();
        tree::draw(&mut out, &trees, self.tables, Style::of_stdout())?;
        Ok(out.flush()?)
    }
}

fn keyspace_json(tree: &KeyspaceLevels) -> Json {
    let levels: Vec<_> = tree
        .levels
        .iter()
        .map(|level| {
            let runs: Vec<_> = level
                .runs
                .iter()
                .map(|run| {
                    let tables: Vec<_> = run.tables.iter().map(table_json).collect();
                    json!({ "id": run.id, "bytes": run.bytes(), "tables": tables })
                })
                .collect();
            json!({ "level": level.level, "duplicate_rate": level.duplicate_rate, "runs": runs })
        })
        .collect();
    json!({
        "name": tree.name,
        "id": tree.id.0,
        "shape": tree.settings.shape.to_string(),
        "dedup": tree.settings.dedup.to_string(),
        "compression": tree.settings.compression.to_string(),
        "filter_bits": tree.settings.filter_bits,
        "merge": tree.settings.merge.map(String::from),
        "compaction_filter": tree.settings.compaction_filter.map(String::from),
        "ttl_seconds": tree.settings.ttl.map(|ttl| ttl.as_secs_f64()),
        "separation_threshold": tree.settings.separation_threshold,
        "value_files": {
            "files": tree.values.files, "bytes": tree.values.bytes,
            "live_values": tree.values.live_values, "live_bytes": tree.values.live_bytes,
        },
        "levels": levels,
    })
}

/// All that the manifest knows of a table.
pub fn table_json(table: &TableMeta) -> Json {
    let mut object = Map::new();
    object.insert("file".into(), table.id.file.into());
    object.insert("offset".into(), table.id.offset.into());
    object.insert("bytes".into(), table.bytes.into());
    object.insert("raw_bytes".into(), table.raw_bytes.into());
    object.insert("entries".into(), table.entries.into());
    object.insert("deletes".into(), table.deletes.into());
    object.insert("range_tombstones".into(), table.range_tombstones.into());
    Notation::Text.insert(&mut object, "smallest", &table.smallest);
    Notation::Text.insert(&mut object, "largest", &table.largest);
    object.insert("min_seqno".into(), table.min_seqno.into());
    object.insert("max_seqno".into(), table.max_seqno.into());
    object.into()
}
