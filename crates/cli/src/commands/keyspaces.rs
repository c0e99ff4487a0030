//! `esker keyspaces`: what there is.

use crate::failure::Outcome;
use crate::options::describe;
use crate::output::show;
use crate::place::Home;
use esker::KeyspaceInfo;
use serde_json::{Value as Json, json};

/// List the keyspaces and their settings
#[derive(clap::Args)]
pub struct Keyspaces {
    #[command(flatten)]
    home: Home,
}

impl Keyspaces {
    pub fn run(self) -> Outcome {
        let db = self.home.open_for_reading()?;
        let keyspaces = db.keyspaces();
        show(|| json(&keyspaces), || text(&keyspaces))
    }
}

fn json(keyspaces: &[KeyspaceInfo]) -> Json {
    let object = |keyspace: &KeyspaceInfo| {
        json!({
            "name": keyspace.name,
            "id": keyspace.id.0,
            "shape": keyspace.settings.shape.to_string(),
            "dedup": keyspace.settings.dedup.to_string(),
            "compression": keyspace.settings.compression.to_string(),
            "filter_bits": keyspace.settings.filter_bits,
            "merge": keyspace.settings.merge.map(String::from),
            "compaction_filter": keyspace.settings.compaction_filter.map(String::from),
            "ttl_seconds": keyspace.settings.ttl.map(|ttl| ttl.as_secs_f64()),
            "separation_threshold": keyspace.settings.separation_threshold,
        })
    };
    json!({ "keyspaces": keyspaces.iter().map(object).collect::<Vec<_>>() })
}

fn text(keyspaces: &[KeyspaceInfo]) -> String {
    let width = keyspaces.iter().map(|keyspace| keyspace.name.chars().count()).max();
    let width = width.unwrap_or(0);
    let line = |keyspace: &KeyspaceInfo| {
        format!("{:width$}  {}\n", keyspace.name, describe(keyspace.settings))
    };
    keyspaces.iter().map(line).collect()
}
