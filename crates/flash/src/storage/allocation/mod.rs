//! Gives chunks to writers: the state that all handles share, under one lock, and what makes chunks free.
//!
//! What must hold:
//!
//! * the lock is not held during data I/O, except by garbage collection for a caller that waits for its chunk;
//! * flushes of all logs find free chunks: tables of deeper levels leave them;
//! * data that is moved (`gc`, `wear_leveling`) is durable at its new place before the journal names that, and its old
//!   chunk is reset only when that edit is durable;
//! * no more chunks are partially written than the device allows (`active_zones`).

pub(super) mod active_zones;
mod gc;
pub(super) mod shared_device;
mod wear_leveling;
