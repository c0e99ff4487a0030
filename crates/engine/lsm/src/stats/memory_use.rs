/// How the memory of a database is used now, in bytes.
///
/// The system reports more for the process: the program, stacks, and what the allocator keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MemoryUse {
    /// MemTables with their indexes: the active one, immutable ones, those that are prepared, and one
    /// that is kept to be used again. Of persistent memory, only the indexes.
    pub memtables: u64,
    /// Indexes, filters and range tombstones that open tables keep.
    pub tables: u64,
    /// Blocks of this database in the block cache, and parts of its indexes and filters.
    pub cache: u64,
    /// The DRAMTable.
    pub dram_table: u64,
    /// Buffers of reads of many ranges and of read-ahead.
    pub read_buffers: u64,
    /// What cursors, flushes and compactions hold while they last. An estimate.
    pub transient: u64,
}

impl MemoryUse {
    /// Returns the sum.
    #[must_use]
    pub fn sum(&self) -> u64 {
        let MemoryUse { memtables, tables, cache, dram_table, read_buffers, transient } = *self;
        memtables + tables + cache + dram_table + read_buffers + transient
    }
}
