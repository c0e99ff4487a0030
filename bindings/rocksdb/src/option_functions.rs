//! Functions that create and change the options of databases, column families and tables.

use crate::border::callback::{Destructor, State};
use crate::border::{Handle, Out, Text, c_api, memory};
use crate::cache::Cache;
use crate::comparator::Comparator;
use crate::environment::Environment;
use crate::filter::Filter;
use crate::knobs::Knobs;
use crate::listener::Listener;
use crate::logger::Logger;
use crate::merge::Operator;
use crate::options::{Options, TableOptions};
use crate::prefix::Prefix;
use crate::statistics::{Histogram, Statistics};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

fn note_deletion_collector(options: Handle<Options>, window: usize, deletes: usize, ratio: f64) {
    let note = format!(
        "CompactOnDeletionCollector (Sliding window size = {window} Deletion trigger = {deletes} Deletion \
         ratio = {ratio})"
    );
    options.change(|options| options.notes.push(note));
}

c_api! {
    /// Returns options with RocksDB's defaults.
    fn rocksdb_options_create() -> Handle<Options> {
        Handle::new(Options::default())
    }

    fn rocksdb_options_destroy(options: Handle<Options>) {
        drop(options.take());
    }

    fn rocksdb_options_create_copy(options: Handle<Options>) -> Handle<Options> {
        Handle::new(options.get().clone())
    }

    fn rocksdb_options_set_block_based_table_factory(
        options: Handle<Options>,
        table: Handle<TableOptions>,
    ) {
        options.change(|options| options.table = table.optional().cloned());
    }

    fn rocksdb_block_based_options_create() -> Handle<TableOptions> {
        Handle::new(TableOptions::default())
    }

    fn rocksdb_block_based_options_destroy(options: Handle<TableOptions>) {
        drop(options.take());
    }

    fn rocksdb_block_based_options_set_block_cache(
        options: Handle<TableOptions>,
        cache: Handle<Arc<Cache>>,
    ) {
        options.change(|options| options.cache = cache.optional().cloned());
    }

    /// Takes the policy over, as RocksDB does.
    fn rocksdb_block_based_options_set_filter_policy(
        options: Handle<TableOptions>,
        policy: Handle<f64>,
    ) {
        options.change(|options| options.filter_bits = policy.take().map(|bits| *bits));
    }

    /// Returns a policy, which is its number of bits for each key.
    fn rocksdb_filterpolicy_create_bloom(bits: f64) -> Handle<f64> {
        Handle::new(bits)
    }

    fn rocksdb_filterpolicy_create_bloom_full(bits: f64) -> Handle<f64> {
        Handle::new(bits)
    }

    fn rocksdb_filterpolicy_create_ribbon(bits: f64) -> Handle<f64> {
        Handle::new(bits)
    }

    fn rocksdb_filterpolicy_create_ribbon_hybrid(bits: f64, _bloom_before_level: c_int) -> Handle<f64> {
        Handle::new(bits)
    }

    fn rocksdb_filterpolicy_destroy(policy: Handle<f64>) {
        drop(policy.take());
    }

    fn rocksdb_options_set_universal_compaction_options(
        options: Handle<Options>,
        universal: Handle<Knobs>,
    ) {
        options.change(|options| options.universal = universal.optional().cloned());
    }

    fn rocksdb_options_set_fifo_compaction_options(options: Handle<Options>, fifo: Handle<Knobs>) {
        options.change(|options| options.fifo = fifo.optional().cloned());
    }

    fn rocksdb_options_increase_parallelism(options: Handle<Options>, threads: c_int) {
        options.change(|options| options.knobs.set("max_background_jobs", threads));
    }

    /// Gives the block cache this size, and filters to all tables.
    fn rocksdb_options_optimize_for_point_lookup(options: Handle<Options>, megabytes: u64) {
        options.change(|options| {
            let cache = Cache::new(usize::try_from(megabytes << 20).unwrap_or(usize::MAX));
            let table = TableOptions { cache: Some(Arc::new(cache)), ..TableOptions::default() };
            options.table = Some(table);
        });
    }

    fn rocksdb_options_optimize_level_style_compaction(options: Handle<Options>, memory: u64) {
        options.change(|options| {
            let knobs = &mut options.knobs;
            knobs.set("write_buffer_size", memory / 4);
            knobs.set("max_write_buffer_number", 6);
            knobs.set("min_write_buffer_number_to_merge", 2);
            knobs.set("level0_file_num_compaction_trigger", 2);
            knobs.set("target_file_size_base", memory / 8);
            knobs.set("max_bytes_for_level_base", memory);
        });
    }

    fn rocksdb_options_optimize_universal_style_compaction(options: Handle<Options>, memory: u64) {
        options.change(|options| {
            options.knobs.set("write_buffer_size", memory / 4);
            options.knobs.set("max_write_buffer_number", 6);
            options.knobs.set("compaction_style", 1);
        });
    }

    fn rocksdb_options_set_prefix_extractor(options: Handle<Options>, prefix: Handle<Prefix>) {
        options.change(|options| options.prefix = prefix.take().map(|prefix| Arc::new(*prefix)));
    }

    fn rocksdb_options_set_comparator(options: Handle<Options>, order: Handle<Arc<Comparator>>) {
        options.change(|options| options.comparator = order.optional().cloned());
    }

    fn rocksdb_options_set_merge_operator(options: Handle<Options>, operator: Handle<Operator>) {
        options.change(|options| options.merge = operator.take().map(|operator| Arc::new(*operator)));
    }

    /// Adds 64-bit numbers, little endian.
    fn rocksdb_options_set_uint64add_merge_operator(options: Handle<Options>) {
        options.change(|options| options.merge = Some(Arc::new(Operator::add_u64())));
    }

    fn rocksdb_options_set_env(options: Handle<Options>, env: Handle<Arc<Environment>>) {
        options.change(|options| options.environment = env.optional().cloned());
    }

    fn rocksdb_options_enable_statistics(options: Handle<Options>) {
        options.change(|options| options.statistics = Some(Arc::new(Statistics::default())));
    }

    fn rocksdb_options_set_ratelimiter(options: Handle<Options>, limiter: Handle<u64>) {
        options.change(|options| options.write_rate = limiter.optional().copied());
    }

    /// Returns a limiter, which is its number of bytes per second.
    fn rocksdb_ratelimiter_create(rate: i64, _period: i64, _fairness: i32) -> Handle<u64> {
        Handle::new(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    fn rocksdb_ratelimiter_create_auto_tuned(rate: i64, _period: i64, _fair: i32) -> Handle<u64> {
        Handle::new(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    fn rocksdb_ratelimiter_create_with_mode(
        rate: i64,
        _period: i64,
        _fairness: i32,
        _mode: c_int,
        _auto_tuned: bool,
    ) -> Handle<u64> {
        Handle::new(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    fn rocksdb_ratelimiter_destroy(limiter: Handle<u64>) {
        drop(limiter.take());
    }

    fn rocksdb_options_set_db_log_dir(options: Handle<Options>, dir: Text) {
        options.change(|options| options.set_text("db_log_dir", dir));
    }

    fn rocksdb_options_get_db_log_dir(
        options: Handle<Options>,
        length: Out<usize>,
    ) -> *const c_char {
        options.get().text_out("db_log_dir", length)
    }

    fn rocksdb_options_set_wal_dir(options: Handle<Options>, dir: Text) {
        options.change(|options| options.set_text("wal_dir", dir));
    }

    fn rocksdb_options_get_wal_dir(
        options: Handle<Options>,
        length: Out<usize>,
    ) -> *const c_char {
        options.get().text_out("wal_dir", length)
    }

    fn rocksdb_options_set_db_host_id(options: Handle<Options>, id: Text) {
        options.change(|options| options.set_text("db_host_id", id));
    }

    fn rocksdb_options_get_db_host_id(
        options: Handle<Options>,
        length: Out<usize>,
    ) -> *const c_char {
        options.get().text_out("db_host_id", length)
    }

    fn rocksdb_options_set_daily_offpeak_time_utc(options: Handle<Options>, time: Text) {
        options.change(|options| options.set_text("daily_offpeak_time_utc", time));
    }

    fn rocksdb_options_get_daily_offpeak_time_utc(
        options: Handle<Options>,
        length: Out<usize>,
    ) -> *const c_char {
        options.get().text_out("daily_offpeak_time_utc", length)
    }

    fn rocksdb_writeoptions_disable_WAL(options: Handle<Knobs>, value: c_int) {
        options.change(|options| options.set("disable_WAL", u8::from(value != 0)));
    }

    /// Esker compacts what has many deletes anyway. The numbers are only logged.
    fn rocksdb_options_add_compact_on_deletion_collector_factory(
        options: Handle<Options>,
        window: usize,
        deletes: usize,
    ) {
        note_deletion_collector(options, window, deletes, 0.0);
    }

    fn rocksdb_options_add_compact_on_deletion_collector_factory_del_ratio(
        options: Handle<Options>,
        window: usize,
        deletes: usize,
        ratio: f64,
    ) {
        note_deletion_collector(options, window, deletes, ratio);
    }

    fn rocksdb_options_add_compact_on_deletion_collector_factory_min_file_size(
        options: Handle<Options>,
        window: usize,
        deletes: usize,
        ratio: f64,
        _file_bytes: u64,
    ) {
        note_deletion_collector(options, window, deletes, ratio);
    }

    /// A database is not opened with such a filter.
    fn rocksdb_options_set_wal_filter(options: Handle<Options>, filter: *mut c_void) {
        options.change(|options| options.has_wal_filter = !filter.is_null());
    }

    fn rocksdb_options_clear_wal_filter(options: Handle<Options>) {
        options.change(|options| options.has_wal_filter = false);
    }

    /// A database is not opened with such a service. RocksDB ignores null.
    fn rocksdb_options_set_compaction_service(options: Handle<Options>, service: Handle<State>) {
        if service.take().is_some() {
            options.change(|options| options.has_compaction_service = true);
        }
    }

    /// Returns a service that is only there to be refused.
    fn rocksdb_compactionservice_create(
        state: *mut c_void,
        destructor: Destructor,
        _schedule: *mut c_void,
        _name: *const c_char,
        _wait: *mut c_void,
        _cancel: *mut c_void,
        _on_installation: *mut c_void,
    ) -> Handle<State> {
        Handle::new(State::new(state, destructor))
    }

    /// The program still owns the filter, and destroys it after the options.
    fn rocksdb_options_set_compaction_filter(options: Handle<Options>, filter: Handle<Arc<Filter>>) {
        options.change(|options| options.filter = filter.optional().cloned());
    }

    fn rocksdb_options_set_compaction_filter_factory(
        options: Handle<Options>,
        factory: Handle<Arc<Filter>>,
    ) {
        options.change(|options| options.filter = factory.take().map(|factory| *factory));
    }

    fn rocksdb_options_set_info_log(options: Handle<Options>, logger: Handle<Arc<Logger>>) {
        options.change(|options| options.logger = logger.optional().cloned());
    }

    /// Null if no logger was set.
    fn rocksdb_options_get_info_log(options: Handle<Options>) -> Handle<Arc<Logger>> {
        options.get().logger.clone().map_or_else(Handle::null, Handle::new)
    }

    /// Takes the listener over, as RocksDB does.
    fn rocksdb_options_add_eventlistener(
        options: Handle<Options>,
        listener: Handle<Arc<Listener>>,
    ) {
        options.change(|options| options.listeners.extend(listener.take().map(|it| *it)));
    }

    /// Null if nothing is counted.
    fn rocksdb_options_statistics_get_string(options: Handle<Options>) -> *mut c_char {
        let statistics = options.get().statistics.as_ref();
        statistics.map_or(std::ptr::null_mut(), |it| memory::copy_text(&it.text()))
    }

    /// Zero for what is not counted here.
    fn rocksdb_options_statistics_get_ticker_count(options: Handle<Options>, ticker: u32) -> u64 {
        let statistics = options.get().statistics.as_ref();
        statistics.map_or(0, |statistics| statistics.ticker_at(ticker))
    }

    /// Empty for what is not measured here.
    fn rocksdb_options_statistics_get_histogram_data(
        options: Handle<Options>,
        histogram: u32,
        data: Handle<Histogram>,
    ) {
        let statistics = options.get().statistics.as_ref();
        let found = statistics.map(|statistics| statistics.histogram(histogram)).unwrap_or_default();
        data.change(|data| *data = found);
    }

    /// Frees what a function of this library returned to be freed so.
    fn rocksdb_free(memory: *mut c_void) {
        memory::release(memory);
    }
}
