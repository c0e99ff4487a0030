//! An Esker database as the benchmark sees it.

use crate::failure::Outcome;
use esker::api::Ordered;
use esker::{Db, KeyspaceSettings, Result, Settings, Store};
use esker_bench::{Counters, Engine};
use std::path::{Path, PathBuf};

/// The keyspace that the load goes to.
pub const KEYSPACE: &str = "bench";

/// An open database under measurement.
pub struct EskerEngine {
    name: &'static str,
    dir: PathBuf,
    db: Db,
    store: Store,
}

impl EskerEngine {
    /// Opens the database in `dir`, or creates one there.
    pub fn open(
        name: &'static str,
        dir: &Path,
        settings: Settings,
        keyspace: KeyspaceSettings,
    ) -> Outcome<Self> {
        let db = Db::open(dir, settings)?;
        let store = db.store(&db.keyspace(KEYSPACE, keyspace)?);
        Ok(EskerEngine { name, dir: dir.to_owned(), db, store })
    }

    /// Closes the database.
    pub fn close(self) -> Outcome {
        drop(self.store);
        Ok(self.db.close()?)
    }
}

impl Engine for EskerEngine {
    fn name(&self) -> &str {
        self.name
    }

    fn store(&self) -> &dyn Ordered {
        &self.store
    }

    fn counters(&self) -> Counters {
        let stats = self.db.stats();
        Counters {
            user_bytes: stats.user_bytes,
            log_bytes: stats.log_bytes,
            flush_bytes: stats.flush_bytes,
            compaction_bytes: stats.compaction_bytes,
            stall_us: stats.stalled.as_micros() as u64,
        }
    }

    /// What the files of the directory take, as the file system counts it. A file that goes while
    /// they are counted counts nothing.
    fn disk_bytes(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let Ok(files) = self.dir.read_dir() else { return 0 };
        files
            .filter_map(|file| file.ok()?.metadata().ok())
            .map(|metadata| metadata.blocks() * 512)
            .sum()
    }

    fn flush(&self) -> Result<()> {
        self.db.flush()
    }

    fn settle(&self) -> Result<()> {
        self.db.settle()
    }
}
