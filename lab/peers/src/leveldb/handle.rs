//! LevelDB's handles as values that own what they point to: all unsafe code of this peer.
//!
//! Invariants that every `SAFETY` below leans on:
//! 1. A pointer in these types came from the `create` or `open` next to it, was not null, and is
//!    destroyed once, by `Drop`.
//! 2. A database outlives its iterators by a lifetime and its snapshots by an `Arc`.
//! 3. LevelDB allows any thread to call any function of a database at once (`doc/index.md`,
//!    Concurrency); an iterator or a batch is used through `&mut` where it changes.

use super::ffi;
use crate::check::foreign;
use esker_base::Result;
use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// What is chosen when a database is opened.
pub(super) struct OpenOptions {
    pub(super) write_buffer_bytes: usize,
    pub(super) cache_bytes: usize,
    pub(super) filter_bits: u8,
    pub(super) open_files: c_int,
}

/// An open database.
pub(super) struct Database {
    db: NonNull<ffi::Db>,
    cache: NonNull<ffi::Cache>,
    filter: Option<NonNull<ffi::FilterPolicy>>,
    reads: ReadOptions,
    writes: WriteOptions,
    synced: WriteOptions,
    dir: PathBuf,
}

// SAFETY: invariant 3; the options are never changed after their creation.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

struct ReadOptions(NonNull<ffi::ReadOptions>);
struct WriteOptions(NonNull<ffi::WriteOptions>);

fn made<T>(pointer: *mut T) -> NonNull<T> {
    NonNull::new(pointer).expect("LevelDB's constructors allocate with new, which never gives null")
}

/// A string of LevelDB's, taken over.
///
/// # Safety
/// `string` is null-terminated, allocated by LevelDB, and no other thread's.
unsafe fn taken(string: NonNull<c_char>) -> String {
    // SAFETY: as the caller says.
    let text = unsafe { CStr::from_ptr(string.as_ptr()) }.to_string_lossy().into_owned();
    // SAFETY: as the caller says; the text was copied.
    unsafe { ffi::leveldb_free(string.as_ptr().cast()) };
    text
}

fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

impl ReadOptions {
    /// To read the newest, or at `snapshot`.
    fn new(snapshot: *const ffi::Snapshot) -> Self {
        // SAFETY: makes an object; invariant 1.
        let options = made(unsafe { ffi::leveldb_readoptions_create() });
        // SAFETY: the options were just made, and a null snapshot is the newest.
        unsafe { ffi::leveldb_readoptions_set_snapshot(options.as_ptr(), snapshot) };
        ReadOptions(options)
    }
}

impl Drop for ReadOptions {
    fn drop(&mut self) {
        // SAFETY: invariant 1.
        unsafe { ffi::leveldb_readoptions_destroy(self.0.as_ptr()) }
    }
}

impl WriteOptions {
    fn new(sync: bool) -> Self {
        // SAFETY: makes an object; invariant 1.
        let options = made(unsafe { ffi::leveldb_writeoptions_create() });
        // SAFETY: the options were just made.
        unsafe { ffi::leveldb_writeoptions_set_sync(options.as_ptr(), sync.into()) };
        WriteOptions(options)
    }
}

impl Drop for WriteOptions {
    fn drop(&mut self) {
        // SAFETY: invariant 1.
        unsafe { ffi::leveldb_writeoptions_destroy(self.0.as_ptr()) }
    }
}

