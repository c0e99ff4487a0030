//! The write path of NoveLSM (Kannan et al., USENIX ATC 2018), to compare with: a model of it, made of
//! the parts that the engine is made of, so that what differs is the path and not the code around it. It
//! has a crate of its own so that neither the product nor the benchmark driver knows of it.
//!
//! | file | holds |
//! |---|---|
//! | `memory` | memory that a list is built in, in DRAM or in an extent |
//! | `key`, `node`, `list` | the skiplist, the same in either |
//! | `log` | the log of a MemTable in DRAM |
//! | `table` | MemTables |
//! | `write` | the writer: which MemTable, and when the next |
//! | `shared` | MemTables for readers, and the flush |
//! | `tree` | the tables |
//! | `store` | what it offers: reads, and what it reports itself |
//!
//! **A put** goes to a MemTable in DRAM: a checksummed record is appended to its log by one write, not
//! synced, and a node is linked into its skiplist. There are two such MemTables. When one is full a
//! background thread flushes it; when the other is full as well, and writers would have to wait, puts
//! go to a mutable MemTable in persistent memory instead: a skiplist in an extent of a pool, made
//! durable node by node, without a log. As soon as there is space in DRAM, writes go back there. Full
//! extents are flushed like the others; writers wait only when no extent is free.
//!
//! **A get** looks into all MemTables and then into the tables.
//!
//! What is not as in NoveLSM, mostly in its favour:
//!
//! * A put into persistent memory takes 2 fences (see `list`), where its code has 4, and 4 more for
//!   each level of the node. It links a node before that is flushed, which a crash can lose; here it is
//!   durable first. Large nodes are streamed, and small ones written back by the best instruction that
//!   the processor has.
//! * When writes go back to DRAM the MemTable in persistent memory is flushed, full or not, and not
//!   gone on with later. So MemTables follow one another in time, a get ends at the first that has the
//!   key, and need not look into all to take the newest.
//! * Log files, blocks of DRAM and the pool's pages are made before the first put, and used again.
//! * The tables are an Esker database without a log. A flush hands it the newest version of each key in
//!   order, and they go through its own MemTable once more, in the background: that costs processor
//!   time, which matters where no core is idle.
//! * Reads take no parallel search of the levels.
//!
//! It is a model for measurement. It **does not recover**: what is not in tables when the process ends
//! is lost, though its logs and its pool hold it. [`NoveLsm::close`] puts everything in tables. A
//! cursor or a snapshot first flushes everything and then is one of the tables; a batch with a range
//! delete goes straight to them.

#![forbid(unsafe_code)]

mod key;
mod list;
mod log;
mod memory;
mod node;
mod shared;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod tree;
mod write;

use esker_api::WriteBatch;
use esker_base::background::Running;
use esker_base::{Background, Error, Priority, Result, Threads};
use esker_lsm::{KeyspaceSettings, Settings};
use esker_pmem::Pool;
use esker_storage::PosixStorage;
use log::Log;
use memory::Blocks;
use parking_lot::Mutex;
use shared::Shared;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tree::{DRAM_TABLES, Tree};
use write::{Limits, Writer};

/// An open store. See the module's text.
pub struct NoveLsm {
    dir: PathBuf,
    shared: Arc<Shared>,
    writer: Mutex<Writer>,
    /// In a lock only to be shared: it is taken out once.
    flusher: Mutex<Option<Box<dyn Running>>>,
}

/// Which MemTables were written to since the store was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemTables {
    /// MemTables begun in DRAM.
    pub dram_tables: u64,
    /// Entries written to them.
    pub dram_writes: u64,
    /// MemTables begun in persistent memory.
    pub pmem_tables: u64,
    /// Entries written to them.
    pub pmem_writes: u64,
    /// How often a writer waited because there was neither.
    pub waits: u64,
}

