//! The DRAMTable: a read table in DRAM, of versions that readers asked for.
//!
//! It outlives flush and compaction, and is never itself flushed or compacted: each entry is a copy
//! of the newest version of a key among those that have left the MemTables, or of one still in
//! them. Bounded in bytes, sharded by hash, evicted by S3-FIFO (`s3_fifo.rs`).
//!
//! # Protocol
//!
//! A reader has a *view* (some MemTables, and the tables that hold everything older) and a
//! *snapshot*: a seqno up to which the view is complete. It looks into the MemTables' index first.
//! If the key is there at seqno `s`, [`get_exact`](DramTable::get_exact) may have a copy of that
//! version, and otherwise its bytes are in the segment. If the key is in none of the view's
//! MemTables, [`get`](DramTable::get) is asked, and then the tables, whose answer may
//! [`fill`](DramTable::fill) the table. So an entry is never hidden from, only superseded by, a newer
//! version in a MemTable, and a put need not touch the table.
//!
//! An entry has a seqno, and a mark `as_of` at or above it, and says: *among all writes up to
//! `as_of`, range deletes included, this version is what its key is.*
//!
//! Callers keep four rules:
//!
//! * **R1.** A reader's snapshot is at most what its view is complete to. A view pinned before a
//!   MemTable was begun lacks that one's entries, and a seqno loaded later may be beyond them: the
//!   reader must lower it to the last seqno of its view's newest MemTable (to what is flushed, if
//!   the view has none).
//! * **R2.** Before a MemTable leaves the view, each of its keys is [passed](DramTable::pass) with
//!   its newest seqno there, and for each keyspace with range deletes there the
//!   [floor is raised](DramTable::raise_invalidation_floor) to the newest of them. MemTables leave oldest first.
//! * **R3.** A fill is a value that the reader is about to return: found at its snapshot, and not
//!   range-deleted at that snapshot, the MemTables' range deletes included. Its seqno is the version's,
//!   or, if a merge has forgotten that, one by which it was written.
//! * **R4.** Range deletes in the view's MemTables are applied to hits as to tables' versions.
//!
//! # Why no reader gets a wrong version
//!
//! Let a reader with snapshot `e`, who met `k` in none of its view's MemTables, be served (`k`, `q`).
//!
//! 1. `q` ≤ `e`: checked. So it is not from the future.
//! 2. No version `q'` of `k` has `q` < `q'` ≤ `e`. If there were one, it would be in the view (R1) and
//!    not in its MemTables, so its MemTable had left before, and `k` was passed with some `n` ≥ `q'`
//!    (R2) before the reader began. From that point in time, under the shard's lock, the bucket of `k` has
//!    passed `n`, and the entry was made `n`'s, dropped, or is newer. Whatever came in later was
//!    admitted with an `as_of` ≥ `n`: a fill whose reader, by induction right, saw `q'` or newer; a
//!    forwarded or passed version that is itself at `n` or newer. In every case `q` ≥ `q'`.
//! 3. No range delete `r` over `k` with `q` < `r` ≤ `e` is missed. In the view's MemTables: R4. In
//!    its tables: the floor was at `r` before the reader began, so `as_of` ≥ `r` now, checked; and
//!    an entry's `as_of` only ever comes from who vouches for it: R3, or a pass.
//! 4. A floor may be forgotten once every entry below it is collected: raising it raised all
//!    buckets as well, so none can come in any more.
//!
//! Compaction changes nothing that is visible, so it does not concern the table. Deletes are not
//! kept as entries: a pass of one drops the key's entry, and filters answer for absent keys.
//!
//! Thread safety: every method may be called from any thread at any time, as the rules allow.

mod admission;
mod ghost;
mod index;
mod queue;
mod row;
mod s3_fifo;
mod shard;
mod sync;

use crate::hash_index::hash_in;
use esker_base::{KeyspaceId, Seqno};
use row::Key;
use shard::Shard;

/// A shard has at least this many bytes when the table is made, so that values fit that should.
const SHARD_BYTES_MIN: usize = 1 << 20;

/// More shards than threads that could meet in one,
const SHARDS_ENOUGH: usize = 64;

/// unless they would be larger than this: what a shard does under its lock takes longer then,
const SHARD_BYTES_LARGE: usize = 4 << 20;

/// up to this many.
const SHARDS_MAX: usize = 1024;

