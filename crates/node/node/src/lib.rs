//! What joins a storage node's parts, which do not know each other: a hash store as a namespace that lives inside a
//! target's reactors.
//!
//! ```text
//!   connection ──Request──► the reactor that owns the key's partition ──► Partition ──► its ring: direct writes, gathered,
//!   connection ◄──Answer──  (by message, if it is another)            ◄──           ◄── one fdatasync for all that wait
//! ```

#![forbid(unsafe_code)]

mod hash_keys;
mod reactor_partitions;
mod write_coalescer;

pub use hash_keys::{HashFigures, HashKeys};
