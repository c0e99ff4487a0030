//! What an open table has of its index and filter: both whole, or the top and slots for their parts.

use crate::cache::BlockCache;
use crate::filter::Filter;
use crate::index::Index;
use crate::part_cache::{PartSlots, PartUse};
use crate::parts::{Part, Parts};
use esker_base::MAX_SEQNO;
use std::ops::Range;
use std::sync::Arc;

/// Whether a lookup may read the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// It may.
    MayRead,
    /// It fails with [`esker_base::Error::WouldBlock`] where it would have to.
    FromMemory,
}

/// The index and filter, or how to find their parts.
pub(crate) enum TableIndex {
    Whole(Index, Filter),
    Parts(TableParts),
}

/// The parts of an open table: what is always in memory, and the slots for the rest.
pub(crate) struct TableParts {
    pub(crate) parts: Parts,
    pub(crate) slots: Arc<PartSlots>,
    cache: Arc<BlockCache>,
}

impl TableParts {
    pub(crate) fn new(parts: Parts, level: u8, cache: Arc<BlockCache>) -> Self {
        let slots = cache.part_slots(level, parts.len());
        TableParts { parts, slots, cache }
    }
}

impl TableParts {
    /// Where the block with the first version of `key` or of a later one is, or about where, from the table's start.
    pub(crate) fn about(&self, key: &[u8]) -> Option<Range<u64>> {
        let at = self.parts.find(key, MAX_SEQNO);
        if at == self.parts.len() {
            return None;
        }
        let data = self.parts.data_of(at);
        Some(match &*self.slots.get(at, PartUse::Walk) {
            Some(part) => {
                let block = part.index.block(part.index.find(key, MAX_SEQNO));
                data.start + block.start..data.start + block.end
            }
            None => {
                let middle = data.start.midpoint(data.end);
                middle..middle
            }
        })
    }
}

impl Drop for TableParts {
    fn drop(&mut self) {
        self.cache.forget_parts(&self.slots);
    }
}

/// The part that a cursor uses, and its number. The cursor has it whatever the cache keeps.
#[derive(Default)]
pub(crate) struct HeldPart(pub(crate) Option<(usize, Arc<Part>)>);

impl TableIndex {
    /// Bytes of memory that are in use while the table is open. Parts are in the cache.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            TableIndex::Whole(index, filter) => index.memory_bytes() + filter.memory_bytes(),
            TableIndex::Parts(it) => it.parts.memory_bytes() + it.slots.memory_bytes(),
        }
    }

    /// Bytes of filters in memory, those in the cache included.
    pub(crate) fn filter_bytes(&self) -> usize {
        match self {
            TableIndex::Whole(_, filter) => filter.memory_bytes(),
            TableIndex::Parts(it) => it.slots.filter_bytes(),
        }
    }

    /// The number of data blocks.
    #[inline]
    pub(crate) fn blocks(&self) -> usize {
        match self {
            TableIndex::Whole(index, _) => index.len(),
            TableIndex::Parts(it) => it.parts.blocks(),
        }
    }
}
