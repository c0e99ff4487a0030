//! Transactions over a store of ordered keyspaces: pessimistic, by locks on keys, and optimistic, by a
//! test at the commit.
//!
//! A transaction keeps its writes to itself, as one batch, until it commits; so no reader ever sees what
//! is not committed, and a commit is one atomic write to the store.
//!
//! * [`TransactionManager`] is what transactions over one store share. `esker_lsm::Db` has one.
//! * [`TransactionDb`] wraps any store; [`begin`](esker_api::Transactional::begin) starts a transaction.
//! * `transaction`: what a transaction does between its begin and its end.
//! * `write_set`: its own writes, and how they are found again; `cursor` merges them with the store's.
//! * [`StoreBatch`]: a batch that reads its own writes; it is no transaction.
//! * `locks`: who holds which key, who waits for it, and deadlocks.
//! * `read_set`, `commit`, `committing`: the test at the commit.
//! * `prepared`: two-phase commit.
//!
//! # The snapshot
//!
//! Under snapshot isolation and above, all reads see one snapshot: that of the first read. A transaction
//! that has not read yet has no snapshot, so one that only writes never conflicts with what was committed
//! before it got its locks.
//!
//! # What keeps two transactions from overwriting each other
//!
//! A key is locked from before the test whether it has changed since the snapshot until after the write
//! is visible in the store: pessimistic transactions lock it when they write it, optimistic ones at
//! their commit. So of two transactions that overlap and write one key, the second to get the lock sees
//! the write of the first, and fails with [`Error::Conflict`](esker_base::Error::Conflict).
//!
//! The guarantees of each level, and the tests that show them, are in `docs/guide/transactions.md`.

#![forbid(unsafe_code)]

mod commit;
mod committing;
mod cursor;
mod db;
mod deleted_ranges;
mod indexed_batch;
mod locks;
mod manager;
mod prepared;
mod read_set;
mod transaction;
mod write_set;

pub use db::TransactionDb;
pub use indexed_batch::StoreBatch;
pub use manager::{LockStats, TransactionManager};
pub use prepared::{MAX_ID_BYTES, PreparedTransaction};
pub use transaction::StoreTransaction;
