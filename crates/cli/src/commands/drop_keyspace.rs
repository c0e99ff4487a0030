//! `esker drop-keyspace`: a keyspace and all that it holds.

use crate::database_options::DatabaseOptions;
use crate::failure::{Failure, Outcome};
use crate::output::show;
use crate::place::Home;
use esker::DEFAULT_KEYSPACE;
use serde_json::json;

/// Remove a keyspace and its data
///
/// The default keyspace cannot be removed; its keys can be deleted. A keyspace of the same name can be
/// created again, and is then empty.
#[derive(clap::Args)]
pub struct DropKeyspace {
    #[command(flatten)]
    home: Home,
    /// The keyspace
    name: String,
    #[command(flatten)]
    database: DatabaseOptions,
}

impl DropKeyspace {
    pub fn run(self) -> Outcome {
        if self.name == DEFAULT_KEYSPACE {
            let what = "the default keyspace can't be dropped; `esker delete` removes its keys";
            return Err(Failure::Usage(what.to_owned()));
        }
        let db = self.home.open_existing(self.database.settings(&self.home)?)?;
        db.drop_keyspace(&db.open_keyspace(&self.name)?)?;
        self.home.close(db)?;
        show(|| json!({ "dropped": self.name }), String::new)
    }
}
