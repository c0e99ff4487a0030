//! Reads the entries of data blocks forward, at a snapshot.
//!
//! A scan owns the memory of one block and nothing else: no table, no file, no version of the tree.
//! So a cursor hands out the entries of a block without a lock, whatever flush and compaction do
//! meanwhile. It needs the table again at the end of the block only.

use crate::block::{Block, EntryPosition};
use esker_base::{Kind, Seqno};
use std::ops::Range;
use std::sync::Arc;

/// Most suffixes are no longer than this. They are copied as one fixed number of bytes.
const CHUNK: usize = 16;

/// Why a scan yields no further entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanEnd {
    /// The block has no further entry.
    Block,
    /// The next entry is at or above the limit.
    Limit,
    /// The next entry cannot be decoded.
    Damaged,
}

/// The keys of one block with their versions at a snapshot, and then those of the next block.
///
/// Invariant: after each move, all versions of smaller keys in the run are passed, and so are the
/// versions of [`BlockScan::key`] that are newer than the current one.
#[derive(Default)]
pub struct BlockScan {
    block: Option<Block>,
    snapshot: Seqno,
    /// The entry to decode next.
    next: EntryPosition,
    /// The scan ends before the entry that starts here.
    end: usize,
    /// The first `key_bytes` bytes are the current key.
    key: Vec<u8>,
    key_bytes: usize,
    /// Whether the current version is the one that the snapshot sees of its key. Otherwise all
    /// versions up to here are newer than the snapshot.
    is_decided: bool,
    seqno: Seqno,
    kind: Kind,
    value: Range<usize>,
    /// The seqno of all versions of an ingested table, 0 for others.
    ingested_at: Seqno,
}

/// A version in a block, and where the next one is.
pub(crate) struct Position<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) seqno: Seqno,
    pub(crate) kind: Kind,
    pub(crate) value: Range<usize>,
    pub(crate) next: EntryPosition,
}

impl BlockScan {
    /// Starts at `position` of `block`. Ends before the entry that starts at `end`.
    pub(crate) fn start(
        &mut self,
        block: &Block,
        end: usize,
        snapshot: Seqno,
        position: Position<'_>,
        ingested_at: Seqno,
    ) {
        self.ingested_at = ingested_at;
        self.set_block(block, position.next, end);
        self.set_key(0, position.key);
        self.snapshot = snapshot;
        self.is_decided = position.seqno <= snapshot;
        (self.seqno, self.kind) = (position.seqno, position.kind);
        self.value = position.value;
    }

    /// Starts before the first entry of `block`. It must be moved before it is read.
    pub(crate) fn start_before(&mut self, block: &Block, snapshot: Seqno) {
        self.go_on(block, block.entries_end(), 0);
        self.set_key(0, &[]);
        self.snapshot = snapshot;
        // Also an empty key is then taken.
        self.is_decided = false;
    }

    /// Goes on with `block`, the next one of the same run.
    pub(crate) fn go_on(&mut self, block: &Block, end: usize, ingested_at: Seqno) {
        self.ingested_at = ingested_at;
        self.set_block(block, block.first(), end);
    }

    fn set_block(&mut self, block: &Block, next: EntryPosition, end: usize) {
        if !self.block.as_ref().is_some_and(|other| other.is(block)) {
            self.block = Some(block.clone());
        }
        (self.next, self.end) = (next, end);
    }

    /// Gives the block back.
    pub fn release(&mut self) {
        self.block = None;
    }

    /// Returns the current key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.key[..self.key_bytes]
    }

    /// Returns the value of the current version.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| block.slice(self.value.clone()))
    }

    /// Returns the block, and where in it the value of the current version is.
    #[inline]
    pub fn shared_value(&self) -> Option<(&Arc<[u8]>, Range<usize>)> {
        Some((self.block.as_ref()?.bytes(), self.value.clone()))
    }

    /// Returns the sequence number of the current version.
    #[inline]
    pub fn seqno(&self) -> Seqno {
        self.seqno
    }

    /// Whether the current version is the newest of its key that the snapshot sees.
    #[inline]
    pub fn is_decided(&self) -> bool {
        self.is_decided
    }

    /// Returns the kind of the current version.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where the entry is that comes next.
    pub(crate) fn next_entry(&self) -> usize {
        self.next.entry
    }

    /// Goes to the next key, or to the version of this key that the snapshot sees. At the end, the
    /// scan stays where it is.
    #[inline]
    pub fn advance(&mut self) -> Result<(), ScanEnd> {
        loop {
            let Some(block) = &self.block else { return Err(ScanEnd::Block) };
            let place = self.next;
            if place.entry >= self.end {
                let is_whole = self.end == block.entries_end();
                return Err(if is_whole { ScanEnd::Block } else { ScanEnd::Limit });
            }
            let Ok(entry) = block.entry(place.entry) else { return Err(ScanEnd::Damaged) };
            let Ok(value) = block.value(place, &entry) else { return Err(ScanEnd::Damaged) };
            let unshared = entry.end - entry.suffix;
            // A key shares all it can with the one before, except at a restart.
            let is_new = match entry.shared {
                0 => block.suffix(&entry) != self.key(),
                shared if shared > self.key_bytes => return Err(ScanEnd::Damaged),
                shared => unshared > 0 || shared < self.key_bytes,
            };
            self.next = place.after(&entry);
            let seqno = entry.seqno.max(self.ingested_at);
            let is_visible = seqno <= self.snapshot;
            if is_new {
                let target = self.key.get_mut(entry.shared..).and_then(<[u8]>::first_chunk_mut);
                match (target, block.chunk::<CHUNK>(entry.suffix)) {
                    (Some(target), Some(chunk)) if unshared <= CHUNK => {
                        *target = *chunk;
                        self.key_bytes = entry.shared + unshared;
                    }
                    _ => self.append_slowly(entry.shared, entry.suffix..entry.end),
                }
            } else if self.is_decided || !is_visible {
                continue;
            }
            self.is_decided = is_visible;
            (self.seqno, self.kind) = (seqno, entry.kind);
            self.value = value;
            return Ok(());
        }
    }

    #[cold]
    fn append_slowly(&mut self, shared: usize, suffix: Range<usize>) {
        let Some(block) = self.block.take() else { return };
        self.set_key(shared, block.slice(suffix));
        self.block = Some(block);
    }

    /// Replaces what follows the first `shared` bytes of the key, and leaves a chunk behind it.
    fn set_key(&mut self, shared: usize, suffix: &[u8]) {
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        self.key_bytes = self.key.len();
        self.key.resize(self.key_bytes + 2 * CHUNK, 0);
    }
}