/// When writes are copied to the DRAMTable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Forwarding {
    /// When their MemTable is flushed, and only for keys that the table holds.
    #[default]
    OnFlush,
    /// At once, for every put.
    Always,
    /// At once, for puts that replace an entry that was read, and for values read in a slow
    /// segment.
    ///
    /// See `DramTable::put` and `DramTable::record_pmem_read`.
    Adaptive,
}

/// An answer of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hit<R> {
    /// The version's seqno.
    pub seqno: Seqno,
    /// What the caller made of its value.
    pub value: R,
}

/// The content and the counters of a DRAMTable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DramTableStats {
    /// Bytes of memory in use: keys, values, headers, arrays and allocator overhead.
    pub bytes: u64,
    /// Entries in the table, one per key.
    pub entries: u64,
    /// Lookups of keys in no MemTable that the table answered.
    pub hits: u64,
    /// Lookups of keys in no MemTable that the table could not answer.
    pub misses: u64,
    /// Lookups of keys in a MemTable that the table answered.
    pub exact_hits: u64,
    /// Lookups of keys with a put in a MemTable that the table could not answer; the segment was
    /// read.
    pub exact_misses: u64,
    /// Values copied from reads of tables. A value that the table already holds is not counted.
    pub fills: u64,
    /// Values not copied from reads of tables, because they are or may be obsolete, or are too
    /// large.
    pub fills_refused: u64,
    /// Versions copied from a MemTable before its flush. A version that the table already holds is
    /// not counted.
    pub forwards: u64,
    /// Entries updated by a flush.
    pub refreshes: u64,
    /// Entries dropped because the key was deleted or the new value is too large.
    pub invalidations: u64,
    /// Entries evicted for lack of capacity.
    pub evictions: u64,
    /// Entries removed because a range delete or a dropped keyspace made them obsolete.
    pub collected: u64,
}

/// See the module's text.
pub struct DramTable {
    shards: Box<[Shard]>,
    forwarding: Forwarding,
}

impl std::fmt::Debug for DramTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DramTable({} shards, {:?})", self.shards.len(), self.stats())
    }
}

impl DramTable {
    /// An empty table of at most `bytes` bytes, everything counted. A shard, of which there is one a
    /// MiB at first, takes about a KiB even if the bound is lower.
    ///
    /// Every snapshot that is read at later must be at or above what is in tables now.
    pub fn new(bytes: usize, forwarding: Forwarding) -> DramTable {
        let shards = (bytes / SHARD_BYTES_MIN).min(SHARDS_ENOUGH).max(bytes / SHARD_BYTES_LARGE);
        let shards = shards.clamp(1, SHARDS_MAX).next_power_of_two();
        let share = bytes / shards;
        DramTable { shards: (0..shards).map(|_| Shard::new(share)).collect(), forwarding }
    }

    /// Makes the table larger or smaller. What no longer fits goes at once.
    pub fn set_bytes(&self, bytes: usize) {
        let share = bytes / self.shards.len();
        self.shards.iter().for_each(|shard| shard.set_bytes(share));
    }

