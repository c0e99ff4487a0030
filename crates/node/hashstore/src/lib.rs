//! A hash store: keys and values in a file or on a block device, found by an index in DRAM, written in place of
//! nothing, and acknowledged when they survive power loss.
//!
//! ```text
//!   key ──hash──► partition ──► directory (DRAM): key → extents        one write of header, key and value
//!                                                                      into free blocks, one sync for all
//!                                                                      that wait; then the directory changes
//! ```
//!
//! A get is one read, a put one write and its share of a sync, a delete a write of one block. There is no
//! compaction: freed blocks are used again. [`partition`] says how, and why a crash loses nothing and
//! brings nothing back; `docs/formats/hashstore.md` has the bytes.
//!
//! | module | what it holds |
//! |---|---|
//! | [`partition`] | one partition as a state machine without I/O: what a storage node's reactor runs |
//! | `keydir` | the index: an ordered hash table, 27 to 34 bytes a key of up to 16 bytes |
//! | `extent` | runs of blocks and sets of them |
//! | `format` | superblock, records, journal: bytes |
//! | `recover` | from the device to a partition |
//! | [`store_file`] | making and opening a store, one call at a time |
//! | [`check`] | looking a store over: check and scrub |
//! | [`repair`] | keeping what is sound of a damaged store |
//! | [`HashStore`] | all of it behind [`esker_api::Kv`], with threads |
//!
//! Keys that begin alike in their hash share a partition, and a partition's region is all the space they
//! have: of few large values one region may be full a few percent before the others.

#![forbid(unsafe_code)]

pub mod check;
pub mod device;
mod extent;
mod format;
#[doc(hidden)]
pub mod fuzz_corruption;
mod keydir;
mod lock_owner;
pub mod partition;
mod recover;
pub mod repair;
mod stats;
mod store;
pub mod store_file;
mod unreadable;
mod worker;

pub use format::superblock::{Layout, PARTITIONS_MAX};
pub use recover::DamagedWrite;
pub use stats::PartitionStats;
pub use store::HashStore;
pub use store_file::{CreateSettings, Opened};
pub use unreadable::Unreadable;
