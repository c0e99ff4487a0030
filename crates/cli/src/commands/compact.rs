//! `esker compact`: merge everything now.

use crate::failure::Outcome;
use crate::options::DatabaseOptions;
use crate::place::Home;
use esker::Db;

/// Flush and merge the tables, of one keyspace or of all
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
        let db = Db::open_existing(&self.home.db, self.database.settings(&self.home)?)?;
        match self.keyspace {
            Some(name) => db.compact_keyspace(&db.existing_keyspace(&name)?)?,
            None => db.compact()?,
        }
        Ok(db.close()?)
    }
}
