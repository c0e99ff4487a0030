//! A clock and an engine for tests.

use crate::accounting::{Placed, TableDiskUsage};
use crate::{Counters, Engine};
use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::{Clock, Error, Result};
use esker_workload::Model;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Each inspection of this clock takes a millisecond, in the time of the thread that looks: so threads
/// that merely watch take no time from those that are measured.
pub(crate) struct Ticking;

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

impl Clock for Ticking {
    fn now(&self) -> Duration {
        Duration::from_millis(LOOKS.replace(LOOKS.get() + 1))
    }
    fn sleep(&self, _duration: Duration) {}
}

/// A model that counts bytes as an engine would: each user byte once to the log, once again at the
/// flush, and twice more until all is compacted. A quarter of its reads are called hits.
#[derive(Default)]
pub(crate) struct Counting {
    pub(crate) model: Model,
    pub(crate) user_bytes: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) compacted_bytes: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) breaks: bool,
    /// Whether its log is called persistent memory, and MemTables for a quarter of the writes.
    pub(crate) has_pool: bool,
    /// Whether it knows the peak of its tables, which is more than can be seen.
    pub(crate) keeps_peak: bool,
}

impl Kv for Counting {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.reads.fetch_add(1, Relaxed);
        self.model.get(key)
    }
    fn write(&self, batch: &WriteBatch) -> Result<()> {
        if self.breaks {
            return Err(Error::ReadOnly);
        }
        let bytes: usize = batch.iter().map(|entry| entry.key.len() + entry.value.len()).sum();
        self.user_bytes.fetch_add(bytes as u64, Relaxed);
        self.model.write(batch)
    }
}

impl Ordered for Counting {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        self.model.cursor(range)
    }
    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        self.model.cursor_at(range, snapshot)
    }
    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        self.model.get_at(key, snapshot)
    }
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        self.model.snapshot()
    }
}

impl Engine for Counting {
    fn name(&self) -> &str {
        "model"
    }
    fn store(&self) -> &dyn Ordered {
        self
    }
    fn counters(&self) -> Counters {
        let user_bytes = self.user_bytes.load(Relaxed);
        Counters {
            user_bytes,
            log_bytes: Some(user_bytes),
            pool_bytes: if self.has_pool { user_bytes } else { 0 },
            flush_bytes: Some(self.flushed_bytes.load(Relaxed)),
            compaction_bytes: Some(self.compacted_bytes.load(Relaxed)),
            stall_us: Some(0),
            dram_hits: Some(self.reads.load(Relaxed) / 4),
            dram_misses: None,
            copies: None,
            placed: self.has_pool.then(|| Placed {
                dram_writes: self.model.writes() - self.model.writes() / 4,
                pmem_writes: self.model.writes() / 4,
            }),
            cache_hits: Some(0),
            cache_misses: Some(0),
            table_hits: None,
            table_misses: None,
            table_cost: None,
            log_syncs: None,
        }
    }
    fn disk_bytes(&self) -> u64 {
        self.user_bytes.load(Relaxed) + self.flushed_bytes.load(Relaxed)
    }
    fn table_space(&self) -> TableDiskUsage {
        let bytes = self.flushed_bytes.load(Relaxed);
        TableDiskUsage { bytes, peak_bytes: self.keeps_peak.then_some(bytes + 1_000) }
    }
    fn flush(&self) -> Result<()> {
        self.flushed_bytes.store(self.user_bytes.load(Relaxed), Relaxed);
        Ok(())
    }
    fn settle(&self) -> Result<()> {
        self.compacted_bytes.store(2 * self.user_bytes.load(Relaxed), Relaxed);
        Ok(())
    }
}