impl Database {
    /// Opens the database in `dir`, or creates one there.
    pub(super) fn open(dir: &Path, chosen: &OpenOptions) -> Result<Database> {
        let name = CString::new(dir.as_os_str().as_bytes())
            .map_err(|_| foreign("open", dir, "the path holds a zero byte"))?;
        // SAFETY: makes objects; invariant 1. What was made is destroyed below, or by `Drop`.
        let (options, cache, filter) = unsafe {
            let bits = c_int::from(chosen.filter_bits);
            (
                made(ffi::leveldb_options_create()),
                made(ffi::leveldb_cache_create_lru(chosen.cache_bytes)),
                (bits > 0).then(|| made(ffi::leveldb_filterpolicy_create_bloom(bits))),
            )
        };
        let mut error = ptr::null_mut();
        // SAFETY: all pointers were just made; the database copies the options, and keeps the cache
        // and the filter, which are destroyed after it.
        let db = unsafe {
            let options = options.as_ptr();
            ffi::leveldb_options_set_create_if_missing(options, 1);
            ffi::leveldb_options_set_write_buffer_size(options, chosen.write_buffer_bytes);
            ffi::leveldb_options_set_max_open_files(options, chosen.open_files);
            ffi::leveldb_options_set_compression(options, ffi::NO_COMPRESSION);
            ffi::leveldb_options_set_cache(options, cache.as_ptr());
            if let Some(filter) = filter {
                ffi::leveldb_options_set_filter_policy(options, filter.as_ptr());
            }
            let db = ffi::leveldb_open(options, name.as_ptr(), &mut error);
            ffi::leveldb_options_destroy(options);
            db
        };
        let Some(db) = NonNull::new(db) else {
            release(cache, filter);
            return Err(message(error).map_or_else(
                || foreign("open", dir, "LevelDB gives no reason"),
                |message| foreign("open", dir, message),
            ));
        };
        let reads = ReadOptions::new(ptr::null());
        let (writes, synced) = (WriteOptions::new(false), WriteOptions::new(true));
        Ok(Database { db, cache, filter, reads, writes, synced, dir: dir.to_owned() })
    }

    fn raw(&self) -> *mut ffi::Db {
        self.db.as_ptr()
    }

    fn writes(&self, sync: bool) -> *const ffi::WriteOptions {
        if sync { self.synced.0.as_ptr() } else { self.writes.0.as_ptr() }
    }

    fn outcome(&self, action: &'static str, error: *mut c_char) -> Result<()> {
        message(error).map_or(Ok(()), |message| Err(foreign(action, &self.dir, message)))
    }

    pub(super) fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: invariants 1 and 3; the slices are copied before the call returns.
        unsafe {
            ffi::leveldb_put(
                self.raw(),
                self.writes(sync),
                chars(key),
                key.len(),
                chars(value),
                value.len(),
                &mut error,
            );
        }
        self.outcome("write to", error)
    }

    pub(super) fn delete(&self, key: &[u8], sync: bool) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: invariants 1 and 3; the slice is copied before the call returns.
        unsafe {
            let options = self.writes(sync);
            ffi::leveldb_delete(self.raw(), options, chars(key), key.len(), &mut error);
        }
        self.outcome("write to", error)
    }

    pub(super) fn write(&self, batch: &mut Batch, sync: bool) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: invariants 1 and 3.
        unsafe { ffi::leveldb_write(self.raw(), self.writes(sync), batch.0.as_ptr(), &mut error) };
        self.outcome("write to", error)
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(&self.reads, key)
    }

    fn get_with(&self, options: &ReadOptions, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (mut len, mut error) = (0, ptr::null_mut());
        // SAFETY: invariants 1 and 3.
        let value = unsafe {
            let options = options.0.as_ptr();
            ffi::leveldb_get(self.raw(), options, chars(key), key.len(), &mut len, &mut error)
        };
        self.outcome("read", error)?;
        let Some(value) = NonNull::new(value) else { return Ok(None) };
        // SAFETY: LevelDB handed out `len` bytes at `value`, ours to release.
        let copy = unsafe { std::slice::from_raw_parts(value.as_ptr().cast::<u8>(), len) }.to_vec();
        // SAFETY: as above; the bytes were copied.
        unsafe { ffi::leveldb_free(value.as_ptr().cast()) };
        Ok(Some(copy))
    }

    pub(super) fn iterator(&self) -> Iterator<'_> {
        self.iterator_with(&self.reads)
    }

    fn iterator_with(&self, options: &ReadOptions) -> Iterator<'_> {
        // SAFETY: invariants 1 and 3; an iterator keeps of the options the snapshot's seqno only.
        let iterator =
            made(unsafe { ffi::leveldb_create_iterator(self.raw(), options.0.as_ptr()) });
        Iterator { iterator, dir: &self.dir, _database: PhantomData }
    }

    /// A property's text, if LevelDB knows it.
    pub(super) fn property(&self, name: &CStr) -> Option<String> {
        // SAFETY: invariants 1 and 3.
        let value = unsafe { ffi::leveldb_property_value(self.raw(), name.as_ptr()) };
        // SAFETY: a property is a fresh null-terminated string, ours to release.
        NonNull::new(value).map(|value| unsafe { taken(value) })
    }

    /// Writes the write buffer to a table, and waits for it.
    ///
    /// The interface has no flush, but a manual compaction begins with one. This one is of the range
    /// from the empty key to the empty key, which no table has, so that it also ends there. It
    /// returns nothing; an empty batch after it brings up what failed in the background.
    pub(super) fn flush(&self) -> Result<()> {
        // SAFETY: invariants 1 and 3; both keys are empty, at an address that is not null.
        unsafe { ffi::leveldb_compact_range(self.raw(), chars(b""), 0, chars(b""), 0) };
        self.probe()
    }

    /// Fails if the database failed in the background.
    pub(super) fn probe(&self) -> Result<()> {
        self.write(&mut Batch::new(), false)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: invariants 1 and 2; the cache and the filter are not used after the close.
        unsafe { ffi::leveldb_close(self.raw()) };
        release(self.cache, self.filter);
    }
}

