//! What a volatile cache has that a crash may take back.
//!
//! Also space in the journal: an entry that a change takes away, or makes shorter, may be there again after a crash, in addition to those that
//! were stored since. So its bytes are free when a sync has made that change safe.

/// Which writes were acknowledged before they were safe. Without a cache there are none.
#[derive(Debug, Default)]
pub(super) struct UnflushedWrites {
    is_on: bool,
    /// The oldest write that was acknowledged, and that no sync covers yet.
    unsynced: Option<u64>,
    /// The oldest of those that the sync in progress covers.
    covered: Option<u64>,
    /// Bytes of entries that are free when `unsynced` is safe, and when `covered` is.
    unsynced_entry_bytes: u64,
    covered_entry_bytes: u64,
}

impl UnflushedWrites {
    /// Whether a record that is written is acknowledged at once; it is taken note of then.
    pub(super) fn takes(&mut self, seqno: u64) -> bool {
        if self.is_on {
            self.unsynced = Some(self.unsynced.map_or(seqno, |oldest| oldest.min(seqno)));
        }
        self.is_on
    }

    /// From now on writes are acknowledged before they are safe.
    pub(super) fn switch_on(&mut self) {
        self.is_on = true;
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether all that was acknowledged is safe.
    pub(super) fn is_clean(&self) -> bool {
        self.unsynced.is_none() && self.covered.is_none()
    }

    /// An entry became shorter, or is gone. Says how many of its bytes are free now.
    pub(super) fn frees(&mut self, entry_bytes: u64) -> u64 {
        if !self.is_on {
            return entry_bytes;
        }
        self.unsynced_entry_bytes += entry_bytes;
        0
    }

    /// The bytes of entries that a sync would make free.
    pub(super) fn unsafe_entry_bytes(&self) -> u64 {
        self.unsynced_entry_bytes + self.covered_entry_bytes
    }

    pub(super) fn sync_begins(&mut self) {
        self.covered = self.unsynced.take();
        self.covered_entry_bytes = std::mem::take(&mut self.unsynced_entry_bytes);
    }

    /// Says how many bytes of entries are free now.
    pub(super) fn sync_ended(&mut self) -> u64 {
        self.covered = None;
        std::mem::take(&mut self.covered_entry_bytes)
    }

    /// The oldest write that was acknowledged and is not known to be safe.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.covered.into_iter().chain(self.unsynced).min()
    }
}
