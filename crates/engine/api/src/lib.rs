//! What a key-value store offers, whoever made it: the traits that Esker and its peers implement,
//! so that one workload drives them all.
//!
//! * [`Kv`]: get, put, delete, atomic batches. A hash store can do this.
//! * [`Ordered`]: cursors over ranges, snapshots, range deletes.
//! * [`Keyspaces`]: a whole store that transactions can be built on.
//! * [`Transactional`]: begin, read, write, commit, over all keyspaces of a store.
//!
//! A value of the first two is one keyspace of a store.

#![forbid(unsafe_code)]

mod batch;
mod handle;
mod keyspaces;
mod kv;
mod ordered;
mod transactional;
mod value;

pub use batch::{BatchMark, WriteBatch};
pub use handle::{KeyspaceRef, StoreId, foreign};
pub use keyspaces::{BatchLimits, Keyspaces};
pub use kv::Kv;
pub use ordered::{Cursor, KeyRange, Ordered, Snapshot};
pub use transactional::{Concurrency, Isolation, Transaction, TransactionOptions, Transactional};
pub use value::Value;
