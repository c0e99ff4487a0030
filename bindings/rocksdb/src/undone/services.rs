//! Functions that fail or return nothing: Esker compacts in the process that has the database
//! open, and chooses the files itself.

use super::{P, undone};

undone! {
    refused
    "Esker compacts in the process that has the database open, and chooses the files itself";
    with_errptr {
        rocksdb_compact_files(P, P, P, usize, i32, i32, P, P, P);
        rocksdb_compact_files_cf(P, P, P, P, usize, i32, i32, P, P, P);
        rocksdb_compactionservice_scheduleresponse_create(P, i32) -> P;
        rocksdb_compactionservice_scheduleresponse_create_with_status(i32) -> P;
        rocksdb_open_and_compact(P, P, P, usize, P, P) -> P;
        rocksdb_open_and_compact_with_options(P, P, P, P, usize, P, P) -> P;
    }
    without_errptr {
        rocksdb_compact_files_output_file_names_destroy(P, usize);
        rocksdb_compactionjobinfo_create() -> P;
        rocksdb_compactionjobinfo_destroy(P);
        rocksdb_compaction_options_canceled_create() -> P;
        rocksdb_compaction_options_canceled_destroy(P);
        rocksdb_compaction_options_canceled_set(P, u8);
        rocksdb_compaction_options_set_canceled(P, P);
        rocksdb_compactionservice_scheduleresponse_getstatus(P) -> i32;
        rocksdb_compactionservice_scheduleresponse_get_scheduled_job_id(P, P) -> P;
        rocksdb_compactionservice_scheduleresponse_t_destroy(P);
        rocksdb_compactionservice_jobinfo_t_get_db_name(P, P) -> P;
        rocksdb_compactionservice_jobinfo_t_get_db_id(P, P) -> P;
        rocksdb_compactionservice_jobinfo_t_get_db_session_id(P, P) -> P;
        rocksdb_compactionservice_jobinfo_t_get_cf_name(P, P) -> P;
        rocksdb_compactionservice_jobinfo_t_get_cf_id(P) -> u32;
        rocksdb_compactionservice_jobinfo_t_get_job_id(P) -> u64;
        rocksdb_compactionservice_jobinfo_t_get_priority(P) -> i32;
        rocksdb_compactionservice_jobinfo_t_get_compaction_reason(P) -> i32;
        rocksdb_compactionservice_jobinfo_t_get_base_input_level(P) -> i32;
        rocksdb_compactionservice_jobinfo_t_get_output_level(P) -> i32;
        rocksdb_compactionservice_jobinfo_t_is_full_compaction(P) -> u8;
        rocksdb_compactionservice_jobinfo_t_is_manual_compaction(P) -> u8;
        rocksdb_compactionservice_jobinfo_t_is_bottommost_level(P) -> u8;
        rocksdb_compaction_service_options_override_create() -> P;
        rocksdb_compaction_service_options_override_create_from_options(P) -> P;
        rocksdb_compaction_service_options_override_destroy(P);
        rocksdb_compaction_service_options_override_set_env(P, P);
        rocksdb_compaction_service_options_override_set_comparator(P, P);
        rocksdb_compaction_service_options_override_set_merge_operator(P, P);
        rocksdb_compaction_service_options_override_set_compaction_filter(P, P);
        rocksdb_compaction_service_options_override_set_compaction_filter_factory(P, P);
        rocksdb_compaction_service_options_override_set_prefix_extractor(P, P);
        rocksdb_compaction_service_options_override_set_block_based_table_factory(P, P);
        rocksdb_compaction_service_options_override_set_cuckoo_table_factory(P, P);
        rocksdb_compaction_service_options_override_add_event_listener(P, P);
        rocksdb_compaction_service_options_override_set_statistics(P, P);
        rocksdb_compaction_service_options_override_set_info_log(P, P);
        rocksdb_compaction_service_options_override_set_option(P, P, P);
        rocksdb_compaction_service_options_override_set_file_checksum_gen_factory(P, P);
        rocksdb_compaction_service_options_override_set_sst_partitioner_factory(P, P);
        rocksdb_compaction_service_options_override_add_table_properties_collector_factory(P, P);
        rocksdb_open_and_compact_canceled_create() -> P;
        rocksdb_open_and_compact_canceled_destroy(P);
        rocksdb_open_and_compact_canceled_set(P, u8);
        rocksdb_open_and_compact_options_set_canceled(P, P);
    }
}
