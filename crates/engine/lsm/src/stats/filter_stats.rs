//! What compaction filters did.

/// What compaction filters did since the database was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FilterStats {
    /// Entries that filters dropped.
    pub dropped: u64,
    /// Entries whose value filters replaced.
    pub replaced: u64,
    /// Entries that stayed because a filter failed.
    pub failed: u64,
    /// Compactions that ran again without the filter, because a snapshot was taken that could have
    /// seen the change.
    pub repeated: u64,
    /// The names of the keyspaces whose filter this open was not given. Compaction drops nothing
    /// there that readers see.
    pub missing: Vec<String>,
}
