//! Transactions.

use crate::border::{Failure, bytes, given, handle_slot, quietly, slot};
use crate::bytes::esker_bytes;
use crate::error::esker_error;
use crate::keyspace::{esker_keyspace, put_value};
use crate::open::{Closed, esker_db};
use crate::status::esker_status;
use esker::transaction::{Concurrency, Isolation};
use esker::{Error, Transaction, TransactionOptions};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Of `esker_begin`: conflicts are checked by the commit, without locks until then.
pub const ESKER_OPTIMISTIC: u32 = 1;
/// Of `esker_begin`: each read sees what is committed when it is made.
pub const ESKER_READ_COMMITTED: u32 = 2;
/// Of `esker_begin`: the outcome is that of some serial order of the transactions.
pub const ESKER_SERIALIZABLE: u32 = 4;

/// Reads and writes of all keyspaces that commit together or not at all. One thread at once may use it.
pub struct esker_transaction {
    pub(crate) shared: Arc<SharedTransaction>,
}

/// A transaction that its cursors share.
pub(crate) struct SharedTransaction {
    state: Mutex<State>,
    closed: Closed,
    /// Counts writes and the end, so that a cursor notices that it read ahead of one.
    changes: AtomicU64,
}

#[expect(clippy::large_enum_variant, reason = "each is by itself in the memory of its transaction")]
enum State {
    Active(Transaction),
    Ended(&'static str),
}

impl SharedTransaction {
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    pub(crate) fn with<T>(
        &self,
        step: impl FnOnce(&mut Transaction) -> esker::Result<T>,
    ) -> Result<T, Failure> {
        self.closed.check()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            State::Active(transaction) => Ok(step(transaction)?),
            State::Ended(how) => Err(Error::TransactionEnded { how }.into()),
        }
    }

    fn write<T>(
        &self,
        step: impl FnOnce(&mut Transaction) -> esker::Result<T>,
    ) -> Result<T, Failure> {
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.with(step)
    }

    fn end(
        &self,
        how: &'static str,
        end: impl FnOnce(Transaction) -> esker::Result<()>,
    ) -> Result<(), Failure> {
        self.changes.fetch_add(1, Ordering::Relaxed);
        let ended = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            match &*state {
                State::Active(_) => std::mem::replace(&mut *state, State::Ended(how)),
                State::Ended(how) => return Err(Error::TransactionEnded { how }.into()),
            }
        };
        match ended {
            State::Active(transaction) => Ok(end(transaction)?),
            State::Ended(_) => Ok(()),
        }
    }
}

fn options(flags: u32, lock_timeout_ms: u64) -> Result<TransactionOptions, Failure> {
    let options = TransactionOptions::default();
    let isolation = match flags & !ESKER_OPTIMISTIC {
        0 => Isolation::Snapshot,
        ESKER_READ_COMMITTED => Isolation::ReadCommitted,
        ESKER_SERIALIZABLE => Isolation::Serializable,
        _ => return Err(Failure::invalid(format!("flags are {flags:#x}: unknown, or two levels"))),
    };
    let concurrency = match flags & ESKER_OPTIMISTIC {
        0 => Concurrency::Pessimistic,
        _ => Concurrency::Optimistic,
    };
    let lock_timeout = match lock_timeout_ms {
        0 => options.lock_timeout,
        ms => Duration::from_millis(ms),
    };
    Ok(options.isolation(isolation).concurrency(concurrency).lock_timeout(lock_timeout))
}

