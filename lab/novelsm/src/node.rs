//! The nodes of a list.
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

use super::key::{KeyWords, words_of};
use super::memory::{Memory, WORD_BYTES};
use esker_base::{Kind, Seqno};
use std::cmp::Ordering;

const LINE_BYTES: usize = 64;
const HEADER_BYTES: usize = 2 * WORD_BYTES;

/// Enough for 4^12 nodes.
pub(super) const HEIGHT_MAX: usize = 12;

/// A version to insert.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version<'a> {
    pub(super) key: &'a [u8],
    pub(super) seqno: Seqno,
    pub(super) kind: Kind,
    pub(super) value: &'a [u8],
}

/// The most that a node takes.
pub(super) fn node_bytes_max(key_bytes: usize, value_bytes: usize) -> usize {
    let words = HEIGHT_MAX + words_of(key_bytes) + words_of(value_bytes);
    // Up to a line before it, and one to fill it up.
    HEADER_BYTES + words * WORD_BYTES + 2 * LINE_BYTES
}

/// Where the link of a node at a level is.
#[inline]
pub(super) fn link_at(node: usize, level: usize) -> usize {
    node - (level + 1) * WORD_BYTES
}

/// A node that is in a memory.
pub(super) struct Node<'a, M> {
    memory: &'a M,
    /// Its place.
    at: usize,
}

impl<'a, M: Memory> Node<'a, M> {
    pub(super) fn new(memory: &'a M, at: usize) -> Node<'a, M> {
        Node { memory, at }
    }

    /// How its key compares with `key`.
    #[inline]
    pub(super) fn order_of(&self, key: &KeyWords) -> Ordering {
        let start = self.at + HEADER_BYTES;
        key.order_of(self.lengths().0, |word| self.memory.load(start + word * WORD_BYTES))
    }

    #[inline]
    pub(super) fn seqno(&self) -> Seqno {
        self.memory.load(self.at) >> 8
    }

    #[inline]
    pub(super) fn kind(&self) -> Kind {
        let is_put = self.memory.load(self.at) & 0xff == Kind::Put as u64;
        if is_put { Kind::Put } else { Kind::Delete }
    }

    /// Of key and value, in bytes.
    #[inline]
    pub(super) fn lengths(&self) -> (usize, usize) {
        let word = self.memory.load(self.at + WORD_BYTES);
        ((word >> 32) as usize, (word & 0xffff_ffff) as usize)
    }

    pub(super) fn copy_key(&self, out: &mut Vec<u8>) {
        out.clear();
        let (key_bytes, start) = (self.lengths().0, self.at + HEADER_BYTES);
        for word in 0..words_of(key_bytes) {
            out.extend_from_slice(&self.memory.load(start + word * WORD_BYTES).to_be_bytes());
        }
        out.truncate(key_bytes);
    }

    pub(super) fn copy_value(&self, out: &mut Vec<u8>) {
        out.clear();
        let (key_bytes, value_bytes) = self.lengths();
        let start = self.at + HEADER_BYTES + words_of(key_bytes) * WORD_BYTES;
        out.reserve(value_bytes + WORD_BYTES);
        for word in 0..words_of(value_bytes) {
            out.extend_from_slice(&self.memory.load(start + word * WORD_BYTES).to_le_bytes());
        }
        out.truncate(value_bytes);
    }

    /// The node after it.
    #[inline]
    pub(super) fn next(&self) -> usize {
        self.memory.load(link_at(self.at, 0)) as usize
    }
}

/// Puts a node together that links to the places of `next`, from the lowest level on.
pub(super) fn put_together<M: Memory>(
    piece: &mut Vec<u8>,
    version: &Version<'_>,
    key: &KeyWords,
    next: impl DoubleEndedIterator<Item = usize>,
) {
    piece.clear();
    for place in next.rev() {
        piece.extend_from_slice(&(place as u64).to_le_bytes());
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
