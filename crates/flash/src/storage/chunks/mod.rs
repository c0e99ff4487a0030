//! The chunks of the device: who writes which one next, what is alive in it, and how often it was reset.
//!
//! What must hold:
//!
//! * a chunk has one writer at a time, and is written from its start to its end between two resets;
//! * a chunk is free only when no file has a piece in it. It is reset when the edit that removed the last one is
//!   durable;
//! * no access frequency and no count of resets decides what is read, so an estimate may be wrong.

pub(super) mod chunk_table;
pub(super) mod erase_counts;
pub(super) mod read_heat;
