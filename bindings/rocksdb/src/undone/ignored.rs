//! Functions that do nothing: Esker has no such knob, or chooses the value itself.

use super::{P, undone};

undone! {
    accepted "Esker has no such knob, or chooses the value itself";
    with_errptr {
        rocksdb_pause_background_work(P);
        rocksdb_continue_background_work(P);
        rocksdb_suggest_compact_range(P, P, usize, P, usize);
        rocksdb_suggest_compact_range_cf(P, P, P, usize, P, usize);
        rocksdb_block_based_options_set_user_defined_index_factory_from_string(P, P, usize);
        rocksdb_readoptions_set_table_index_factory_from_string(P, P, usize);
        rocksdb_jemalloc_nodump_allocator_create() -> P;
    }
    without_errptr {
        rocksdb_create_backup_options_set_exclude_files_callback(P, P, P);
        rocksdb_backup_engine_options_set_env(P, P);
        rocksdb_backup_engine_options_set_backup_rate_limiter(P, P);
        rocksdb_backup_engine_options_set_restore_rate_limiter(P, P);
        rocksdb_writebatch_wi_delete_range(P, P, usize, P, usize);
        rocksdb_writebatch_wi_delete_range_cf(P, P, P, usize, P, usize);
        rocksdb_writebatch_wi_delete_rangev(P, i32, P, P, P, P);
        rocksdb_writebatch_wi_delete_rangev_cf(P, P, i32, P, P, P, P);
        rocksdb_block_based_options_clear_user_defined_index_factory(P);
        rocksdb_block_based_options_get_user_defined_index_factory_name(P, P) -> P;
        rocksdb_options_set_write_buffer_manager(P, P);
        rocksdb_options_set_sst_file_manager(P, P);
        rocksdb_options_set_cuckoo_table_factory(P, P);
        rocksdb_options_set_access_hint_on_compaction_start(P, i32);
        rocksdb_options_set_skip_checking_sst_file_sizes_on_db_open(P, u8);
        rocksdb_options_set_compression_per_level(P, P, usize);
        rocksdb_options_set_db_paths(P, P, usize);
        rocksdb_options_set_cf_paths(P, P, usize);
        rocksdb_options_set_file_checksum_gen_factory(P, P);
        rocksdb_options_checksum_handoff_file_types_clear(P);
        rocksdb_options_checksum_handoff_file_types_add(P, i32);
        rocksdb_options_checksum_handoff_file_types_remove(P, i32);
        rocksdb_options_checksum_handoff_file_types_contains(P, i32) -> u8;
        rocksdb_options_checksum_handoff_file_types_count(P) -> usize;
        rocksdb_options_calculate_sst_write_lifetime_hint_set_clear(P);
        rocksdb_options_calculate_sst_write_lifetime_hint_set_add(P, i32);
        rocksdb_options_calculate_sst_write_lifetime_hint_set_remove(P, i32);
        rocksdb_options_calculate_sst_write_lifetime_hint_set_contains(P, i32) -> u8;
        rocksdb_options_calculate_sst_write_lifetime_hint_set_count(P) -> usize;
        rocksdb_options_set_sst_partitioner_factory(P, P);
        rocksdb_options_add_table_properties_collector_factory(P, P);
        rocksdb_options_set_compression_options(P, i32, i32, i32, i32);
        rocksdb_options_set_bottommost_compression_options(P, i32, i32, i32, i32, u8);
        rocksdb_options_set_bottommost_compression_options_zstd_max_train_bytes(P, i32, u8);
        rocksdb_options_set_bottommost_compression_options_use_zstd_dict_trainer(P, u8, u8);
        rocksdb_options_set_bottommost_compression_options_max_dict_buffer_bytes(P, u64, u8);
        rocksdb_options_set_max_bytes_for_level_multiplier_additional(P, P, usize);
        rocksdb_options_set_blob_cache(P, P);
        rocksdb_options_prepare_for_bulk_load(P);
        rocksdb_options_set_memtable_vector_rep(P);
        rocksdb_options_set_hash_skip_list_rep(P, usize, i32, i32);
        rocksdb_options_set_plain_table_factory(P, u32, i32, f64, usize, usize, i8, u8, u8);
        rocksdb_options_set_row_cache(P, P);
        rocksdb_set_perf_level(i32);
        rocksdb_perfcontext_reset(P);
        rocksdb_readoptions_clear_merge_operand_count_threshold(P);
        rocksdb_readoptions_has_merge_operand_count_threshold(P) -> u8;
        rocksdb_readoptions_set_request_id(P, P, usize);
        rocksdb_readoptions_clear_request_id(P);
        rocksdb_readoptions_get_request_id(P, P) -> P;
        rocksdb_readoptions_set_table_filter(P, P, P, P);
        rocksdb_readoptions_clear_table_filter(P);
        rocksdb_readoptions_has_table_filter(P) -> u8;
        rocksdb_readoptions_clear_table_index_factory(P);
        rocksdb_readoptions_get_table_index_factory_name(P, P) -> P;
        rocksdb_memory_allocator_destroy(P);
        rocksdb_lru_cache_options_set_memory_allocator(P, P);
        rocksdb_sst_file_manager_is_max_allowed_space_reached(P) -> bool;
        rocksdb_sst_file_manager_is_max_allowed_space_reached_including_compactions(P) -> bool;
        rocksdb_hyper_clock_cache_options_set_memory_allocator(P, P);
        rocksdb_env_join_all_threads(P);
        rocksdb_env_lower_thread_pool_io_priority(P);
        rocksdb_env_lower_high_priority_thread_pool_io_priority(P);
        rocksdb_env_lower_thread_pool_cpu_priority(P);
        rocksdb_env_lower_high_priority_thread_pool_cpu_priority(P);
        rocksdb_envoptions_set_rate_limiter(P, P);
        rocksdb_optimistictransactiondb_lock_buckets_approximate_memory_usage(P) -> usize;
        rocksdb_optimistictransactiondb_options_set_shared_lock_buckets(P, P);
        rocksdb_cancel_all_background_work(P, u8);
        rocksdb_disable_manual_compaction(P);
        rocksdb_enable_manual_compaction(P);
        rocksdb_block_based_options_set_checksum(P, i8);
    }
}
