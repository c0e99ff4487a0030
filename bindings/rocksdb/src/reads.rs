//! Gets, and the options of reads.

use crate::border::pointers::caught_slices;
use crate::border::{Array, Bytes, Handle, Out, Result, Status, c_api, caught, memory};
use crate::database::{Database, Family, Open, Pinned};
use crate::knobs::{HasKnobs, Knobs};
use crate::snapshot::{SnapshotHandle, snapshot_of};
use crate::stamps::Stamps;
use esker::{Snapshot, Value};
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::Arc;

/// RocksDB's `rocksdb_readoptions_t`.
#[derive(Clone, Default)]
pub struct ReadOptions {
    /// The numbers.
    pub knobs: Knobs,
    /// The snapshot to read at.
    pub snapshot: Option<Snapshot>,
    /// The first key of iterators.
    pub lower: Option<Vec<u8>>,
    /// The first key after those of iterators.
    pub upper: Option<Vec<u8>>,
    /// The timestamp to read at, as the program writes it.
    pub stamp: Option<Vec<u8>>,
    /// The first timestamp of the versions that iterators show, if they show all.
    pub since: Option<Vec<u8>>,
}

impl HasKnobs for ReadOptions {
    fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    fn knobs_mut(&mut self) -> &mut Knobs {
        &mut self.knobs
    }
}

/// `kBlockCacheTier`, `kPersistedTier` and `kMemtableTier` are the others.
const READ_ALL: c_int = 0;
const PERSISTED: c_int = 2;

impl ReadOptions {
    /// Whether only what is in memory may be read.
    fn is_memory_only(&self) -> bool {
        ![READ_ALL, PERSISTED].contains(&self.knobs.number("read_tier", READ_ALL))
    }
}

/// The timestamps of `family`, and the one that it is read at; `None` if it has none.
///
/// # Errors
/// If there is no such timestamp, or one and the family has none.
pub fn stamp_of<'a>(
    family: &'a Family,
    options: Option<&ReadOptions>,
) -> Result<Option<(&'a Stamps, u64)>> {
    let Some(stamp) = options.and_then(|options| options.stamp.as_deref()) else {
        return family.plain().map(|_| None);
    };
    let stamps = family.stamped()?;
    Ok(Some((stamps, stamps.order.stamp(stamp)?)))
}

/// The value of a key, as `options` read it, and its timestamp, which is empty if the family has none.
///
/// # Errors
/// Those of Esker's reads.
pub fn get_stamped(
    open: &Open,
    family: &Family,
    options: Option<&ReadOptions>,
    key: &[u8],
) -> Result<Option<(Value, Vec<u8>)>> {
    let snapshot = options.and_then(|options| options.snapshot.as_ref());
    let begun = open.statistics().map(|statistics| statistics.begin());
    let found = match stamp_of(family, options)? {
        Some((stamps, at)) => {
            let found = stamps.get(&open.db, &family.keyspace, snapshot, (key, at))?;
            found.map(|(value, stamp)| (value, stamps.order.bytes_of(stamp).to_vec()))
        }
        None => {
            let keyspace = &family.keyspace;
            // The database refuses the family of another one.
            let found = match snapshot {
                Some(snapshot) => snapshot.get(keyspace, key),
                None if options.is_some_and(ReadOptions::is_memory_only) => {
                    open.db.try_get(keyspace, key)
                }
                None => open.db.get(keyspace, key),
            };
            found?.map(|value| (value, Vec::new()))
        }
    };
    if let Some((statistics, begun)) = open.statistics().zip(begun) {
        statistics.count_read(found.as_ref().map(|(value, _)| &value[..]), begun);
    }
    Ok(found)
}

/// The value of a key, as `options` read it.
///
/// # Errors
/// Those of Esker's reads.
pub fn get(
    open: &Open,
    family: &Family,
    options: Handle<ReadOptions>,
    key: &[u8],
) -> Result<Option<Value>> {
    Ok(get_stamped(open, family, options.optional(), key)?.map(|(value, _)| value))
}

/// Gives a value to C, or null.
pub fn give(value: Option<Value>, length: Out<usize>) -> *mut c_char {
    length.set(value.as_ref().map_or(0, |value| value.len()));
    value.map_or(std::ptr::null_mut(), |value| memory::copy_bytes(&value))
}

