//! Numbers of the options of databases and column families, the second part.

use super::knobs;
use crate::options::Options;

knobs! {
    Options;
    accepted hard_pending_compaction_bytes_limit: usize = 256 * 1073741824,
        set rocksdb_options_set_hard_pending_compaction_bytes_limit,
        get rocksdb_options_get_hard_pending_compaction_bytes_limit;
    accepted max_manifest_file_size: usize = 1024 * 1024 * 1024,
        set rocksdb_options_set_max_manifest_file_size,
        get rocksdb_options_get_max_manifest_file_size;
    accepted table_cache_numshardbits: i32 = 6,
        set rocksdb_options_set_table_cache_numshardbits,
        get rocksdb_options_get_table_cache_numshardbits;
    accepted arena_block_size: usize = 0,
        set rocksdb_options_set_arena_block_size,
        get rocksdb_options_get_arena_block_size;
    accepted use_fsync: i32 = 0,
        set rocksdb_options_set_use_fsync,
        get rocksdb_options_get_use_fsync;
    works WAL_ttl_seconds: u64 = 0,
        set rocksdb_options_set_WAL_ttl_seconds,
        get rocksdb_options_get_WAL_ttl_seconds;
    works WAL_size_limit_MB: u64 = 0,
        set rocksdb_options_set_WAL_size_limit_MB,
        get rocksdb_options_get_WAL_size_limit_MB;
    accepted manifest_preallocation_size: usize = 4 * 1024 * 1024,
        set rocksdb_options_set_manifest_preallocation_size,
        get rocksdb_options_get_manifest_preallocation_size;
    accepted allow_mmap_reads: u8 = 0,
        set rocksdb_options_set_allow_mmap_reads,
        get rocksdb_options_get_allow_mmap_reads;
    accepted allow_mmap_writes: u8 = 0,
        set rocksdb_options_set_allow_mmap_writes,
        get rocksdb_options_get_allow_mmap_writes;
    works use_direct_reads: u8 = 0,
        set rocksdb_options_set_use_direct_reads,
        get rocksdb_options_get_use_direct_reads;
    accepted use_direct_io_for_flush_and_compaction: u8 = 0,
        set rocksdb_options_set_use_direct_io_for_flush_and_compaction,
        get rocksdb_options_get_use_direct_io_for_flush_and_compaction;
    accepted is_fd_close_on_exec: u8 = 1,
        set rocksdb_options_set_is_fd_close_on_exec,
        get rocksdb_options_get_is_fd_close_on_exec;
    accepted stats_dump_period_sec: u32 = 600,
        set rocksdb_options_set_stats_dump_period_sec,
        get rocksdb_options_get_stats_dump_period_sec;
    accepted stats_persist_period_sec: u32 = 600,
        set rocksdb_options_set_stats_persist_period_sec,
        get rocksdb_options_get_stats_persist_period_sec;
    accepted advise_random_on_open: u8 = 1,
        set rocksdb_options_set_advise_random_on_open,
        get rocksdb_options_get_advise_random_on_open;
    accepted use_adaptive_mutex: u8 = 0,
        set rocksdb_options_set_use_adaptive_mutex,
        get rocksdb_options_get_use_adaptive_mutex;
    accepted bytes_per_sync: u64 = 0,
        set rocksdb_options_set_bytes_per_sync,
        get rocksdb_options_get_bytes_per_sync;
    accepted wal_bytes_per_sync: u64 = 0,
        set rocksdb_options_set_wal_bytes_per_sync,
        get rocksdb_options_get_wal_bytes_per_sync;
    accepted writable_file_max_buffer_size: u64 = 1024 * 1024,
        set rocksdb_options_set_writable_file_max_buffer_size,
        get rocksdb_options_get_writable_file_max_buffer_size;
    accepted allow_concurrent_memtable_write: u8 = 1,
        set rocksdb_options_set_allow_concurrent_memtable_write,
        get rocksdb_options_get_allow_concurrent_memtable_write;
    accepted enable_write_thread_adaptive_yield: u8 = 1,
        set rocksdb_options_set_enable_write_thread_adaptive_yield,
        get rocksdb_options_get_enable_write_thread_adaptive_yield;
    accepted max_sequential_skip_in_iterations: u64 = 8,
        set rocksdb_options_set_max_sequential_skip_in_iterations,
        get rocksdb_options_get_max_sequential_skip_in_iterations;
    accepted disable_auto_compactions: i32 = 0, set rocksdb_options_set_disable_auto_compactions;
    accepted disable_auto_compactions: u8 = 0, get rocksdb_options_get_disable_auto_compactions;
    accepted optimize_filters_for_hits: i32 = 0, set rocksdb_options_set_optimize_filters_for_hits;
    accepted optimize_filters_for_hits: u8 = 0, get rocksdb_options_get_optimize_filters_for_hits;
    accepted delete_obsolete_files_period_micros: u64 = 6 * 60 * 60 * 1000000,
        set rocksdb_options_set_delete_obsolete_files_period_micros,
        get rocksdb_options_get_delete_obsolete_files_period_micros;
    accepted memtable_prefix_bloom_size_ratio: f64 = 0.0,
        set rocksdb_options_set_memtable_prefix_bloom_size_ratio,
        get rocksdb_options_get_memtable_prefix_bloom_size_ratio;
    accepted max_compaction_bytes: u64 = 0,
        set rocksdb_options_set_max_compaction_bytes,
        get rocksdb_options_get_max_compaction_bytes;
    accepted hash_link_list_rep: usize = 0, set rocksdb_options_set_hash_link_list_rep;
    accepted write_dbid_to_manifest: u8 = 1,
        set rocksdb_options_set_write_dbid_to_manifest,
        get rocksdb_options_get_write_dbid_to_manifest;
    accepted write_identity_file: u8 = 1,
        set rocksdb_options_set_write_identity_file,
        get rocksdb_options_get_write_identity_file;
    accepted track_and_verify_wals_in_manifest: u8 = 0,
        set rocksdb_options_set_track_and_verify_wals_in_manifest,
        get rocksdb_options_get_track_and_verify_wals_in_manifest;
    accepted min_level_to_compress: i32 = 0, set rocksdb_options_set_min_level_to_compress;
    accepted memtable_huge_page_size: usize = 0,
        set rocksdb_options_set_memtable_huge_page_size,
        get rocksdb_options_get_memtable_huge_page_size;
    accepted max_successive_merges: usize = 0,
        set rocksdb_options_set_max_successive_merges,
        get rocksdb_options_get_max_successive_merges;
    accepted bloom_locality: u32 = 0,
        set rocksdb_options_set_bloom_locality,
        get rocksdb_options_get_bloom_locality;
    accepted inplace_update_support: u8 = 0,
        set rocksdb_options_set_inplace_update_support,
        get rocksdb_options_get_inplace_update_support;
    accepted inplace_update_num_locks: usize = 10000,
        set rocksdb_options_set_inplace_update_num_locks,
        get rocksdb_options_get_inplace_update_num_locks;
    accepted report_bg_io_stats: i32 = 0, set rocksdb_options_set_report_bg_io_stats;
    accepted report_bg_io_stats: u8 = 0, get rocksdb_options_get_report_bg_io_stats;
    accepted avoid_unnecessary_blocking_io: u8 = 0,
        set rocksdb_options_set_avoid_unnecessary_blocking_io,
        get rocksdb_options_get_avoid_unnecessary_blocking_io;
    accepted experimental_mempurge_threshold: f64 = 0.0,
        set rocksdb_options_set_experimental_mempurge_threshold,
        get rocksdb_options_get_experimental_mempurge_threshold;
    works wal_recovery_mode: i32 = 2,
        set rocksdb_options_set_wal_recovery_mode,
        get rocksdb_options_get_wal_recovery_mode;
    works compression: i32 = 1,
        set rocksdb_options_set_compression,
        get rocksdb_options_get_compression;
    accepted bottommost_compression: i32 = 255,
        set rocksdb_options_set_bottommost_compression,
        get rocksdb_options_get_bottommost_compression;
    works compaction_style: i32 = 0,
        set rocksdb_options_set_compaction_style,
        get rocksdb_options_get_compaction_style;
    accepted atomic_flush: u8 = 0,
        set rocksdb_options_set_atomic_flush,
        get rocksdb_options_get_atomic_flush;
    accepted manual_wal_flush: u8 = 0,
        set rocksdb_options_set_manual_wal_flush,
        get rocksdb_options_get_manual_wal_flush;
    accepted wal_compression: i32 = 0,
        set rocksdb_options_set_wal_compression,
        get rocksdb_options_get_wal_compression;
    accepted compaction_pri: i32 = 3,
        set rocksdb_options_set_compaction_pri,
        get rocksdb_options_get_compaction_pri;
    accepted dump_malloc_stats: u8 = 0,
        set rocksdb_options_set_dump_malloc_stats,
        get rocksdb_options_get_dump_malloc_stats;
    accepted memtable_whole_key_filtering: u8 = 0,
        set rocksdb_options_set_memtable_whole_key_filtering,
        get rocksdb_options_get_memtable_whole_key_filtering;
    accepted flush_verify_memtable_count: u8 = 1,
        set rocksdb_options_set_flush_verify_memtable_count,
        get rocksdb_options_get_flush_verify_memtable_count;
    accepted compaction_verify_record_count: u8 = 1,
        set rocksdb_options_set_compaction_verify_record_count,
        get rocksdb_options_get_compaction_verify_record_count;
    accepted track_and_verify_wals: u8 = 0,
        set rocksdb_options_set_track_and_verify_wals,
        get rocksdb_options_get_track_and_verify_wals;
    accepted verify_sst_unique_id_in_manifest: u8 = 1,
        set rocksdb_options_set_verify_sst_unique_id_in_manifest,
        get rocksdb_options_get_verify_sst_unique_id_in_manifest;
    accepted read_io_executor_threads: i32 = 1,
        set rocksdb_options_set_read_io_executor_threads,
        get rocksdb_options_get_read_io_executor_threads;
    accepted async_wal_precreate: u8 = 0,
        set rocksdb_options_set_async_wal_precreate,
        get rocksdb_options_get_async_wal_precreate;
}
