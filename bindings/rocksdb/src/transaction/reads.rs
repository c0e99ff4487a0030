//! Functions that read in transactions.

use super::Transaction;
use crate::batch::indexed_reads;
use crate::border::pointers::caught_slices;
use crate::border::{Array, Bytes, Handle, Out, Result, c_api};
use crate::database::{Family, Pinned};
use crate::iterator::Iter;
use crate::reads::{Answers, ReadOptions, give, pin};
use crate::snapshot::SnapshotHandle;
use esker::{Snapshot, Value};
use std::ffi::{c_char, c_uchar};
use std::sync::Arc;

impl Transaction {
    /// The value of a key, writes of the transaction included.
    fn get(
        &self,
        family: &Family,
        options: Handle<ReadOptions>,
        key: &[u8],
    ) -> Result<Option<Value>> {
        indexed_reads::get(&self.open, family, self.writes.get(), options, key)
    }

    /// The same, after a lock on the key.
    fn get_for_update(
        &mut self,
        family: &Family,
        options: Handle<ReadOptions>,
        key: &[u8],
    ) -> Result<Option<Value>> {
        self.lock(family, key)?;
        self.get(family, options, key)
    }

    fn iter(&self, family: &Arc<Family>, options: Handle<ReadOptions>) -> Iter {
        let writes = self.writes.change(|writes| writes.writes(family.id()));
        Iter::new(&self.open, family, options.optional(), Some(writes))
    }

    fn default_family(&self) -> Arc<Family> {
        self.open.default.clone()
    }
}

