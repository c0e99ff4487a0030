//! When the index and the filter of a table are cut into parts.

use esker_table::PartLimits;

/// Indexes and filters stay whole while all tables have at most so many times the bytes of the block
/// cache. In a table with parts, a get from memory was 12% to 61% slower for a present key, and took twice
/// the time for an absent one (`crates/engine/table/examples/table_speed.rs`: two searches instead of one,
/// and more cache misses). So a database whose data is in memory has none. At this size, whole ones take about a twentieth of the
/// cache, and a get that reads the device does not notice the difference.
const WHOLE_UP_TO_CACHES: u64 = 2;

/// For tests: limits that a database of a few tables never reaches otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableLimits {
    /// When the index and the filter of a table are cut into parts. `None`: as the engine chooses.
    pub parts: Option<PartLimits>,
    /// The most that the block cache takes, whatever the memory budget leaves it.
    pub cache_bytes_max: usize,
}

impl Default for TableLimits {
    fn default() -> Self {
        TableLimits { parts: None, cache_bytes_max: usize::MAX }
    }
}

impl TableLimits {
    /// When a table has parts that is written while tables have so many bytes and the block cache may take so many.
    pub(crate) fn parts(&self, table_bytes: u64, cache_bytes: u64) -> PartLimits {
        let limits = PartLimits::default();
        self.parts.unwrap_or(match table_bytes / WHOLE_UP_TO_CACHES <= cache_bytes {
            true => PartLimits { whole_bytes_max: usize::MAX, ..limits },
            false => limits,
        })
    }
}
