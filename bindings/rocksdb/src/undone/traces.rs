//! Functions that fail or return nothing: Esker does not record calls to replay them.

use super::{P, undone};

undone! {
    refused "Esker does not record calls to replay them";
    with_errptr {
        rocksdb_trace_reader_create(P, P, P) -> P;
        rocksdb_trace_reader_read(P, P) -> P;
        rocksdb_trace_reader_reset(P);
        rocksdb_trace_reader_close(P);
        rocksdb_new_default_replayer(P, P, usize, P, P, P) -> P;
        rocksdb_replayer_prepare(P);
        rocksdb_replayer_replay(P, P);
        rocksdb_start_trace(P, P, P, P, P);
        rocksdb_end_trace(P);
        rocksdb_start_io_trace(P, P, P, P, P);
        rocksdb_end_io_trace(P);
        rocksdb_start_block_cache_trace(P, P, P, P, P);
        rocksdb_start_block_cache_trace_with_options(P, P, P, P, P, P);
        rocksdb_end_block_cache_trace(P);
    }
    without_errptr {
        rocksdb_trace_reader_destroy(P);
        rocksdb_replayer_destroy(P);
    }
}