c_api! {
    try fn rocksdb_transaction_get(
        transaction: Handle<Transaction>,
        options: Handle<ReadOptions>,
        key: Bytes,
        key_length: usize,
        length: Out<usize>,
    ) -> *mut c_char {
        length.set(0);
        let it = transaction.get();
        Ok(give(it.get(&it.default_family(), options, key.of(key_length))?, length))
    }

    try fn rocksdb_transaction_get_cf(
        transaction: Handle<Transaction>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        length: Out<usize>,
    ) -> *mut c_char {
        length.set(0);
        Ok(give(transaction.get().get(family.get(), options, key.of(key_length))?, length))
    }

    try fn rocksdb_transaction_get_pinned(
        transaction: Handle<Transaction>,
        options: Handle<ReadOptions>,
        key: Bytes,
        key_length: usize,
    ) -> Handle<Pinned> {
        let it = transaction.get();
        Ok(pin(it.get(&it.default_family(), options, key.of(key_length))?))
    }

    try fn rocksdb_transaction_get_pinned_cf(
        transaction: Handle<Transaction>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
    ) -> Handle<Pinned> {
        Ok(pin(transaction.get().get(family.get(), options, key.of(key_length))?))
    }

    try fn rocksdb_transaction_get_for_update(
        transaction: Handle<Transaction>,
        options: Handle<ReadOptions>,
        key: Bytes,
        key_length: usize,
        length: Out<usize>,
        _exclusive: c_uchar,
    ) -> *mut c_char {
        length.set(0);
        let key = key.of(key_length);
        Ok(give(transaction.change(|it| it.get_for_update(&it.default_family(), options, key))?, length))
    }

    try fn rocksdb_transaction_get_for_update_cf(
        transaction: Handle<Transaction>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        length: Out<usize>,
        _exclusive: c_uchar,
    ) -> *mut c_char {
        length.set(0);
        let key = key.of(key_length);
        Ok(give(transaction.change(|it| it.get_for_update(family.get(), options, key))?, length))
    }

    try fn rocksdb_transaction_get_pinned_for_update(
        transaction: Handle<Transaction>,
        options: Handle<ReadOptions>,
        key: Bytes,
        key_length: usize,
        _exclusive: c_uchar,
    ) -> Handle<Pinned> {
        let key = key.of(key_length);
        Ok(pin(transaction.change(|it| it.get_for_update(&it.default_family(), options, key))?))
    }

    try fn rocksdb_transaction_get_pinned_for_update_cf(
        transaction: Handle<Transaction>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        _exclusive: c_uchar,
    ) -> Handle<Pinned> {
        let key = key.of(key_length);
        Ok(pin(transaction.change(|it| it.get_for_update(family.get(), options, key))?))
    }

    fn rocksdb_transaction_multi_get(
        transaction: Handle<Transaction>,
        options: Handle<ReadOptions>,
        count: usize,
        keys: Array<Bytes>,
        key_lengths: Array<usize>,
        values: Out<*mut c_char>,
        lengths: Out<usize>,
        errors: Out<*mut c_char>,
    ) {
        Answers { values, lengths, errors }.all(count, |answers| {
            let it = transaction.get();
            for (at, key) in caught_slices(&keys, &key_lengths, count).enumerate() {
                answers.set(at, key.and_then(|key| it.get(&it.default_family(), options, key)));
            }
        });
    }

    fn rocksdb_transaction_multi_get_cf(
        transaction: Handle<Transaction>,
        options: Handle<ReadOptions>,
        families: Array<Handle<Arc<Family>>>,
        count: usize,
        keys: Array<Bytes>,
        key_lengths: Array<usize>,
        values: Out<*mut c_char>,
        lengths: Out<usize>,
        errors: Out<*mut c_char>,
    ) {
        Answers { values, lengths, errors }.all(count, |answers| {
            let all = families.of(count).iter().zip(caught_slices(&keys, &key_lengths, count));
            for (at, (family, key)) in all.enumerate() {
                let it = transaction.get();
                answers.set(at, key.and_then(|key| it.get(family.get(), options, key)));
            }
        });
    }

    fn rocksdb_transaction_multi_get_for_update(
        transaction: Handle<Transaction>,
        options: Handle<ReadOptions>,
        count: usize,
        keys: Array<Bytes>,
        key_lengths: Array<usize>,
        values: Out<*mut c_char>,
        lengths: Out<usize>,
        errors: Out<*mut c_char>,
    ) {
        Answers { values, lengths, errors }.all(count, |answers| {
            for (at, key) in caught_slices(&keys, &key_lengths, count).enumerate() {
                let get = |it: &mut Transaction| it.get_for_update(&it.default_family(), options, key?);
                answers.set(at, transaction.change(get));
            }
        });
    }

    fn rocksdb_transaction_multi_get_for_update_cf(
        transaction: Handle<Transaction>,
        options: Handle<ReadOptions>,
        families: Array<Handle<Arc<Family>>>,
        count: usize,
        keys: Array<Bytes>,
        key_lengths: Array<usize>,
        values: Out<*mut c_char>,
        lengths: Out<usize>,
        errors: Out<*mut c_char>,
    ) {
        Answers { values, lengths, errors }.all(count, |answers| {
            let all = families.of(count).iter().zip(caught_slices(&keys, &key_lengths, count));
            for (at, (family, key)) in all.enumerate() {
                let get = |it: &mut Transaction| it.get_for_update(family.get(), options, key?);
                answers.set(at, transaction.change(get));
            }
        });
    }

    fn rocksdb_transaction_create_iterator(
        transaction: Handle<Transaction>,
        options: Handle<ReadOptions>,
    ) -> Handle<Iter> {
        let it = transaction.get();
        Handle::new(it.iter(&it.default_family(), options))
    }

    fn rocksdb_transaction_create_iterator_cf(
        transaction: Handle<Transaction>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
    ) -> Handle<Iter> {
        Handle::new(transaction.get().iter(family.get(), options))
    }

    /// The snapshot is that of the transaction. The program frees the memory with `rocksdb_free`.
    fn rocksdb_transaction_get_snapshot(transaction: Handle<Transaction>) -> SnapshotHandle {
        Handle::<Handle<Snapshot>>::plain(transaction.get().snapshot)
    }
}