fn release(cache: NonNull<ffi::Cache>, filter: Option<NonNull<ffi::FilterPolicy>>) {
    // SAFETY: called once, when no database uses them any more.
    unsafe {
        ffi::leveldb_cache_destroy(cache.as_ptr());
        if let Some(filter) = filter {
            ffi::leveldb_filterpolicy_destroy(filter.as_ptr());
        }
    }
}

fn message(error: *mut c_char) -> Option<String> {
    // SAFETY: an error that was set is a fresh null-terminated string, ours to release.
    NonNull::new(error).map(|error| unsafe { taken(error) })
}

/// Major and minor version of the library.
pub(super) fn version() -> (i32, i32) {
    // SAFETY: they take nothing and return constants.
    unsafe { (ffi::leveldb_major_version(), ffi::leveldb_minor_version()) }
}

/// Writes that happen together.
pub(super) struct Batch(NonNull<ffi::WriteBatch>);

impl Batch {
    pub(super) fn new() -> Self {
        // SAFETY: makes an object; invariant 1.
        Batch(made(unsafe { ffi::leveldb_writebatch_create() }))
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) {
        let (batch, value_len) = (self.0.as_ptr(), value.len());
        // SAFETY: invariant 1; the slices are copied before the call returns.
        unsafe {
            ffi::leveldb_writebatch_put(batch, chars(key), key.len(), chars(value), value_len);
        }
    }

    pub(super) fn delete(&mut self, key: &[u8]) {
        // SAFETY: invariant 1; the slice is copied before the call returns.
        unsafe { ffi::leveldb_writebatch_delete(self.0.as_ptr(), chars(key), key.len()) }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: invariant 1.
        unsafe { ffi::leveldb_writebatch_destroy(self.0.as_ptr()) }
    }
}

/// A point in time of a database.
pub(super) struct Moment {
    snapshot: NonNull<ffi::Snapshot>,
    reads: ReadOptions,
    database: Arc<Database>,
}

// SAFETY: a snapshot is a number in a list that the database guards, and is never changed.
unsafe impl Send for Moment {}
// SAFETY: as above.
unsafe impl Sync for Moment {}