/// Gives a value to C without a copy, or null.
pub fn pin(value: Option<Value>) -> Handle<Pinned> {
    value.map_or_else(Handle::null, |value| Handle::new(Pinned(value)))
}

/// The answers of a multi-get: of each key a value with its length, or an error.
#[derive(Clone, Copy)]
pub struct Answers {
    /// The values.
    pub values: Out<*mut c_char>,
    /// Their lengths.
    pub lengths: Out<usize>,
    /// The errors.
    pub errors: Out<*mut c_char>,
}

impl Answers {
    /// Runs `answer`, which sets all answers. If it panics, because an argument is invalid, each of them is
    /// the error.
    pub fn all(self, count: usize, answer: impl FnOnce(Self)) {
        if let Err(status) = caught(|| answer(self)) {
            (0..count).for_each(|at| self.set(at, Err(status.clone())));
        }
    }

    /// Writes the answer for the key at `at`.
    pub fn set(self, at: usize, found: Result<Option<Value>>) {
        let error = found.as_ref().err().map(ToString::to_string);
        let value = found.ok().flatten();
        self.lengths.set_at(at, value.as_ref().map_or(0, |value| value.len()));
        let value = value.map_or(std::ptr::null_mut(), |value| memory::copy_bytes(&value));
        self.values.set_at(at, value);
        self.errors.set_at(at, error.map_or(std::ptr::null_mut(), |it| memory::copy_text(&it)));
    }
}

/// The values of `keys`, from one snapshot.
fn get_many<'a>(
    open: &Open,
    family: &Family,
    options: Handle<ReadOptions>,
    keys: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<Option<Value>>> {
    let snapshot = options.optional().and_then(|options| options.snapshot.as_ref());
    if stamp_of(family, options.optional())?.is_some() {
        // Each is found by a cursor.
        return Err(Status::unsupported("several keys at a timestamp at once"));
    }
    let begun = open.statistics().map(|statistics| statistics.begin());
    let found = match snapshot {
        Some(snapshot) => snapshot.multi_get(&family.keyspace, keys),
        None => open.db.multi_get(&family.keyspace, keys),
    }?;
    if let Some((statistics, begun)) = open.statistics().zip(begun) {
        found.iter().for_each(|value| statistics.count_read(value.as_deref(), begun));
    }
    Ok(found)
}

/// The values of `keys`, from one snapshot. A key that cannot be read has an error of its own.
fn get_each<'a>(
    open: &Open,
    family: &Family,
    options: Handle<ReadOptions>,
    keys: impl Iterator<Item = Result<&'a [u8]>>,
) -> Vec<Result<Option<Value>>> {
    let keys: Vec<_> = keys.collect();
    let valid = keys.iter().filter_map(|key| key.as_ref().ok().copied());
    if let Ok(found) = get_many(open, family, options, valid) {
        let mut found = found.into_iter();
        return keys.into_iter().map(|key| key.map(|_| found.next().flatten())).collect();
    }
    let mut options = options.optional().cloned().unwrap_or_default();
    options.snapshot.get_or_insert_with(|| open.db.snapshot());
    let get = |key: Result<&[u8]>| {
        let found = get_stamped(open, family, Some(&options), key?)?;
        Ok(found.map(|(value, _)| value))
    };
    keys.into_iter().map(get).collect()
}

/// RocksDB's `rocksdb_slice_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    /// The start.
    pub data: Bytes,
    /// The length.
    pub size: usize,
}

impl Slice {
    /// The slice of bytes that stay where they are.
    pub fn of(bytes: Option<&[u8]>) -> Slice {
        Slice { data: Bytes::at(bytes), size: bytes.map_or(0, <[u8]>::len) }
    }
}

/// Writes pinned answers.
fn pin_all(
    get: impl FnOnce() -> Vec<Result<Option<Value>>>,
    count: usize,
    values: Out<Handle<Pinned>>,
    errors: Out<*mut c_char>,
) {
    let found = caught(get).unwrap_or_else(|status| vec![Err(status); count]);
    for (at, found) in found.into_iter().enumerate() {
        let error = found.as_ref().err().map(ToString::to_string);
        values.set_at(at, pin(found.ok().flatten()));
        errors.set_at(at, error.map_or(std::ptr::null_mut(), |it| memory::copy_text(&it)));
    }
}