/// Begins a transaction. The caller ends it with `esker_commit` or `esker_rollback`, and frees it with
/// `esker_transaction_free`, which also rolls back.
///
/// `flags` are 0 or some of `ESKER_OPTIMISTIC` and one of `ESKER_READ_COMMITTED` and
/// `ESKER_SERIALIZABLE`. The default is pessimistic, with snapshot isolation. `lock_timeout_ms` is how
/// long to wait for a lock, in milliseconds; 0 stands for a second.
///
/// `ESKER_INVALID_ARGUMENT` for other flags, `ESKER_CLOSED`, `ESKER_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_begin(
    db: Option<&esker_db>,
    flags: u32,
    lock_timeout_ms: u64,
    transaction_out: *mut *mut esker_transaction,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(transaction_out, "the transaction")?;
        let options = options(flags, lock_timeout_ms)?;
        let db = given(db, "db")?;
        let shared = SharedTransaction {
            state: Mutex::new(State::Active(db.db.transaction_with(options)?)),
            closed: db.closed.clone(),
            changes: AtomicU64::new(0),
        };
        out.put_handle(esker_transaction { shared: Arc::new(shared) });
        Ok(())
    })
}

/// Reads the value of `key` as the transaction sees it, its own writes included. The caller frees it
/// with `esker_bytes_free`.
///
/// `ESKER_TRANSACTION_ENDED` after the end; otherwise as `esker_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_get(
    transaction: Option<&esker_transaction>,
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    value_out: *mut esker_bytes,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = slot(value_out, esker_bytes::NOTHING, "the value")?;
        let shared = &given(transaction, "transaction")?.shared;
        let (keyspace, key) = (&given(keyspace, "keyspace")?.keyspace, bytes(key, key_len)?);
        put_value(out, shared.with(|transaction| transaction.get(keyspace, key))?)
    })
}

/// Reads as `esker_transaction_get` does, and excludes that others change `key` before the commit: a
/// pessimistic transaction locks the key, and the commit of an optimistic one fails after such a change.
///
/// `ESKER_CONFLICT`, `ESKER_DEADLOCK` or `ESKER_LOCK_TIMEOUT`: roll back, and run the transaction again.
/// The key is locked also if the call returns `ESKER_NOT_FOUND`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_get_for_update(
    transaction: Option<&esker_transaction>,
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    value_out: *mut esker_bytes,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = slot(value_out, esker_bytes::NOTHING, "the value")?;
        let shared = &given(transaction, "transaction")?.shared;
        let (keyspace, key) = (&given(keyspace, "keyspace")?.keyspace, bytes(key, key_len)?);
        put_value(out, shared.with(|transaction| transaction.get_for_update(keyspace, key))?)
    })
}

/// Sets `key` to `value`. A pessimistic transaction locks the key.
///
/// `ESKER_CONFLICT`, `ESKER_DEADLOCK` or `ESKER_LOCK_TIMEOUT`: roll back, and run the transaction again.
/// `ESKER_TOO_LARGE` if the transaction would exceed the limits of a batch; it stays as it was.
/// `ESKER_TRANSACTION_ENDED`, `ESKER_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_put(
    transaction: Option<&esker_transaction>,
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let shared = &given(transaction, "transaction")?.shared;
        let keyspace = &given(keyspace, "keyspace")?.keyspace;
        let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
        shared.write(|transaction| transaction.put(keyspace, key, value))
    })
}

/// Sets `key` to `value` for `ttl_ms` milliseconds, which begin with the commit. Errors: those of
/// `esker_transaction_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_put_with_ttl(
    transaction: Option<&esker_transaction>,
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    ttl_ms: u64,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let shared = &given(transaction, "transaction")?.shared;
        let keyspace = &given(keyspace, "keyspace")?.keyspace;
        let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
        let ttl = Duration::from_millis(ttl_ms);
        shared.write(|transaction| transaction.put_with_ttl(keyspace, key, value, ttl))
    })
}

/// Merges `operand` into the value of `key`. A transaction reads the key and puts the result, so merges
/// of one key conflict. Errors: those of `esker_merge` and `esker_transaction_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_merge(
    transaction: Option<&esker_transaction>,
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    operand: *const u8,
    operand_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let shared = &given(transaction, "transaction")?.shared;
        let keyspace = &given(keyspace, "keyspace")?.keyspace;
        let (key, operand) = (bytes(key, key_len)?, bytes(operand, operand_len)?);
        shared.write(|transaction| transaction.merge(keyspace, key, operand))
    })
}

