//! Ingest: tables that a caller fills in key order become visible at once, at a seqno of their own.
//!
//! ```text
//!  writer ─► NNNNNNNN.ingest ─► synced ─► renamed to NNNNNNNN.tables
//!                                                │
//!  flush what there is ─► take the seqno S ─► flush what came meanwhile ─► one edit ─► S is visible
//! ```
//!
//! `docs/internals/ingest.md` has the argument why readers see the ingest whole and in order.
//!
//! Invariants:
//! 1. Every write below S is in tables before the edit, and every write above S is in MemTables that
//!    no flush takes before S is visible. So the order of runs is the order of seqnos.
//! 2. S is visible only after the edit is durable and installed. A view that lacks the tables ends
//!    before S (`SuperVersion::ingesting`).
//! 3. No compaction takes the tables before S is visible: it could drop what readers below S need.
//! 4. Known-empty ranges are cut, and the DRAMTable's entries below S are invalid, before S is
//!    visible.
//! 5. A file has its final name only from shortly before the edit. An open removes files with the
//!    other name, because no edit has ever named one.

mod bulk_loader;
mod files;
mod install;
pub(crate) mod large_values;
mod placement;
mod sort_buffer;
mod sorted_writer;
mod write_behind;

pub use bulk_loader::BulkLoader;
pub(crate) use sorted_writer::ingest_all;
pub use sorted_writer::{Ingested, SortedWriter};
