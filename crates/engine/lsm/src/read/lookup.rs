//! What a point read looks for.

use crate::version::aging::Expired;
use crate::version::readers::super_version::SuperVersion;
use esker_base::{KeyspaceId, Result, Seqno, hash64};
use esker_table::{BlockReadStats, Found, Patience, Table, WideLookup};
use std::sync::Arc;

/// Whether a read may wait for the device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadTier {
    MayBlock,
    MemoryOnly,
}

impl ReadTier {
    /// The same for a table.
    #[inline]
    pub(super) fn patience(self) -> Patience {
        match self {
            ReadTier::MayBlock => Patience::MayRead,
            ReadTier::MemoryOnly => Patience::FromMemory,
        }
    }
}

/// How a table is asked for a key.
pub(super) trait TableLookup {
    /// See [`Table::may_contain`].
    fn may_contain(&mut self, table: &Arc<Table>, sought: LookupKey<'_>) -> Result<bool>;

    /// See [`Table::find`].
    fn find(
        &mut self,
        table: &Arc<Table>,
        sought: LookupKey<'_>,
        loaded: &mut BlockReadStats,
    ) -> Result<Option<Found>>;
}

impl TableLookup for ReadTier {
    #[inline]
    fn may_contain(&mut self, table: &Arc<Table>, sought: LookupKey<'_>) -> Result<bool> {
        table.may_contain(sought.key, sought.hash, sought.snapshot, self.patience())
    }

    #[inline]
    fn find(
        &mut self,
        table: &Arc<Table>,
        sought: LookupKey<'_>,
        loaded: &mut BlockReadStats,
    ) -> Result<Option<Found>> {
        match self {
            ReadTier::MayBlock => table.find(sought.key, sought.snapshot, loaded),
            ReadTier::MemoryOnly => table.try_find(sought.key, sought.snapshot),
        }
    }
}

impl TableLookup for WideLookup {
    fn may_contain(&mut self, table: &Arc<Table>, sought: LookupKey<'_>) -> Result<bool> {
        WideLookup::may_contain(self, table, sought.key, sought.hash, sought.snapshot)
    }

    fn find(
        &mut self,
        table: &Arc<Table>,
        sought: LookupKey<'_>,
        loaded: &mut BlockReadStats,
    ) -> Result<Option<Found>> {
        WideLookup::find(self, table, sought.key, sought.snapshot, loaded)
    }
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
