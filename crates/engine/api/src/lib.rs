//! The traits of key-value stores. Esker and its peers implement them, so that one workload drives
//! all.
//!
//! * [`Kv`]: get, put, delete, atomic batches. Hash stores implement it.
//! * [`Ordered`]: cursors over ranges, snapshots, range deletes.
//! * [`Keyspaces`]: a whole store, as a base for transactions.
//! * [`CompactionFilter`]: what compaction drops or replaces.
//! * [`MergeOperator`]: how the operands of merges change a value.
//! * [`Transactional`]: begin, read, write, commit, over all keyspaces of a store.
//!
//! A value of the first two is one keyspace of a store.

#![forbid(unsafe_code)]

mod batch;
mod filter;
mod handle;
mod keyspaces;
mod kv;
mod merge;
mod ordered;
mod transactional;
mod value;

pub use batch::{BatchMark, WriteBatch};
pub use filter::{CompactionFilter, FilterDecision, FilterError};
pub use handle::{KeyspaceRef, StoreId, foreign};
pub use keyspaces::{BatchLimits, Keyspaces};
pub use kv::Kv;
pub use merge::{
    AddI64, Append, HyperLogLog, Max, MergeError, MergeOperator, Min, SetUnion, built_in_operators,
    decode_i64, distinct_estimate, set_elements, set_of, sketch_of,
};
pub use ordered::{Cursor, KeyRange, Ordered, Snapshot};
pub use transactional::{Concurrency, Isolation, Transaction, TransactionOptions, Transactional};
pub use value::Value;
