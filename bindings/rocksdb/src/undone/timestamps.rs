//! Functions that fail or return nothing: Esker has no timestamps of users.

use super::{P, undone};
use crate::reads::Slice;

undone! {
    refused "Esker has no timestamps of users";
    with_errptr {
        rocksdb_put_with_ts(P, P, P, usize, P, usize, P, usize);
        rocksdb_put_cf_with_ts(P, P, P, P, usize, P, usize, P, usize);
        rocksdb_delete_with_ts(P, P, P, usize, P, usize);
        rocksdb_delete_cf_with_ts(P, P, P, P, usize, P, usize);
        rocksdb_singledelete_with_ts(P, P, P, usize, P, usize);
        rocksdb_singledelete_cf_with_ts(P, P, P, P, usize, P, usize);
        rocksdb_increase_full_history_ts_low(P, P, P, usize);
        rocksdb_get_full_history_ts_low(P, P, P) -> P;
        rocksdb_open_and_trim_history(P, P, i32, P, P, P, P, usize) -> P;
        rocksdb_get_with_ts(P, P, P, usize, P, P, P) -> P;
        rocksdb_get_cf_with_ts(P, P, P, P, usize, P, P, P) -> P;
        rocksdb_writebatch_update_timestamps(P, P, usize, P, P);
        rocksdb_writebatch_wi_update_timestamps(P, P, usize, P, P);
        rocksdb_sstfilewriter_put_with_ts(P, P, usize, P, usize, P, usize);
        rocksdb_sstfilewriter_delete_with_ts(P, P, usize, P, usize);
    }
    without_errptr {
        rocksdb_multi_get_with_ts(P, P, usize, P, P, P, P, P, P, P);
        rocksdb_multi_get_cf_with_ts(P, P, P, usize, P, P, P, P, P, P, P);
        rocksdb_iter_timestamp_slice(P) -> Slice;
        rocksdb_writebatch_put_cf_with_ts(P, P, P, usize, P, usize, P, usize);
        rocksdb_writebatch_delete_cf_with_ts(P, P, P, usize, P, usize);
        rocksdb_writebatch_singledelete_cf_with_ts(P, P, P, usize, P, usize);
        rocksdb_memtableinfo_newest_udt(P, P) -> P;
        rocksdb_table_properties_user_defined_timestamps_persisted(P) -> u64;
        rocksdb_compactoptions_set_full_history_ts_low(P, P, usize);
        rocksdb_replayer_get_header_timestamp(P) -> u64;
        rocksdb_transaction_set_commit_timestamp(P, u64);
        rocksdb_transaction_set_read_timestamp_for_validation(P, u64);
    }
}
