//! Counters and sizes.

/// What a partition, or with [`PartitionStats::add`] a store, has and has done since it was opened.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PartitionStats {
    /// Keys.
    pub keys: u64,
    /// Memory that the directory takes, in bytes.
    pub index_bytes: u64,
    /// Space for records, in bytes.
    pub data_bytes: u64,
    /// Of that, what holds nothing that is needed.
    pub unused_bytes: u64,
    /// Stores and deletes that were acknowledged.
    pub changes: u64,
    /// Values read.
    pub reads: u64,
    /// Bytes of keys and values that were stored.
    pub stored_bytes: u64,
    /// Bytes written to the device, for whatever purpose.
    pub written_bytes: u64,
    /// Of those, to the journal.
    pub journal_bytes: u64,
    /// Syncs of the device.
    pub syncs: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Of those, whole snapshots.
    pub snapshots: u64,
}

impl PartitionStats {
    /// Adds another partition's.
    pub fn add(&mut self, other: &PartitionStats) {
        let PartitionStats {
            keys,
            index_bytes,
            data_bytes,
            unused_bytes,
            changes,
            reads,
            stored_bytes,
            written_bytes,
            journal_bytes,
            syncs,
            checkpoints,
            snapshots,
        } = other;
        self.keys += keys;
        self.index_bytes += index_bytes;
        self.data_bytes += data_bytes;
        self.unused_bytes += unused_bytes;
        self.changes += changes;
        self.reads += reads;
        self.stored_bytes += stored_bytes;
        self.written_bytes += written_bytes;
        self.journal_bytes += journal_bytes;
        self.syncs += syncs;
        self.checkpoints += checkpoints;
        self.snapshots += snapshots;
    }

    /// Memory that a key's entry takes, in bytes.
    pub fn index_bytes_a_key(&self) -> f64 {
        self.index_bytes as f64 / self.keys.max(1) as f64
    }

    /// Bytes written to the device for a byte stored.
    pub fn written_a_stored_byte(&self) -> f64 {
        self.written_bytes as f64 / self.stored_bytes.max(1) as f64
    }
}
