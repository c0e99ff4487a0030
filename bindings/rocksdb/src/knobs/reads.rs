//! Numbers of the options of reads.

use super::knobs;
use crate::reads::ReadOptions;

knobs! {
    ReadOptions;
    accepted deadline: u64 = 0,
        set rocksdb_readoptions_set_deadline,
        get rocksdb_readoptions_get_deadline;
    accepted io_timeout: u64 = 0,
        set rocksdb_readoptions_set_io_timeout,
        get rocksdb_readoptions_get_io_timeout;
    works read_tier: i32 = 0,
        set rocksdb_readoptions_set_read_tier,
        get rocksdb_readoptions_get_read_tier;
    accepted rate_limiter_priority: i32 = 0,
        set rocksdb_readoptions_set_rate_limiter_priority,
        get rocksdb_readoptions_get_rate_limiter_priority;
    accepted value_size_soft_limit: u64 = 0,
        set rocksdb_readoptions_set_value_size_soft_limit,
        get rocksdb_readoptions_get_value_size_soft_limit;
    accepted verify_checksums: u8 = 1,
        set rocksdb_readoptions_set_verify_checksums,
        get rocksdb_readoptions_get_verify_checksums;
    accepted fill_cache: u8 = 1,
        set rocksdb_readoptions_set_fill_cache,
        get rocksdb_readoptions_get_fill_cache;
    accepted ignore_range_deletions: u8 = 0,
        set rocksdb_readoptions_set_ignore_range_deletions,
        get rocksdb_readoptions_get_ignore_range_deletions;
    accepted async_io: u8 = 0,
        set rocksdb_readoptions_set_async_io,
        get rocksdb_readoptions_get_async_io;
    accepted optimize_multiget_for_io: u8 = 1,
        set rocksdb_readoptions_set_optimize_multiget_for_io,
        get rocksdb_readoptions_get_optimize_multiget_for_io;
    accepted readahead_size: usize = 0,
        set rocksdb_readoptions_set_readahead_size,
        get rocksdb_readoptions_get_readahead_size;
    accepted max_skippable_internal_keys: u64 = 0,
        set rocksdb_readoptions_set_max_skippable_internal_keys,
        get rocksdb_readoptions_get_max_skippable_internal_keys;
    works tailing: u8 = 0, set rocksdb_readoptions_set_tailing, get rocksdb_readoptions_get_tailing;
    works total_order_seek: u8 = 0,
        set rocksdb_readoptions_set_total_order_seek,
        get rocksdb_readoptions_get_total_order_seek;
    accepted auto_prefix_mode: u8 = 0,
        set rocksdb_readoptions_set_auto_prefix_mode,
        get rocksdb_readoptions_get_auto_prefix_mode;
    works prefix_same_as_start: u8 = 0,
        set rocksdb_readoptions_set_prefix_same_as_start,
        get rocksdb_readoptions_get_prefix_same_as_start;
    accepted pin_data: u8 = 0,
        set rocksdb_readoptions_set_pin_data,
        get rocksdb_readoptions_get_pin_data;
    accepted adaptive_readahead: u8 = 0,
        set rocksdb_readoptions_set_adaptive_readahead,
        get rocksdb_readoptions_get_adaptive_readahead;
    accepted background_purge_on_iterator_cleanup: u8 = 0,
        set rocksdb_readoptions_set_background_purge_on_iterator_cleanup,
        get rocksdb_readoptions_get_background_purge_on_iterator_cleanup;
    accepted auto_readahead_size: u8 = 1,
        set rocksdb_readoptions_set_auto_readahead_size,
        get rocksdb_readoptions_get_auto_readahead_size;
    accepted allow_unprepared_value: u8 = 0,
        set rocksdb_readoptions_set_allow_unprepared_value,
        get rocksdb_readoptions_get_allow_unprepared_value;
    accepted auto_refresh_iterator_with_snapshot: u8 = 0,
        set rocksdb_readoptions_set_auto_refresh_iterator_with_snapshot,
        get rocksdb_readoptions_get_auto_refresh_iterator_with_snapshot;
    accepted io_activity: i32 = 0,
        set rocksdb_readoptions_set_io_activity,
        get rocksdb_readoptions_get_io_activity;
    accepted merge_operand_count_threshold: usize = 0,
        set rocksdb_readoptions_set_merge_operand_count_threshold,
        get rocksdb_readoptions_get_merge_operand_count_threshold;
}
