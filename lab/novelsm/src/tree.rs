//! The tables: a database without a log, which MemTables are handed to when they are full.

use super::list::List;
use esker_api::{Kv, WriteBatch};
use esker_base::{Entry, Kind, Result};
use esker_lsm::{Db, KeyspaceSettings, Log, Settings, Store};
use std::path::Path;

/// The keyspace that everything goes to.
const KEYSPACE: &str = "bench";

/// Entries are handed over in batches of so many bytes: enough that a batch costs little.
const BATCH_BYTES: usize = 64 << 10;

/// MemTables in DRAM: one that is written to and one that is flushed.
pub(super) const DRAM_TABLES: usize = 2;

pub(super) struct Tree {
    pub(super) db: Db,
    pub(super) store: Store,
    batch_bytes: usize,
    batch_entries: usize,
}

/// What the tables are given of `settings`: the memory that the MemTables leave. There is no log, for
/// the MemTables have theirs, and no DRAMTable.
pub(super) fn settings_of(settings: &Settings) -> Settings {
    let memtables = DRAM_TABLES * settings.segment_bytes;
    settings
        .clone()
        .log(Log::None)
        .memory_bytes(settings.memory_bytes.saturating_sub(memtables))
        .dram_table_bytes(0)
}

impl Tree {
    pub(super) fn open(
        dir: &Path,
        settings: &Settings,
        keyspace: KeyspaceSettings,
    ) -> Result<Tree> {
        let settings = settings_of(settings);
        let batch_bytes = BATCH_BYTES.min(settings.max_batch_bytes());
        let batch_entries = settings.max_batch_entries();
        let db = Db::open(dir, settings)?;
        let store = db.store(&db.keyspace(KEYSPACE, keyspace)?);
        Ok(Tree { db, store, batch_bytes, batch_entries })
    }

    /// Makes the newest version of each key in `list` the newest here, in tables.
    pub(super) fn take(&self, list: &dyn List) -> Result<()> {
        let mut batch = WriteBatch::new();
        let handle = self.store.keyspace_ref();
        let keyspace = handle.id;
        list.for_each_newest(&mut |key, kind, value| {
            let bytes = Entry { keyspace, kind, key, value }.encoded_bytes();
            let is_full = batch.len() == self.batch_entries;
            if is_full || batch.encoded().len() + bytes > self.batch_bytes {
                self.db.write(&batch)?;
                batch.clear();
            }
            match kind {
                Kind::Put => batch.put(handle, key, value),
                _ => batch.delete(handle, key),
            }
            Ok(())
        })?;
        self.db.write(&batch)?;
        self.db.flush()
    }
}