impl Moment {
    pub(super) fn now(database: &Arc<Database>) -> Self {
        // SAFETY: invariants 1 and 3.
        let snapshot = unsafe { ffi::leveldb_create_snapshot(database.raw()) };
        let snapshot = made(snapshot.cast_mut());
        let reads = ReadOptions::new(snapshot.as_ptr());
        Moment { snapshot, reads, database: Arc::clone(database) }
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.database.get_with(&self.reads, key)
    }

    /// An iterator over `database`, the one of this point in time.
    pub(super) fn iterator<'a>(&self, database: &'a Arc<Database>) -> Iterator<'a> {
        assert!(Arc::ptr_eq(database, &self.database), "the moment is of another database");
        database.iterator_with(&self.reads)
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        // SAFETY: invariants 1 and 2. Iterators that were made at it no longer look at it.
        unsafe { ffi::leveldb_release_snapshot(self.database.raw(), self.snapshot.as_ptr()) }
    }
}

/// A position in a database's entries.
pub(super) struct Iterator<'a> {
    iterator: NonNull<ffi::Iterator>,
    dir: &'a Path,
    _database: PhantomData<&'a Database>,
}

impl Iterator<'_> {
    fn raw(&mut self) -> *mut ffi::Iterator {
        self.iterator.as_ptr()
    }

    /// Whether it is on an entry. If it is not, because something failed, the failure.
    pub(super) fn valid(&self) -> Result<bool> {
        // SAFETY: invariant 1.
        if unsafe { ffi::leveldb_iter_valid(self.iterator.as_ptr()) } != 0 {
            return Ok(true);
        }
        let mut error = ptr::null_mut();
        // SAFETY: invariant 1.
        unsafe { ffi::leveldb_iter_get_error(self.iterator.as_ptr(), &mut error) };
        message(error).map_or(Ok(false), |message| Err(foreign("read", self.dir, message)))
    }

    pub(super) fn seek_first(&mut self) {
        // SAFETY: invariant 1.
        unsafe { ffi::leveldb_iter_seek_to_first(self.raw()) }
    }

    pub(super) fn seek_last(&mut self) {
        // SAFETY: invariant 1.
        unsafe { ffi::leveldb_iter_seek_to_last(self.raw()) }
    }

    /// To the first entry at or after `key`.
    pub(super) fn seek(&mut self, key: &[u8]) {
        // SAFETY: invariant 1.
        unsafe { ffi::leveldb_iter_seek(self.raw(), chars(key), key.len()) }
    }

    /// One entry on. It must be on one.
    pub(super) fn next(&mut self) {
        debug_assert!(matches!(self.valid(), Ok(true)));
        // SAFETY: invariant 1.
        unsafe { ffi::leveldb_iter_next(self.raw()) }
    }

    /// One entry back. It must be on one.
    pub(super) fn prev(&mut self) {
        debug_assert!(matches!(self.valid(), Ok(true)));
        // SAFETY: invariant 1.
        unsafe { ffi::leveldb_iter_prev(self.raw()) }
    }

    /// The key and the value that it is on. It must be on an entry.
    pub(super) fn pair(&self) -> (&[u8], &[u8]) {
        let iterator = self.iterator.as_ptr();
        // SAFETY: the iterator stands on a pair, whose bytes stay until it moves; moving takes
        // `&mut self`.
        unsafe {
            let (mut key_len, mut value_len) = (0, 0);
            let key = ffi::leveldb_iter_key(iterator, &mut key_len);
            let value = ffi::leveldb_iter_value(iterator, &mut value_len);
            (bytes(key, key_len), bytes(value, value_len))
        }
    }
}

/// `len` bytes at `start`, which may be anything if there are none.
///
/// # Safety
/// If `len` is not 0, as many bytes can be read at `start` for as long as `'a` lasts.
unsafe fn bytes<'a>(start: *const c_char, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}

impl Drop for Iterator<'_> {
    fn drop(&mut self) {
        // SAFETY: invariants 1 and 2.
        unsafe { ffi::leveldb_iter_destroy(self.raw()) }
    }
}
