//! A table that a repair could not keep as it was.

use esker_table::LostKeys;

/// A table that could not be kept as it was.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DroppedTable {
    /// The file of the table.
    pub file: String,
    /// What is wrong with it.
    pub error: String,
    /// The smallest key that it may have held.
    pub smallest: Vec<u8>,
    /// The largest key that it may have held.
    pub largest: Vec<u8>,
    /// The number of its versions that a new table keeps.
    pub kept: u64,
    /// The ranges of keys in which versions are lost, if some versions are kept.
    ///
    /// An older version of such a key, or a deleted one, may reappear.
    pub lost_keys: Vec<LostKeys>,
    /// Whether its range deletes are lost, so that entries that they had deleted may reappear.
    pub lost_range_deletes: bool,
}
