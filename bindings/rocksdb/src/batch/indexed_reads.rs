//! Reads of batches with an index: alone, and over a database.

use super::indexed::Indexed;
use super::indexed_functions::Wi;
use crate::border::{Bytes, Code, Handle, Out, Result, Status, c_api};
use crate::database::{Database, Family, Open, Pinned};
use crate::iterator::Iter;
use crate::options::Options;
use crate::reads::{self, ReadOptions, give, pin};
use esker::Value;
use std::ffi::c_char;
use std::sync::Arc;

/// The value of a key in the batch, or else in the database.
///
/// # Errors
/// Those of Esker's reads, and of the merge operator.
pub fn get(
    open: &Open,
    family: &Family,
    batch: &Indexed,
    options: Handle<ReadOptions>,
    key: &[u8],
) -> Result<Option<Value>> {
    let Some(pending) = batch.find(family.id(), key) else {
        return reads::get(open, family, options, key);
    };
    let stored = match pending.needs_stored() {
        true => reads::get(open, family, options, key)?,
        false => None,
    };
    pending.value(key, stored.as_deref(), family.merge.as_deref())
}

/// The value of a key in the batch alone.
fn get_alone(batch: &Indexed, family: u32, options: &Options, key: &[u8]) -> Result<Option<Value>> {
    match batch.find(family, key) {
        None => Ok(None),
        Some(pending) if pending.needs_stored() => {
            Err(Status::new(Code::MergeInProgress, "the batch has only operands of the key"))
        }
        Some(pending) => pending.value(key, None, options.merge.as_deref()),
    }
}

c_api! {
    try fn rocksdb_writebatch_wi_get_from_batch(
        batch: Wi,
        options: Handle<Options>,
        key: Bytes,
        key_length: usize,
        length: Out<usize>,
    ) -> *mut c_char {
        length.set(0);
        let found = get_alone(batch.get().get(), 0, options.get(), key.of(key_length))?;
        Ok(give(found, length))
    }

    try fn rocksdb_writebatch_wi_get_from_batch_cf(
        batch: Wi,
        options: Handle<Options>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        length: Out<usize>,
    ) -> *mut c_char {
        length.set(0);
        let id = family.get().id();
        let found = get_alone(batch.get().get(), id, options.get(), key.of(key_length))?;
        Ok(give(found, length))
    }

    try fn rocksdb_writebatch_wi_get_from_batch_and_db(
        batch: Wi,
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        key: Bytes,
        key_length: usize,
        length: Out<usize>,
    ) -> *mut c_char {
        length.set(0);
        let open = &db.get().open;
        let key = key.of(key_length);
        Ok(give(get(open, &open.default, batch.get().get(), options, key)?, length))
    }

    try fn rocksdb_writebatch_wi_get_from_batch_and_db_cf(
        batch: Wi,
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        length: Out<usize>,
    ) -> *mut c_char {
        length.set(0);
        let key = key.of(key_length);
        Ok(give(get(&db.get().open, family.get(), batch.get().get(), options, key)?, length))
    }

    try fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db(
        batch: Wi,
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        key: Bytes,
        key_length: usize,
    ) -> Handle<Pinned> {
        let open = &db.get().open;
        Ok(pin(get(open, &open.default, batch.get().get(), options, key.of(key_length))?))
    }

    try fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db_cf(
        batch: Wi,
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
    ) -> Handle<Pinned> {
        let key = key.of(key_length);
        Ok(pin(get(&db.get().open, family.get(), batch.get().get(), options, key)?))
    }

    /// Takes the other iterator over.
    fn rocksdb_writebatch_wi_create_iterator_with_base(batch: Wi, base: Handle<Iter>) -> Handle<Iter> {
        over(batch, base)
    }

    /// Takes the other iterator over, which is one of the column family.
    fn rocksdb_writebatch_wi_create_iterator_with_base_cf(
        batch: Wi,
        base: Handle<Iter>,
        _family: Handle<Arc<Family>>,
    ) -> Handle<Iter> {
        over(batch, base)
    }

    /// Reads as the other iterator does, and takes it over.
    fn rocksdb_writebatch_wi_create_iterator_with_base_readopts(
        batch: Wi,
        base: Handle<Iter>,
        _options: Handle<ReadOptions>,
    ) -> Handle<Iter> {
        over(batch, base)
    }

    /// Reads as the other iterator does, and takes it over.
    fn rocksdb_writebatch_wi_create_iterator_with_base_cf_readopts(
        batch: Wi,
        base: Handle<Iter>,
        _family: Handle<Arc<Family>>,
        _options: Handle<ReadOptions>,
    ) -> Handle<Iter> {
        over(batch, base)
    }
}

fn over(batch: Wi, base: Handle<Iter>) -> Handle<Iter> {
    let Some(base) = base.take() else { return Handle::null() };
    let writes = batch.get().change(|batch| batch.writes(base.family().id()));
    Handle::new(base.with_writes(writes))
}
