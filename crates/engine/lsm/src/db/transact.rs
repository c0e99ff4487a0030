//! Calls that run a transaction as a whole, and again after a conflict.

use super::Db;
use super::keyspace::Keyspace;
use super::transaction::Transaction;
use esker_api::{TransactionOptions, Value};
use esker_base::{Error, Result};
use std::time::Duration;

/// How often [`Db::transact`] runs its closure at most. Of transactions that conflict one commits, so
/// a caller that lost this often competes with many, and waits between its attempts.
const ATTEMPTS_MAX: u32 = 100;

/// After so many lock timeouts [`Db::transact`] stops: the caller has chosen how long to wait.
const LOCK_TIMEOUTS_MAX: u32 = 3;

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_millis(5);

impl Db {
    /// Runs `work` in a transaction with the default options, commits it, and returns what `work`
    /// returned.
    ///
    /// **`work` may run several times**: after a transient error ([`Error::is_transient`]), of `work`
    /// or of the commit, the transaction is rolled back and `work` runs again in a new one. It should
    /// change nothing outside of the transaction. It runs at most 100 times, and ends after the third
    /// [`Error::LockTimeout`]. Attempts pause for up to 5 ms in between.
    ///
    /// [`Db::try_transact`] lets `work` return an error type of the application.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker::Db::open(dir.path(), esker::Settings::default())?;
    /// let counters = db.default_keyspace();
    /// let next = db.transact(|tx| {
    ///     let next = tx.get_for_update(&counters, "visits")?.map_or(0, |count| count[0]) + 1;
    ///     tx.put(&counters, "visits", [next])?;
    ///     Ok(next)
    /// })?;
    /// assert_eq!(next, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The last transient error if no attempt succeeded; any other error of `work` or of the commit at
    /// once. The transaction is rolled back.
    pub fn transact<T>(&self, work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.transact_with(TransactionOptions::default(), work)
    }

    /// Like [`Db::transact`], with `options`.
    ///
    /// # Errors
    /// The errors of [`Db::transact`].
    pub fn transact_with<T>(
        &self,
        options: TransactionOptions,
        mut work: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut attempts = Attempts::default();
        loop {
            // Dropped after an error: its locks are free before the pause.
            let mut transaction = self.transaction_with(options)?;
            let done = work(&mut transaction);
            match done.and_then(|value| transaction.commit().map(|()| value)) {
                Err(error) if attempts.may_repeat(&error) => self.pause(&attempts),
                ended => return ended,
            }
        }
    }

    /// Like [`Db::transact`], for a `work` that can also fail with an error of the application, which
    /// [`Error`] converts into.
    ///
    /// After an error of `work`, the transaction is rolled back. `work` runs again if a call of the
    /// transaction had failed with a transient error, whatever `work` made of it; otherwise the error
    /// is returned at once.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod esker { pub use esker_base::Error; pub use esker_lsm::*; }
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker::Db::open(dir.path(), esker::Settings::default())?;
    /// #[derive(Debug)]
    /// enum TransferError {
    ///     Poor,
    ///     Store(esker::Error),
    /// }
    ///
    /// impl From<esker::Error> for TransferError {
    ///     fn from(error: esker::Error) -> Self {
    ///         TransferError::Store(error)
    ///     }
    /// }
    ///
    /// let accounts = db.default_keyspace();
    /// let transferred = db.try_transact(|tx| -> Result<(), TransferError> {
    ///     let ada = tx.get_for_update(&accounts, "ada")?.map_or(0, |balance| balance[0]);
    ///     let ada = ada.checked_sub(30).ok_or(TransferError::Poor)?;
    ///     tx.put(&accounts, "ada", [ada])?;
    ///     Ok(())
    /// });
    /// assert!(matches!(transferred, Err(TransferError::Poor)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of `work`; the errors of [`Db::transact`], converted.
    pub fn try_transact<T, E: From<Error>>(
        &self,
        work: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.try_transact_with(TransactionOptions::default(), work)
    }

    /// Like [`Db::try_transact`], with `options`.
    ///
    /// # Errors
    /// The errors of [`Db::try_transact`].
    pub fn try_transact_with<T, E: From<Error>>(
        &self,
        options: TransactionOptions,
        mut work: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut attempts = Attempts::default();
        loop {
            let mut transaction = self.transaction_with(options)?;
            match work(&mut transaction) {
                Ok(value) => match transaction.commit() {
                    Ok(()) => return Ok(value),
                    Err(error) if attempts.may_repeat(&error) => {}
                    Err(error) => return Err(error.into()),
                },
                Err(error) => {
                    let cause = transaction.inner.transient_error();
                    if !cause.is_some_and(|cause| attempts.may_repeat(cause)) {
                        return Err(error);
                    }
                    // Its locks are free before the pause.
                    transaction.rollback();
                }
            }
            self.pause(&attempts);
        }
    }

    /// Sets `key` to `value` if it does not exist, and returns `None`. Otherwise returns the present
    /// value.
    ///
    /// It is a transaction, so it is atomic among transactions and other calls of this method. A plain
    /// write such as [`Db::put`] does not wait for transactions: if it writes `key` at the same time, it
    /// may be overwritten.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker::Db::open(dir.path(), esker::Settings::default())?;
    /// let owners = db.default_keyspace();
    /// assert_eq!(db.put_if_absent(&owners, "job 7", "worker 1")?, None);
    /// let present = db.put_if_absent(&owners, "job 7", "worker 2")?;
    /// assert_eq!(present.as_deref(), Some(&b"worker 1"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Db::transact`] and of [`Transaction::put_if_absent`].
    pub fn put_if_absent(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Value>> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.transact(|tx| tx.put_if_absent(keyspace, key, value))
    }

    fn pause(&self, attempts: &Attempts) {
        self.inner().tree.clock.sleep(attempts.pause());
    }
}

/// Attempts that failed.
#[derive(Default)]
struct Attempts {
    failed: u32,
    lock_timeouts: u32,
}

impl Attempts {
    /// Counts an attempt that failed with `error`. Whether another may follow.
    fn may_repeat(&mut self, error: &Error) -> bool {
        self.failed += 1;
        self.lock_timeouts += u32::from(matches!(error, Error::LockTimeout { .. }));
        let is_last = self.failed == ATTEMPTS_MAX || self.lock_timeouts == LOCK_TIMEOUTS_MAX;
        !is_last && error.is_transient()
    }

    /// How long to pause: not after the first, then quadratically longer.
    fn pause(&self) -> Duration {
        let before = u64::from(self.failed - 1);
        Duration::from_micros(before * before).min(PAUSE_MAX)
    }
}
