//! The functions that the tests call, as a C program declares them, and helpers around them.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::null_mut;
// The library has the functions.
use rocksdb as _;

/// A pointer to something of the library.
pub type P = *mut c_void;
/// A pointer to the start of bytes.
pub type B = *const c_char;

macro_rules! functions {
    ($(fn $name:ident($($type:ty),*) $(-> $answer:ty)?;)*) => {
        // SAFETY: these are functions of `rocksdb/c.h`, with its signatures. The tests pass pointers that the
        // library returned, or null.
        unsafe extern "C" {
            $(pub safe fn $name($(_: $type),*) $(-> $answer)?;)*
        }
    };
}

functions! {
    fn rocksdb_options_create() -> P;
    fn rocksdb_options_destroy(P);
    fn rocksdb_options_set_create_if_missing(P, c_uchar);
    fn rocksdb_options_set_create_missing_column_families(P, c_uchar);
    fn rocksdb_options_set_prefix_extractor(P, P);
    fn rocksdb_options_set_comparator(P, P);
    fn rocksdb_options_set_uint64add_merge_operator(P);
    fn rocksdb_slicetransform_create_fixed_prefix(usize) -> P;
    fn rocksdb_comparator_create(P, P, Option<Compare>, Name) -> P;
    fn rocksdb_comparator_destroy(P);
    fn rocksdb_open(P, B, *mut *mut c_char) -> P;
    fn rocksdb_open_as_secondary(P, B, B, *mut *mut c_char) -> P;
    fn rocksdb_open_column_families(
        P, B, c_int, *const B, *const P, *mut P, *mut *mut c_char
    ) -> P;
    fn rocksdb_try_catch_up_with_primary(P, *mut *mut c_char);
    fn rocksdb_close(P);
    fn rocksdb_destroy_db(P, B, *mut *mut c_char);
    fn rocksdb_column_family_handle_destroy(P);
    fn rocksdb_writeoptions_create() -> P;
    fn rocksdb_writeoptions_destroy(P);
    fn rocksdb_readoptions_create() -> P;
    fn rocksdb_readoptions_destroy(P);
    fn rocksdb_readoptions_set_prefix_same_as_start(P, c_uchar);
    fn rocksdb_readoptions_set_iterate_lower_bound(P, B, usize);
    fn rocksdb_readoptions_set_iterate_upper_bound(P, B, usize);
    fn rocksdb_put(P, P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_put_cf(P, P, P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_delete_range_cf(P, P, P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_get_default_column_family_handle(P) -> P;
    fn rocksdb_merge(P, P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_get(P, P, B, usize, *mut usize, *mut *mut c_char) -> *mut c_char;
    fn rocksdb_create_iterator(P, P) -> P;
    fn rocksdb_iter_destroy(P);
    fn rocksdb_iter_seek(P, B, usize);
    fn rocksdb_iter_seek_to_last(P);
    fn rocksdb_iter_seek_to_first(P);
    fn rocksdb_iter_valid(P) -> c_uchar;
    fn rocksdb_iter_next(P);
    fn rocksdb_iter_prev(P);
    fn rocksdb_iter_key(P, *mut usize) -> B;
    fn rocksdb_writebatch_wi_create(usize, c_uchar) -> P;
    fn rocksdb_writebatch_wi_destroy(P);
    fn rocksdb_writebatch_wi_put(P, B, usize, B, usize);
    fn rocksdb_writebatch_wi_put_cf(P, P, B, usize, B, usize);
    fn rocksdb_write_writebatch_wi(P, P, P, *mut *mut c_char);
    fn rocksdb_writebatch_wi_delete(P, B, usize);
    fn rocksdb_writebatch_wi_merge(P, B, usize, B, usize);
    fn rocksdb_writebatch_wi_get_from_batch(
        P, P, B, usize, *mut usize, *mut *mut c_char
    ) -> *mut c_char;
    fn rocksdb_writebatch_wi_create_iterator_with_base(P, P) -> P;
    fn rocksdb_transactiondb_options_create() -> P;
    fn rocksdb_transactiondb_options_destroy(P);
    fn rocksdb_transactiondb_open(P, P, B, *mut *mut c_char) -> P;
    fn rocksdb_transactiondb_close(P);
    fn rocksdb_transaction_options_create() -> P;
    fn rocksdb_transaction_options_destroy(P);
    fn rocksdb_transaction_options_set_lock_timeout(P, i64);
    fn rocksdb_transaction_begin(P, P, P, P) -> P;
    fn rocksdb_transaction_put(P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_transaction_commit(P, *mut *mut c_char);
    fn rocksdb_transaction_destroy(P);
    fn rocksdb_transactiondb_get(P, P, B, usize, *mut usize, *mut *mut c_char) -> *mut c_char;
    fn rocksdb_sstfilewriter_create(P, P) -> P;
    fn rocksdb_sstfilewriter_open(P, B, *mut *mut c_char);
    fn rocksdb_sstfilewriter_put(P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_sstfilewriter_finish(P, *mut *mut c_char);
    fn rocksdb_sstfilewriter_destroy(P);
    fn rocksdb_ingestexternalfileoptions_create() -> P;
    fn rocksdb_ingestexternalfileoptions_destroy(P);
    fn rocksdb_ingest_external_file(P, *const B, usize, P, *mut *mut c_char);
    fn rocksdb_ingestexternalfileoptions_set_ingest_behind(P, c_uchar);
    fn rocksdb_options_set_wal_dir(P, B);
    fn rocksdb_options_enable_statistics(P);
    fn rocksdb_options_get_wal_recovery_mode(P) -> c_int;
    fn rocksdb_options_get_compression(P) -> c_int;
    fn rocksdb_options_get_ttl(P) -> u64;
    fn rocksdb_flushoptions_create() -> P;
    fn rocksdb_flushoptions_destroy(P);
    fn rocksdb_flushoptions_get_wait(P) -> c_uchar;
    fn rocksdb_options_statistics_get_ticker_count(P, u32) -> u64;
    fn rocksdb_options_set_compaction_style(P, c_int);
    fn rocksdb_options_set_wal_recovery_mode(P, c_int);
    fn rocksdb_options_set_wal_filter(P, P);
    fn rocksdb_options_set_compaction_service(P, P);
    fn rocksdb_walfilter_create(P, P, P, P, P) -> P;
    fn rocksdb_walfilter_destroy(P);
    fn rocksdb_compactionservice_create(P, P, P, B, P, P, P) -> P;
    fn rocksdb_backup_engine_open(P, B, *mut *mut c_char) -> P;
    fn rocksdb_backup_engine_close(P);
    fn rocksdb_backup_engine_create_new_backup_flush(P, P, c_uchar, *mut *mut c_char);
    fn rocksdb_backup_engine_restore_db_from_latest_backup(P, B, B, P, *mut *mut c_char);
    fn rocksdb_restore_options_create() -> P;
    fn rocksdb_restore_options_destroy(P);
    fn rocksdb_create_column_family(P, P, B, *mut *mut c_char) -> P;
    fn rocksdb_create_column_families(
        P, P, c_int, *const B, *mut usize, *mut *mut c_char
    ) -> *mut P;
    fn rocksdb_create_column_families_destroy(*mut P);
    fn rocksdb_drop_column_family(P, P, *mut *mut c_char);
    fn rocksdb_merge_cf(P, P, P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_get_cf(P, P, P, B, usize, *mut usize, *mut *mut c_char) -> *mut c_char;
    fn rocksdb_multi_get(
        P, P, usize, *const B, *const usize, *mut *mut c_char, *mut usize, *mut *mut c_char
    );
    fn rocksdb_write(P, P, P, *mut *mut c_char);
    fn rocksdb_writeoptions_set_ignore_missing_column_families(P, c_uchar);
    fn rocksdb_readoptions_set_snapshot(P, P);
    fn rocksdb_readoptions_set_total_order_seek(P, c_uchar);
    fn rocksdb_writebatch_create() -> P;
    fn rocksdb_writebatch_destroy(P);
    fn rocksdb_writebatch_put(P, B, usize, B, usize);
    fn rocksdb_writebatch_put_cf(P, P, B, usize, B, usize);
    fn rocksdb_writebatch_delete(P, B, usize);
    fn rocksdb_writebatch_singledelete(P, B, usize);
    fn rocksdb_writebatch_delete_range(P, B, usize, B, usize);
    fn rocksdb_writebatch_iterate(P, P, OnPut, OnDelete);
    fn rocksdb_transactiondb_options_set_default_lock_timeout(P, i64);
    fn rocksdb_transactiondb_options_set_transaction_lock_timeout(P, i64);
    fn rocksdb_transactiondb_put(P, P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_transactiondb_write(P, P, P, *mut *mut c_char);
    fn rocksdb_transactiondb_create_snapshot(P) -> P;
    fn rocksdb_transactiondb_release_snapshot(P, P);
    fn rocksdb_transaction_options_set_set_snapshot(P, c_uchar);
    fn rocksdb_transaction_options_set_expiration(P, i64);
    fn rocksdb_transaction_options_set_max_write_batch_size(P, usize);
    fn rocksdb_transaction_get_snapshot(P) -> P;
    fn rocksdb_transaction_set_name(P, B, usize, *mut *mut c_char);
    fn rocksdb_transaction_delete(P, B, usize, *mut *mut c_char);
    fn rocksdb_transaction_rollback(P, *mut *mut c_char);
    fn rocksdb_transaction_get_for_update(
        P, P, B, usize, *mut usize, c_uchar, *mut *mut c_char
    ) -> *mut c_char;
    fn rocksdb_transaction_create_iterator(P, P) -> P;
    fn rocksdb_free(P);
    fn rocksdb_comparator_with_ts_create(
        P, P, Compare, Compare, CompareWithoutStamps, Name, usize
    ) -> P;
    fn rocksdb_put_with_ts(P, P, B, usize, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_delete_with_ts(P, P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_delete(P, P, B, usize, *mut *mut c_char);
    fn rocksdb_get_with_ts(
        P, P, B, usize, *mut usize, *mut *mut c_char, *mut usize, *mut *mut c_char
    ) -> *mut c_char;
    fn rocksdb_multi_get_with_ts(
        P, P, usize, *const B, *const usize, *mut *mut c_char, *mut usize, *mut *mut c_char,
        *mut usize, *mut *mut c_char
    );
    fn rocksdb_readoptions_set_timestamp(P, B, usize);
    fn rocksdb_readoptions_set_iter_start_ts(P, B, usize);
    fn rocksdb_iter_seek_for_prev(P, B, usize);
    fn rocksdb_iter_value(P, *mut usize) -> B;
    fn rocksdb_iter_timestamp(P, *mut usize) -> B;
    fn rocksdb_iter_get_error(P, *mut *mut c_char);
    fn rocksdb_writebatch_put_cf_with_ts(P, P, B, usize, B, usize, B, usize);
    fn rocksdb_writebatch_delete_cf_with_ts(P, P, B, usize, B, usize);
    fn rocksdb_writebatch_delete_cf(P, P, B, usize);
    fn rocksdb_writebatch_count(P) -> c_int;
    fn rocksdb_writebatch_create_with_params(usize, usize, usize, usize) -> P;
    fn rocksdb_writebatch_data(P, *mut usize) -> B;
    fn rocksdb_writebatch_update_timestamps(P, B, usize, P, StampSize, *mut *mut c_char);
    fn rocksdb_increase_full_history_ts_low(P, P, B, usize, *mut *mut c_char);
    fn rocksdb_get_full_history_ts_low(P, P, *mut usize, *mut *mut c_char) -> *mut c_char;
    fn rocksdb_compactoptions_create() -> P;
    fn rocksdb_compactoptions_destroy(P);
    fn rocksdb_compactoptions_set_full_history_ts_low(P, B, usize);
    fn rocksdb_compact_range_opt(P, P, B, usize, B, usize);
    fn rocksdb_sstfilewriter_put_with_ts(
        P, B, usize, B, usize, B, usize, *mut *mut c_char
    );
    fn rocksdb_sstfilewriter_delete_with_ts(P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_open_and_trim_history(
        P, B, c_int, *const B, *const P, *mut P, B, usize, *mut *mut c_char
    ) -> P;
    fn rocksdb_get_updates_since(P, u64, P, *mut *mut c_char) -> P;
    fn rocksdb_wal_iter_valid(P) -> c_uchar;
    fn rocksdb_wal_iter_next(P);
    fn rocksdb_wal_iter_get_batch(P, *mut u64) -> P;
    fn rocksdb_wal_iter_destroy(P);
    fn rocksdb_delete_file_in_range(P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_flush(P, P, *mut *mut c_char);
    fn rocksdb_set_options(P, c_int, *const B, *const B, *mut *mut c_char);
    fn rocksdb_set_options_cf(P, P, c_int, *const B, *const B, *mut *mut c_char);
    fn rocksdb_property_int_cf(P, P, B, *mut u64) -> c_int;
    fn rocksdb_eventlistener_create(
        P, P, Option<Told>, Option<Told>, Option<Told>, Option<Told>, P, P, P, P, P, P
    ) -> P;
    fn rocksdb_options_add_eventlistener(P, P);
    fn rocksdb_compactionjobinfo_status(P, *mut *mut c_char);
    fn rocksdb_compactionjobinfo_cf_name(P, *mut usize) -> B;
    fn rocksdb_flushjobinfo_cf_name(P, *mut usize) -> B;
    fn rocksdb_wait_for_compact_options_create() -> P;
    fn rocksdb_wait_for_compact_options_destroy(P);
    fn rocksdb_wait_for_compact(P, P, *mut *mut c_char);
    fn rocksdb_fifo_compaction_options_create() -> P;
    fn rocksdb_fifo_compaction_options_destroy(P);
    fn rocksdb_fifo_compaction_options_set_max_table_files_size(P, u64);
    fn rocksdb_options_set_fifo_compaction_options(P, P);
    fn rocksdb_livefiles(P) -> P;
    fn rocksdb_livefiles_destroy(P);
    fn rocksdb_livefiles_count(P) -> c_int;
    fn rocksdb_livefiles_column_family_name(P, c_int) -> B;
    fn rocksdb_livefiles_name(P, c_int) -> B;
    fn rocksdb_livefiles_directory(P, c_int) -> B;
    fn rocksdb_livefiles_size(P, c_int) -> usize;
    fn rocksdb_livefiles_smallestkey(P, c_int, *mut usize) -> B;
    fn rocksdb_livefiles_largestkey(P, c_int, *mut usize) -> B;
    fn rocksdb_livefiles_smallest_seqno(P, c_int) -> u64;
    fn rocksdb_livefiles_largest_seqno(P, c_int) -> u64;
    fn rocksdb_livefiles_entries(P, c_int) -> u64;
    fn rocksdb_livefiles_deletions(P, c_int) -> u64;
    fn rocksdb_get_column_family_metadata(P) -> P;
    fn rocksdb_column_family_metadata_destroy(P);
    fn rocksdb_column_family_metadata_get_size(P) -> u64;
    fn rocksdb_column_family_metadata_get_file_count(P) -> usize;
    fn rocksdb_column_family_metadata_get_level_count(P) -> usize;
    fn rocksdb_column_family_metadata_get_level_metadata(P, usize) -> P;
    fn rocksdb_level_metadata_destroy(P);
    fn rocksdb_level_metadata_get_file_count(P) -> usize;
    fn rocksdb_level_metadata_get_sst_file_metadata(P, usize) -> P;
    fn rocksdb_sst_file_metadata_destroy(P);
    fn rocksdb_sst_file_metadata_get_smallestkey(P, *mut usize) -> *mut c_char;
    fn rocksdb_sst_file_metadata_get_largestkey(P, *mut usize) -> *mut c_char;
    fn rocksdb_approximate_sizes(
        P, c_int, *const B, *const usize, *const B, *const usize, *mut u64, *mut *mut c_char
    );
    fn rocksdb_approximate_sizes_cf_with_flags(
        P, P, c_int, *const B, *const usize, *const B, *const usize, u8, *mut u64,
        *mut *mut c_char
    );
    fn rocksdb_approximate_sizes_with_options(
        P, P, c_int, *const B, *const usize, *const B, *const usize, *mut u64, *mut *mut c_char
    );
    fn rocksdb_size_approximation_options_create() -> P;
    fn rocksdb_size_approximation_options_destroy(P);
    fn rocksdb_size_approximation_options_set_include_memtables(P, c_uchar);
    fn rocksdb_size_approximation_options_set_include_files(P, c_uchar);
    fn rocksdb_readoptions_set_tailing(P, c_uchar);
    fn rocksdb_transactiondb_create_iterator(P, P) -> P;
    fn rocksdb_release_snapshot(P, P);
    fn rocksdb_create_snapshot(P) -> P;
    fn rocksdb_transaction_prepare(P, *mut *mut c_char);
    fn rocksdb_transactiondb_get_prepared_transactions(P, *mut usize) -> *mut P;
}

/// Gets the state, the database and the job.
pub type Told = extern "C" fn(P, P, P);
/// Sorts keys, or timestamps.
pub type Compare = extern "C" fn(P, B, usize, B, usize) -> c_int;
/// Sorts keys that have a timestamp at their end or not.
pub type CompareWithoutStamps = extern "C" fn(P, B, usize, c_uchar, B, usize, c_uchar) -> c_int;
/// Returns the length of the timestamps of a column family.
pub type StampSize = extern "C" fn(P, u32) -> usize;

/// Is called for each put of a batch.
pub type OnPut = extern "C" fn(P, B, usize, B, usize);
/// Is called for each delete of a batch.
pub type OnDelete = extern "C" fn(P, B, usize);
/// Returns a name.
pub type Name = extern "C" fn(P) -> B;

/// Calls `call` with an `errptr`, and returns its answer, or its error.
pub fn with_error<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, String> {
    let mut error = null_mut();
    let answer = call(&mut error);
    match error.is_null() {
        true => Ok(answer),
        false => Err(text(error)),
    }
}

fn text(text: *mut c_char) -> String {
    // SAFETY: the library gave a text that a zero ends, which is freed once.
    let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    rocksdb_free(text.cast());
    copy
}

/// A path as C has it.
pub fn path(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

/// The start of bytes.
pub fn start(bytes: &[u8]) -> B {
    bytes.as_ptr().cast()
}

/// A copy of what a get returned.
pub fn taken(value: *mut c_char, length: usize) -> Option<Vec<u8>> {
    if value.is_null() {
        return None;
    }
    // SAFETY: the library gave so many bytes, which are freed once.
    let copy = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length) }.to_vec();
    rocksdb_free(value.cast());
    Some(copy)
}

/// A copy of bytes that the library lends.
pub fn lent(bytes: B, length: usize) -> Vec<u8> {
    if length == 0 {
        return Vec::new();
    }
    // SAFETY: the library lends so many bytes, and nothing has changed them since.
    unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) }.to_vec()
}

/// The key of an iterator.
pub fn key_of(iterator: P) -> Vec<u8> {
    let mut length = 0;
    lent(rocksdb_iter_key(iterator, &mut length), length)
}
