//! The change feed: committed batches in the order of their seqnos, for readers inside and outside of
//! the process.
//!
//! * `changes` is the reader; `batch` is what it yields.
//! * `frames` copies frames out of MemTables, and out of logs that are kept after their flush.
//! * `consumer` registers names. What is registered keeps logs: `history` decides which.
//! * `received` checks frames that another process sent.
//! * `shipping` yields the bytes of the log, for copies that are kept elsewhere.
//! * `keyspace_notes` notes which keyspaces are created and dropped.
//!
//! A reader takes no lock of a writer, and a writer waits for no reader. Logs are let go by the bound of
//! a consumer alone: then the reader fails with [`ChangesError::Gone`](esker_base::ChangesError::Gone).

pub(crate) mod batch;
pub(crate) mod changes;
pub(crate) mod consumer;
mod frames;
pub(crate) mod keyspace_notes;
pub(crate) mod received;
pub(crate) mod shipping;

pub use frames::LogPiece;
pub(crate) use frames::oldest;
