//! What a volatile cache has that a crash may take back.

use super::Partition;

/// Which writes were acknowledged before they were safe. Without a cache there are none.
#[derive(Debug, Default)]
pub(super) struct Cache {
    is_on: bool,
    /// The oldest write that was acknowledged, and that no sync covers yet.
    unsynced: Option<u64>,
    /// The oldest of those that the sync under way covers.
    covered: Option<u64>,
    /// A sync is under way that makes all acknowledged writes safe, so that a checkpoint may follow: meanwhile nothing is
    /// acknowledged without a sync.
    is_cleaning: bool,
}

impl Partition {
    /// From now on stores and deletes are acknowledged when they are written: a sync of the device makes them safe.
    pub fn with_volatile_cache(mut self) -> Self {
        self.cache.is_on = true;
        self
    }
}

impl Cache {
    /// Whether a record that is written is acknowledged at once; it is taken note of then.
    pub(super) fn takes(&mut self, seqno: u64) -> bool {
        let takes = self.is_on && !self.is_cleaning;
        if takes {
            self.unsynced = Some(self.unsynced.map_or(seqno, |oldest| oldest.min(seqno)));
        }
        takes
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether all that was acknowledged is safe.
    pub(super) fn is_clean(&self) -> bool {
        self.unsynced.is_none() && self.covered.is_none()
    }

    /// Whether a sync is needed for that.
    pub(super) fn is_dirty(&self) -> bool {
        self.unsynced.is_some()
    }

    pub(super) fn sync_begins(&mut self, cleans: bool) {
        self.covered = self.unsynced.take();
        self.is_cleaning = cleans;
    }

    pub(super) fn sync_ended(&mut self) {
        self.covered = None;
        self.is_cleaning = false;
    }

    /// The oldest write that was acknowledged and is not known to be safe.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.covered.into_iter().chain(self.unsynced).min()
    }
}
