//! Functions that fail or return nothing: a column family cannot be exported or imported: use a
//! checkpoint, or files of sorted entries.

use super::{P, undone};

undone! {
    refused
    "a column family cannot be exported or imported: use a checkpoint, or files of sorted entries";
    with_errptr {
        rocksdb_checkpoint_export_column_family(P, P, P) -> P;
        rocksdb_create_column_family_with_import(P, P, P, P, P) -> P;
    }
    without_errptr {
        rocksdb_livefile_create() -> P;
        rocksdb_livefile_set_column_family_name(P, P);
        rocksdb_livefile_set_level(P, i32);
        rocksdb_livefile_set_name(P, P);
        rocksdb_livefile_set_directory(P, P);
        rocksdb_livefile_set_size(P, usize);
        rocksdb_livefile_set_smallest_key(P, P, usize);
        rocksdb_livefile_set_largest_key(P, P, usize);
        rocksdb_livefile_set_smallest_seqno(P, u64);
        rocksdb_livefile_set_largest_seqno(P, u64);
        rocksdb_livefile_set_num_entries(P, u64);
        rocksdb_livefile_set_num_deletions(P, u64);
        rocksdb_livefile_destroy(P);
        rocksdb_livefiles_add(P, P);
        rocksdb_export_import_files_metadata_create() -> P;
        rocksdb_export_import_files_metadata_get_db_comparator_name(P) -> P;
        rocksdb_export_import_files_metadata_set_db_comparator_name(P, P);
        rocksdb_export_import_files_metadata_get_files(P) -> P;
        rocksdb_export_import_files_metadata_set_files(P, P);
        rocksdb_export_import_files_metadata_destroy(P);
    }
}
