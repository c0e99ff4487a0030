//! Numbers of the options of databases and column families, the third part.

use super::knobs;
use crate::options::Options;

knobs! {
    Options;
    accepted verify_manifest_content_on_close: u8 = 0,
        set rocksdb_options_set_verify_manifest_content_on_close,
        get rocksdb_options_get_verify_manifest_content_on_close;
    accepted optimize_manifest_for_recovery: u8 = 0,
        set rocksdb_options_set_optimize_manifest_for_recovery,
        get rocksdb_options_get_optimize_manifest_for_recovery;
    accepted reuse_manifest_on_open: u8 = 0,
        set rocksdb_options_set_reuse_manifest_on_open,
        get rocksdb_options_get_reuse_manifest_on_open;
    accepted max_manifest_space_amp_pct: i32 = 500,
        set rocksdb_options_set_max_manifest_space_amp_pct,
        get rocksdb_options_get_max_manifest_space_amp_pct;
    accepted use_direct_io_for_compaction_reads: u8 = 0,
        set rocksdb_options_set_use_direct_io_for_compaction_reads,
        get rocksdb_options_get_use_direct_io_for_compaction_reads;
    accepted allow_fallocate: u8 = 1,
        set rocksdb_options_set_allow_fallocate,
        get rocksdb_options_get_allow_fallocate;
    accepted persist_stats_to_disk: u8 = 0,
        set rocksdb_options_set_persist_stats_to_disk,
        get rocksdb_options_get_persist_stats_to_disk;
    accepted stats_history_buffer_size: usize = 1024 * 1024,
        set rocksdb_options_set_stats_history_buffer_size,
        get rocksdb_options_get_stats_history_buffer_size;
    accepted strict_bytes_per_sync: u8 = 0,
        set rocksdb_options_set_strict_bytes_per_sync,
        get rocksdb_options_get_strict_bytes_per_sync;
    accepted enable_thread_tracking: u8 = 0,
        set rocksdb_options_set_enable_thread_tracking,
        get rocksdb_options_get_enable_thread_tracking;
    accepted delayed_write_rate: u64 = 0,
        set rocksdb_options_set_delayed_write_rate,
        get rocksdb_options_get_delayed_write_rate;
    accepted max_write_batch_group_size_bytes: u64 = 1 << 20,
        set rocksdb_options_set_max_write_batch_group_size_bytes,
        get rocksdb_options_get_max_write_batch_group_size_bytes;
    accepted write_thread_max_yield_usec: u64 = 100,
        set rocksdb_options_set_write_thread_max_yield_usec,
        get rocksdb_options_get_write_thread_max_yield_usec;
    accepted write_thread_slow_yield_usec: u64 = 3,
        set rocksdb_options_set_write_thread_slow_yield_usec,
        get rocksdb_options_get_write_thread_slow_yield_usec;
    accepted allow_2pc: u8 = 0,
        set rocksdb_options_set_allow_2pc,
        get rocksdb_options_get_allow_2pc;
    accepted avoid_flush_during_recovery: u8 = 0,
        set rocksdb_options_set_avoid_flush_during_recovery,
        get rocksdb_options_get_avoid_flush_during_recovery;
    accepted enforce_write_buffer_manager_during_recovery: u8 = 1,
        set rocksdb_options_set_enforce_write_buffer_manager_during_recovery,
        get rocksdb_options_get_enforce_write_buffer_manager_during_recovery;
    accepted avoid_flush_during_shutdown: u8 = 0,
        set rocksdb_options_set_avoid_flush_during_shutdown,
        get rocksdb_options_get_avoid_flush_during_shutdown;
    accepted two_write_queues: u8 = 0,
        set rocksdb_options_set_two_write_queues,
        get rocksdb_options_get_two_write_queues;
    accepted background_close_inactive_wals: u8 = 0,
        set rocksdb_options_set_background_close_inactive_wals,
        get rocksdb_options_get_background_close_inactive_wals;
    accepted prefix_seek_opt_in_only: u8 = 0,
        set rocksdb_options_set_prefix_seek_opt_in_only,
        get rocksdb_options_get_prefix_seek_opt_in_only;
    accepted log_readahead_size: usize = 0,
        set rocksdb_options_set_log_readahead_size,
        get rocksdb_options_get_log_readahead_size;
    accepted best_efforts_recovery: u8 = 0,
        set rocksdb_options_set_best_efforts_recovery,
        get rocksdb_options_get_best_efforts_recovery;
    accepted max_bgerror_resume_count: i32 = i32::MAX,
        set rocksdb_options_set_max_bgerror_resume_count,
        get rocksdb_options_get_max_bgerror_resume_count;
    accepted bgerror_resume_retry_interval: u64 = 1000000,
        set rocksdb_options_set_bgerror_resume_retry_interval,
        get rocksdb_options_get_bgerror_resume_retry_interval;
    accepted allow_data_in_errors: u8 = 0,
        set rocksdb_options_set_allow_data_in_errors,
        get rocksdb_options_get_allow_data_in_errors;
    accepted lowest_used_cache_tier: i32 = 0,
        set rocksdb_options_set_lowest_used_cache_tier,
        get rocksdb_options_get_lowest_used_cache_tier;
    accepted enforce_single_del_contracts: u8 = 1,
        set rocksdb_options_set_enforce_single_del_contracts,
        get rocksdb_options_get_enforce_single_del_contracts;
    accepted follower_refresh_catchup_period_ms: u64 = 10000,
        set rocksdb_options_set_follower_refresh_catchup_period_ms,
        get rocksdb_options_get_follower_refresh_catchup_period_ms;
    accepted follower_catchup_retry_count: u64 = 10,
        set rocksdb_options_set_follower_catchup_retry_count,
        get rocksdb_options_get_follower_catchup_retry_count;
    accepted follower_catchup_retry_wait_ms: u64 = 100,
        set rocksdb_options_set_follower_catchup_retry_wait_ms,
        get rocksdb_options_get_follower_catchup_retry_wait_ms;
    accepted metadata_write_temperature: i32 = 0,
        set rocksdb_options_set_metadata_write_temperature,
        get rocksdb_options_get_metadata_write_temperature;
    accepted wal_write_temperature: i32 = 0,
        set rocksdb_options_set_wal_write_temperature,
        get rocksdb_options_get_wal_write_temperature;
    accepted fast_sst_open: u8 = 0,
        set rocksdb_options_set_fast_sst_open,
        get rocksdb_options_get_fast_sst_open;
    accepted target_file_size_is_upper_bound: u8 = 0,
        set rocksdb_options_set_target_file_size_is_upper_bound,
        get rocksdb_options_get_target_file_size_is_upper_bound;
    accepted strict_max_successive_merges: u8 = 0,
        set rocksdb_options_set_strict_max_successive_merges,
        get rocksdb_options_get_strict_max_successive_merges;
    accepted paranoid_file_checks: u8 = 0,
        set rocksdb_options_set_paranoid_file_checks,
        get rocksdb_options_get_paranoid_file_checks;
    accepted verify_output_flags: i32 = 0,
        set rocksdb_options_set_verify_output_flags,
        get rocksdb_options_get_verify_output_flags;
    accepted force_consistency_checks: u8 = 1,
        set rocksdb_options_set_force_consistency_checks,
        get rocksdb_options_get_force_consistency_checks;
    accepted disallow_memtable_writes: u8 = 0,
        set rocksdb_options_set_disallow_memtable_writes,
        get rocksdb_options_get_disallow_memtable_writes;
    accepted sample_for_compression: u64 = 0,
        set rocksdb_options_set_sample_for_compression,
        get rocksdb_options_get_sample_for_compression;
    accepted last_level_temperature: i32 = 0,
        set rocksdb_options_set_last_level_temperature,
        get rocksdb_options_get_last_level_temperature;
    accepted default_write_temperature: i32 = 0,
        set rocksdb_options_set_default_write_temperature,
        get rocksdb_options_get_default_write_temperature;
    accepted default_temperature: i32 = 0,
        set rocksdb_options_set_default_temperature,
        get rocksdb_options_get_default_temperature;
    accepted preclude_last_level_data_seconds: u64 = 0,
        set rocksdb_options_set_preclude_last_level_data_seconds,
        get rocksdb_options_get_preclude_last_level_data_seconds;
    accepted preserve_internal_time_seconds: u64 = 0,
        set rocksdb_options_set_preserve_internal_time_seconds,
        get rocksdb_options_get_preserve_internal_time_seconds;
    accepted enable_blob_direct_write: u8 = 0,
        set rocksdb_options_set_enable_blob_direct_write,
        get rocksdb_options_get_enable_blob_direct_write;
    accepted blob_direct_write_partitions: u32 = 1,
        set rocksdb_options_set_blob_direct_write_partitions,
        get rocksdb_options_get_blob_direct_write_partitions;
    accepted memtable_protection_bytes_per_key: u32 = 0,
        set rocksdb_options_set_memtable_protection_bytes_per_key,
        get rocksdb_options_get_memtable_protection_bytes_per_key;
    accepted persist_user_defined_timestamps: u8 = 1,
        set rocksdb_options_set_persist_user_defined_timestamps,
        get rocksdb_options_get_persist_user_defined_timestamps;
    accepted block_protection_bytes_per_key: u8 = 0,
        set rocksdb_options_set_block_protection_bytes_per_key,
        get rocksdb_options_get_block_protection_bytes_per_key;
    accepted bottommost_file_compaction_delay: u32 = 0,
        set rocksdb_options_set_bottommost_file_compaction_delay,
        get rocksdb_options_get_bottommost_file_compaction_delay;
    accepted paranoid_memory_checks: u8 = 0,
        set rocksdb_options_set_paranoid_memory_checks,
        get rocksdb_options_get_paranoid_memory_checks;
    accepted memtable_verify_per_key_checksum_on_seek: u8 = 0,
        set rocksdb_options_set_memtable_verify_per_key_checksum_on_seek,
        get rocksdb_options_get_memtable_verify_per_key_checksum_on_seek;
    accepted cf_allow_ingest_behind: u8 = 0,
        set rocksdb_options_set_cf_allow_ingest_behind,
        get rocksdb_options_get_cf_allow_ingest_behind;
    accepted memtable_batch_lookup_optimization: u8 = 0,
        set rocksdb_options_set_memtable_batch_lookup_optimization,
        get rocksdb_options_get_memtable_batch_lookup_optimization;
    accepted memtable_max_range_deletions: u32 = 0,
        set rocksdb_options_set_memtable_max_range_deletions,
        get rocksdb_options_get_memtable_max_range_deletions;
    accepted uncache_aggressiveness: u32 = 0,
        set rocksdb_options_set_uncache_aggressiveness,
        get rocksdb_options_get_uncache_aggressiveness;
}
