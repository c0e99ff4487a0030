//! A RocksDB snapshot that keeps its database open, and so can be held by a value that owns both.

use super::foreign;
use ::rocksdb::{DB, ReadOptions, Snapshot};
use esker_base::Result;
use std::path::Path;
use std::sync::Arc;

pub(super) struct Moment {
    // Before the database, so that it is released first: fields are dropped in their order.
    snapshot: Snapshot<'static>,
    database: Arc<DB>,
}

impl Moment {
    pub(super) fn now(database: &Arc<DB>) -> Self {
        let database = Arc::clone(database);
        // SAFETY: the reference lives in `snapshot` alone, which is dropped before the `Arc` beside
        // it and never handed out with this lifetime; the database does not move, being in an `Arc`.
        let borrowed: &'static DB = unsafe { &*Arc::as_ptr(&database) };
        Moment { snapshot: borrowed.snapshot(), database }
    }

    /// Options to read now. They may be used for as long as it is held.
    pub(super) fn reads(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.set_snapshot(&self.snapshot);
        options
    }

    pub(super) fn get(&self, key: &[u8], dir: &Path) -> Result<Option<Vec<u8>>> {
        let value = self.database.get_opt(key, &self.reads());
        value.map_err(|error| foreign("read", dir, error))
    }
}
