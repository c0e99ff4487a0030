//! Functions that fail or return nothing: Esker's log has another format:
//! rocksdb_get_updates_since reads it.

use super::{P, undone};

undone! {
    refused "Esker's log has another format: rocksdb_get_updates_since reads it";
    with_errptr {
        rocksdb_get_sorted_wal_files(P) -> P;
        rocksdb_get_current_wal_file(P) -> P;
    }
    without_errptr {
        rocksdb_wal_file_path_name(P) -> P;
        rocksdb_wal_file_log_number(P) -> u64;
        rocksdb_wal_file_type(P) -> i32;
        rocksdb_wal_file_start_sequence(P) -> u64;
        rocksdb_wal_file_size_file_bytes(P) -> u64;
        rocksdb_wal_file_destroy(P);
        rocksdb_wal_files_count(P) -> usize;
        rocksdb_wal_files_get_wal_file(P, usize) -> P;
        rocksdb_wal_files_destroy(P);
    }
}
