//! The MemTable that is its own log: a segment of frames, and an index over it.
//!
//! A write batch is copied once, into its frame in a [segment]; those bytes are what the
//! log file gets and what readers read. Beside them stand small structures in DRAM that only point
//! into the segment: a hash from key to newest version with chains to the older ones, and an
//! order, sorted off the write path, for cursors and flushes.
//!
//! * [`frame`]: the bytes of segments and frames; [`scan`](mod@scan): reading them back after a crash.
//! * [`segment`]: memory, reservation, filling, and what is complete.
//! * `index`: the hash. `order`: the sorted runs. `tombstones`: the range deletes.
//! * [`memtable`]: all of it as one [`MemTable`]; [`cursor`]: its versions in order.
//!
//! Where a write goes: `reserve` (under the committer's lock) → `fill` (in parallel) → made durable
//! by the caller → `insert` → made visible by the caller, by raising the seqno that readers pass in.

#![deny(unsafe_code)]

pub mod cursor;
pub mod dram_table;
pub mod frame;
#[allow(unsafe_code)]
mod index;
pub mod memtable;
mod order;
mod part;
pub mod scan;
#[allow(unsafe_code)]
pub mod segment;
mod sync;
mod tombstones;

pub use cursor::MemTableCursor;
pub use dram_table::{DramTable, DramTableStats, Forwarding, Hit};
pub use frame::{
    FRAME_HEADER_BYTES, GROUPS, SEGMENT_HEADER_BYTES, SEGMENT_VERSION, SegmentHeader, ZEROS_BEYOND,
};
pub use memtable::{Arrays, Found, MemTable, Met};
pub use scan::{FrameInfo, Later, Scan, Stop, scan};
pub use segment::{Filled, Frames, HeapMemory, Memory, Position, Reservation, Room, Tail, Written};
