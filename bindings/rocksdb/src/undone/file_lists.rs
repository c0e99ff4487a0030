//! Functions that fail or return nothing: the files of a database are copied by a checkpoint or
//! a backup.

use super::{P, undone};

undone! {
    refused "the files of a database are copied by a checkpoint or a backup";
    with_errptr {
        rocksdb_verify_checksum_with_options(P, P);
        rocksdb_verify_file_checksums_with_options(P, P);
        rocksdb_get_livefiles_storage_info(P, P) -> P;
    }
    without_errptr {
        rocksdb_livefiles_storage_info_count(P) -> usize;
        rocksdb_livefiles_storage_info_relative_filename(P, usize) -> P;
        rocksdb_livefiles_storage_info_directory(P, usize) -> P;
        rocksdb_livefiles_storage_info_file_number(P, usize) -> u64;
        rocksdb_livefiles_storage_info_file_type(P, usize) -> i32;
        rocksdb_livefiles_storage_info_size(P, usize) -> u64;
        rocksdb_livefiles_storage_info_temperature(P, usize) -> i32;
        rocksdb_livefiles_storage_info_file_checksum(P, usize) -> P;
        rocksdb_livefiles_storage_info_file_checksum_func_name(P, usize) -> P;
        rocksdb_livefiles_storage_info_replacement_contents(P, usize, P) -> P;
        rocksdb_livefiles_storage_info_trim_to_size(P, usize) -> u8;
        rocksdb_livefiles_storage_info_destroy(P);
        rocksdb_get_column_family_metadata_with_options(P, P) -> P;
        rocksdb_column_family_metadata_options_set_start_key(P, P, usize);
        rocksdb_column_family_metadata_options_get_start_key(P, P) -> P;
        rocksdb_column_family_metadata_options_set_end_key(P, P, usize);
        rocksdb_column_family_metadata_options_get_end_key(P, P) -> P;
        rocksdb_get_column_family_metadata_cf_with_options(P, P, P) -> P;
    }
}
