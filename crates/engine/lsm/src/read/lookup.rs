//! What a point read looks for.

use crate::version::aging::Expired;
use crate::version::readers::super_version::SuperVersion;
use esker_base::{KeyspaceId, Seqno, hash64};

/// Whether a read may wait for the device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadTier {
    MayBlock,
    MemoryOnly,
}

/// A key that is looked up at a point in time.
#[derive(Clone, Copy)]
pub(super) struct LookupKey<'a> {
    pub(super) keyspace: KeyspaceId,
    pub(super) key: &'a [u8],
    pub(super) hash: u64,
    pub(super) snapshot: Seqno,
    /// What of the keyspace has expired.
    pub(super) expired: Expired,
}

impl<'a> LookupKey<'a> {
    /// The stored `key` at `snapshot`, or at the end of the view if that is earlier.
    #[inline]
    pub(super) fn new(
        view: &SuperVersion,
        keyspace: KeyspaceId,
        key: &'a [u8],
        snapshot: Seqno,
    ) -> Self {
        // R1: a MemTable that was begun after the view was pinned is not in it, and may have left since.
        let snapshot = snapshot.min(view.last_seqno());
        let expired = Expired::default();
        LookupKey { keyspace, key, hash: hash64(key), snapshot, expired }
    }

    /// The same in a keyspace of which that has expired.
    #[inline]
    pub(super) fn of_aging(self, expired: Expired) -> Self {
        LookupKey { expired, ..self }
    }

    pub(super) fn key(&self) -> &'a [u8] {
        self.key
    }

    pub(super) fn snapshot(&self) -> Seqno {
        self.snapshot
    }
}
