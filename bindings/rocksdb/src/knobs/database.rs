//! Numbers of the options of databases and column families, the first part.

use super::knobs;
use crate::options::Options;

knobs! {
    Options;
    accepted allow_ingest_behind: u8 = 0,
        set rocksdb_options_set_allow_ingest_behind,
        get rocksdb_options_get_allow_ingest_behind;
    accepted compaction_readahead_size: usize = 2 * 1024 * 1024,
        set rocksdb_options_compaction_readahead_size,
        get rocksdb_options_get_compaction_readahead_size;
    works create_if_missing: u8 = 0,
        set rocksdb_options_set_create_if_missing,
        get rocksdb_options_get_create_if_missing;
    works create_missing_column_families: u8 = 0,
        set rocksdb_options_set_create_missing_column_families,
        get rocksdb_options_get_create_missing_column_families;
    works error_if_exists: u8 = 0,
        set rocksdb_options_set_error_if_exists,
        get rocksdb_options_get_error_if_exists;
    accepted paranoid_checks: u8 = 1,
        set rocksdb_options_set_paranoid_checks,
        get rocksdb_options_get_paranoid_checks;
    accepted open_files_async: u8 = 0,
        set rocksdb_options_set_open_files_async,
        get rocksdb_options_get_open_files_async;
    accepted info_log_level: i32 = 1,
        set rocksdb_options_set_info_log_level,
        get rocksdb_options_get_info_log_level;
    works write_buffer_size: usize = 64 << 20,
        set rocksdb_options_set_write_buffer_size,
        get rocksdb_options_get_write_buffer_size;
    accepted db_write_buffer_size: usize = 0,
        set rocksdb_options_set_db_write_buffer_size,
        get rocksdb_options_get_db_write_buffer_size;
    accepted max_open_files: i32 = -1,
        set rocksdb_options_set_max_open_files,
        get rocksdb_options_get_max_open_files;
    accepted max_file_opening_threads: i32 = 16,
        set rocksdb_options_set_max_file_opening_threads,
        get rocksdb_options_get_max_file_opening_threads;
    accepted max_total_wal_size: u64 = 0,
        set rocksdb_options_set_max_total_wal_size,
        get rocksdb_options_get_max_total_wal_size;
    accepted compression_options_zstd_max_train_bytes: i32 = 0,
        set rocksdb_options_set_compression_options_zstd_max_train_bytes,
        get rocksdb_options_get_compression_options_zstd_max_train_bytes;
    accepted compression_options_use_zstd_dict_trainer: u8 = 1,
        set rocksdb_options_set_compression_options_use_zstd_dict_trainer,
        get rocksdb_options_get_compression_options_use_zstd_dict_trainer;
    accepted compression_options_parallel_threads: i32 = 1,
        set rocksdb_options_set_compression_options_parallel_threads,
        get rocksdb_options_get_compression_options_parallel_threads;
    accepted compression_options_max_dict_buffer_bytes: u64 = 0,
        set rocksdb_options_set_compression_options_max_dict_buffer_bytes,
        get rocksdb_options_get_compression_options_max_dict_buffer_bytes;
    accepted bottommost_compression_options_use_zstd_dict_trainer: u8 = 0,
        get rocksdb_options_get_bottommost_compression_options_use_zstd_dict_trainer;
    accepted num_levels: i32 = 7,
        set rocksdb_options_set_num_levels,
        get rocksdb_options_get_num_levels;
    works level0_file_num_compaction_trigger: i32 = 4,
        set rocksdb_options_set_level0_file_num_compaction_trigger,
        get rocksdb_options_get_level0_file_num_compaction_trigger;
    accepted level0_slowdown_writes_trigger: i32 = 20,
        set rocksdb_options_set_level0_slowdown_writes_trigger,
        get rocksdb_options_get_level0_slowdown_writes_trigger;
    accepted level0_stop_writes_trigger: i32 = 36,
        set rocksdb_options_set_level0_stop_writes_trigger,
        get rocksdb_options_get_level0_stop_writes_trigger;
    accepted target_file_size_base: u64 = 64 * 1048576,
        set rocksdb_options_set_target_file_size_base,
        get rocksdb_options_get_target_file_size_base;
    accepted target_file_size_multiplier: i32 = 1,
        set rocksdb_options_set_target_file_size_multiplier,
        get rocksdb_options_get_target_file_size_multiplier;
    accepted max_bytes_for_level_base: u64 = 256 * 1048576,
        set rocksdb_options_set_max_bytes_for_level_base,
        get rocksdb_options_get_max_bytes_for_level_base;
    accepted level_compaction_dynamic_level_bytes: u8 = 1,
        set rocksdb_options_set_level_compaction_dynamic_level_bytes,
        get rocksdb_options_get_level_compaction_dynamic_level_bytes;
    accepted max_bytes_for_level_multiplier: f64 = 10.0,
        set rocksdb_options_set_max_bytes_for_level_multiplier,
        get rocksdb_options_get_max_bytes_for_level_multiplier;
    works ttl: u64 = u64::MAX - 1, set rocksdb_options_set_ttl, get rocksdb_options_get_ttl;
    accepted periodic_compaction_seconds: u64 = u64::MAX - 1,
        set rocksdb_options_set_periodic_compaction_seconds,
        get rocksdb_options_get_periodic_compaction_seconds;
    accepted memtable_op_scan_flush_trigger: u32 = 0,
        set rocksdb_options_set_memtable_op_scan_flush_trigger,
        get rocksdb_options_get_memtable_op_scan_flush_trigger;
    accepted memtable_avg_op_scan_flush_trigger: u32 = 0,
        set rocksdb_options_set_memtable_avg_op_scan_flush_trigger,
        get rocksdb_options_get_memtable_avg_op_scan_flush_trigger;
    accepted min_tombstones_for_range_conversion: u32 = 0,
        set rocksdb_options_set_min_tombstones_for_range_conversion,
        get rocksdb_options_get_min_tombstones_for_range_conversion;
    accepted statistics_level: i32 = 3,
        set rocksdb_options_set_statistics_level,
        get rocksdb_options_get_statistics_level;
    accepted skip_stats_update_on_db_open: u8 = 0,
        set rocksdb_options_set_skip_stats_update_on_db_open,
        get rocksdb_options_get_skip_stats_update_on_db_open;
    accepted enable_blob_files: u8 = 0,
        set rocksdb_options_set_enable_blob_files,
        get rocksdb_options_get_enable_blob_files;
    accepted min_blob_size: u64 = 0,
        set rocksdb_options_set_min_blob_size,
        get rocksdb_options_get_min_blob_size;
    accepted blob_file_size: u64 = 1 << 28,
        set rocksdb_options_set_blob_file_size,
        get rocksdb_options_get_blob_file_size;
    accepted blob_compression_type: i32 = 0,
        set rocksdb_options_set_blob_compression_type,
        get rocksdb_options_get_blob_compression_type;
    accepted enable_blob_gc: u8 = 0,
        set rocksdb_options_set_enable_blob_gc,
        get rocksdb_options_get_enable_blob_gc;
    accepted blob_gc_age_cutoff: f64 = 0.25,
        set rocksdb_options_set_blob_gc_age_cutoff,
        get rocksdb_options_get_blob_gc_age_cutoff;
    accepted blob_gc_force_threshold: f64 = 1.0,
        set rocksdb_options_set_blob_gc_force_threshold,
        get rocksdb_options_get_blob_gc_force_threshold;
    accepted read_triggered_compaction_threshold: f64 = 0.0,
        set rocksdb_options_set_read_triggered_compaction_threshold,
        get rocksdb_options_get_read_triggered_compaction_threshold;
    accepted max_compaction_trigger_wakeup_seconds: u64 = 43200,
        set rocksdb_options_set_max_compaction_trigger_wakeup_seconds,
        get rocksdb_options_get_max_compaction_trigger_wakeup_seconds;
    accepted blob_compaction_readahead_size: u64 = 0,
        set rocksdb_options_set_blob_compaction_readahead_size,
        get rocksdb_options_get_blob_compaction_readahead_size;
    accepted blob_file_starting_level: i32 = 0,
        set rocksdb_options_set_blob_file_starting_level,
        get rocksdb_options_get_blob_file_starting_level;
    accepted prepopulate_blob_cache: i32 = 0,
        set rocksdb_options_set_prepopulate_blob_cache,
        get rocksdb_options_get_prepopulate_blob_cache;
    works max_write_buffer_number: i32 = 2,
        set rocksdb_options_set_max_write_buffer_number,
        get rocksdb_options_get_max_write_buffer_number;
    accepted min_write_buffer_number_to_merge: i32 = 1,
        set rocksdb_options_set_min_write_buffer_number_to_merge,
        get rocksdb_options_get_min_write_buffer_number_to_merge;
    accepted max_write_buffer_size_to_maintain: i64 = 0,
        set rocksdb_options_set_max_write_buffer_size_to_maintain,
        get rocksdb_options_get_max_write_buffer_size_to_maintain;
    accepted enable_pipelined_write: u8 = 0,
        set rocksdb_options_set_enable_pipelined_write,
        get rocksdb_options_get_enable_pipelined_write;
    accepted unordered_write: u8 = 0,
        set rocksdb_options_set_unordered_write,
        get rocksdb_options_get_unordered_write;
    accepted max_subcompactions: u32 = 1,
        set rocksdb_options_set_max_subcompactions,
        get rocksdb_options_get_max_subcompactions;
    works max_background_jobs: i32 = 2,
        set rocksdb_options_set_max_background_jobs,
        get rocksdb_options_get_max_background_jobs;
    accepted max_background_compactions: i32 = -1,
        set rocksdb_options_set_max_background_compactions,
        get rocksdb_options_get_max_background_compactions;
    accepted max_background_flushes: i32 = -1,
        set rocksdb_options_set_max_background_flushes,
        get rocksdb_options_get_max_background_flushes;
    accepted max_log_file_size: usize = 0,
        set rocksdb_options_set_max_log_file_size,
        get rocksdb_options_get_max_log_file_size;
    accepted log_file_time_to_roll: usize = 0,
        set rocksdb_options_set_log_file_time_to_roll,
        get rocksdb_options_get_log_file_time_to_roll;
    accepted keep_log_file_num: usize = 1000,
        set rocksdb_options_set_keep_log_file_num,
        get rocksdb_options_get_keep_log_file_num;
    accepted recycle_log_file_num: usize = 0,
        set rocksdb_options_set_recycle_log_file_num,
        get rocksdb_options_get_recycle_log_file_num;
    accepted soft_pending_compaction_bytes_limit: usize = 64 * 1073741824,
        set rocksdb_options_set_soft_pending_compaction_bytes_limit,
        get rocksdb_options_get_soft_pending_compaction_bytes_limit;
}