/// Copies a value into a buffer of C. Whether it fits.
fn copy_into(
    value: Option<Value>,
    buffer: Out<u8>,
    size: usize,
    length: Out<usize>,
    found: Out<c_uchar>,
) -> c_uchar {
    found.set(c_uchar::from(value.is_some()));
    let Some(value) = value else {
        length.set(0);
        return 0;
    };
    length.set(value.len());
    if value.len() > size {
        return 0;
    }
    value.iter().enumerate().for_each(|(at, &byte)| buffer.set_at(at, byte));
    1
}

/// Whether a key is there, with its value if that is in memory.
fn may_exist(
    open: &Open,
    family: &Family,
    options: Handle<ReadOptions>,
    key: &[u8],
    (value, length): (Out<*mut c_char>, Out<usize>),
    value_found: Out<c_uchar>,
) -> c_uchar {
    let found = get(open, family, options, key);
    value_found.set(c_uchar::from(matches!(found, Ok(Some(_)))));
    match found {
        Ok(None) => 0,
        Ok(Some(found)) => {
            // Without `value_found`, RocksDB's programs do not free the value.
            if !value.is_null() && !value_found.is_null() {
                value.set(give(Some(found), length));
            }
            1
        }
        // It may be.
        Err(_) => 1,
    }
}