impl NoveLsm {
    /// Fails if a store can't be opened with these settings, without making any file. `log`,
    /// `dram_table_bytes` and `forwarding` are not used: it has its own ways.
    pub fn check(settings: &Settings) -> Result<()> {
        let least = (2 + DRAM_TABLES) * settings.segment_bytes;
        if settings.memory_bytes < least {
            return Err(Error::InvalidSetting {
                setting: "memory_bytes",
                value: settings.memory_bytes.to_string(),
                reason: format!(
                    "with MemTables of {} bytes it must be at least {least}, two MemTables in DRAM \
                     and two that the tables are made of",
                    settings.segment_bytes
                ),
            });
        }
        tree::settings_of(settings).validate()
    }

    /// Opens the store in `dir`, with the tables of an earlier one that was closed, or creates one. All
    /// extents of `pool` must be free. Memory, logs and pool are prepared here: about 200 ms.
    pub fn open(
        dir: &Path,
        settings: &Settings,
        keyspace: KeyspaceSettings,
        pool: Arc<Pool>,
    ) -> Result<NoveLsm> {
        NoveLsm::open_with(dir, settings, keyspace, pool, &Threads)
    }

    /// As [`NoveLsm::open`], with threads of `background`. Without any, nothing is flushed until
    /// a caller calls [`Shared::flush_all`].
    fn open_with(
        dir: &Path,
        settings: &Settings,
        keyspace: KeyspaceSettings,
        pool: Arc<Pool>,
        background: &dyn Background,
    ) -> Result<NoveLsm> {
        NoveLsm::check(settings)?;
        let tree = Tree::open(&dir.join("tables"), settings, keyspace)?;
        let storage = PosixStorage::create(dir.join("log"))?;
        let bytes = settings.segment_bytes;
        let log = |number| Log::create(&storage, &format!("log-{number}"), bytes);
        let logs = (0..DRAM_TABLES).map(log).collect::<Result<_>>()?;
        table::touch(&pool)?;
        let limits = Limits {
            encoded_bytes: settings.max_entry_bytes(),
            entries: settings.max_batch_entries(),
            // An empty list has links, too.
            memory_bytes: bytes.min(pool.extent_bytes()) - node::node_bytes_max(0, 0),
        };
        let blocks = Blocks::new(bytes, DRAM_TABLES);
        let shared = Arc::new(Shared::new(tree, pool, blocks, logs));
        let flusher = {
            let shared = shared.clone();
            let body = Box::new(move || shared.flush_all());
            Mutex::new(background.spawn("novelsm-flush", Priority::Normal, body)?)
        };
        let writer = Mutex::new(Writer::new(esker_base::seed_from_os(), limits));
        Ok(NoveLsm { dir: dir.to_owned(), shared, writer, flusher })
    }

    /// Puts everything in tables and closes them.
    pub fn close(self) -> Result<()> {
        self.flush_memtables()?;
        self.stop();
        self.shared.tree.db.clone().close()
    }

    /// Which MemTables were written to.
    pub fn memtables(&self) -> MemTables {
        let counts = &self.shared.counts;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MemTables {
            dram_tables: count(&counts.dram_tables),
            dram_writes: count(&counts.dram_writes),
            pmem_tables: count(&counts.pmem_tables),
            pmem_writes: count(&counts.pmem_writes),
            waits: count(&counts.waits),
        }
    }

    fn flush_memtables(&self) -> Result<()> {
        let last = self.writer.lock().retire_all(&self.shared);
        self.shared.await_flush(last)
    }

    /// Applies a batch with a range delete: to the tables, once all that came before it is there.
    fn write_to_tables(&self, batch: &WriteBatch) -> Result<()> {
        let mut writer = self.writer.lock();
        let last = writer.retire_all(&self.shared);
        self.shared.await_flush(last)?;
        self.shared.tree.db.write(batch)
    }

    fn stop(&self) {
        self.shared.stop();
        if let Some(flusher) = self.flusher.lock().take() {
            flusher.join();
        }
    }
}

impl Drop for NoveLsm {
    fn drop(&mut self) {
        self.stop();
    }
}
