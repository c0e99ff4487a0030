//! Numbers of the options of tables: Esker has tables of one form.

use super::knobs;
use crate::options::TableOptions;

knobs! {
    TableOptions;
    accepted data_block_hash_table_util_ratio: f64 = 0.75,
        set rocksdb_block_based_options_set_data_block_hash_ratio;
    accepted top_level_index_pinning_tier: i32 = 0,
        set rocksdb_block_based_options_set_top_level_index_pinning_tier;
    accepted partition_pinning_tier: i32 = 0,
        set rocksdb_block_based_options_set_partition_pinning_tier;
    accepted unpartitioned_pinning_tier: i32 = 0,
        set rocksdb_block_based_options_set_unpartitioned_pinning_tier;
    accepted cache_index_and_filter_blocks: u8 = 0,
        set rocksdb_block_based_options_set_cache_index_and_filter_blocks,
        get rocksdb_block_based_options_get_cache_index_and_filter_blocks;
    accepted cache_index_and_filter_blocks_with_high_priority: u8 = 1,
        set rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority,
        get rocksdb_block_based_options_get_cache_index_and_filter_blocks_with_high_priority;
    accepted pin_l0_filter_and_index_blocks_in_cache: u8 = 0,
        set rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache,
        get rocksdb_block_based_options_get_pin_l0_filter_and_index_blocks_in_cache;
    accepted pin_top_level_index_and_filter: u8 = 1,
        set rocksdb_block_based_options_set_pin_top_level_index_and_filter,
        get rocksdb_block_based_options_get_pin_top_level_index_and_filter;
    accepted index_type: i32 = 0,
        set rocksdb_block_based_options_set_index_type,
        get rocksdb_block_based_options_get_index_type;
    accepted index_block_search_type: i32 = 0,
        set rocksdb_block_based_options_set_index_block_search_type,
        get rocksdb_block_based_options_get_index_block_search_type;
    accepted data_block_index_type: i32 = 0,
        set rocksdb_block_based_options_set_data_block_index_type,
        get rocksdb_block_based_options_get_data_block_index_type;
    accepted data_block_hash_table_util_ratio: f64 = 0.75,
        set rocksdb_block_based_options_set_data_block_hash_table_util_ratio,
        get rocksdb_block_based_options_get_data_block_hash_table_util_ratio;
    accepted checksum: i32 = 0, get rocksdb_block_based_options_get_checksum;
    accepted no_block_cache: u8 = 0,
        set rocksdb_block_based_options_set_no_block_cache,
        get rocksdb_block_based_options_get_no_block_cache;
    accepted block_size: usize = 4 * 1024, set rocksdb_block_based_options_set_block_size;
    accepted block_size: u64 = 4 * 1024, get rocksdb_block_based_options_get_block_size;
    accepted block_size_deviation: i32 = 10,
        set rocksdb_block_based_options_set_block_size_deviation,
        get rocksdb_block_based_options_get_block_size_deviation;
    accepted block_restart_interval: i32 = 16,
        set rocksdb_block_based_options_set_block_restart_interval,
        get rocksdb_block_based_options_get_block_restart_interval;
    accepted index_block_restart_interval: i32 = 1,
        set rocksdb_block_based_options_set_index_block_restart_interval,
        get rocksdb_block_based_options_get_index_block_restart_interval;
    accepted metadata_block_size: u64 = 4096,
        set rocksdb_block_based_options_set_metadata_block_size,
        get rocksdb_block_based_options_get_metadata_block_size;
    accepted partition_filters: u8 = 0,
        set rocksdb_block_based_options_set_partition_filters,
        get rocksdb_block_based_options_get_partition_filters;
    accepted decouple_partitioned_filters: u8 = 1,
        set rocksdb_block_based_options_set_decouple_partitioned_filters,
        get rocksdb_block_based_options_get_decouple_partitioned_filters;
    accepted optimize_filters_for_memory: u8 = 1,
        set rocksdb_block_based_options_set_optimize_filters_for_memory,
        get rocksdb_block_based_options_get_optimize_filters_for_memory;
    accepted use_delta_encoding: u8 = 1,
        set rocksdb_block_based_options_set_use_delta_encoding,
        get rocksdb_block_based_options_get_use_delta_encoding;
    accepted use_udi_as_primary_index: u8 = 0,
        set rocksdb_block_based_options_set_use_udi_as_primary_index,
        get rocksdb_block_based_options_get_use_udi_as_primary_index;
    accepted fail_if_no_udi_on_open: u8 = 0,
        set rocksdb_block_based_options_set_fail_if_no_udi_on_open,
        get rocksdb_block_based_options_get_fail_if_no_udi_on_open;
    accepted whole_key_filtering: u8 = 1,
        set rocksdb_block_based_options_set_whole_key_filtering,
        get rocksdb_block_based_options_get_whole_key_filtering;
    accepted detect_filter_construct_corruption: u8 = 0,
        set rocksdb_block_based_options_set_detect_filter_construct_corruption,
        get rocksdb_block_based_options_get_detect_filter_construct_corruption;
    accepted verify_compression: u8 = 0,
        set rocksdb_block_based_options_set_verify_compression,
        get rocksdb_block_based_options_get_verify_compression;
    accepted read_amp_bytes_per_bit: u32 = 0,
        set rocksdb_block_based_options_set_read_amp_bytes_per_bit,
        get rocksdb_block_based_options_get_read_amp_bytes_per_bit;
    accepted format_version: i32 = 7, set rocksdb_block_based_options_set_format_version;
    accepted format_version: u32 = 7, get rocksdb_block_based_options_get_format_version;
    accepted separate_key_value_in_data_block: u8 = 0,
        set rocksdb_block_based_options_set_separate_key_value_in_data_block,
        get rocksdb_block_based_options_get_separate_key_value_in_data_block;
    accepted uniform_cv_threshold: f64 = -1.0,
        set rocksdb_block_based_options_set_uniform_cv_threshold,
        get rocksdb_block_based_options_get_uniform_cv_threshold;
    accepted enable_index_compression: u8 = 1,
        set rocksdb_block_based_options_set_enable_index_compression,
        get rocksdb_block_based_options_get_enable_index_compression;
    accepted block_align: u8 = 0,
        set rocksdb_block_based_options_set_block_align,
        get rocksdb_block_based_options_get_block_align;
    accepted super_block_alignment_size: usize = 0,
        set rocksdb_block_based_options_set_super_block_alignment_size,
        get rocksdb_block_based_options_get_super_block_alignment_size;
    accepted super_block_alignment_space_overhead_ratio: usize = 128,
        set rocksdb_block_based_options_set_super_block_alignment_space_overhead_ratio,
        get rocksdb_block_based_options_get_super_block_alignment_space_overhead_ratio;
    accepted index_shortening: i32 = 0,
        set rocksdb_block_based_options_set_index_shortening,
        get rocksdb_block_based_options_get_index_shortening;
    accepted max_auto_readahead_size: usize = 256 * 1024,
        set rocksdb_block_based_options_set_max_auto_readahead_size,
        get rocksdb_block_based_options_get_max_auto_readahead_size;
    accepted prepopulate_block_cache: i32 = 0,
        set rocksdb_block_based_options_set_prepopulate_block_cache,
        get rocksdb_block_based_options_get_prepopulate_block_cache;
    accepted initial_auto_readahead_size: usize = 8 * 1024,
        set rocksdb_block_based_options_set_initial_auto_readahead_size,
        get rocksdb_block_based_options_get_initial_auto_readahead_size;
    accepted num_file_reads_for_auto_readahead: u64 = 2,
        set rocksdb_block_based_options_set_num_file_reads_for_auto_readahead,
        get rocksdb_block_based_options_get_num_file_reads_for_auto_readahead;
}
