//! `esker keyspaces`: what there is.

use crate::failure::Outcome;
use crate::options::{describe, shape_name};
use crate::output::{print_json, stdout};
use crate::place::Home;
use serde_json::json;
use std::io::Write;

/// List the keyspaces and their settings
#[derive(clap::Args)]
pub struct Keyspaces {
    #[command(flatten)]
    home: Home,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Keyspaces {
    pub fn run(self) -> Outcome {
        let db = self.home.open_for_reading()?;
        let keyspaces = db.keyspaces();
        if self.json {
            let list: Vec<_> = keyspaces
                .iter()
                .map(|keyspace| {
                    json!({
                        "name": keyspace.name,
                        "id": keyspace.id.0,
                        "shape": shape_name(keyspace.settings.shape),
                        "dedup": keyspace.settings.dedup.to_string(),
                        "compression": keyspace.settings.compression.to_string(),
                        "filter_bits": keyspace.settings.filter_bits,
                    })
                })
                .collect();
            return print_json(&json!({ "keyspaces": list }));
        }
        let mut out = stdout();
        let width = keyspaces.iter().map(|keyspace| keyspace.name.chars().count()).max();
        let width = width.unwrap_or(0);
        for keyspace in keyspaces {
            writeln!(out, "{:width$}  {}", keyspace.name, describe(keyspace.settings))?;
        }
        Ok(out.flush()?)
    }
}
