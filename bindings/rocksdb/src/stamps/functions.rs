//! Functions with timestamps.

use super::{STAMP_BYTES, Stamps, trim_newer};
use crate::batch::wire::{Record, Wire};
use crate::border::pointers::caught_slices;
use crate::border::{Array, Bytes, Handle, Out, Result, Status, Text, c_api, memory};
use crate::database::{Database, Family, Open};
use crate::iterator::Iter;
use crate::knobs::Knobs;
use crate::open::{Families, Mode};
use crate::options::Options;
use crate::reads::{Answers, ReadOptions, Slice, get_stamped};
use crate::sst::Writer;
use crate::writes::Write;
use esker::Value;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

type StampSize = Option<unsafe extern "C" fn(*mut c_void, u32) -> usize>;

/// Where the timestamp of a value goes.
type StampOut = (Out<*mut c_char>, Out<usize>);

fn get(
    open: &Open,
    family: &Family,
    options: Handle<ReadOptions>,
    key: &[u8],
    length: Out<usize>,
    (stamp, stamp_length): StampOut,
) -> Result<*mut c_char> {
    length.set(0);
    stamp_length.set(0);
    let Some((value, found)) = get_stamped(open, family, options.optional(), key)? else {
        return Ok(std::ptr::null_mut());
    };
    length.set(value.len());
    stamp_length.set(found.len());
    stamp.set(memory::copy_bytes(&found));
    Ok(memory::copy_bytes(&value))
}

/// The arrays that the timestamps of a multi-get go to.
#[derive(Clone, Copy)]
struct StampAnswers {
    values: Answers,
    stamps: Out<*mut c_char>,
    lengths: Out<usize>,
}

impl StampAnswers {
    fn set(self, at: usize, found: Result<Option<(Value, Vec<u8>)>>) {
        let (value, stamp) = match found {
            Ok(Some((value, stamp))) => (Ok(Some(value)), Some(stamp)),
            Ok(None) => (Ok(None), None),
            Err(status) => (Err(status), None),
        };
        self.values.set(at, value);
        self.lengths.set_at(at, stamp.as_ref().map_or(0, Vec::len));
        let null = std::ptr::null_mut();
        self.stamps.set_at(at, stamp.map_or(null, |stamp| memory::copy_bytes(&stamp)));
    }

    /// Answers all keys from one snapshot.
    fn answer<'a>(
        self,
        open: &Open,
        families: impl Iterator<Item = &'a Family>,
        options: Handle<ReadOptions>,
        keys: impl Iterator<Item = Result<&'a [u8]>>,
    ) {
        let mut options = options.optional().cloned().unwrap_or_default();
        options.snapshot.get_or_insert_with(|| open.db.snapshot());
        for (at, (family, key)) in families.zip(keys).enumerate() {
            self.set(at, key.and_then(|key| get_stamped(open, family, Some(&options), key)));
        }
    }
}

/// Adds a record with a timestamp. As in RocksDB, none is added if that does not fit the family.
fn push(batch: Handle<Wire>, family: &Family, stamp: &[u8], record: Record<'_>) {
    if family.stamped().and_then(|stamps| stamps.order.stamp(stamp)).is_ok() {
        let mut key = Vec::new();
        batch.change(|batch| batch.push_stamped(family.id(), record.with_stamp(stamp, &mut key)));
    }
}

fn stamps_of(family: &Family) -> Result<&Stamps> {
    let missing = || Status::invalid("Timestamp is not enabled in this column family");
    family.stamps.as_ref().ok_or_else(missing)
}

