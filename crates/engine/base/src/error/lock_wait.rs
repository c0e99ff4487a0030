//! Waits for locks, as a deadlock reports them.

/// A transaction that waited for a lock: see `Error::Deadlock`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LockWait {
    /// The transaction, as `Transaction::id` returns it.
    pub transaction: u64,
    /// The key that it waited for, with unprintable bytes escaped. Empty for a range of keys.
    pub key: String,
}

impl LockWait {
    /// Returns the wait of `transaction` for `key`.
    pub fn new(transaction: u64, key: String) -> Self {
        LockWait { transaction, key }
    }
}
