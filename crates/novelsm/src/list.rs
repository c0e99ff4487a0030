//! A skiplist of versions in a [`Memory`], ordered by key and then newest first. In persistent memory
//! it is right after a crash at any moment, without any repair.
//!
//! A node is one piece of memory; links are places of nodes, 0 is none:
//!
//! | words | hold |
//! |---|---|
//! | height | the links, the lowest last |
//! | 1 | the version: seqno and kind — a node's place is the place of this |
//! | 1 | the lengths of key and value |
//! | | the key, as [`KeyWords`] |
//! | | the value, filled up with zeros |
//!
//! So one cache line holds the lowest link, the header and most keys.
//!
//! An insert appends the node with its links in it, durably: the first fence. Then it stores the link
//! to it at the lowest level, which makes it part of the list: the second fence. The links above make
//! searches shorter and nothing else: a list that misses some finds the same. So they are flushed, and
//! no fence waits for them. That makes two fences a put, whatever the height, and fewer can't be right
//! without a checksum in every node and a scan of all nodes after a crash.
//!
//! Thread safety: one thread at a time inserts; any number read meanwhile.

use super::key::{KeyWords, words_of};
use super::memory::{Memory, WORD_BYTES};
use esker_base::{Kind, Result, Rng, Seqno};
use std::cmp::Ordering::{Equal, Less};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Enough for 4^12 nodes.
const HEIGHT_MAX: usize = 12;

/// One node in so many of a level is in the next, too.
const BRANCHING: u64 = 4;

/// Nodes met at this level or above are taken to be in a cache, where their reading costs no access
/// to memory: they are one node in 16, so a few hundred KiB of a MemTable of 64 MiB.
const CACHED_FROM_LEVEL: usize = 2;

/// The bytes of a node that a search touches.
const TOUCHED_BYTES: usize = 64;

const LINE_BYTES: usize = 64;
const HEADER_BYTES: usize = 2 * WORD_BYTES;

/// A version to insert.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version<'a> {
    pub(super) key: &'a [u8],
    pub(super) seqno: Seqno,
    pub(super) kind: Kind,
    pub(super) value: &'a [u8],
}

/// What a list says of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Value(Vec<u8>),
    Deleted,
}

/// Takes the key, the kind and the value of a version.
pub(super) type Sink<'a> = dyn FnMut(&[u8], Kind, &[u8]) -> Result<()> + 'a;

/// Memory of the writer's that is used again and again.
pub(super) struct Scratch {
    rng: Rng,
    piece: Vec<u8>,
}

impl Scratch {
    pub(super) fn new(seed: u64) -> Scratch {
        Scratch { rng: Rng::new(seed), piece: Vec::new() }
    }

    fn height(&mut self) -> usize {
        let mut height = 1;
        while height < HEIGHT_MAX && self.rng.one_in(BRANCHING) {
            height += 1;
        }
        height
    }
}

/// The most that a node takes.
pub(super) fn node_bytes_max(key_bytes: usize, value_bytes: usize) -> usize {
    let words = HEIGHT_MAX + words_of(key_bytes) + words_of(value_bytes);
    // Up to a line before it, and one to fill it up.
    HEADER_BYTES + words * WORD_BYTES + 2 * LINE_BYTES
}

/// See the module's text.
pub(super) struct SkipList<M> {
    memory: M,
    /// The place of the node before all others, of which there are links only.
    head: usize,
    /// Of the highest node.
    height: AtomicUsize,
}

/// At each level, the node before a place and the one after it.
type Neighbours = [(usize, usize); HEIGHT_MAX];

/// Where the link of a node at a level lies.
#[inline]
fn link_at(node: usize, level: usize) -> usize {
    node - (level + 1) * WORD_BYTES
}

impl<M: Memory> SkipList<M> {
    /// An empty list.
    pub(super) fn new(memory: M) -> SkipList<M> {
        let links = memory.append(&[0; HEIGHT_MAX * WORD_BYTES]);
        let head = links.expect("a memory has room for a list") + HEIGHT_MAX * WORD_BYTES;
        SkipList { memory, head, height: AtomicUsize::new(1) }
    }

    /// The first node that is not before `key` as of `seqno`, and the neighbours of that place.
    fn seek(&self, key: &KeyWords, seqno: Seqno, mut neighbours: Option<&mut Neighbours>) -> usize {
        let (mut node, mut level) = (self.head, self.height.load(Ordering::Acquire) - 1);
        // Known not to be before the key, from the level above.
        let mut after = 0;
        loop {
            let next = self.memory.load(link_at(node, level)) as usize;
            if next != 0 && next != after && self.is_before(next, level, key, seqno) {
                node = next;
                continue;
            }
            if let Some(neighbours) = &mut neighbours {
                neighbours[level] = (node, next);
            }
            if level == 0 {
                return next;
            }
            (after, level) = (next, level - 1);
        }
    }

    #[inline]
    fn is_before(&self, node: usize, level: usize, key: &KeyWords, seqno: Seqno) -> bool {
        if level < CACHED_FROM_LEVEL {
            self.memory.before_read(TOUCHED_BYTES);
        }
        match self.order_of(node, key) {
            Equal => self.version(node).0 > seqno,
            order => order == Less,
        }
    }

    #[inline]
    fn order_of(&self, node: usize, key: &KeyWords) -> std::cmp::Ordering {
        let key_bytes = self.lengths(node).0;
        key.order_of(key_bytes, |word| self.memory.load(node + HEADER_BYTES + word * WORD_BYTES))
    }

