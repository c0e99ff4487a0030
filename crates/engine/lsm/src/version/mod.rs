//! A version: the immutable set of tables that reads see in addition to the MemTables.
//!
//! ```text
//! Version ─ keyspace ─┬─ level 0:  run 19 │ run 17 │ run 12      newest run first
//!                     ├─ level 1:  run 9: [table a..f][table g..m][table n..z]
//!                     └─ level 2:  run 4: […][…][…][…][…]
//! ```
//!
//! * A **run** is a set of tables with disjoint key ranges, in key order. Its ID orders it by age:
//!   for any key, a run with a higher ID has newer versions than one with a lower ID on the same or
//!   a deeper level. A flush creates a new run in level 0. A compaction's output takes the newest
//!   ID of its inputs, or the ID of the run that it joins: under a space-amplification limit the
//!   oldest one's.
//! * A **level** is a list of runs, newest first. For each key, level 0's data is newer than level
//!   1's, and so on.
//! * Leveled is one run per level below level 0, tiered is several: one structure, one reader.
//!
//! A version never changes. A [`VersionEdit`](crate::manifest::version_edit::VersionEdit) makes a new one from
//! an old one.

pub mod aging;
pub mod dates;
pub mod derived;
mod expired_tables;
pub(crate) mod fence_pointers;
pub mod key_bounds;
mod keyspace_version;
mod read_mark;
pub(crate) mod readers;
mod run;
mod table_handle;
pub mod table_lifetimes;
pub(crate) mod unreadable;
mod value_files;

pub use keyspace_version::{KeyspaceVersion, Version};
pub use run::{LEVELS, Level, Run};
pub(crate) use table_handle::{
    Remains, TableExtent, parse_unsettled_file_name, unsettled_file_name,
};
pub use table_handle::{
    TableFile, TableHandle, TableId, TableMeta, TableSummary, ingest_file_name,
    parse_ingest_file_name, parse_table_file_name, table_file_name,
};
pub use value_files::{
    ListedValueFile, ValueFile, ValueFileMeta, ValueFiles, parse_value_file_name, value_file_name,
};
pub(crate) use value_files::{
    ValueSums, blocks, describe_value_file, large_value_header, value_checksum, value_file_header,
};

/// The ID in the name of a file that holds tables or values.
pub(crate) fn parse_data_file_name(name: &str) -> Option<u64> {
    parse_table_file_name(name).or_else(|| parse_value_file_name(name))
}
