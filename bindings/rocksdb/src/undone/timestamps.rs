//! Functions that fail or return nothing: timestamps where this library has none.

use super::{P, undone};

undone! {
    refused "transactions have no timestamps of users, and tables do not record them";
    with_errptr {
        rocksdb_writebatch_wi_update_timestamps(P, P, usize, P, P);
    }
    without_errptr {
        rocksdb_memtableinfo_newest_udt(P, P) -> P;
        rocksdb_table_properties_user_defined_timestamps_persisted(P) -> u64;
        rocksdb_replayer_get_header_timestamp(P) -> u64;
        rocksdb_transaction_set_commit_timestamp(P, u64);
        rocksdb_transaction_set_read_timestamp_for_validation(P, u64);
    }
}
