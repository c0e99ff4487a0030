//! Transactions.

use crate::border::{Failure, array, bytes, native, range};
use crate::calls::chunk;
use crate::table::{DATABASES, KEYSPACES, TRANSACTIONS};
use esker::transaction::{Concurrency, Isolation};
use esker::{Transaction, TransactionOptions};
use jni::objects::JByteArray;
use jni::sys::{jboolean, jbyteArray, jint, jlong};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

fn with<T>(
    handle: jlong,
    step: impl FnOnce(&mut Transaction) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let transaction = TRANSACTIONS.get(handle)?;
    let mut transaction = transaction.lock().unwrap_or_else(PoisonError::into_inner);
    step(transaction.as_mut().ok_or_else(Failure::ended)?)
}

fn end(handle: jlong) -> Result<Transaction, Failure> {
    let transaction = TRANSACTIONS.get(handle)?;
    let mut transaction = transaction.lock().unwrap_or_else(PoisonError::into_inner);
    transaction.take().ok_or_else(Failure::ended)
}

native! {
    begin = Java_esker_Native_begin(
        _env, db: jlong, isolation: jint, optimistic: jboolean, lock_millis: jlong
    ) -> jlong {
        let isolation = match isolation {
            0 => Isolation::ReadCommitted,
            1 => Isolation::Snapshot,
            _ => Isolation::Serializable,
        };
        let mut options = TransactionOptions::default().isolation(isolation);
        if optimistic != 0 {
            options = options.concurrency(Concurrency::Optimistic);
        }
        if lock_millis > 0 {
            options = options.lock_timeout(Duration::from_millis(lock_millis.unsigned_abs()));
        }
        let transaction = DATABASES.get(db)?.transaction_with(options)?;
        Ok(TRANSACTIONS.insert(Mutex::new(Some(transaction))))
    }

    get = Java_esker_Native_transactionGet(
        env, transaction: jlong, keyspace: jlong, key: JByteArray<'a>, for_update: jboolean
    ) -> jbyteArray {
        let (key, keyspace) = (bytes(env, &key)?, KEYSPACES.get(keyspace)?);
        let value = with(transaction, |transaction| match for_update {
            0 => Ok(transaction.get(&*keyspace, key)?),
            _ => Ok(transaction.get_for_update(&*keyspace, key)?),
        })?;
        array(env, value)
    }

    put = Java_esker_Native_transactionPut(
        env, transaction: jlong, keyspace: jlong, key: JByteArray<'a>, value: JByteArray<'a>
    ) -> () {
        let (key, value) = (bytes(env, &key)?, bytes(env, &value)?);
        let keyspace = KEYSPACES.get(keyspace)?;
        with(transaction, |transaction| Ok(transaction.put(&*keyspace, key, value)?))
    }

    delete = Java_esker_Native_transactionDelete(
        env, transaction: jlong, keyspace: jlong, key: JByteArray<'a>
    ) -> () {
        let (key, keyspace) = (bytes(env, &key)?, KEYSPACES.get(keyspace)?);
        with(transaction, |transaction| Ok(transaction.delete(&*keyspace, key)?))
    }

    fetch = Java_esker_Native_transactionFetch(
        env, transaction: jlong, keyspace: jlong,
        start: JByteArray<'a>, start_inclusive: jboolean,
        end: JByteArray<'a>, end_inclusive: jboolean,
        backward: jboolean, max_bytes: jint
    ) -> jbyteArray {
        let range = range(env, &start, start_inclusive, &end, end_inclusive)?;
        let keyspace = KEYSPACES.get(keyspace)?;
        let entries = with(transaction, |transaction| {
            let entries = transaction.range(&*keyspace, range);
            match backward {
                0 => chunk(entries, max_bytes),
                _ => chunk(entries.rev(), max_bytes),
            }
        })?;
        array(env, entries)
    }

    set_savepoint = Java_esker_Native_setSavepoint(_env, transaction: jlong) -> () {
        with(transaction, |transaction| Ok(transaction.set_savepoint()?))
    }

    rollback_to_savepoint = Java_esker_Native_rollbackToSavepoint(
        _env, transaction: jlong
    ) -> () {
        with(transaction, |transaction| Ok(transaction.rollback_to_savepoint()?))
    }

    commit = Java_esker_Native_commit(_env, transaction: jlong) -> () {
        Ok(end(transaction)?.commit()?)
    }

    rollback = Java_esker_Native_rollback(_env, transaction: jlong) -> () {
        end(transaction)?.rollback();
        Ok(())
    }

    free = Java_esker_Native_freeTransaction(_env, transaction: jlong) -> () {
        drop(TRANSACTIONS.remove(transaction));
        Ok(())
    }
}