c_api! {
    fn rocksdb_readoptions_create() -> Handle<ReadOptions> {
        Handle::new(ReadOptions::default())
    }

    fn rocksdb_readoptions_destroy(options: Handle<ReadOptions>) {
        drop(options.take());
    }

    fn rocksdb_readoptions_set_snapshot(options: Handle<ReadOptions>, snapshot: SnapshotHandle) {
        options.change(|options| options.snapshot = snapshot_of(snapshot));
    }

    fn rocksdb_readoptions_set_iterate_upper_bound(
        options: Handle<ReadOptions>,
        key: Bytes,
        length: usize,
    ) {
        options.change(|options| options.upper = key.optional(length).map(<[u8]>::to_vec));
    }

    fn rocksdb_readoptions_set_iterate_lower_bound(
        options: Handle<ReadOptions>,
        key: Bytes,
        length: usize,
    ) {
        options.change(|options| options.lower = key.optional(length).map(<[u8]>::to_vec));
    }

    fn rocksdb_readoptions_set_timestamp(
        options: Handle<ReadOptions>,
        stamp: Bytes,
        length: usize,
    ) {
        options.change(|options| options.stamp = stamp.optional(length).map(<[u8]>::to_vec));
    }

    fn rocksdb_readoptions_set_iter_start_ts(
        options: Handle<ReadOptions>,
        stamp: Bytes,
        length: usize,
    ) {
        options.change(|options| options.since = stamp.optional(length).map(<[u8]>::to_vec));
    }

    try fn rocksdb_get | rocksdb_transactiondb_get(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        key: Bytes,
        key_length: usize,
        length: Out<usize>,
    ) -> *mut c_char {
        let open = &db.get().open;
        length.set(0);
        Ok(give(get(open, &open.default, options, key.of(key_length))?, length))
    }

    try fn rocksdb_get_cf | rocksdb_transactiondb_get_cf(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        length: Out<usize>,
    ) -> *mut c_char {
        length.set(0);
        Ok(give(get(&db.get().open, family.get(), options, key.of(key_length))?, length))
    }

    try fn rocksdb_get_pinned | rocksdb_transactiondb_get_pinned | rocksdb_get_pinned_v2(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        key: Bytes,
        key_length: usize,
    ) -> Handle<Pinned> {
        let open = &db.get().open;
        Ok(pin(get(open, &open.default, options, key.of(key_length))?))
    }

    try fn rocksdb_get_pinned_cf | rocksdb_transactiondb_get_pinned_cf | rocksdb_get_pinned_cf_v2(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
    ) -> Handle<Pinned> {
        Ok(pin(get(&db.get().open, family.get(), options, key.of(key_length))?))
    }

    fn rocksdb_pinnableslice_destroy | rocksdb_pinnable_handle_destroy(value: Handle<Pinned>) {
        drop(value.take());
    }

    fn rocksdb_pinnableslice_value | rocksdb_pinnable_handle_get_value(
        value: Handle<Pinned>,
        length: Out<usize>,
    ) -> *const c_char {
        let value = value.optional().map(|value| &value.0[..]);
        length.set(value.map_or(0, <[u8]>::len));
        value.map_or(std::ptr::null(), |value| value.as_ptr().cast())
    }

    fn rocksdb_multi_get | rocksdb_transactiondb_multi_get(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        count: usize,
        keys: Array<Bytes>,
        key_lengths: Array<usize>,
        values: Out<*mut c_char>,
        lengths: Out<usize>,
        errors: Out<*mut c_char>,
    ) {
        let (open, answers) = (&db.get().open, Answers { values, lengths, errors });
        answers.all(count, |answers| {
            let keys = caught_slices(&keys, &key_lengths, count);
            let found = get_each(open, &open.default, options, keys);
            (0..).zip(found).for_each(|(at, found)| answers.set(at, found));
        });
    }

    fn rocksdb_multi_get_cf | rocksdb_transactiondb_multi_get_cf(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        families: Array<Handle<Arc<Family>>>,
        count: usize,
        keys: Array<Bytes>,
        key_lengths: Array<usize>,
        values: Out<*mut c_char>,
        lengths: Out<usize>,
        errors: Out<*mut c_char>,
    ) {
        let open = &db.get().open;
        // One snapshot for all families.
        let mut options = options.optional().cloned().unwrap_or_default();
        options.snapshot.get_or_insert_with(|| open.db.snapshot());
        Answers { values, lengths, errors }.all(count, |answers| {
            let all = families.of(count).iter().zip(caught_slices(&keys, &key_lengths, count));
            for (at, (family, key)) in all.enumerate() {
                let get = |key| get_stamped(open, family.get(), Some(&options), key);
                answers.set(at, key.and_then(get).map(|found| found.map(|(value, _)| value)));
            }
        });
    }

    fn rocksdb_batched_multi_get_cf(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
        count: usize,
        keys: Array<Bytes>,
        key_lengths: Array<usize>,
        values: Out<Handle<Pinned>>,
        errors: Out<*mut c_char>,
        _sorted: bool,
    ) {
        let get = || {
            let keys = caught_slices(&keys, &key_lengths, count);
            get_each(&db.get().open, family.get(), options, keys)
        };
        pin_all(get, count, values, errors);
    }

    fn rocksdb_batched_multi_get_cf_slice(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
        count: usize,
        keys: Array<Slice>,
        values: Out<Handle<Pinned>>,
        errors: Out<*mut c_char>,
        _sorted: bool,
    ) {
        let get = || {
            let keys = keys.of(count).iter().map(|key| caught(|| key.data.of(key.size)));
            get_each(&db.get().open, family.get(), options, keys)
        };
        pin_all(get, count, values, errors);
    }

    fn rocksdb_key_may_exist(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        key: Bytes,
        key_length: usize,
        value: Out<*mut c_char>,
        length: Out<usize>,
        _timestamp: *const c_void,
        _timestamp_length: usize,
        value_found: Out<c_uchar>,
    ) -> c_uchar {
        let (open, key) = (&db.get().open, key.of(key_length));
        may_exist(open, &open.default, options, key, (value, length), value_found)
    }

    fn rocksdb_key_may_exist_cf(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        value: Out<*mut c_char>,
        length: Out<usize>,
        _timestamp: *const c_void,
        _timestamp_length: usize,
        value_found: Out<c_uchar>,
    ) -> c_uchar {
        let (open, key) = (&db.get().open, key.of(key_length));
        may_exist(open, family.get(), options, key, (value, length), value_found)
    }

    try fn rocksdb_get_into_buffer(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        key: Bytes,
        key_length: usize,
        buffer: Out<u8>,
        size: usize,
        length: Out<usize>,
        found: Out<c_uchar>,
    ) -> c_uchar {
        found.set(0);
        length.set(0);
        let open = &db.get().open;
        let value = get(open, &open.default, options, key.of(key_length))?;
        Ok(copy_into(value, buffer, size, length, found))
    }

    try fn rocksdb_get_into_buffer_cf(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        buffer: Out<u8>,
        size: usize,
        length: Out<usize>,
        found: Out<c_uchar>,
    ) -> c_uchar {
        found.set(0);
        length.set(0);
        let value = get(&db.get().open, family.get(), options, key.of(key_length))?;
        Ok(copy_into(value, buffer, size, length, found))
    }
}
