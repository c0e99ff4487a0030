//! Numbers of the smaller objects of options.

use super::knobs;
use crate::knobs::Knobs;

knobs! {
    Knobs;
    accepted verify_checksums: u8 = 1,
        set rocksdb_wal_readoptions_set_verify_checksums,
        get rocksdb_wal_readoptions_get_verify_checksums;
    accepted hash_ratio: f64 = 0.0, set rocksdb_cuckoo_options_set_hash_ratio;
    accepted exclusive_manual_compaction: u8 = 0,
        set rocksdb_compactoptions_set_exclusive_manual_compaction,
        get rocksdb_compactoptions_get_exclusive_manual_compaction;
    accepted bottommost_level_compaction: u8 = 1,
        set rocksdb_compactoptions_set_bottommost_level_compaction,
        get rocksdb_compactoptions_get_bottommost_level_compaction;
    accepted change_level: u8 = 0,
        set rocksdb_compactoptions_set_change_level,
        get rocksdb_compactoptions_get_change_level;
    accepted target_level: i32 = -1,
        set rocksdb_compactoptions_set_target_level,
        get rocksdb_compactoptions_get_target_level;
    accepted target_path_id: i32 = 0,
        set rocksdb_compactoptions_set_target_path_id,
        get rocksdb_compactoptions_get_target_path_id;
    accepted allow_write_stall: u8 = 0,
        set rocksdb_compactoptions_set_allow_write_stall,
        get rocksdb_compactoptions_get_allow_write_stall;
    accepted max_subcompactions: i32 = 0,
        set rocksdb_compactoptions_set_max_subcompactions,
        get rocksdb_compactoptions_get_max_subcompactions;
    works capacity: usize = 0, set rocksdb_lru_cache_options_set_capacity;
    accepted num_shard_bits: i32 = -1, set rocksdb_lru_cache_options_set_num_shard_bits;
    accepted max_allowed_space_usage: u64 = 0,
        set rocksdb_sst_file_manager_set_max_allowed_space_usage;
    accepted compaction_buffer_size: u64 = 0,
        set rocksdb_sst_file_manager_set_compaction_buffer_size;
    accepted total_size: u64 = 0, get rocksdb_sst_file_manager_get_total_size;
    accepted delete_rate_bytes_per_second: i64 = 0,
        set rocksdb_sst_file_manager_set_delete_rate_bytes_per_second,
        get rocksdb_sst_file_manager_get_delete_rate_bytes_per_second;
    accepted max_trash_db_ratio: f64 = 0.0,
        set rocksdb_sst_file_manager_set_max_trash_db_ratio,
        get rocksdb_sst_file_manager_get_max_trash_db_ratio;
    accepted total_trash_size: u64 = 0, get rocksdb_sst_file_manager_get_total_trash_size;
    accepted num_threads: u32 = 0,
        set rocksdb_replay_options_set_num_threads,
        get rocksdb_replay_options_get_num_threads;
    accepted fast_forward: f64 = 0.0,
        set rocksdb_replay_options_set_fast_forward,
        get rocksdb_replay_options_get_fast_forward;
    works move_files: u8 = 0,
        set rocksdb_ingestexternalfileoptions_set_move_files,
        get rocksdb_ingestexternalfileoptions_get_move_files;
    accepted snapshot_consistency: u8 = 1,
        set rocksdb_ingestexternalfileoptions_set_snapshot_consistency,
        get rocksdb_ingestexternalfileoptions_get_snapshot_consistency;
    accepted allow_global_seqno: u8 = 1,
        set rocksdb_ingestexternalfileoptions_set_allow_global_seqno,
        get rocksdb_ingestexternalfileoptions_get_allow_global_seqno;
    accepted allow_blocking_flush: u8 = 1,
        set rocksdb_ingestexternalfileoptions_set_allow_blocking_flush,
        get rocksdb_ingestexternalfileoptions_get_allow_blocking_flush;
    accepted ingest_behind: u8 = 0,
        set rocksdb_ingestexternalfileoptions_set_ingest_behind,
        get rocksdb_ingestexternalfileoptions_get_ingest_behind;
    accepted fail_if_not_bottommost_level: u8 = 0,
        set rocksdb_ingestexternalfileoptions_set_fail_if_not_bottommost_level,
        get rocksdb_ingestexternalfileoptions_get_fail_if_not_bottommost_level;
    accepted size_ratio: i32 = 1,
        set rocksdb_universal_compaction_options_set_size_ratio,
        get rocksdb_universal_compaction_options_get_size_ratio;
    accepted min_merge_width: i32 = 2,
        set rocksdb_universal_compaction_options_set_min_merge_width,
        get rocksdb_universal_compaction_options_get_min_merge_width;
    accepted max_merge_width: i32 = 0,
        set rocksdb_universal_compaction_options_set_max_merge_width,
        get rocksdb_universal_compaction_options_get_max_merge_width;
    accepted max_size_amplification_percent: i32 = 200,
        set rocksdb_universal_compaction_options_set_max_size_amplification_percent,
        get rocksdb_universal_compaction_options_get_max_size_amplification_percent;
    accepted compression_size_percent: i32 = -1,
        set rocksdb_universal_compaction_options_set_compression_size_percent,
        get rocksdb_universal_compaction_options_get_compression_size_percent;
    accepted stop_style: i32 = 0,
        set rocksdb_universal_compaction_options_set_stop_style,
        get rocksdb_universal_compaction_options_get_stop_style;
    accepted allow_compaction: u8 = 0,
        set rocksdb_fifo_compaction_options_set_allow_compaction,
        get rocksdb_fifo_compaction_options_get_allow_compaction;
    works max_table_files_size: u64 = 1 << 30,
        set rocksdb_fifo_compaction_options_set_max_table_files_size,
        get rocksdb_fifo_compaction_options_get_max_table_files_size;
    works max_data_files_size: u64 = 0,
        set rocksdb_fifo_compaction_options_set_max_data_files_size,
        get rocksdb_fifo_compaction_options_get_max_data_files_size;
    accepted use_kv_ratio_compaction: u8 = 0,
        set rocksdb_fifo_compaction_options_set_use_kv_ratio_compaction,
        get rocksdb_fifo_compaction_options_get_use_kv_ratio_compaction;
    works move_files: u8 = 0,
        set rocksdb_import_column_family_options_set_move_files,
        get rocksdb_import_column_family_options_get_move_files;
    accepted abort_on_pause: u8 = 0,
        set rocksdb_wait_for_compact_options_set_abort_on_pause,
        get rocksdb_wait_for_compact_options_get_abort_on_pause;
    works flush: u8 = 0,
        set rocksdb_wait_for_compact_options_set_flush,
        get rocksdb_wait_for_compact_options_get_flush;
    works close_db: u8 = 0,
        set rocksdb_wait_for_compact_options_set_close_db,
        get rocksdb_wait_for_compact_options_get_close_db;
    accepted timeout: u64 = 0,
        set rocksdb_wait_for_compact_options_set_timeout,
        get rocksdb_wait_for_compact_options_get_timeout;
    accepted allow_resumption: u8 = 0,
        set rocksdb_open_and_compact_options_set_allow_resumption,
        get rocksdb_open_and_compact_options_get_allow_resumption;
    works sync: u8 = 0, set rocksdb_writeoptions_set_sync, get rocksdb_writeoptions_get_sync;
    works disable_WAL: u8 = 0, get rocksdb_writeoptions_get_disable_WAL;
    works ignore_missing_column_families: u8 = 0,
        set rocksdb_writeoptions_set_ignore_missing_column_families,
        get rocksdb_writeoptions_get_ignore_missing_column_families;
    accepted no_slowdown: u8 = 0,
        set rocksdb_writeoptions_set_no_slowdown,
        get rocksdb_writeoptions_get_no_slowdown;
    accepted low_pri: u8 = 0,
        set rocksdb_writeoptions_set_low_pri,
        get rocksdb_writeoptions_get_low_pri;
    accepted memtable_insert_hint_per_batch: u8 = 0,
        set rocksdb_writeoptions_set_memtable_insert_hint_per_batch,
        get rocksdb_writeoptions_get_memtable_insert_hint_per_batch;
    accepted rate_limiter_priority: i32 = 0,
        set rocksdb_writeoptions_set_rate_limiter_priority,
        get rocksdb_writeoptions_get_rate_limiter_priority;
    accepted protection_bytes_per_key: usize = 0,
        set rocksdb_writeoptions_set_protection_bytes_per_key,
        get rocksdb_writeoptions_get_protection_bytes_per_key;
    accepted io_activity: i32 = 0,
        set rocksdb_writeoptions_set_io_activity,
        get rocksdb_writeoptions_get_io_activity;
    accepted wait: u8 = 1, set rocksdb_flushoptions_set_wait, get rocksdb_flushoptions_get_wait;
    accepted allow_write_stall: u8 = 0,
        set rocksdb_flushoptions_set_allow_write_stall,
        get rocksdb_flushoptions_get_allow_write_stall;
    accepted force_atomic_flush: u8 = 0,
        set rocksdb_flushoptions_set_force_atomic_flush,
        get rocksdb_flushoptions_get_force_atomic_flush;
    accepted listener_wait: u8 = 0,
        set rocksdb_flushoptions_set_listener_wait,
        get rocksdb_flushoptions_get_listener_wait;
    works sync: u8 = 0, set rocksdb_flushwaloptions_set_sync, get rocksdb_flushwaloptions_get_sync;
    accepted rate_limiter_priority: i32 = 0,
        set rocksdb_flushwaloptions_set_rate_limiter_priority,
        get rocksdb_flushwaloptions_get_rate_limiter_priority;
    accepted use_mmap_reads: u8 = 0,
        set rocksdb_envoptions_set_use_mmap_reads,
        get rocksdb_envoptions_get_use_mmap_reads;
    accepted use_mmap_writes: u8 = 0,
        set rocksdb_envoptions_set_use_mmap_writes,
        get rocksdb_envoptions_get_use_mmap_writes;
    accepted use_direct_reads: u8 = 0,
        set rocksdb_envoptions_set_use_direct_reads,
        get rocksdb_envoptions_get_use_direct_reads;
    accepted use_direct_writes: u8 = 0,
        set rocksdb_envoptions_set_use_direct_writes,
        get rocksdb_envoptions_get_use_direct_writes;
    accepted allow_fallocate: u8 = 1,
        set rocksdb_envoptions_set_allow_fallocate,
        get rocksdb_envoptions_get_allow_fallocate;
    accepted fd_cloexec: u8 = 0,
        set rocksdb_envoptions_set_fd_cloexec,
        get rocksdb_envoptions_get_fd_cloexec;
    accepted bytes_per_sync: u64 = 0,
        set rocksdb_envoptions_set_bytes_per_sync,
        get rocksdb_envoptions_get_bytes_per_sync;
    accepted strict_bytes_per_sync: u8 = 0,
        set rocksdb_envoptions_set_strict_bytes_per_sync,
        get rocksdb_envoptions_get_strict_bytes_per_sync;
    accepted fallocate_with_keep_size: u8 = 0,
        set rocksdb_envoptions_set_fallocate_with_keep_size,
        get rocksdb_envoptions_get_fallocate_with_keep_size;
    accepted compaction_readahead_size: usize = 2 * 1024 * 1024,
        set rocksdb_envoptions_set_compaction_readahead_size,
        get rocksdb_envoptions_get_compaction_readahead_size;
    accepted writable_file_max_buffer_size: usize = 1024 * 1024,
        set rocksdb_envoptions_set_writable_file_max_buffer_size,
        get rocksdb_envoptions_get_writable_file_max_buffer_size;
    accepted max_trace_file_size: u64 = 0,
        set rocksdb_trace_options_set_max_trace_file_size,
        get rocksdb_trace_options_get_max_trace_file_size;
    accepted sampling_frequency: u64 = 1,
        set rocksdb_trace_options_set_sampling_frequency,
        get rocksdb_trace_options_get_sampling_frequency;
    accepted filter: u64 = 0,
        set rocksdb_trace_options_set_filter,
        get rocksdb_trace_options_get_filter;
    accepted preserve_write_order: u8 = 0,
        set rocksdb_trace_options_set_preserve_write_order,
        get rocksdb_trace_options_get_preserve_write_order;
    accepted sampling_frequency: u64 = 1,
        set rocksdb_block_cache_trace_options_set_sampling_frequency,
        get rocksdb_block_cache_trace_options_get_sampling_frequency;
    accepted max_trace_file_size: u64 = 0,
        set rocksdb_block_cache_trace_writer_options_set_max_trace_file_size,
        get rocksdb_block_cache_trace_writer_options_get_max_trace_file_size;
    accepted compression: i32 = 0,
        set rocksdb_compaction_options_set_compression,
        get rocksdb_compaction_options_get_compression;
    accepted output_file_size_limit: u64 = 0,
        set rocksdb_compaction_options_set_output_file_size_limit,
        get rocksdb_compaction_options_get_output_file_size_limit;
    accepted max_subcompactions: u32 = 0,
        set rocksdb_compaction_options_set_max_subcompactions,
        get rocksdb_compaction_options_get_max_subcompactions;
    accepted output_temperature_override: i32 = 0,
        set rocksdb_compaction_options_set_output_temperature_override,
        get rocksdb_compaction_options_get_output_temperature_override;
    accepted allow_trivial_move: u8 = 0,
        set rocksdb_compaction_options_set_allow_trivial_move,
        get rocksdb_compaction_options_get_allow_trivial_move;
    accepted blob_garbage_collection_policy: i32 = 0,
        set rocksdb_compactoptions_set_blob_garbage_collection_policy,
        get rocksdb_compactoptions_get_blob_garbage_collection_policy;
    accepted blob_garbage_collection_age_cutoff: f64 = -1.0,
        set rocksdb_compactoptions_set_blob_garbage_collection_age_cutoff,
        get rocksdb_compactoptions_get_blob_garbage_collection_age_cutoff;
    accepted link_files: u8 = 0,
        set rocksdb_ingestexternalfileoptions_set_link_files,
        get rocksdb_ingestexternalfileoptions_get_link_files;
    accepted failed_move_fall_back_to_copy: u8 = 1,
        set rocksdb_ingestexternalfileoptions_set_failed_move_fall_back_to_copy,
        get rocksdb_ingestexternalfileoptions_get_failed_move_fall_back_to_copy;
    accepted write_global_seqno: u8 = 0,
        set rocksdb_ingestexternalfileoptions_set_write_global_seqno,
        get rocksdb_ingestexternalfileoptions_get_write_global_seqno;
    accepted verify_checksums_before_ingest: u8 = 0,
        set rocksdb_ingestexternalfileoptions_set_verify_checksums_before_ingest,
        get rocksdb_ingestexternalfileoptions_get_verify_checksums_before_ingest;
    accepted verify_checksums_readahead_size: usize = 0,
        set rocksdb_ingestexternalfileoptions_set_verify_checksums_readahead_size,
        get rocksdb_ingestexternalfileoptions_get_verify_checksums_readahead_size;
    accepted verify_file_checksum: u8 = 1,
        set rocksdb_ingestexternalfileoptions_set_verify_file_checksum,
        get rocksdb_ingestexternalfileoptions_get_verify_file_checksum;
    accepted allow_db_generated_files: u8 = 0,
        set rocksdb_ingestexternalfileoptions_set_allow_db_generated_files,
        get rocksdb_ingestexternalfileoptions_get_allow_db_generated_files;
    accepted fill_cache: u8 = 1,
        set rocksdb_ingestexternalfileoptions_set_fill_cache,
        get rocksdb_ingestexternalfileoptions_get_fill_cache;
    accepted prefetch_lmax_index_and_filter_blocks: u8 = 1,
        set rocksdb_ingestexternalfileoptions_set_prefetch_lmax_index_and_filter_blocks,
        get rocksdb_ingestexternalfileoptions_get_prefetch_lmax_index_and_filter_blocks;
    accepted file_opening_threads: i32 = 1,
        set rocksdb_ingestexternalfileoptions_set_file_opening_threads,
        get rocksdb_ingestexternalfileoptions_get_file_opening_threads;
    works include_memtables: u8 = 0,
        set rocksdb_size_approximation_options_set_include_memtables,
        get rocksdb_size_approximation_options_get_include_memtables;
    works include_files: u8 = 1,
        set rocksdb_size_approximation_options_set_include_files,
        get rocksdb_size_approximation_options_get_include_files;
    accepted include_blob_files: u8 = 0,
        set rocksdb_size_approximation_options_set_include_blob_files,
        get rocksdb_size_approximation_options_get_include_blob_files;
    accepted files_size_error_margin: f64 = -1.0,
        set rocksdb_size_approximation_options_set_files_size_error_margin,
        get rocksdb_size_approximation_options_get_files_size_error_margin;
    accepted include_checksum_info: u8 = 0,
        set rocksdb_livefiles_storage_info_options_set_include_checksum_info,
        get rocksdb_livefiles_storage_info_options_get_include_checksum_info;
    accepted wal_size_for_flush: u64 = 0,
        set rocksdb_livefiles_storage_info_options_set_wal_size_for_flush,
        get rocksdb_livefiles_storage_info_options_get_wal_size_for_flush;
    accepted atomic_flush: u8 = 0,
        set rocksdb_livefiles_storage_info_options_set_atomic_flush,
        get rocksdb_livefiles_storage_info_options_get_atomic_flush;
    accepted level: i32 = 0,
        set rocksdb_column_family_metadata_options_set_level,
        get rocksdb_column_family_metadata_options_get_level;
    accepted wait_for_purge: u8 = 0,
        set rocksdb_wait_for_compact_options_set_wait_for_purge,
        get rocksdb_wait_for_compact_options_get_wait_for_purge;
    accepted hash_table_ratio: f64 = 0.9,
        set rocksdb_cuckoo_options_set_hash_table_ratio,
        get rocksdb_cuckoo_options_get_hash_table_ratio;
    accepted max_search_depth: u32 = 100,
        set rocksdb_cuckoo_options_set_max_search_depth,
        get rocksdb_cuckoo_options_get_max_search_depth;
    accepted cuckoo_block_size: u32 = 5,
        set rocksdb_cuckoo_options_set_cuckoo_block_size,
        get rocksdb_cuckoo_options_get_cuckoo_block_size;
    accepted identity_as_first_hash: u8 = 0,
        set rocksdb_cuckoo_options_set_identity_as_first_hash,
        get rocksdb_cuckoo_options_get_identity_as_first_hash;
    accepted use_module_hash: u8 = 1,
        set rocksdb_cuckoo_options_set_use_module_hash,
        get rocksdb_cuckoo_options_get_use_module_hash;
    accepted max_read_amp: i32 = 0,
        set rocksdb_universal_compaction_options_set_max_read_amp,
        get rocksdb_universal_compaction_options_get_max_read_amp;
    accepted allow_trivial_move: u8 = 0,
        set rocksdb_universal_compaction_options_set_allow_trivial_move,
        get rocksdb_universal_compaction_options_get_allow_trivial_move;
    accepted incremental: u8 = 0,
        set rocksdb_universal_compaction_options_set_incremental,
        get rocksdb_universal_compaction_options_get_incremental;
    accepted reduce_file_locking: u8 = 0,
        set rocksdb_universal_compaction_options_set_reduce_file_locking,
        get rocksdb_universal_compaction_options_get_reduce_file_locking;
    accepted age_for_warm: u64 = 0,
        set rocksdb_fifo_compaction_options_set_age_for_warm,
        get rocksdb_fifo_compaction_options_get_age_for_warm;
    accepted allow_trivial_copy_when_change_temperature: u8 = 0,
        set rocksdb_fifo_compaction_options_set_allow_trivial_copy_when_change_temperature,
        get rocksdb_fifo_compaction_options_get_allow_trivial_copy_when_change_temperature;
    accepted trivial_copy_buffer_size: u64 = 4096,
        set rocksdb_fifo_compaction_options_set_trivial_copy_buffer_size,
        get rocksdb_fifo_compaction_options_get_trivial_copy_buffer_size;
    accepted decrease_background_thread_cpu_priority: u8 = 0,
        set rocksdb_create_backup_options_set_decrease_background_thread_cpu_priority,
        get rocksdb_create_backup_options_get_decrease_background_thread_cpu_priority;
    accepted background_thread_cpu_priority: i32 = 0,
        set rocksdb_create_backup_options_set_background_thread_cpu_priority,
        get rocksdb_create_backup_options_get_background_thread_cpu_priority;
    works flush_before_backup: u8 = 0,
        set rocksdb_create_backup_options_set_flush_before_backup,
        get rocksdb_create_backup_options_get_flush_before_backup;
    accepted atomic_flush: u8 = 0,
        set rocksdb_create_backup_options_set_atomic_flush,
        get rocksdb_create_backup_options_get_atomic_flush;
    accepted keep_log_files: i32 = 0, set rocksdb_restore_options_set_keep_log_files;
    accepted keep_log_files: u8 = 0, get rocksdb_restore_options_get_keep_log_files;
    accepted mode: i32 = 0,
        set rocksdb_restore_options_set_mode,
        get rocksdb_restore_options_get_mode;
    accepted max_num_locks: i64 = -1,
        set rocksdb_transactiondb_options_set_max_num_locks,
        get rocksdb_transactiondb_options_get_max_num_locks;
    accepted max_num_deadlocks: u32 = 0,
        set rocksdb_transactiondb_options_set_max_num_deadlocks,
        get rocksdb_transactiondb_options_get_max_num_deadlocks;
    accepted num_stripes: usize = 16,
        set rocksdb_transactiondb_options_set_num_stripes,
        get rocksdb_transactiondb_options_get_num_stripes;
    works transaction_lock_timeout: i64 = 1000,
        set rocksdb_transactiondb_options_set_transaction_lock_timeout,
        get rocksdb_transactiondb_options_get_transaction_lock_timeout;
    works default_lock_timeout: i64 = 1000,
        set rocksdb_transactiondb_options_set_default_lock_timeout,
        get rocksdb_transactiondb_options_get_default_lock_timeout;
    accepted write_policy: i32 = 0,
        set rocksdb_transactiondb_options_set_write_policy,
        get rocksdb_transactiondb_options_get_write_policy;
    accepted rollback_merge_operands: u8 = 0,
        set rocksdb_transactiondb_options_set_rollback_merge_operands,
        get rocksdb_transactiondb_options_get_rollback_merge_operands;
    accepted use_per_key_point_lock_mgr: u8 = 0,
        set rocksdb_transactiondb_options_set_use_per_key_point_lock_mgr,
        get rocksdb_transactiondb_options_get_use_per_key_point_lock_mgr;
    accepted skip_concurrency_control: u8 = 0,
        set rocksdb_transactiondb_options_set_skip_concurrency_control,
        get rocksdb_transactiondb_options_get_skip_concurrency_control;
    accepted default_write_batch_flush_threshold: i64 = 0,
        set rocksdb_transactiondb_options_set_default_write_batch_flush_threshold,
        get rocksdb_transactiondb_options_get_default_write_batch_flush_threshold;
    accepted enable_udt_validation: u8 = 1,
        set rocksdb_transactiondb_options_set_enable_udt_validation,
        get rocksdb_transactiondb_options_get_enable_udt_validation;
    accepted txn_commit_bypass_memtable_threshold: u32 = 0,
        set rocksdb_transactiondb_options_set_txn_commit_bypass_memtable_threshold,
        get rocksdb_transactiondb_options_get_txn_commit_bypass_memtable_threshold;
    works set_snapshot: u8 = 0,
        set rocksdb_transaction_options_set_set_snapshot,
        get rocksdb_transaction_options_get_set_snapshot;
    accepted deadlock_detect: u8 = 0,
        set rocksdb_transaction_options_set_deadlock_detect,
        get rocksdb_transaction_options_get_deadlock_detect;
    accepted use_only_the_last_commit_time_batch_for_recovery: u8 = 0,
        set rocksdb_transaction_options_set_use_only_the_last_commit_time_batch_for_recovery,
        get rocksdb_transaction_options_get_use_only_the_last_commit_time_batch_for_recovery;
    works lock_timeout: i64 = -1,
        set rocksdb_transaction_options_set_lock_timeout,
        get rocksdb_transaction_options_get_lock_timeout;
    accepted deadlock_timeout_us: i64 = 500,
        set rocksdb_transaction_options_set_deadlock_timeout_us,
        get rocksdb_transaction_options_get_deadlock_timeout_us;
    works expiration: i64 = -1,
        set rocksdb_transaction_options_set_expiration,
        get rocksdb_transaction_options_get_expiration;
    accepted deadlock_detect_depth: i64 = 50,
        set rocksdb_transaction_options_set_deadlock_detect_depth,
        get rocksdb_transaction_options_get_deadlock_detect_depth;
    works max_write_batch_size: usize = 0,
        set rocksdb_transaction_options_set_max_write_batch_size,
        get rocksdb_transaction_options_get_max_write_batch_size;
    accepted skip_concurrency_control: u8 = 0,
        set rocksdb_transaction_options_set_skip_concurrency_control,
        get rocksdb_transaction_options_get_skip_concurrency_control;
    accepted skip_prepare: u8 = 1,
        set rocksdb_transaction_options_set_skip_prepare,
        get rocksdb_transaction_options_get_skip_prepare;
    accepted write_batch_flush_threshold: i64 = -1,
        set rocksdb_transaction_options_set_write_batch_flush_threshold,
        get rocksdb_transaction_options_get_write_batch_flush_threshold;
    accepted write_batch_track_timestamp_size: u8 = 0,
        set rocksdb_transaction_options_set_write_batch_track_timestamp_size,
        get rocksdb_transaction_options_get_write_batch_track_timestamp_size;
    accepted commit_bypass_memtable: u8 = 0,
        set rocksdb_transaction_options_set_commit_bypass_memtable,
        get rocksdb_transaction_options_get_commit_bypass_memtable;
    accepted large_txn_commit_optimize_threshold: u32 = 0,
        set rocksdb_transaction_options_set_large_txn_commit_optimize_threshold,
        get rocksdb_transaction_options_get_large_txn_commit_optimize_threshold;
    accepted large_txn_commit_optimize_byte_threshold: u64 = 0,
        set rocksdb_transaction_options_set_large_txn_commit_optimize_byte_threshold,
        get rocksdb_transaction_options_get_large_txn_commit_optimize_byte_threshold;
    works set_snapshot: u8 = 0,
        set rocksdb_optimistictransaction_options_set_set_snapshot,
        get rocksdb_optimistictransaction_options_get_set_snapshot;
    accepted validate_policy: i32 = 0,
        set rocksdb_optimistictransactiondb_options_set_validate_policy,
        get rocksdb_optimistictransactiondb_options_get_validate_policy;
    accepted occ_lock_buckets: u32 = 0,
        set rocksdb_optimistictransactiondb_options_set_occ_lock_buckets,
        get rocksdb_optimistictransactiondb_options_get_occ_lock_buckets;
}
