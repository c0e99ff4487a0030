//! The part of LevelDB's C interface (`leveldb/c.h`, version 1.23) that is used here.
//!
//! Its conventions: a function that can fail takes, last, a pointer to a message, which must be null
//! before and is set on failure, to be released by `leveldb_free`; so are values and properties that
//! are handed out. Booleans are bytes.

use std::ffi::{c_char, c_int, c_uchar, c_void};

macro_rules! opaque {
    ($($name:ident)*) => {
        $(#[repr(C)]
        pub(super) struct $name {
            _opaque: [u8; 0],
        })*
    };
}

opaque! { Db Cache Iterator Options ReadOptions Snapshot WriteBatch WriteOptions FilterPolicy }

pub(super) const NO_COMPRESSION: c_int = 0;

// SAFETY: these are the declarations of leveldb/c.h, argument for argument.
#[link(name = "leveldb")]
unsafe extern "C" {
    pub(super) fn leveldb_open(
        options: *const Options,
        name: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut Db;
    pub(super) fn leveldb_close(db: *mut Db);
    pub(super) fn leveldb_put(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        error: *mut *mut c_char,
    );
    pub(super) fn leveldb_delete(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_len: usize,
        error: *mut *mut c_char,
    );
    pub(super) fn leveldb_write(
        db: *mut Db,
        options: *const WriteOptions,
        batch: *mut WriteBatch,
        error: *mut *mut c_char,
    );
    pub(super) fn leveldb_get(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_len: usize,
        value_len: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    pub(super) fn leveldb_property_value(db: *mut Db, name: *const c_char) -> *mut c_char;
    pub(super) fn leveldb_compact_range(
        db: *mut Db,
        start: *const c_char,
        start_len: usize,
        limit: *const c_char,
        limit_len: usize,
    );

    pub(super) fn leveldb_create_snapshot(db: *mut Db) -> *const Snapshot;
    pub(super) fn leveldb_release_snapshot(db: *mut Db, snapshot: *const Snapshot);

    pub(super) fn leveldb_create_iterator(
        db: *mut Db,
        options: *const ReadOptions,
    ) -> *mut Iterator;
    pub(super) fn leveldb_iter_destroy(iterator: *mut Iterator);
    pub(super) fn leveldb_iter_valid(iterator: *const Iterator) -> c_uchar;
    pub(super) fn leveldb_iter_seek_to_first(iterator: *mut Iterator);
    pub(super) fn leveldb_iter_seek_to_last(iterator: *mut Iterator);
    pub(super) fn leveldb_iter_seek(iterator: *mut Iterator, key: *const c_char, key_len: usize);
    pub(super) fn leveldb_iter_next(iterator: *mut Iterator);
    pub(super) fn leveldb_iter_prev(iterator: *mut Iterator);
    pub(super) fn leveldb_iter_key(iterator: *const Iterator, len: *mut usize) -> *const c_char;
    pub(super) fn leveldb_iter_value(iterator: *const Iterator, len: *mut usize) -> *const c_char;
    pub(super) fn leveldb_iter_get_error(iterator: *const Iterator, error: *mut *mut c_char);

    pub(super) fn leveldb_writebatch_create() -> *mut WriteBatch;
    pub(super) fn leveldb_writebatch_destroy(batch: *mut WriteBatch);
    pub(super) fn leveldb_writebatch_put(
        batch: *mut WriteBatch,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
    );
    pub(super) fn leveldb_writebatch_delete(
        batch: *mut WriteBatch,
        key: *const c_char,
        key_len: usize,
    );

    pub(super) fn leveldb_options_create() -> *mut Options;
    pub(super) fn leveldb_options_destroy(options: *mut Options);
    pub(super) fn leveldb_options_set_create_if_missing(options: *mut Options, flag: c_uchar);
    pub(super) fn leveldb_options_set_write_buffer_size(options: *mut Options, bytes: usize);
    pub(super) fn leveldb_options_set_max_open_files(options: *mut Options, files: c_int);
    pub(super) fn leveldb_options_set_cache(options: *mut Options, cache: *mut Cache);
    pub(super) fn leveldb_options_set_filter_policy(
        options: *mut Options,
        policy: *mut FilterPolicy,
    );
    pub(super) fn leveldb_options_set_compression(options: *mut Options, kind: c_int);

    pub(super) fn leveldb_cache_create_lru(bytes: usize) -> *mut Cache;
    pub(super) fn leveldb_cache_destroy(cache: *mut Cache);
    pub(super) fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut FilterPolicy;
    pub(super) fn leveldb_filterpolicy_destroy(policy: *mut FilterPolicy);

    pub(super) fn leveldb_readoptions_create() -> *mut ReadOptions;
    pub(super) fn leveldb_readoptions_destroy(options: *mut ReadOptions);
    pub(super) fn leveldb_readoptions_set_snapshot(
        options: *mut ReadOptions,
        snapshot: *const Snapshot,
    );
    pub(super) fn leveldb_writeoptions_create() -> *mut WriteOptions;
    pub(super) fn leveldb_writeoptions_destroy(options: *mut WriteOptions);
    pub(super) fn leveldb_writeoptions_set_sync(options: *mut WriteOptions, flag: c_uchar);

    pub(super) fn leveldb_free(pointer: *mut c_void);
    pub(super) fn leveldb_major_version() -> c_int;
    pub(super) fn leveldb_minor_version() -> c_int;
}
