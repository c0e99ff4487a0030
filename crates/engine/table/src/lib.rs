//! Tables: immutable files of sorted versions, the engine's resting place for data.
//!
//! A [`TableWriter`] takes versions in order and appends one table to a file; a [`Table`] answers
//! gets and cursors from it. Blocks are read through one [`BlockCache`]. `docs/formats/table.md` describes
//! the bytes; the constants of that page are in [`mod@format`].
//!
//! Where a get goes: filter → index → one data block (cache, else one read). Filter and index of a small table
//! are in memory; those of a large one are in parts, of which the cache has those that are used.

#![forbid(unsafe_code)]

mod block;
mod block_builder;
mod block_cursor;
mod block_fetcher;
mod block_index;
mod block_key;
mod block_scan;
mod block_slots;
mod cache;
mod compression;
mod doorkeeper;
mod filter;
pub mod format;
mod index;
mod index_builder;
mod lent_versions;
mod part_cache;
mod parts;
mod parts_builder;
mod properties;
mod range_del_block;
mod read_ahead;
mod reader;
mod salvage;
pub mod sketch;
mod table_index;
mod table_iter;
mod verify;
mod wide_lookup;
mod writer;

pub use block_scan::{BlockScan, ScanEnd};
pub use cache::BlockCache;
pub use compression::{Compression, ValueCompressor, decompress};
pub use filter::{FILTER_PLACES_PER_KEY, FINGERPRINT_BITS_MAX, WRITER_BYTES_AN_ENTRY};
pub use index::head;
pub use lent_versions::LentVersions;
pub use parts::PartLimits;
pub use properties::{Expiring, Origin, Properties, ValueFileUse};
pub use read_ahead::COMPACTION_READ_BYTES;
pub use reader::{BlockReadStats, Found, Table};
pub use salvage::{
    LostKeys, SalvageCursor, SalvagedTable, extents_in, freeable, has_magic_at_end, is_freed,
    tables_in,
};
pub use sketch::{ByteShare, Hll, OverlapEstimator, Sketches, TableSample, ThetaSample};
pub use table_index::Patience;
pub use table_iter::{PinnedValue, ReadPurpose, TableIter};
pub use wide_lookup::WideLookup;
pub use writer::{TableInfo, TableOptions, TableWriter};
