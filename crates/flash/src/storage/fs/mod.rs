//! The storage that users of the crate see: files by name on a flash device.
//!
//! A file is appended to by one writer (`writer`), which takes chunks from the device and gives them back. A log
//! (`log_file`) has its own chunks from the start, so that a write of it needs no free chunk.
//!
//! What must hold:
//!
//! * a change of a name is in the journal before the call returns, and durable after `sync_names`;
//! * a file's bytes are durable after its sync, and its pieces are then in the journal.

mod flash_storage;
#[cfg(test)]
mod lifetime_separation_test;
mod log_file;
mod usage;
mod writer;

pub use flash_storage::FlashStorage;
pub use usage::Usage;
