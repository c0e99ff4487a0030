//! Transactions over all keyspaces of a store. The traits are here so that workloads can be written
//! against them, whoever's transactions they are.

use crate::{Cursor, KeyRange, KeyspaceRef, Value, WriteBatch};
use esker_base::{Error, Result};
use std::str::FromStr;
use std::time::Duration;

/// A store that runs transactions: all of its keyspaces. Shared between threads.
pub trait Transactional: Send + Sync {
    /// The keyspace called `name`, created if there is none.
    fn keyspace(&self, name: &str) -> Result<KeyspaceRef>;

    /// The newest committed value of `key`, outside of any transaction.
    fn get(&self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>>;

    /// A cursor over what is committed now, outside of any transaction.
    fn cursor(&self, keyspace: KeyspaceRef, range: KeyRange) -> Result<Box<dyn Cursor + '_>>;

    /// Applies `batch` atomically, like a transaction that only writes: it waits for transactions that
    /// hold its keys locked, and others see it as a conflict where they would see a transaction's.
    fn write(&self, batch: &WriteBatch) -> Result<()>;

    /// Starts a transaction.
    fn begin(&self, options: &TransactionOptions) -> Result<Box<dyn Transaction + '_>>;
}

/// Reads and writes that commit together, isolated from others, or not at all. Dropping it rolls it
/// back.
///
/// After an error for which [`Error::is_transient`] holds, roll back and run the whole transaction
/// again. After the end every call fails with [`Error::TransactionEnded`].
pub trait Transaction {
    /// The value of `key` as this transaction sees it, its own writes included.
    fn get(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>>;

    /// Like `get`, and a change of `key` by others before this one's commit is excluded: a pessimistic
    /// transaction locks `key`, and an optimistic one will not commit after such a change.
    ///
    /// It reads what is committed when the lock is got. Under [`Isolation::Snapshot`] and above it
    /// fails with [`Error::Conflict`] if that is newer than the transaction's point in time.
    fn get_for_update(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>>;

    /// Sets `key` to `value`.
    fn put(&mut self, keyspace: KeyspaceRef, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes `key`.
    fn delete(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<()>;

    /// A cursor over `range` as this transaction sees it, its own writes so far included.
    fn cursor(&mut self, keyspace: KeyspaceRef, range: KeyRange) -> Result<Box<dyn Cursor + '_>>;

    /// Marks a place to go back to.
    fn set_savepoint(&mut self) -> Result<()>;

    /// Undoes all writes since the last savepoint, and removes it. Fails with
    /// [`Error::NoSavepoint`] if there is none.
    fn rollback_to_savepoint(&mut self) -> Result<()>;

    /// Makes all writes visible together, and as durable as the store promises. An error says that
    /// nothing was written, with the exceptions that the store makes for batches.
    fn commit(&mut self) -> Result<()>;

    /// Gives all writes up.
    fn rollback(&mut self) -> Result<()>;
}

/// How a transaction runs.
///
/// Start from the defaults and set what differs with the builder methods.
///
/// # Examples
///
/// ```
/// # mod esker { pub use esker_api::TransactionOptions; pub mod transaction { pub use esker_api::*; } }
/// use esker::TransactionOptions;
/// use esker::transaction::{Concurrency, Isolation};
///
/// let options = TransactionOptions::default().concurrency(Concurrency::Optimistic);
/// assert_eq!(options.isolation, Isolation::Snapshot);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// What it sees of other transactions. Default: snapshot isolation.
    pub isolation: Isolation,
    /// How conflicts with others are handled. Default: pessimistic.
    pub concurrency: Concurrency,
    /// How long to wait for a lock that another transaction holds. Default: 1 s.
    pub lock_timeout: Duration,
}

impl Default for TransactionOptions {
    /// Pessimistic, snapshot isolation, one second.
    fn default() -> Self {
        TransactionOptions {
            isolation: Isolation::Snapshot,
            concurrency: Concurrency::Pessimistic,
            lock_timeout: Duration::from_secs(1),
        }
    }
}

impl TransactionOptions {
    /// Sets what the transaction sees of others. Default: [`Isolation::Snapshot`].
    #[must_use]
    pub const fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets how conflicts with others are handled. Default: [`Concurrency::Pessimistic`].
    #[must_use]
    pub const fn concurrency(mut self, concurrency: Concurrency) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Sets how long to wait for a lock that another transaction holds. Default: 1 s.
    #[must_use]
    pub const fn lock_timeout(mut self, lock_timeout: Duration) -> Self {
        self.lock_timeout = lock_timeout;
        self
    }
}

/// What a transaction sees of concurrent transactions. Variants are ordered from weakest to
/// strongest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Isolation {
    /// Each read sees what is committed when it is made.
    ReadCommitted,
    /// All reads see one snapshot. If two concurrent transactions write the same key, one of them
    /// fails.
    Snapshot,
    /// The outcome is that of some serial order of the transactions.
    Serializable,
}

/// How conflicts between transactions are handled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Concurrency {
    /// With locks on keys, held from a write or a read for update until the transaction ends.
    Pessimistic,
    /// With a check at the commit, which fails if another transaction has changed the keys.
    Optimistic,
}

impl Isolation {
    /// All levels, from weakest to strongest.
    pub const ALL: [Isolation; 3] =
        [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

    /// Returns the name of the level, as [`Isolation::from_str`] parses it.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read-committed",
            Isolation::Snapshot => "snapshot",
            Isolation::Serializable => "serializable",
        }
    }
}

impl std::fmt::Display for Isolation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Isolation {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Isolation::ALL.into_iter().find(|level| level.name() == name).ok_or_else(|| {
            let names = Isolation::ALL.map(Isolation::name).join(", ");
            Error::InvalidSetting {
                setting: "isolation",
                value: name.to_owned(),
                reason: format!("the levels are {names}"),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_read_by_its_name_and_no_other() {
        for level in Isolation::ALL {
            assert_eq!(level.to_string().parse::<Isolation>().unwrap(), level);
        }
        let refused = "repeatable-read".parse::<Isolation>().unwrap_err().to_string();
        assert!(refused.contains("repeatable-read") && refused.contains("snapshot"), "{refused}");
    }
}
