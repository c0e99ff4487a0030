//! A MemTable of what a scan found in its segment: index, range deletes and what each keyspace takes.
//!
//! The scan has read every byte; what is read here is where each entry starts, and that is in no cache any
//! more. So there is one pass over the entries, which does all that needs them.

use super::{AHEAD, KeyspaceSizes, MemTable, RecycledArrays};
use crate::frame::SegmentHeader;
use crate::hash_index::{HashIndex, hash_in};
use crate::log_reader::ScanResult;
use crate::range_tombstones::Tombstones;
use crate::segment::{EntryLinks, Memory, Segment};
use esker_base::{Entry, Kind, RangeTombstone, hash64};

impl MemTable {
    /// An immutable MemTable over `memory`, which holds what `scan` found in a segment with `header`. What its
    /// keyspaces take of it [is known](MemTable::keyspace_sizes) from the start.
    pub fn recover(
        memory: impl Into<Memory>,
        header: SegmentHeader,
        scan: &ScanResult,
    ) -> MemTable {
        let found = scan.frames.iter().map(|frame| frame.count as usize).sum();
        let RecycledArrays { nodes, index } = RecycledArrays::new(found);
        let tombstones = Tombstones::default();
        let mut weights = KeyspaceSizes::default();
        let mut hashed = HashedEntry::default();
        let base = scan.frames.first().map_or(0, |frame| frame.first_seqno);
        let look = |nodes: &EntryLinks, number: u32, entry: &Entry<'_>| {
            weights.add(entry);
            match entry.kind {
                Kind::RangeDelete => {
                    let tombstone = RangeTombstone {
                        start: entry.key.to_vec(),
                        end: entry.value.to_vec(),
                        seqno: base + u64::from(number),
                    };
                    tombstones.add(entry.keyspace, tombstone);
                }
                Kind::Put
                | Kind::Delete
                | Kind::Merge
                | Kind::Combined
                | Kind::Separated
                | Kind::ExpiringPut => {
                    let hash = hash_in(entry.keyspace, hash64(entry.key));
                    index.prefetch(hash);
                    hashed.put(&index, nodes, number, hash);
                }
            }
        };
        let segment = Segment::recovered(memory.into(), header, nodes, scan, look);
        hashed.insert_all(&index, segment.nodes());
        let weighed = weights.shares(u64::from(segment.bytes_used()));
        MemTable { tombstones, weighed: weighed.into(), ..MemTable::around(segment, index) }
    }
}

/// Entries whose slots in the index are on their way to the cache.
#[derive(Default)]
struct HashedEntry {
    waiting: [Option<(u32, u64)>; AHEAD],
    /// Where the next one goes, and the one there that has waited longest.
    at: usize,
}

impl HashedEntry {
    /// Takes an entry up, and inserts the one that has waited longest.
    #[inline]
    fn put(&mut self, index: &HashIndex, nodes: &EntryLinks, number: u32, hash: u64) {
        if let Some((number, hash)) = self.waiting[self.at].replace((number, hash)) {
            index.insert(nodes, hash, number);
        }
        self.at = (self.at + 1) % AHEAD;
    }

    /// Inserts what still waits.
    fn insert_all(self, index: &HashIndex, nodes: &EntryLinks) {
        let (newer, older) = self.waiting.split_at(self.at);
        for (number, hash) in older.iter().chain(newer).copied().flatten() {
            index.insert(nodes, hash, number);
        }
    }
}