    /// Has `read` copy the value of the newest version of `key`, whose
    /// [`hash64`](esker_base::hash64) is `key_hash`, at `snapshot`. For keys that are in no MemTable
    /// of the reader's view: see R1 and R4. `None` says nothing about the key.
    ///
    /// `read` runs under a lock.
    #[inline]
    pub fn get<R>(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        key_hash: u64,
        snapshot: Seqno,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<Hit<R>> {
        let key = Key::new(keyspace, key, key_hash);
        self.shard(&key).get(&key, snapshot, read)
    }

    /// Has `read` copy the value of the version of `key` at `seqno`, which the reader met in a
    /// MemTable, if there is a copy. A reader may ask for the seqnos of other keys' entries, too, if it
    /// can't distinguish them yet.
    #[inline]
    pub fn get_exact<R>(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        key_hash: u64,
        seqno: Seqno,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let key = Key::new(keyspace, key, key_hash);
        self.shard(&key).get_exact(&key, seqno, read)
    }

    /// Offers what a reader at `snapshot` found in tables: see R1 and R3. Whether the table holds it
    /// now.
    pub fn fill(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        key_hash: u64,
        seqno: Seqno,
        value: &[u8],
        snapshot: Seqno,
    ) -> bool {
        debug_assert!(seqno <= snapshot, "a reader finds no version beyond its snapshot");
        let key = Key::new(keyspace, key, key_hash);
        self.shard(&key).fill(&key, seqno, value, snapshot)
    }

    /// Says that the MemTable which holds `key` last at `seqno` is about to leave the view. `value`
    /// is `None` if that is a delete, or if a range delete of the same MemTable covers it. `through`
    /// is the last seqno of the MemTable.
    pub fn pass(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        key_hash: u64,
        seqno: Seqno,
        value: Option<&[u8]>,
        through: Seqno,
    ) {
        debug_assert!(seqno <= through, "a MemTable ends at or after each of its entries");
        let key = Key::new(keyspace, key, key_hash);
        self.shard(&key).pass(&key, seqno, value, through);
    }

    /// Takes a version that was inserted into a MemTable: a put's value, or `None` for a delete.
    /// Whether the table holds it now. It may come late, even after its MemTable has left.
    pub fn forward(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        key_hash: u64,
        seqno: Seqno,
        value: Option<&[u8]>,
    ) -> bool {
        let key = Key::new(keyspace, key, key_hash);
        self.shard(&key).forward(&key, seqno, value)
    }

    /// What the write path calls after it inserted an entry into a MemTable, if the table
    /// [`wants_puts`](DramTable::wants_puts): forwards it as the table's settings say.
    ///
    /// `Adaptive` forwards what replaces an entry that was read, as long as reads of keys in
    /// MemTables are not rare compared with puts. (If they are, no reader would meet the copy before the
    /// flush, which brings it up to date anyway.)
    pub fn put(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        key_hash: u64,
        seqno: Seqno,
        value: Option<&[u8]>,
    ) {
        let key = Key::new(keyspace, key, key_hash);
        let shard = self.shard(&key);
        let forwards = match self.forwarding {
            Forwarding::OnFlush => false,
            Forwarding::Always => true,
            Forwarding::Adaptive => shard.would_use(&key),
        };
        if forwards {
            shard.forward(&key, seqno, value);
        }
    }

    /// Whether [`DramTable::put`] may do something.
    #[inline]
    pub fn wants_puts(&self) -> bool {
        self.forwarding != Forwarding::OnFlush
    }

    /// What a reader calls that met a put in a MemTable of which [`DramTable::get_exact`] had no
    /// copy, if the segment is slower than DRAM. It counts as a lookup not answered. `OnFlush` takes no
    /// copy.
    pub fn record_pmem_read(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        key_hash: u64,
        seqno: Seqno,
        value: &[u8],
    ) {
        let key = Key::new(keyspace, key, key_hash);
        let shard = self.shard(&key);
        shard.note_segment_read();
        if self.forwarding != Forwarding::OnFlush {
            shard.forward(&key, seqno, Some(value));
        }
    }

    /// Says that a MemTable with range deletes in `keyspace`, the newest at `seqno`, is about to
    /// leave the view. Entries from before are useless from now on.
    pub fn raise_invalidation_floor(&self, keyspace: KeyspaceId, seqno: Seqno) {
        self.shards.iter().for_each(|shard| shard.raise_invalidation_floor(keyspace, seqno));
    }

    /// Drops `keyspace` permanently.
    pub fn drop_keyspace(&self, keyspace: KeyspaceId) {
        self.shards.iter().for_each(|shard| shard.drop_keyspace(keyspace));
    }

    /// Removes all useless entries now. Without this, whatever is written to a shard removes some.
    pub fn collect(&self) {
        self.shards.iter().for_each(Shard::collect);
    }

    /// When puts reach the table.
    pub fn forwarding(&self) -> Forwarding {
        self.forwarding
    }

    /// Figures.
    pub fn stats(&self) -> DramTableStats {
        let mut sum = DramTableStats::default();
        self.shards.iter().for_each(|shard| shard.add_stats(&mut sum));
        sum
    }

    #[inline]
    fn shard(&self, key: &Key<'_>) -> &Shard {
        // The uppermost bits; the index of a shard has the lower half.
        &self.shards[(key.hash >> 54) as usize & (self.shards.len() - 1)]
    }
}

impl<'a> Key<'a> {
    #[inline]
    fn new(keyspace: KeyspaceId, bytes: &'a [u8], key_hash: u64) -> Key<'a> {
        Key { keyspace, bytes, hash: hash_in(keyspace, key_hash) }
    }

    #[inline]
    fn tag(&self) -> u32 {
        self.hash as u32
    }
}
