//! How much memory databases use, and what single operations cost.

use crate::border::{Handle, c_api, memory};
use crate::cache::Cache;
use crate::database::{Database, Open};
use std::ffi::{c_char, c_int, c_uchar};
use std::sync::Arc;

/// RocksDB's `rocksdb_memory_consumers_t`.
#[derive(Default)]
pub struct Consumers {
    databases: Vec<Arc<Open>>,
    caches: Vec<Arc<Cache>>,
}

/// RocksDB's `rocksdb_memory_usage_t`.
#[derive(Default)]
pub struct Usage {
    memtables: u64,
    tables: u64,
    cache: u64,
}

/// RocksDB's `rocksdb_perfcontext_t`. Esker counts single operations in another way, so all are zero.
pub struct PerfContext;

c_api! {
    fn rocksdb_memory_consumers_create() -> Handle<Consumers> {
        Handle::new(Consumers::default())
    }

    fn rocksdb_memory_consumers_add_db(consumers: Handle<Consumers>, db: Handle<Database>) {
        let open = db.get().open.clone();
        consumers.change(|consumers| consumers.databases.push(open));
    }

    fn rocksdb_memory_consumers_add_cache(consumers: Handle<Consumers>, cache: Handle<Arc<Cache>>) {
        let cache = cache.get().clone();
        consumers.change(|consumers| consumers.caches.push(cache));
    }

    fn rocksdb_memory_consumers_destroy(consumers: Handle<Consumers>) {
        drop(consumers.take());
    }

    try fn rocksdb_approximate_memory_usage_create(consumers: Handle<Consumers>) -> Handle<Usage> {
        let mut usage = Usage::default();
        for open in &consumers.get().databases {
            let stats = open.db.stats();
            usage.memtables += stats.memory_use.memtables + stats.memory_use.dram_table;
            usage.tables += stats.table_memory_bytes;
        }
        usage.cache = consumers.get().caches.iter().map(|cache| cache.usage()).sum();
        Ok(Handle::new(usage))
    }

    fn rocksdb_approximate_memory_usage_destroy(usage: Handle<Usage>) {
        drop(usage.take());
    }

    fn rocksdb_approximate_memory_usage_get_mem_table_total(usage: Handle<Usage>) -> u64 {
        usage.get().memtables
    }

    fn rocksdb_approximate_memory_usage_get_mem_table_unflushed(usage: Handle<Usage>) -> u64 {
        usage.get().memtables
    }

    fn rocksdb_approximate_memory_usage_get_mem_table_readers_total(usage: Handle<Usage>) -> u64 {
        usage.get().tables
    }

    fn rocksdb_approximate_memory_usage_get_cache_total(usage: Handle<Usage>) -> u64 {
        usage.get().cache
    }

    fn rocksdb_perfcontext_create() -> Handle<PerfContext> {
        Handle::new(PerfContext)
    }

    fn rocksdb_perfcontext_destroy(context: Handle<PerfContext>) {
        drop(context.take());
    }

    /// An empty report.
    fn rocksdb_perfcontext_report(_context: Handle<PerfContext>, _exclude: c_uchar) -> *mut c_char {
        memory::copy_text("")
    }

    /// Zero.
    fn rocksdb_perfcontext_metric(_context: Handle<PerfContext>, _metric: c_int) -> u64 {
        0
    }
}
