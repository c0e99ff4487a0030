//! The MemTable that is its own log: a segment of frames, and an index over it.
//!
//! A write batch is copied once, into its frame in a [segment]; those bytes are what the
//! log file gets and what readers read. In addition there are small structures in DRAM that only point
//! into the segment: a hash from key to newest version with chains to the older ones, and an
//! order, sorted off the write path, for cursors and flushes.
//!
//! * [`frame`]: the bytes of segments and frames; [`log_reader`]: reading them back after a crash;
//!   [`frame_walk`]: reading them one by one.
//! * [`segment`]: memory, reservation, filling, and what is complete.
//! * `hash_index`: the hash. `sorted_index`: the sorted runs. `range_tombstones`: the range deletes.
//! * [`memtable`]: all of it as one [`MemTable`]; [`cursor`]: its versions in order.
//!
//! Where a write goes: `reserve` (under the committer's lock) → `fill` (in parallel) → made durable
//! by the caller → `insert` → made visible by the caller, by raising the seqno that readers pass in.

#![deny(unsafe_code)]

pub mod cursor;
pub mod dram_table;
pub mod frame;
pub mod frame_walk;
#[allow(unsafe_code)]
mod hash_index;
pub mod log_reader;
mod loom_shim;
pub mod memtable;
mod range_tombstones;
#[allow(unsafe_code)]
pub mod segment;
mod sorted_index;
mod sorted_run;

pub use cursor::MemTableCursor;
pub use dram_table::{DramTable, DramTableStats, Forwarding, Hit};
pub use frame::{
    FRAME_HEADER_BYTES, GROUPS, SEGMENT_HEADER_BYTES, SEGMENT_VERSION, SegmentHeader, ZEROS_BEYOND,
};
pub use frame_walk::{frame_at, peek_frame};
pub use log_reader::{FrameInfo, FramesPastGap, ScanEnd, ScanResult, scan};
pub use memtable::{FoundVersion, LookupOutcome, MemTable, RecycledArrays};
pub use segment::{
    FrameMode, HeapMemory, LogPosition, Memory, Reservation, Room, SegmentWriter, Written,
    WrittenFrame,
};