/// Deletes `key`. Errors: those of `esker_transaction_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_delete(
    transaction: Option<&esker_transaction>,
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let shared = &given(transaction, "transaction")?.shared;
        let (keyspace, key) = (&given(keyspace, "keyspace")?.keyspace, bytes(key, key_len)?);
        shared.write(|transaction| transaction.delete(keyspace, key))
    })
}

/// Sets a savepoint. Savepoints nest.
///
/// `ESKER_TRANSACTION_ENDED`, `ESKER_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_set_savepoint(
    transaction: Option<&esker_transaction>,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, { given(transaction, "transaction")?.shared.write(|it| it.set_savepoint()) })
}

/// Undoes all writes since the last savepoint, and removes it. Locks and reads since then stay.
///
/// `ESKER_NO_SAVEPOINT` if there is none, `ESKER_TRANSACTION_ENDED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_rollback_to_savepoint(
    transaction: Option<&esker_transaction>,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        given(transaction, "transaction")?.shared.write(|it| it.rollback_to_savepoint())
    })
}

/// Commits: makes all writes visible at once, as durable as any write of the database. The transaction
/// has ended then, also after an error.
///
/// `ESKER_CONFLICT`, `ESKER_DEADLOCK` or `ESKER_LOCK_TIMEOUT`: nothing is written; begin another
/// transaction and do the same again. `ESKER_TRANSACTION_ENDED`; the errors of `esker_write`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_commit(
    transaction: Option<&esker_transaction>,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        given(transaction, "transaction")?.shared.end("committed", Transaction::commit)
    })
}

/// Discards all writes, releases the locks and ends the transaction.
///
/// `ESKER_TRANSACTION_ENDED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_rollback(
    transaction: Option<&esker_transaction>,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let rollback = |transaction: Transaction| {
            transaction.rollback();
            Ok(())
        };
        given(transaction, "transaction")?.shared.end("rolled back", rollback)
    })
}

/// Prepares the transaction under `id`, of 1 to 255 bytes: the first phase of a two-phase commit. It is
/// durable and locked then, and not visible. `esker_commit_prepared` or `esker_rollback_prepared`
/// decide, in this process or in a later one. The transaction has ended then, also after an error.
///
/// `ESKER_PREPARED` if the id is not valid or in use; otherwise the errors of `esker_commit`. After
/// `ESKER_LOG_FAILED`, the next open may find it prepared, with its locks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_prepare(
    transaction: Option<&esker_transaction>,
    id: *const u8,
    id_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let id = bytes(id, id_len)?;
        given(transaction, "transaction")?.shared.end("prepared", |it| it.prepare(id))
    })
}

/// Commits the transaction that was prepared under `id`.
///
/// `ESKER_PREPARED` if there is none: it was never prepared, or is already decided. The errors of
/// `esker_write`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_commit_prepared(
    db: Option<&esker_db>,
    id: *const u8,
    id_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, { Ok(given(db, "db")?.db.commit_prepared(bytes(id, id_len)?)?) })
}

/// Discards the transaction that was prepared under `id`. Errors: those of `esker_commit_prepared`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_rollback_prepared(
    db: Option<&esker_db>,
    id: *const u8,
    id_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, { Ok(given(db, "db")?.db.rollback_prepared(bytes(id, id_len)?)?) })
}

/// Frees a transaction, and rolls it back if it has not ended. Its cursors return
/// `ESKER_TRANSACTION_ENDED` then. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn esker_transaction_free(transaction: Option<Box<esker_transaction>>) {
    let Some(transaction) = transaction else { return };
    quietly((), || {
        let rolled_back = transaction.shared.end("rolled back", |transaction| {
            transaction.rollback();
            Ok(())
        });
        // It may have ended before.
        drop(rolled_back);
    });
}
