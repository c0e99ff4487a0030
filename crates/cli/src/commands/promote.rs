//! `esker promote`: a follower becomes a database of its own.

use crate::failure::{Failure, Outcome};
use crate::keys::KeyPlace;
use crate::output::show;
use esker::env::{PosixStorage, Storage};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

/// Make a follower a database of its own, which can be written to
///
/// It has all writes that it has applied. Writes that the primary acknowledged and did not send in time are not
/// among them, so make sure that no program writes to the primary any more. Stop `esker follow` first. A promoted
/// database follows nothing, and its former primary can follow it only into an empty directory.
#[derive(clap::Args)]
pub struct Promote {
    /// The directory of the follower
    db: PathBuf,
    #[command(flatten)]
    keys: KeyPlace,
}

impl Promote {
    pub fn run(self) -> Outcome {
        let dir = self.db.display().to_string();
        if !self.db.is_dir() {
            let why = std::io::ErrorKind::NotFound.into();
            return Err(Failure::io("open", dir, why));
        }
        let storage: Arc<dyn Storage> = Arc::new(PosixStorage::open(&self.db)?);
        let storage = match self.keys.encryption()? {
            Some(encryption) => encryption.over(storage),
            None => storage,
        };
        let origin = esker::follower::promote(&*storage)?;
        show(
            || json!({ "promoted": dir, "followed": format!("{:016x}", origin.database) }),
            || format!("{dir} is a database of its own, and can be written to\n"),
        )
    }
}
