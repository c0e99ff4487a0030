//! One small node an entry, by entry number: where the entry starts, and the link to the next older
//! entry in its hash chain. Eight bytes, so that a chain walk takes one cache line a hop.

use super::{Zeroable, ZeroedVec};
use crate::loom_shim::{AtomicU32, Ordering};

/// Where a filled entry starts in its segment. Made only from a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u32);

impl Place {
    /// The offset in the segment.
    #[inline]
    pub fn offset(self) -> u32 {
        self.0
    }
}

/// What is known of an entry.
pub(crate) struct EntryLink {
    /// The offset of the entry, or zero as long as it is not filled.
    offset: AtomicU32,
    /// The number, plus one, of the next older entry with the same tag; zero if there is none.
    pub older: AtomicU32,
}

// SAFETY: two zero words are a node that is not filled; dropping it does nothing.
unsafe impl Zeroable for EntryLink {
    fn zero() -> Self {
        EntryLink { offset: AtomicU32::new(0), older: AtomicU32::new(0) }
    }
}

/// The nodes of a segment; their number is the segment's cap on entries.
pub(crate) struct EntryLinks(ZeroedVec<EntryLink>);

impl EntryLinks {
    /// Nodes for `entries` entries, none of them filled. Their memory is touched.
    pub fn new(entries: usize) -> EntryLinks {
        EntryLinks(ZeroedVec::new(entries))
    }

    /// The same with no memory touched.
    pub fn reserve(entries: usize) -> EntryLinks {
        EntryLinks(ZeroedVec::reserve(entries))
    }

    /// Touches the nodes of the entries `range`.
    pub fn touch(&self, range: std::ops::Range<usize>) {
        self.0.touch(range);
    }

    /// Makes all nodes as new.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The number of nodes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The bytes that the node of an entry takes.
    pub const BYTES_AN_ENTRY: usize = size_of::<EntryLink>();

    /// The node of entry `number`.
    #[inline]
    pub fn node(&self, number: u32) -> &EntryLink {
        &self.0[number as usize]
    }

    /// Where entry `number` starts, if it is filled.
    #[inline]
    pub fn place(&self, number: u32) -> Option<Place> {
        let offset = self.0.get(number as usize)?.offset.load(Ordering::Acquire);
        (offset != 0).then_some(Place(offset))
    }

    /// Says that entry `number` is filled. Its bytes must have been written before.
    #[inline]
    pub(super) fn store(&self, number: u32, offset: u32) {
        debug_assert_ne!(offset, 0);
        self.node(number).offset.store(offset, Ordering::Release);
    }
}
