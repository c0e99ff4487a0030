//! Prints how many entries per second the Raft log appends, each append synced.
//!
//! ```sh
//! cargo run --release --example appends [DIR]
//! ```
//!
//! The database is made below `DIR`, or below `target`, and removed. `./rates` compares the figures
//! with those of `openraft-rocksstore`.

mod measure;

use esker::{Db, Settings};
use esker_openraft::{Application, SnapshotFile, Writes};
use serde::{Deserialize, Serialize};
use std::error::Error;

openraft::declare_raft_types!(
    /// Types of this log.
    pub Config: D = Put, R = (), SnapshotData = SnapshotFile
);

/// The command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Put {
    /// Sets a key.
    Set {
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
}

struct Map;

impl Application<Config> for Map {
    fn apply(&self, command: &Put, writes: &mut Writes<'_>) -> Result<(), esker_openraft::Error> {
        let Put::Set { key, value } = command;
        Ok(writes.put(key, value)?)
    }

    fn no_command(&self) {}
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let parent = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let dir = tempfile::tempdir_in(parent)?;
    let db = Db::open(dir.path().join("data"), Settings::default())?;
    let (log, _machine) = esker_openraft::open(&db, dir.path().join("snapshots"), Map)?;
    let command = |bytes| Put::Set { key: "key".to_owned(), value: "v".repeat(bytes) };
    // A task, as that of a node is.
    tokio::spawn(measure::measure::<Config, _>("esker", log, command)).await?;
    Ok(db.close()?)
}
