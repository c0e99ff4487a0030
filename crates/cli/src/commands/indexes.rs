//! `esker indexes`: the secondary indexes of the keyspaces.

use crate::database_options::DatabaseOptions;
use crate::failure::{Failure, Outcome};
use crate::output::show;
use crate::place::Home;
use esker::index::IndexInfo;
use esker::{DEFAULT_KEYSPACE, Db, Error};
use serde_json::{Value as Json, json};

/// List the secondary indexes, or drop one
///
/// Writes to a keyspace with indexes need their functions, which only the application has. So `put`,
/// `import` and other commands that write are rejected there. They work once the indexes are dropped.
/// Rows stay, and the application creates the index again.
#[derive(clap::Args)]
pub struct Indexes {
    #[command(flatten)]
    home: Home,
    /// Only this keyspace
    #[arg(short, long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Drop the index of this name, of the keyspace that `--keyspace` names [default: default]
    #[arg(long, value_name = "NAME")]
    drop: Option<String>,
    #[command(flatten)]
    database: DatabaseOptions,
}

/// The name of a keyspace, and one of its indexes.
type Found = (String, IndexInfo);

impl Indexes {
    pub fn run(self) -> Outcome {
        let Some(index) = self.drop else {
            let db = self.home.open_for_reading()?;
            let found = found(&db, self.keyspace)?;
            return show(|| json(&found), || text(&found));
        };
        let db = self.home.open_existing(self.database.settings(&self.home)?)?;
        let keyspace = self.keyspace.as_deref().unwrap_or(DEFAULT_KEYSPACE);
        db.open_keyspace(keyspace)?.drop_index(&index)?;
        self.home.close(db)?;
        show(|| json!({ "dropped": index }), String::new)
    }
}

fn found(db: &Db, only: Option<String>) -> Outcome<Vec<Found>> {
    let mut keyspaces = db.keyspaces();
    if let Some(name) = only {
        keyspaces.retain(|keyspace| keyspace.name == name);
        if keyspaces.is_empty() {
            return Err(Failure::from(Error::UnknownKeyspace { name }));
        }
    }
    let mut found = Vec::new();
    for keyspace in keyspaces {
        let indexes = db.open_keyspace(&keyspace.name)?.indexes()?;
        found.extend(indexes.into_iter().map(|index| (keyspace.name.clone(), index)));
    }
    Ok(found)
}

fn json(found: &[Found]) -> Json {
    let object = |(keyspace, index): &Found| {
        json!({
            "keyspace": keyspace,
            "name": index.name,
            "version": index.version,
            "unique": index.is_unique,
        })
    };
    json!({ "indexes": found.iter().map(object).collect::<Vec<_>>() })
}

fn text(found: &[Found]) -> String {
    let line = |(keyspace, index): &Found| {
        let version = index.version.map(|version| format!(", version {version}"));
        let kind = if index.is_unique { "unique" } else { "not unique" };
        format!("{keyspace}\t{}\t{kind}{}\n", index.name, version.unwrap_or_default())
    };
    found.iter().map(line).collect()
}