    #[inline]
    fn version(&self, node: usize) -> (Seqno, Kind) {
        let word = self.memory.load(node);
        (word >> 8, if word & 0xff == Kind::Put as u64 { Kind::Put } else { Kind::Delete })
    }

    #[inline]
    fn lengths(&self, node: usize) -> (usize, usize) {
        let word = self.memory.load(node + WORD_BYTES);
        ((word >> 32) as usize, (word & 0xffff_ffff) as usize)
    }

    fn copy_key(&self, node: usize, out: &mut Vec<u8>) {
        out.clear();
        let (key_bytes, start) = (self.lengths(node).0, node + HEADER_BYTES);
        for word in 0..words_of(key_bytes) {
            out.extend_from_slice(&self.memory.load(start + word * WORD_BYTES).to_be_bytes());
        }
        out.truncate(key_bytes);
    }

    fn copy_value(&self, node: usize, out: &mut Vec<u8>) {
        out.clear();
        let (key_bytes, value_bytes) = self.lengths(node);
        let start = node + HEADER_BYTES + words_of(key_bytes) * WORD_BYTES;
        out.reserve(value_bytes + WORD_BYTES);
        for word in 0..words_of(value_bytes) {
            out.extend_from_slice(&self.memory.load(start + word * WORD_BYTES).to_le_bytes());
        }
        out.truncate(value_bytes);
    }

    /// Puts a node together whose links are those of `neighbours`.
    fn put_together(
        piece: &mut Vec<u8>,
        version: &Version<'_>,
        key: &KeyWords,
        after: &[(usize, usize)],
    ) {
        piece.clear();
        for (_, next) in after.iter().rev() {
            piece.extend_from_slice(&(*next as u64).to_le_bytes());
        }
        let tag = version.seqno << 8 | version.kind as u64;
        let lengths = (key.bytes() as u64) << 32 | version.value.len() as u64;
        piece.extend_from_slice(&tag.to_le_bytes());
        piece.extend_from_slice(&lengths.to_le_bytes());
        for word in key.words() {
            piece.extend_from_slice(&word.to_le_bytes());
        }
        piece.extend_from_slice(version.value);
        let unit = if piece.len() < M::WHOLE_LINES_FROM { WORD_BYTES } else { LINE_BYTES };
        piece.resize(piece.len().next_multiple_of(unit), 0);
    }
}

/// A list, wherever it lies.
pub(super) trait List: Send + Sync {
    /// Bytes that are left.
    fn room(&self) -> usize;

    /// Inserts a version that is newer than all others of its key; there is room for
    /// [`node_bytes_max`]. As durable as the memory when this returns. One call at a time.
    fn insert(&self, version: &Version<'_>, scratch: &mut Scratch);

    /// The newest version of `key` as of `seqno`.
    fn get(&self, key: &KeyWords, seqno: Seqno) -> Option<Found>;

    /// Gives the newest version of each key to `sink`, in order.
    fn for_each_newest(&self, sink: &mut Sink<'_>) -> Result<()>;

    /// Whether nothing was inserted.
    fn is_empty(&self) -> bool;
}

impl<M: Memory> List for SkipList<M> {
    fn room(&self) -> usize {
        self.memory.room()
    }

    fn insert(&self, version: &Version<'_>, scratch: &mut Scratch) {
        let key = KeyWords::new(version.key);
        let mut neighbours = [(self.head, 0); HEIGHT_MAX];
        self.seek(&key, version.seqno, Some(&mut neighbours));
        let height = scratch.height();
        Self::put_together(&mut scratch.piece, version, &key, &neighbours[..height]);
        let place = self.memory.append(&scratch.piece).expect("there was room");
        let node = place + height * WORD_BYTES;
        self.memory.link(link_at(neighbours[0].0, 0), node as u64);
        for (level, (before, _)) in neighbours[..height].iter().enumerate().skip(1) {
            self.memory.hint(link_at(*before, level), node as u64);
        }
        if height > self.height.load(Ordering::Relaxed) {
            self.height.store(height, Ordering::Release);
        }
    }

    fn get(&self, key: &KeyWords, seqno: Seqno) -> Option<Found> {
        let node = self.seek(key, seqno, None);
        if node == 0 || self.order_of(node, key) != Equal {
            return None;
        }
        if self.version(node).1 == Kind::Delete {
            return Some(Found::Deleted);
        }
        let mut value = Vec::new();
        self.memory.before_read(self.lengths(node).1);
        self.copy_value(node, &mut value);
        Some(Found::Value(value))
    }

    fn for_each_newest(&self, sink: &mut Sink<'_>) -> Result<()> {
        let (mut key, mut value, mut last) = (Vec::new(), Vec::new(), Vec::new());
        let mut node = self.memory.load(link_at(self.head, 0)) as usize;
        while node != 0 {
            let (key_bytes, value_bytes) = self.lengths(node);
            self.memory.before_read(HEADER_BYTES + key_bytes + value_bytes);
            self.copy_key(node, &mut key);
            if key != last {
                self.copy_value(node, &mut value);
                sink(&key, self.version(node).1, &value)?;
                std::mem::swap(&mut key, &mut last);
            }
            node = self.memory.load(link_at(node, 0)) as usize;
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.memory.load(link_at(self.head, 0)) == 0
    }
}
