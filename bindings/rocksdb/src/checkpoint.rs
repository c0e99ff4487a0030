//! Checkpoints.

use crate::border::{Handle, Status, Text, c_api};
use crate::database::Database;
use crate::identity;

c_api! {
    try fn rocksdb_checkpoint_object_create
        | rocksdb_transactiondb_checkpoint_object_create
        | rocksdb_optimistictransactiondb_checkpoint_object_create(
        db: Handle<Database>,
    ) -> Handle<Database> {
        Ok(Handle::new(db.get().clone()))
    }

    /// The directory must not exist.
    try fn rocksdb_checkpoint_create(
        checkpoint: Handle<Database>,
        dir: Text,
        _log_size_for_flush: u64,
    ) {
        let dir = dir.get()?;
        if dir.is_empty() || std::path::Path::new(dir).exists() {
            return Err(Status::invalid("Directory exists"));
        }
        let open = &checkpoint.get().open;
        open.db.checkpoint(dir)?;
        identity::give(open, dir).map_err(|error| Status::io("write", dir, &error))
    }

    fn rocksdb_checkpoint_object_destroy(checkpoint: Handle<Database>) {
        drop(checkpoint.take());
    }
}
