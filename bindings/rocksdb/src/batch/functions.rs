//! Functions of plain write batches.

use super::to_esker;
use super::wire::{Record, Wire};
use crate::border::pointers::slices;
use crate::border::{Array, Bytes, Handle, Out, c_api};
use crate::database::{Database, Family};
use crate::knobs::Knobs;
use crate::stamps::STAMP_BYTES;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// A list of parts as one: RocksDB's functions with `v` concatenate them.
pub fn joined(count: c_int, starts: &Array<Bytes>, lengths: &Array<usize>) -> Vec<u8> {
    slices(starts, lengths, usize::try_from(count).unwrap_or(0)).flatten().copied().collect()
}

fn push(batch: Handle<Wire>, record: Record<'_>) {
    batch.change(|batch| {
        let length = batch.default_stamps;
        push_to(batch, 0, length, record);
    });
}

/// Adds a record for a family. As in RocksDB, none is added for the default family if the batch was created
/// for timestamps of another length than it has.
fn push_cf(batch: Handle<Wire>, family: Handle<Arc<Family>>, record: Record<'_>) {
    let family = family.get();
    let length = if family.stamps.is_some() { STAMP_BYTES } else { 0 };
    batch.change(|batch| {
        if family.id() != 0 || length == batch.default_stamps {
            push_to(batch, family.id(), length, record);
        }
    });
}

/// Adds a record without a timestamp. If the family has timestamps, the key gets one later.
fn push_to(batch: &mut Wire, family: u32, stamp_bytes: usize, record: Record<'_>) {
    if stamp_bytes == 0 || matches!(record, Record::LogData(_)) {
        return batch.push(family, record);
    }
    batch.lacks_stamps = true;
    let (stamp, mut key) = (vec![0; stamp_bytes], Vec::new());
    batch.push_stamped(family, record.with_stamp(&stamp, &mut key));
}

