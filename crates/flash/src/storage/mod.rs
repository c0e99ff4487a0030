//! Files on a flash device that the engine manages itself, without a file system or a translation
//! layer.
//!
//! ```text
//!   name ──► file ──► pieces: contiguous bytes of one chunk ──► chunks of units
//!    │                                                          │
//!    └── journal: the names and pieces, on the device           └── chunk table: who writes which chunk next
//! ```
//!
//! Files with similar lifetimes, as given by their hints, share chunks. When files are removed, whole chunks become
//! free. Data is moved only in two cases, both counted: when no chunk is free, and occasionally for wear leveling.
//! Nothing is cached here: a caller that reads the same bytes again caches them itself.
//!
//! A module uses only modules above it:
//!
//! * `lifetimes`: which files share chunks, and when their units are no longer written;
//! * `format`: the bytes on the device, described in `docs/formats/flash.md`;
//! * `chunks`: the use and the wear of every chunk;
//! * `files`: the pieces of files, and the records of logs;
//! * `journal`: edits and snapshots of the directory, and how an open finds them;
//! * `allocation`: chunks for writers, garbage collection, wear leveling;
//! * `recovery`: inspection and repair;
//! * `fs`: the storage, its writers and logs.

mod allocation;
mod chunks;
mod files;
mod format;
mod fs;
mod journal;
mod lifetimes;
mod recovery;

pub use crate::placement::LIFETIMES;
pub use chunks::chunk_table::EraseCounts;
pub(crate) use format::{JOURNAL_CHUNKS, geometry_in};
pub use fs::{FlashStorage, Usage};
pub(crate) use journal::found::from_the_oldest;
pub use journal::replay::LostFile;
pub use recovery::content::{Content, look};
pub use recovery::repair::{RepairReport, repair};
