//! `esker compact`: merge everything now.

use crate::database_options::DatabaseOptions;
use crate::failure::Outcome;
use crate::output::show;
use crate::place::Home;
use crate::progress::Progress;
use crate::units;
use serde_json::json;

/// Flush and compact one keyspace, or all
#[derive(clap::Args)]
pub struct Compact {
    #[command(flatten)]
    home: Home,
    /// Only this keyspace
    #[arg(short, long, value_name = "NAME")]
    keyspace: Option<String>,
    #[command(flatten)]
    database: DatabaseOptions,
}

impl Compact {
    pub fn run(self) -> Outcome {
        let db = self.home.open_existing(self.database.settings(&self.home)?)?;
        let keyspace = self.keyspace.map(|name| db.open_keyspace(&name)).transpose()?;
        Progress::during("merging tables", || match &keyspace {
            Some(keyspace) => db.compact_keyspace(keyspace),
            None => db.compact(),
        })?;
        let stats = db.stats();
        self.home.close(db)?;
        let facts = json!({
            "tables": stats.tables,
            "table_bytes": stats.table_bytes,
            "compaction_bytes": stats.compaction_bytes,
        });
        let (tables, written) = (units::counted(stats.tables, "table"), stats.compaction_bytes);
        let (bytes, written) = (units::bytes(stats.table_bytes), units::bytes(written));
        show(|| facts, || format!("{tables} of {bytes}; merging wrote {written}\n"))
    }
}