c_api! {
    fn rocksdb_writebatch_create() -> Handle<Wire> {
        Handle::new(Wire::default())
    }

    fn rocksdb_writebatch_create_from(bytes: Bytes, length: usize) -> Handle<Wire> {
        Handle::new(Wire::from_bytes(bytes.of(length)))
    }

    fn rocksdb_writebatch_create_with_params(
        _reserved: usize,
        _most: usize,
        _protection: usize,
        default_stamps: usize,
    ) -> Handle<Wire> {
        let mut batch = Wire::default();
        // Longer ones fit no key.
        batch.default_stamps = default_stamps.min(usize::from(u16::MAX));
        Handle::new(batch)
    }

    fn rocksdb_writebatch_destroy(batch: Handle<Wire>) {
        drop(batch.take());
    }

    fn rocksdb_writebatch_clear(batch: Handle<Wire>) {
        batch.change(Wire::clear);
    }

    fn rocksdb_writebatch_count(batch: Handle<Wire>) -> c_int {
        c_int::try_from(batch.get().count()).unwrap_or(c_int::MAX)
    }

    fn rocksdb_writebatch_data(batch: Handle<Wire>, length: Out<usize>) -> *const c_char {
        let bytes = batch.get().bytes();
        length.set(bytes.len());
        bytes.as_ptr().cast()
    }

    fn rocksdb_writebatch_put(
        batch: Handle<Wire>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        push(batch, Record::Put(key.of(key_length), value.of(value_length)));
    }

    fn rocksdb_writebatch_put_cf(
        batch: Handle<Wire>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        push_cf(batch, family, Record::Put(key.of(key_length), value.of(value_length)));
    }

    fn rocksdb_writebatch_putv(
        batch: Handle<Wire>,
        keys: c_int,
        key_starts: Array<Bytes>,
        key_lengths: Array<usize>,
        values: c_int,
        value_starts: Array<Bytes>,
        value_lengths: Array<usize>,
    ) {
        let key = joined(keys, &key_starts, &key_lengths);
        push(batch, Record::Put(&key, &joined(values, &value_starts, &value_lengths)));
    }

    fn rocksdb_writebatch_putv_cf(
        batch: Handle<Wire>,
        family: Handle<Arc<Family>>,
        keys: c_int,
        key_starts: Array<Bytes>,
        key_lengths: Array<usize>,
        values: c_int,
        value_starts: Array<Bytes>,
        value_lengths: Array<usize>,
    ) {
        let key = joined(keys, &key_starts, &key_lengths);
        let value = joined(values, &value_starts, &value_lengths);
        push_cf(batch, family, Record::Put(&key, &value));
    }

    fn rocksdb_writebatch_merge(
        batch: Handle<Wire>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        push(batch, Record::Merge(key.of(key_length), value.of(value_length)));
    }

    fn rocksdb_writebatch_merge_cf(
        batch: Handle<Wire>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        push_cf(batch, family, Record::Merge(key.of(key_length), value.of(value_length)));
    }

    fn rocksdb_writebatch_mergev(
        batch: Handle<Wire>,
        keys: c_int,
        key_starts: Array<Bytes>,
        key_lengths: Array<usize>,
        values: c_int,
        value_starts: Array<Bytes>,
        value_lengths: Array<usize>,
    ) {
        let key = joined(keys, &key_starts, &key_lengths);
        push(batch, Record::Merge(&key, &joined(values, &value_starts, &value_lengths)));
    }

    fn rocksdb_writebatch_mergev_cf(
        batch: Handle<Wire>,
        family: Handle<Arc<Family>>,
        keys: c_int,
        key_starts: Array<Bytes>,
        key_lengths: Array<usize>,
        values: c_int,
        value_starts: Array<Bytes>,
        value_lengths: Array<usize>,
    ) {
        let key = joined(keys, &key_starts, &key_lengths);
        let value = joined(values, &value_starts, &value_lengths);
        push_cf(batch, family, Record::Merge(&key, &value));
    }

    fn rocksdb_writebatch_delete(batch: Handle<Wire>, key: Bytes, length: usize) {
        push(batch, Record::Delete(key.of(length)));
    }

    fn rocksdb_writebatch_delete_cf(
        batch: Handle<Wire>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        length: usize,
    ) {
        push_cf(batch, family, Record::Delete(key.of(length)));
    }

    fn rocksdb_writebatch_singledelete(batch: Handle<Wire>, key: Bytes, length: usize) {
        push(batch, Record::SingleDelete(key.of(length)));
    }

    fn rocksdb_writebatch_singledelete_cf(
        batch: Handle<Wire>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        length: usize,
    ) {
        push_cf(batch, family, Record::SingleDelete(key.of(length)));
    }

    fn rocksdb_writebatch_deletev(
        batch: Handle<Wire>,
        keys: c_int,
        starts: Array<Bytes>,
        lengths: Array<usize>,
    ) {
        push(batch, Record::Delete(&joined(keys, &starts, &lengths)));
    }

    fn rocksdb_writebatch_deletev_cf(
        batch: Handle<Wire>,
        family: Handle<Arc<Family>>,
        keys: c_int,
        starts: Array<Bytes>,
        lengths: Array<usize>,
    ) {
        push_cf(batch, family, Record::Delete(&joined(keys, &starts, &lengths)));
    }

    fn rocksdb_writebatch_delete_range(
        batch: Handle<Wire>,
        start: Bytes,
        start_length: usize,
        end: Bytes,
        end_length: usize,
    ) {
        push(batch, Record::DeleteRange(start.of(start_length), end.of(end_length)));
    }

    fn rocksdb_writebatch_delete_range_cf(
        batch: Handle<Wire>,
        family: Handle<Arc<Family>>,
        start: Bytes,
        start_length: usize,
        end: Bytes,
        end_length: usize,
    ) {
        push_cf(batch, family, Record::DeleteRange(start.of(start_length), end.of(end_length)));
    }

    fn rocksdb_writebatch_delete_rangev(
        batch: Handle<Wire>,
        keys: c_int,
        starts: Array<Bytes>,
        start_lengths: Array<usize>,
        ends: Array<Bytes>,
        end_lengths: Array<usize>,
    ) {
        let end = joined(keys, &ends, &end_lengths);
        push(batch, Record::DeleteRange(&joined(keys, &starts, &start_lengths), &end));
    }

    fn rocksdb_writebatch_delete_rangev_cf(
        batch: Handle<Wire>,
        family: Handle<Arc<Family>>,
        keys: c_int,
        starts: Array<Bytes>,
        start_lengths: Array<usize>,
        ends: Array<Bytes>,
        end_lengths: Array<usize>,
    ) {
        let end = joined(keys, &ends, &end_lengths);
        push_cf(batch, family, Record::DeleteRange(&joined(keys, &starts, &start_lengths), &end));
    }

    fn rocksdb_writebatch_put_log_data(batch: Handle<Wire>, data: Bytes, length: usize) {
        push(batch, Record::LogData(data.of(length)));
    }

    fn rocksdb_writebatch_set_save_point(batch: Handle<Wire>) {
        batch.change(Wire::set_savepoint);
    }

    try fn rocksdb_writebatch_rollback_to_save_point(batch: Handle<Wire>) {
        batch.change(Wire::rollback_to_savepoint)
    }

    try fn rocksdb_writebatch_pop_save_point(batch: Handle<Wire>) {
        batch.change(Wire::pop_savepoint)
    }

    /// Reads all records.
    try fn rocksdb_writebatch_verify_checksum(batch: Handle<Wire>) {
        batch.get().records().try_for_each(|record| record.map(|_| ()))
    }

    try fn rocksdb_write | rocksdb_transactiondb_write | rocksdb_optimistictransactiondb_write(
        db: Handle<Database>,
        options: Handle<Knobs>,
        batch: Handle<Wire>,
    ) {
        let open = &db.get().open;
        open.write(&mut to_esker(open, batch.get(), options)?, options)
    }
}
