//! Functions that are declared among those that work, or among the numbers that are accepted, and for
//! which something else holds.

use crate::Decision;

/// A decision about functions, and why.
pub type Exception = (Decision, &'static str, &'static [&'static str]);

/// All of them.
pub const ALL: [Exception; 3] = [
    (
        Decision::Refused,
        "what it asks for cannot be kept: the open or the call that uses it fails",
        &[
            "rocksdb_backup_engine_options_set_destroy_old_data",
            "rocksdb_compactionservice_create",
            "rocksdb_ingestexternalfileoptions_set_fail_if_not_bottommost_level",
            "rocksdb_ingestexternalfileoptions_set_ingest_behind",
            "rocksdb_options_set_compaction_service",
            "rocksdb_options_set_disallow_memtable_writes",
            "rocksdb_options_set_wal_filter",
        ],
    ),
    (
        Decision::Accepted,
        "Esker has no such knob, or chooses the value itself",
        &[
            "rocksdb_backup_engine_stop_backup",
            "rocksdb_cache_disown_data",
            "rocksdb_compactionfilter_set_ignore_snapshots",
            "rocksdb_create_backup_options_set_progress_callback",
            "rocksdb_env_set_background_threads",
            "rocksdb_env_set_bottom_priority_background_threads",
            "rocksdb_env_set_high_priority_background_threads",
            "rocksdb_env_set_low_priority_background_threads",
            "rocksdb_options_add_compact_on_deletion_collector_factory",
            "rocksdb_options_add_compact_on_deletion_collector_factory_del_ratio",
            "rocksdb_options_add_compact_on_deletion_collector_factory_min_file_size",
            "rocksdb_set_db_options",
            "rocksdb_set_options",
            "rocksdb_set_options_cf",
            "rocksdb_write_buffer_manager_cost_to_cache",
            "rocksdb_write_buffer_manager_create",
            "rocksdb_write_buffer_manager_create_with_cache",
            "rocksdb_write_buffer_manager_destroy",
            "rocksdb_write_buffer_manager_enabled",
            "rocksdb_write_buffer_manager_buffer_size",
            "rocksdb_write_buffer_manager_set_allow_stall",
            "rocksdb_write_buffer_manager_set_buffer_size",
            "rocksdb_writeoptions_disable_WAL",
        ],
    ),
    (
        Decision::Refused,
        "it is not measured",
        &[
            "rocksdb_cache_get_occupancy_count",
            "rocksdb_cache_get_pinned_usage",
            "rocksdb_cache_get_table_address_count",
            "rocksdb_compactionfiltercontext_is_full_compaction",
            "rocksdb_compactionfiltercontext_is_manual_compaction",
            "rocksdb_perfcontext_metric",
            "rocksdb_perfcontext_report",
            "rocksdb_statistics_histogram_data_get_std_dev",
            "rocksdb_write_buffer_manager_dummy_entries_in_cache_usage",
            "rocksdb_write_buffer_manager_memory_usage",
            "rocksdb_write_buffer_manager_mutable_memtable_memory_usage",
        ],
    ),
];
