//! What the store offers, and what it reports itself.

use crate::NoveLsm;
use crate::key::KeyWords;
use crate::list::Found;
use esker_api::{Cursor, KeyRange, KeyspaceRef, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::Result;
use esker_bench::Engine;
use esker_bench::accounting::{Counters, Placed, TableDiskUsage, disk_usage, table_usage};
use std::sync::atomic::Ordering;

impl Kv for NoveLsm {
    fn keyspace_ref(&self) -> KeyspaceRef {
        self.shared.tree.store.keyspace_ref()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let words = KeyWords::new(key);
        // The view first: whatever is visible then is in it, or in tables.
        let view = self.shared.view.load();
        let visible = self.shared.visible.load(Ordering::Acquire);
        for table in view.iter() {
            let Some(found) = table.list.get(&words, visible) else { continue };
            if table.is_in_dram() {
                self.shared.counts.dram_hits.fetch_add(1, Ordering::Relaxed);
            }
            return Ok(match found {
                Found::Value(value) => Some(Value::from(value)),
                Found::Deleted => None,
            });
        }
        self.shared.tree.store.get(key)
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        if batch.is_empty() {
            Ok(())
        } else if batch.has_range_delete() {
            self.write_to_tables(batch)
        } else {
            self.writer.lock().write(&self.shared, batch)
        }
    }
}

impl Ordered for NoveLsm {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        self.flush_memtables()?;
        self.shared.tree.store.cursor(range)
    }

    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        self.shared.tree.store.cursor_at(range, snapshot)
    }

    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        self.shared.tree.store.get_at(key, snapshot)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        self.flush_memtables()?;
        self.shared.tree.store.snapshot()
    }
}

impl Engine for NoveLsm {
    fn name(&self) -> &str {
        "esker-novelsm"
    }

    fn store(&self) -> &dyn Ordered {
        self
    }

    fn counters(&self) -> Counters {
        let (counts, tables) = (&self.shared.counts, self.shared.tree.db.stats());
        let logged = counts.log_bytes.load(Ordering::Relaxed);
        let pool_bytes = self.shared.pool.traffic().bytes;
        Counters {
            user_bytes: counts.user_bytes.load(Ordering::Relaxed),
            // A pool's bytes are both log and MemTable.
            log_bytes: Some(logged + pool_bytes),
            pool_bytes,
            log_syncs: None,
            flush_bytes: Some(tables.flush_bytes),
            compaction_bytes: Some(tables.compaction_bytes),
            stall_us: Some(counts.stall_us.load(Ordering::Relaxed)),
            dram_hits: Some(counts.dram_hits.load(Ordering::Relaxed)),
            dram_misses: None,
            copies: None,
            placed: Some(Placed {
                dram_writes: counts.dram_writes.load(Ordering::Relaxed),
                pmem_writes: counts.pmem_writes.load(Ordering::Relaxed),
            }),
            cache_hits: Some(tables.cache_hits),
            cache_misses: Some(tables.cache_misses),
            table_hits: None,
            table_misses: None,
            table_cost: None,
        }
    }

    fn disk_bytes(&self) -> u64 {
        let pool = &self.shared.pool;
        // Whole extents, as nobody else can have the rest of one; and before the files, so that what a
        // flush moves meanwhile is seen twice rather than never.
        let held = (pool.extents() - pool.free()) as u64 * pool.extent_bytes() as u64;
        held + disk_usage(&self.dir)
    }

    fn table_space(&self) -> TableDiskUsage {
        TableDiskUsage { bytes: table_usage(&self.dir), peak_bytes: None }
    }

    fn flush(&self) -> Result<()> {
        self.flush_memtables()
    }

    fn settle(&self) -> Result<()> {
        self.flush_memtables()?;
        self.shared.tree.db.wait_for_compactions()
    }
}
