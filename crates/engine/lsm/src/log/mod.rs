//! The write-ahead log: where segments are stored, and how they are read again.
//!
//! `segment_provider` creates, recycles and retires segments: `wal_files` in a directory,
//! `pmem_wal` in a pool of persistent memory. `wal_reader` reads them at an open; `torn_tail`
//! reports a log that ends with an invalid frame. `ingest_mark` is what a log has of an ingest.
//!
//! A log is removed only after all of its writes are in tables that the manifest lists.

pub(crate) mod ingest_mark;
pub(crate) mod pmem_wal;
pub(crate) mod segment_provider;
pub(crate) mod torn_tail;
pub(crate) mod wal_files;
pub(crate) mod wal_reader;

/// What to do about logs that are lost.
const IF_LOST: &str = "if they are lost, `esker repair DB --give-up-logs`, with neither \
     `--pool` nor `--log-dir`, goes on with what is in tables, and then another can be given";
