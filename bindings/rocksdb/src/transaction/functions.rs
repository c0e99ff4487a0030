//! Functions that begin, change and end transactions.

use super::Transaction;
use crate::batch::indexed::Indexed;
use crate::batch::indexed_functions::Wi;
use crate::batch::wire::{Record, Wire};
use crate::border::{Bytes, Handle, Out, c_api, memory};
use crate::database::{Database, Family};
use crate::knobs::Knobs;
use esker::transaction::Concurrency;
use std::ffi::c_char;
use std::sync::Arc;

fn begin(
    db: Handle<Database>,
    write: Handle<Knobs>,
    options: Handle<Knobs>,
    old: Handle<Transaction>,
    concurrency: Concurrency,
) -> Handle<Transaction> {
    let (write, options) = (write.optional(), options.optional());
    if old.optional().is_some() {
        let begun = old.change(|old| old.begin(write, options, concurrency));
        return begun.map_or_else(|_| Handle::null(), |()| old);
    }
    let begun = Transaction::new(&db.get().open, write, options, concurrency);
    begun.map_or_else(|_| Handle::null(), Handle::new)
}

c_api! {
    fn rocksdb_transaction_begin(
        db: Handle<Database>,
        write: Handle<Knobs>,
        options: Handle<Knobs>,
        old: Handle<Transaction>,
    ) -> Handle<Transaction> {
        begin(db, write, options, old, Concurrency::Pessimistic)
    }

    fn rocksdb_optimistictransaction_begin(
        db: Handle<Database>,
        write: Handle<Knobs>,
        options: Handle<Knobs>,
        old: Handle<Transaction>,
    ) -> Handle<Transaction> {
        begin(db, write, options, old, Concurrency::Optimistic)
    }

    fn rocksdb_transaction_destroy(transaction: Handle<Transaction>) {
        drop(transaction.take());
    }

    try fn rocksdb_transaction_put(
        transaction: Handle<Transaction>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        let record = Record::Put(key.of(key_length), value.of(value_length));
        transaction.change(|it| it.write(&it.open.default.clone(), record))
    }

    try fn rocksdb_transaction_put_cf(
        transaction: Handle<Transaction>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        let record = Record::Put(key.of(key_length), value.of(value_length));
        transaction.change(|it| it.write(family.get(), record))
    }

    try fn rocksdb_transaction_merge(
        transaction: Handle<Transaction>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        let record = Record::Merge(key.of(key_length), value.of(value_length));
        transaction.change(|it| it.write(&it.open.default.clone(), record))
    }

    try fn rocksdb_transaction_merge_cf(
        transaction: Handle<Transaction>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        let record = Record::Merge(key.of(key_length), value.of(value_length));
        transaction.change(|it| it.write(family.get(), record))
    }

    try fn rocksdb_transaction_delete(
        transaction: Handle<Transaction>,
        key: Bytes,
        length: usize,
    ) {
        let record = Record::Delete(key.of(length));
        transaction.change(|it| it.write(&it.open.default.clone(), record))
    }

    try fn rocksdb_transaction_delete_cf(
        transaction: Handle<Transaction>,
        family: Handle<Arc<Family>>,
        key: Bytes,
        length: usize,
    ) {
        let record = Record::Delete(key.of(length));
        transaction.change(|it| it.write(family.get(), record))
    }

    fn rocksdb_transaction_put_log_data(
        transaction: Handle<Transaction>,
        data: Bytes,
        length: usize,
    ) {
        let record = Record::LogData(data.of(length));
        transaction.change(|it| it.writes.change(|writes| writes.push(0, record)));
    }

    try fn rocksdb_transaction_commit(transaction: Handle<Transaction>) {
        transaction.change(Transaction::commit)
    }

    try fn rocksdb_transaction_rollback(transaction: Handle<Transaction>) {
        transaction.change(Transaction::rollback)
    }

    fn rocksdb_transaction_set_savepoint(transaction: Handle<Transaction>) {
        // Without an `errptr`: a transaction that has ended has no savepoints.
        let _ = transaction.change(Transaction::set_savepoint);
    }

    try fn rocksdb_transaction_rollback_to_savepoint(transaction: Handle<Transaction>) {
        transaction.change(Transaction::rollback_to_savepoint)
    }

    try fn rocksdb_transaction_set_name(
        transaction: Handle<Transaction>,
        name: Bytes,
        length: usize,
    ) {
        transaction.change(|it| it.set_name(name.of(length)))
    }

    fn rocksdb_transaction_get_name(
        transaction: Handle<Transaction>,
        length: Out<usize>,
    ) -> *mut c_char {
        let name = &transaction.get().name;
        length.set(name.len());
        memory::copy_bytes(name)
    }

    try fn rocksdb_transaction_prepare(transaction: Handle<Transaction>) {
        transaction.change(Transaction::prepare)
    }

    /// The batch is that of the transaction, and valid until that changes.
    fn rocksdb_transaction_get_writebatch_wi(transaction: Handle<Transaction>) -> Wi {
        Handle::<Handle<Indexed>>::plain(transaction.get().writes)
    }

    try fn rocksdb_transaction_rebuild_from_writebatch(
        transaction: Handle<Transaction>,
        batch: Handle<Wire>,
    ) {
        transaction.change(|it| it.rebuild(batch.get()))
    }

    try fn rocksdb_transaction_rebuild_from_writebatch_wi(
        transaction: Handle<Transaction>,
        batch: Wi,
    ) {
        transaction.change(|it| it.rebuild(batch.get().get().wire()))
    }

    fn rocksdb_transactiondb_get_prepared_transactions(
        db: Handle<Database>,
        count: Out<usize>,
    ) -> *mut Handle<Transaction> {
        let all = Transaction::prepared(&db.get().open).unwrap_or_default();
        count.set(all.len());
        if all.is_empty() {
            return std::ptr::null_mut();
        }
        let all: Vec<_> = all.into_iter().map(Handle::new).collect();
        memory::copy(&all)
    }
}
