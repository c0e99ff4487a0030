//! `esker compact`: merge everything now.

use super::print_json;
use crate::failure::Outcome;
use crate::options::DatabaseOptions;
use crate::place::Home;
use serde_json::json;

/// Flush and merge the tables, of one keyspace or of all
#[derive(clap::Args)]
pub struct Compact {
    #[command(flatten)]
    home: Home,
    /// Only this keyspace
    #[arg(short, long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Print what there is afterwards as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: DatabaseOptions,
}

impl Compact {
    pub fn run(self) -> Outcome {
        let db = self.home.open_existing(self.database.settings(&self.home)?)?;
        match self.keyspace {
            Some(name) => db.compact_keyspace(&db.existing_keyspace(&name)?)?,
            None => db.compact()?,
        }
        let stats = db.stats();
        db.close()?;
        if self.json {
            print_json(&json!({
                "tables": stats.tables,
                "table_bytes": stats.table_bytes,
                "compaction_bytes": stats.compaction_bytes,
            }))?;
        }
        Ok(())
    }
}
