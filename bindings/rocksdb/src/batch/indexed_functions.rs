//! Functions of batches that are read before they are written.

use super::functions::joined;
use super::indexed::Indexed;
use super::to_esker;
use super::wire::Record;
use crate::border::{Array, Bytes, Handle, Out, c_api};
use crate::database::{Database, Family};
use crate::knobs::Knobs;
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::Arc;

/// RocksDB's `rocksdb_writebatch_wi_t`: memory that `rocksdb_free` frees too, because programs free the
/// one of a transaction so. The batch of a transaction is owned by that.
pub type Wi = Handle<Handle<Indexed>>;

fn push(batch: Wi, record: Record<'_>) {
    batch.get().change(|batch| batch.push(0, record));
}

fn push_cf(batch: Wi, family: Handle<Arc<Family>>, record: Record<'_>) {
    let family = family.get();
    batch.get().change(|batch| match &family.stamps {
        // There is no error here, so the write of the batch has it.
        Some(_) => batch.push_impossible(),
        None => batch.push(family.id(), record),
    });
}

c_api! {
    fn rocksdb_writebatch_wi_create(_reserved: usize, _overwrite: c_uchar) -> Wi {
        Handle::plain(Handle::new(Indexed::default()))
    }

    /// The order of keys is that of bytes.
    fn rocksdb_writebatch_wi_create_with_params(
        _comparator: *mut c_void,
        _reserved: usize,
        _overwrite: c_uchar,
        _most: usize,
        _protection: usize,
    ) -> Wi {
        Handle::plain(Handle::new(Indexed::default()))
    }

    fn rocksdb_writebatch_wi_destroy(batch: Wi) {
        if let Some(own) = batch.optional() {
            drop(own.take());
            batch.free();
        }
    }

    fn rocksdb_writebatch_wi_clear(batch: Wi) {
        batch.get().change(Indexed::clear);
    }

    fn rocksdb_writebatch_wi_count(batch: Wi) -> c_int {
        c_int::try_from(batch.get().get().wire().count()).unwrap_or(c_int::MAX)
    }

    fn rocksdb_writebatch_wi_data(batch: Wi, length: Out<usize>) -> *const c_char {
        let bytes = batch.get().get().wire().bytes();
        length.set(bytes.len());
        bytes.as_ptr().cast()
    }

    fn rocksdb_writebatch_wi_put(
        batch: Wi,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        push(batch, Record::Put(key.of(key_length), value.of(value_length)));
    }

    fn rocksdb_writebatch_wi_put_cf(
        batch: Wi,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        push_cf(batch, family, Record::Put(key.of(key_length), value.of(value_length)));
    }

    fn rocksdb_writebatch_wi_putv(
        batch: Wi,
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

    fn rocksdb_writebatch_wi_putv_cf(
        batch: Wi,
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

    fn rocksdb_writebatch_wi_merge(
        batch: Wi,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        push(batch, Record::Merge(key.of(key_length), value.of(value_length)));
    }

    fn rocksdb_writebatch_wi_merge_cf(
        batch: Wi,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        push_cf(batch, family, Record::Merge(key.of(key_length), value.of(value_length)));
    }

    fn rocksdb_writebatch_wi_mergev(
        batch: Wi,
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

    fn rocksdb_writebatch_wi_mergev_cf(
        batch: Wi,
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

    fn rocksdb_writebatch_wi_delete(batch: Wi, key: Bytes, length: usize) {
        push(batch, Record::Delete(key.of(length)));
    }

    fn rocksdb_writebatch_wi_delete_cf(
        batch: Wi,
        family: Handle<Arc<Family>>,
        key: Bytes,
        length: usize,
    ) {
        push_cf(batch, family, Record::Delete(key.of(length)));
    }

    fn rocksdb_writebatch_wi_singledelete(batch: Wi, key: Bytes, length: usize) {
        push(batch, Record::SingleDelete(key.of(length)));
    }

    fn rocksdb_writebatch_wi_singledelete_cf(
        batch: Wi,
        family: Handle<Arc<Family>>,
        key: Bytes,
        length: usize,
    ) {
        push_cf(batch, family, Record::SingleDelete(key.of(length)));
    }

    fn rocksdb_writebatch_wi_deletev(
        batch: Wi,
        keys: c_int,
        starts: Array<Bytes>,
        lengths: Array<usize>,
    ) {
        push(batch, Record::Delete(&joined(keys, &starts, &lengths)));
    }

    fn rocksdb_writebatch_wi_deletev_cf(
        batch: Wi,
        family: Handle<Arc<Family>>,
        keys: c_int,
        starts: Array<Bytes>,
        lengths: Array<usize>,
    ) {
        push_cf(batch, family, Record::Delete(&joined(keys, &starts, &lengths)));
    }

    fn rocksdb_writebatch_wi_put_log_data(batch: Wi, data: Bytes, length: usize) {
        push(batch, Record::LogData(data.of(length)));
    }

    fn rocksdb_writebatch_wi_set_save_point(batch: Wi) {
        batch.get().change(Indexed::set_savepoint);
    }

    try fn rocksdb_writebatch_wi_rollback_to_save_point(batch: Wi) {
        batch.get().change(Indexed::rollback_to_savepoint)
    }

    try fn rocksdb_write_writebatch_wi(db: Handle<Database>, options: Handle<Knobs>, batch: Wi) {
        let open = &db.get().open;
        open.write(&mut to_esker(open, batch.get().get().wire(), options)?, options)
    }
}