c_api! {
    try fn rocksdb_put_with_ts(
        db: Handle<Database>,
        options: Handle<Knobs>,
        key: Bytes,
        key_length: usize,
        stamp: Bytes,
        stamp_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        let (open, stamp) = (&db.get().open, stamp.of(stamp_length));
        let write = Write::PutAt(key.of(key_length), stamp, value.of(value_length));
        open.write_one(&open.default, write, options)
    }

    try fn rocksdb_put_cf_with_ts(
        db: Handle<Database>,
        options: Handle<Knobs>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        stamp: Bytes,
        stamp_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        let stamp = stamp.of(stamp_length);
        let write = Write::PutAt(key.of(key_length), stamp, value.of(value_length));
        db.get().open.write_one(family.get(), write, options)
    }

    try fn rocksdb_delete_with_ts | rocksdb_singledelete_with_ts(
        db: Handle<Database>,
        options: Handle<Knobs>,
        key: Bytes,
        key_length: usize,
        stamp: Bytes,
        stamp_length: usize,
    ) {
        let open = &db.get().open;
        let write = Write::DeleteAt(key.of(key_length), stamp.of(stamp_length));
        open.write_one(&open.default, write, options)
    }

    try fn rocksdb_delete_cf_with_ts | rocksdb_singledelete_cf_with_ts(
        db: Handle<Database>,
        options: Handle<Knobs>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        stamp: Bytes,
        stamp_length: usize,
    ) {
        let write = Write::DeleteAt(key.of(key_length), stamp.of(stamp_length));
        db.get().open.write_one(family.get(), write, options)
    }

    try fn rocksdb_get_with_ts(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        key: Bytes,
        key_length: usize,
        length: Out<usize>,
        stamp: Out<*mut c_char>,
        stamp_length: Out<usize>,
    ) -> *mut c_char {
        let open = &db.get().open;
        get(open, &open.default, options, key.of(key_length), length, (stamp, stamp_length))
    }

    try fn rocksdb_get_cf_with_ts(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        length: Out<usize>,
        stamp: Out<*mut c_char>,
        stamp_length: Out<usize>,
    ) -> *mut c_char {
        let key = key.of(key_length);
        get(&db.get().open, family.get(), options, key, length, (stamp, stamp_length))
    }

    fn rocksdb_multi_get_with_ts(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        count: usize,
        keys: Array<Bytes>,
        key_lengths: Array<usize>,
        values: Out<*mut c_char>,
        lengths: Out<usize>,
        stamps: Out<*mut c_char>,
        stamp_lengths: Out<usize>,
        errors: Out<*mut c_char>,
    ) {
        let open = &db.get().open;
        Answers { values, lengths, errors }.all(count, |values| {
            let answers = StampAnswers { values, stamps, lengths: stamp_lengths };
            let keys = caught_slices(&keys, &key_lengths, count);
            answers.answer(open, std::iter::repeat(&*open.default), options, keys);
        });
    }

    fn rocksdb_multi_get_cf_with_ts(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        families: Array<Handle<Arc<Family>>>,
        count: usize,
        keys: Array<Bytes>,
        key_lengths: Array<usize>,
        values: Out<*mut c_char>,
        lengths: Out<usize>,
        stamps: Out<*mut c_char>,
        stamp_lengths: Out<usize>,
        errors: Out<*mut c_char>,
    ) {
        let open = &db.get().open;
        Answers { values, lengths, errors }.all(count, |values| {
            let answers = StampAnswers { values, stamps, lengths: stamp_lengths };
            let keys = caught_slices(&keys, &key_lengths, count);
            let families = families.of(count).iter().map(|family| &**family.get());
            answers.answer(open, families, options, keys);
        });
    }

    fn rocksdb_iter_timestamp_slice(iter: Handle<Iter>) -> Slice {
        Slice::of(Some(iter.get().stamp()))
    }

    fn rocksdb_writebatch_put_cf_with_ts(
        batch: Handle<Wire>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        stamp: Bytes,
        stamp_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        let record = Record::Put(key.of(key_length), value.of(value_length));
        push(batch, family.get(), stamp.of(stamp_length), record);
    }

    fn rocksdb_writebatch_delete_cf_with_ts(
        batch: Handle<Wire>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        stamp: Bytes,
        stamp_length: usize,
    ) {
        push(batch, family.get(), stamp.of(stamp_length), Record::Delete(key.of(key_length)));
    }

    fn rocksdb_writebatch_singledelete_cf_with_ts(
        batch: Handle<Wire>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        stamp: Bytes,
        stamp_length: usize,
    ) {
        push(batch, family.get(), stamp.of(stamp_length), Record::SingleDelete(key.of(key_length)));
    }

    /// Sets the timestamps of all keys of families for which `size` returns that they have any.
    try fn rocksdb_writebatch_update_timestamps(
        batch: Handle<Wire>,
        stamp: Bytes,
        stamp_length: usize,
        state: *mut c_void,
        size: StampSize,
    ) {
        let size = size.ok_or_else(|| Status::invalid("the function of sizes is null; pass one"))?;
        // SAFETY: the C program gave both for this call.
        let size = |family| unsafe { size(state, family) };
        batch.change(|batch| batch.set_stamps(stamp.of(stamp_length), size))
    }

    try fn rocksdb_sstfilewriter_put_with_ts(
        writer: Handle<Writer>,
        key: Bytes,
        key_length: usize,
        stamp: Bytes,
        stamp_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        let record = Record::Put(key.of(key_length), value.of(value_length));
        writer.change(|writer| writer.push_stamped(stamp.of(stamp_length), record))
    }

    try fn rocksdb_sstfilewriter_delete_with_ts(
        writer: Handle<Writer>,
        key: Bytes,
        key_length: usize,
        stamp: Bytes,
        stamp_length: usize,
    ) {
        let record = Record::Delete(key.of(key_length));
        writer.change(|writer| writer.push_stamped(stamp.of(stamp_length), record))
    }

    try fn rocksdb_increase_full_history_ts_low(
        db: Handle<Database>,
        family: Handle<Arc<Family>>,
        low: Bytes,
        length: usize,
    ) {
        let (open, family) = (&db.get().open, family.get());
        let stamps = stamps_of(family)?;
        stamps.raise(open, family, stamps.order.stamp(low.of(length))?)
    }

    /// No bytes if there is none.
    try fn rocksdb_get_full_history_ts_low(
        _db: Handle<Database>,
        family: Handle<Arc<Family>>,
        length: Out<usize>,
    ) -> *mut c_char {
        length.set(0);
        let stamps = stamps_of(family.get())?;
        let low = stamps.lowest().map(|low| stamps.order.bytes_of(low));
        let low = low.as_ref().map_or(&[][..], |low| &low[..]);
        length.set(low.len());
        Ok(memory::copy_bytes(low))
    }

    /// Deletes what is newer than `stamp`, in all families with timestamps.
    try fn rocksdb_open_and_trim_history(
        options: Handle<Options>,
        path: Text,
        count: c_int,
        names: Array<Text>,
        family_options: Array<Handle<Options>>,
        handles: Out<Handle<Arc<Family>>>,
        stamp: Bytes,
        length: usize,
    ) -> Handle<Database> {
        let families = Families { count, names, options: family_options, handles };
        families.open_with(options.get(), path, Mode::Write, None, None, |open, families| {
            families.iter().try_for_each(|family| trim_newer(open, family, stamp.of(length)))
        })
    }

    fn rocksdb_compactoptions_set_full_history_ts_low(
        options: Handle<Knobs>,
        low: Bytes,
        length: usize,
    ) {
        let low = low.optional(length);
        let mut first = [0; STAMP_BYTES];
        first.iter_mut().zip(low.unwrap_or_default()).for_each(|(to, from)| *to = *from);
        options.change(|options| {
            options.set("full_history_ts_low", u64::from_le_bytes(first));
            options.set("full_history_ts_low_bytes", low.map_or(0, <[u8]>::len));
        });
    }
}
