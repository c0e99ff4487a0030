//! Block caches and the budgets of write buffers: numbers that give a database its memory.

use crate::border::{Handle, c_api};
use crate::knobs::Knobs;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// RocksDB's `rocksdb_cache_t`: a capacity. Each database has a cache of its own, of this size.
pub struct Cache {
    capacity: AtomicUsize,
    /// What each open database has cached, by the address of the database.
    opened: Mutex<BTreeMap<usize, Cached>>,
}

/// The bytes that a database has cached, while it is open.
type Cached = Box<dyn Fn() -> Option<u64> + Send + Sync>;

impl Cache {
    /// Returns a cache of so many bytes.
    pub fn new(capacity: usize) -> Self {
        Cache { capacity: AtomicUsize::new(capacity), opened: Mutex::default() }
    }

    /// Counts what another database caches.
    pub fn attach(&self, of: usize, cached: impl Fn() -> Option<u64> + Send + Sync + 'static) {
        self.opened().insert(of, Box::new(cached));
    }

    /// Forgets a database that is about to be closed.
    pub fn detach(&self, of: usize) {
        self.opened().remove(&of);
    }

    fn opened(&self) -> MutexGuard<'_, BTreeMap<usize, Cached>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that the databases have cached.
    pub fn usage(&self) -> u64 {
        self.opened().values().filter_map(|cached| cached()).sum()
    }

    /// The capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }
}

/// RocksDB's `rocksdb_write_buffer_manager_t`: a size that programs read back.
pub struct WriteBuffers {
    bytes: AtomicUsize,
    with_cache: bool,
}

impl WriteBuffers {
    fn new(bytes: usize, with_cache: bool) -> Handle<WriteBuffers> {
        Handle::new(WriteBuffers { bytes: AtomicUsize::new(bytes), with_cache })
    }
}

c_api! {
    fn rocksdb_cache_create_lru(capacity: usize) -> Handle<Arc<Cache>> {
        Handle::new(Arc::new(Cache::new(capacity)))
    }

    fn rocksdb_cache_create_lru_with_strict_capacity_limit(capacity: usize) -> Handle<Arc<Cache>> {
        Handle::new(Arc::new(Cache::new(capacity)))
    }

    fn rocksdb_cache_create_lru_opts(options: Handle<Knobs>) -> Handle<Arc<Cache>> {
        Handle::new(Arc::new(Cache::new(options.get().number("capacity", 0))))
    }

    fn rocksdb_cache_create_hyper_clock(capacity: usize, _charge: usize) -> Handle<Arc<Cache>> {
        Handle::new(Arc::new(Cache::new(capacity)))
    }

    fn rocksdb_cache_create_hyper_clock_opts(options: Handle<Knobs>) -> Handle<Arc<Cache>> {
        Handle::new(Arc::new(Cache::new(options.get().number("capacity", 0))))
    }

    fn rocksdb_hyper_clock_cache_options_create(capacity: usize, charge: usize) -> Handle<Knobs> {
        let mut options = Knobs::default();
        options.set("capacity", capacity);
        options.set("estimated_entry_charge", charge);
        Handle::new(options)
    }

    fn rocksdb_hyper_clock_cache_options_destroy(options: Handle<Knobs>) {
        drop(options.take());
    }

    fn rocksdb_cache_destroy(cache: Handle<Arc<Cache>>) {
        drop(cache.take());
    }

    /// Only hints that memory need not be freed.
    fn rocksdb_cache_disown_data(_cache: Handle<Arc<Cache>>) {}

    /// Changes the capacity that databases opened from now on have.
    fn rocksdb_cache_set_capacity(cache: Handle<Arc<Cache>>, capacity: usize) {
        cache.get().capacity.store(capacity, Ordering::Relaxed);
    }

    fn rocksdb_cache_get_capacity(cache: Handle<Arc<Cache>>) -> usize {
        cache.get().capacity()
    }

    fn rocksdb_cache_get_usage(cache: Handle<Arc<Cache>>) -> usize {
        cache.get().usage() as usize
    }

    fn rocksdb_cache_get_pinned_usage(_cache: Handle<Arc<Cache>>) -> usize {
        0
    }

    fn rocksdb_cache_get_table_address_count(_cache: Handle<Arc<Cache>>) -> usize {
        0
    }

    fn rocksdb_cache_get_occupancy_count(_cache: Handle<Arc<Cache>>) -> usize {
        0
    }

    fn rocksdb_write_buffer_manager_create(bytes: usize, _stall: bool) -> Handle<WriteBuffers> {
        WriteBuffers::new(bytes, false)
    }

    fn rocksdb_write_buffer_manager_create_with_cache(
        bytes: usize,
        _cache: Handle<Arc<Cache>>,
        _stall: bool,
    ) -> Handle<WriteBuffers> {
        WriteBuffers::new(bytes, true)
    }

    fn rocksdb_write_buffer_manager_destroy(buffers: Handle<WriteBuffers>) {
        drop(buffers.take());
    }

    fn rocksdb_write_buffer_manager_enabled(buffers: Handle<WriteBuffers>) -> bool {
        buffers.get().bytes.load(Ordering::Relaxed) > 0
    }

    fn rocksdb_write_buffer_manager_cost_to_cache(buffers: Handle<WriteBuffers>) -> bool {
        buffers.get().with_cache
    }

    fn rocksdb_write_buffer_manager_memory_usage(_buffers: Handle<WriteBuffers>) -> usize {
        0
    }

    fn rocksdb_write_buffer_manager_mutable_memtable_memory_usage(
        _buffers: Handle<WriteBuffers>,
    ) -> usize {
        0
    }

    fn rocksdb_write_buffer_manager_dummy_entries_in_cache_usage(
        _buffers: Handle<WriteBuffers>,
    ) -> usize {
        0
    }

    fn rocksdb_write_buffer_manager_buffer_size(buffers: Handle<WriteBuffers>) -> usize {
        buffers.get().bytes.load(Ordering::Relaxed)
    }

    fn rocksdb_write_buffer_manager_set_buffer_size(buffers: Handle<WriteBuffers>, bytes: usize) {
        buffers.get().bytes.store(bytes, Ordering::Relaxed);
    }

    fn rocksdb_write_buffer_manager_set_allow_stall(_buffers: Handle<WriteBuffers>, _stall: bool) {}

    fn rocksdb_hyper_clock_cache_options_set_capacity(options: Handle<Knobs>, capacity: usize) {
        options.change(|options| options.set("capacity", capacity));
    }

    fn rocksdb_hyper_clock_cache_options_set_estimated_entry_charge(
        options: Handle<Knobs>,
        charge: usize,
    ) {
        options.change(|options| options.set("estimated_entry_charge", charge));
    }

    fn rocksdb_hyper_clock_cache_options_set_num_shard_bits(options: Handle<Knobs>, bits: c_int) {
        options.change(|options| options.set("num_shard_bits", bits));
    }
}
