//! Which blocks are whose.
//!
//! ```text
//!   free ──checkpoint──► next window ──durable──► window ──allocate──► records
//!     ▲                                                                  │
//!     └────────────── once no read needs them ──────── freed ◄──replaced─┘
//! ```
//!
//! Between two checkpoints a block is written at most once: what is allocated comes from the window, and what
//! is freed does not come back to it before the next checkpoint, which says that it is free, is durable. So
//! all that was written since a checkpoint is still there at a crash.
//!
//! Freed blocks are put among the free ones few at a time, as they are freed: a checkpoint finds them there.

use crate::extent::{Extent, Extents};
use crate::format::record::{EXTENTS_MAX, value_at};
use std::collections::VecDeque;

/// The most extents of a window, and of what is left of one: they are listed in every checkpoint.
pub(super) const WINDOW_EXTENTS_MAX: usize = 1024;
const LEFT_EXTENTS_MAX: usize = 512;

/// A window's share of all blocks, and the most bytes it has: recovery reads it all.
const WINDOW_SHARE: u32 = 16;
const WINDOW_BYTES_MAX: u64 = 256 << 20;

/// What stores leave to deletes, so that a full store can be emptied.
const RESERVE_SHARE: u32 = 1024;
const RESERVE_BLOCKS_MIN: u32 = 16;

/// Extents that are free at a time, in addition to as many as were freed.
const RELEASED_MORE: usize = 4;

/// Why blocks can't be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AllocError {
    /// There may be some after a checkpoint.
    Now,
    /// There are not so many.
    AtAll,
}

/// What a record needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub block_bytes: u32,
}

impl Need {
    /// The blocks, if it is in so many extents, all of which it lists.
    pub fn blocks(&self, extents: usize) -> u64 {
        let bytes = value_at(self.key_bytes, extents) + self.value_bytes;
        bytes.div_ceil(self.block_bytes as usize) as u64
    }

    /// Whether all in front of the value fits into the first extent.
    fn fits_first(&self, first: Extent, extents: usize) -> bool {
        let prefix = value_at(self.key_bytes, extents) as u64;
        prefix <= u64::from(first.blocks) * u64::from(self.block_bytes)
    }
}

#[derive(Debug)]
pub(super) struct BlockAllocator {
    free: Extents,
    window: Extents,
    /// Chosen by the checkpoint that is in progress.
    next_window: Vec<Extent>,
    /// Freed, but reads below the number given may still need them.
    freed: VecDeque<(u64, Extent)>,
    freed_blocks: u64,
    window_blocks_max: u64,
    reserve: u64,
    /// The window's size when it was opened.
    opened_blocks: u64,
}

/// The most blocks of a window of a partition of `blocks`.
pub(super) fn window_blocks_max(blocks: u32, block_bytes: u32) -> u64 {
    u64::from(blocks / WINDOW_SHARE).min(WINDOW_BYTES_MAX / u64::from(block_bytes)).max(8)
}

impl BlockAllocator {
    /// Space of which `free` is free, in a partition of `blocks`.
    pub fn new(free: Extents, blocks: u32, block_bytes: u32) -> Self {
        let reserve = u64::from((blocks / RESERVE_SHARE).max(RESERVE_BLOCKS_MIN));
        BlockAllocator {
            free,
            window: Extents::default(),
            next_window: Vec::new(),
            freed: VecDeque::new(),
            freed_blocks: 0,
            window_blocks_max: window_blocks_max(blocks, block_bytes),
            reserve,
            opened_blocks: 0,
        }
    }

    /// All blocks that hold nothing that is needed, whenever they can be had.
    pub fn unused(&self) -> u64 {
        self.free.blocks() + self.window.blocks() + self.freed_blocks + blocks_of(&self.next_window)
    }

    /// Takes what a record needs, in as few extents as there can be.
    pub fn allocate(
        &mut self,
        need: &Need,
        may_use_reserve: bool,
    ) -> Result<Vec<Extent>, AllocError> {
        let reserve = if may_use_reserve { 0 } else { self.reserve };
        if need.blocks(1) + reserve > self.unused() {
            return Err(AllocError::AtAll);
        }
        let whole = u32::try_from(need.blocks(1)).ok();
        if let Some(extent) = whole.and_then(|blocks| self.window.take_best_fit(blocks)) {
            return Ok(vec![extent]);
        }
        let (mut taken, mut blocks) = (Vec::<Extent>::new(), 0);
        while taken.len() < EXTENTS_MAX {
            let left = need.blocks(taken.len() + 1) - blocks;
            let extent = if left > 0 { self.window.take_from_largest(left) } else { None };
            let Some(extent) = extent else { break };
            blocks += u64::from(extent.blocks);
            taken.push(extent);
            if blocks == need.blocks(taken.len()) && need.fits_first(taken[0], taken.len()) {
                return Ok(taken);
            }
        }
        self.give_back(taken);
        Err(AllocError::Now)
    }

    /// Puts back what was allocated and not written.
    pub fn give_back(&mut self, extents: Vec<Extent>) {
        for extent in extents {
            self.window.insert(extent);
        }
    }

    /// Takes note that these are not needed any more, what replaces them is durable, but for reads in progress: those from `oldest_read` on, below
    /// `next_read`.
    pub fn free(&mut self, extents: &[Extent], oldest_read: u64, next_read: u64) {
        self.freed_blocks += blocks_of(extents);
        self.freed.extend(extents.iter().map(|extent| (next_read, *extent)));
        self.release(oldest_read, extents.len() + RELEASED_MORE);
    }

    /// At most so many freed extents are free, those that no read needs.
    fn release(&mut self, oldest_read: u64, extents_max: usize) {
        for _ in 0..extents_max {
            let is_free = |(before, _): &&(u64, Extent)| *before <= oldest_read;
            let Some(&(_, extent)) = self.freed.front().filter(is_free) else { return };
            self.freed.pop_front();
            self.freed_blocks -= u64::from(extent.blocks);
            self.free.insert(extent);
        }
    }

    /// Whether a checkpoint should begin, so that the next window is there in time.
    pub fn wants_checkpoint(&self) -> bool {
        let can_gain = self.free.blocks() + self.freed_blocks > 0;
        can_gain && self.window.blocks() < self.opened_blocks / 2
    }

    /// The most extents that [`begin_window`](Self::begin_window) gives now.
    pub fn window_extents_max(&self) -> usize {
        let chosen = self.free.len() + self.freed.len() + self.window.len();
        self.window.len().min(LEFT_EXTENTS_MAX) + chosen.min(WINDOW_EXTENTS_MAX)
    }

    /// Chooses the window of a new checkpoint, and gives the whole list. Reads from `oldest_read` on are in progress.
    pub fn begin_window(&mut self, oldest_read: u64) -> Vec<Extent> {
        // What is left of them was freed while a read was under way that has ended.
        self.release(oldest_read, usize::MAX);
        self.give_back_crumbs();
        let mut blocks = self.window.blocks();
        while blocks < self.window_blocks_max && self.next_window.len() < WINDOW_EXTENTS_MAX {
            let wanted = self.window_blocks_max - blocks;
            let Some(extent) = self.free.take_from_largest(wanted) else { break };
            blocks += u64::from(extent.blocks);
            self.next_window.push(extent);
        }
        self.window.iter().chain(self.next_window.iter().copied()).collect()
    }

    /// Keeps the list short: small extents of the window are free again.
    fn give_back_crumbs(&mut self) {
        let over = self.window.len().saturating_sub(LEFT_EXTENTS_MAX);
        if over > 0 {
            let mut extents: Vec<_> = self.window.iter().collect();
            extents.sort_by_key(|extent| extent.blocks);
            for extent in extents.into_iter().take(over) {
                self.window.remove(extent);
                self.free.insert(extent);
            }
        }
    }

    /// Opens the window that was chosen: the checkpoint is durable.
    pub fn open_window(&mut self) {
        for extent in self.next_window.drain(..) {
            self.window.insert(extent);
        }
        self.opened_blocks = self.window.blocks();
    }
}

fn blocks_of(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| u64::from(extent.blocks)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(blocks: u32) -> BlockAllocator {
        let mut space = BlockAllocator::new(Extents::of(Extent { start: 0, blocks }), blocks, 512);
        space.begin_window(0);
        space.open_window();
        space
    }

    /// What takes so many blocks.
    fn blocks(blocks: usize) -> Need {
        let (key_bytes, block_bytes) = (4, 512);
        Need { key_bytes, value_bytes: blocks * 512 - value_at(key_bytes, 1), block_bytes }
    }

    #[test]
    fn what_is_freed_is_not_given_out_before_a_checkpoint_is_durable() {
        let mut space = space(160);
        let all = space.allocate(&blocks(10), false).unwrap();
        assert_eq!(space.allocate(&blocks(1), false), Err(AllocError::Now));
        space.free(&all, 0, 0);
        assert_eq!(space.allocate(&blocks(1), false), Err(AllocError::Now));
        space.begin_window(0);
        assert_eq!(space.allocate(&blocks(1), false), Err(AllocError::Now));
        space.open_window();
        assert!(space.allocate(&blocks(1), false).is_ok());
    }

    #[test]
    fn what_a_read_may_need_is_not_given_out() {
        let mut space = space(160);
        let (old, all) = (space.allocate(&blocks(10), false).unwrap(), 160);
        space.free(&old, 3, 4);
        // Read 3 began before it was freed.
        for _ in 0..20 {
            let chosen = space.begin_window(3);
            assert!(chosen.iter().all(|extent| extent.start >= old[0].end()));
            space.open_window();
            while let Ok(taken) = space.allocate(&blocks(1), true) {
                assert!(taken[0].start >= old[0].end());
            }
        }
        assert_eq!(space.unused(), 10, "of {all}");
        space.begin_window(4);
        space.open_window();
        assert_eq!(space.allocate(&blocks(10), true), Ok(old));
    }

    #[test]
    fn a_value_may_lie_in_several_extents() {
        let mut space = space(1600);
        let taken: Vec<_> = (0..10).map(|_| space.allocate(&blocks(10), false).unwrap()).collect();
        for extents in taken.iter().step_by(2) {
            space.free(extents, 0, 1);
        }
        while space.window.blocks() > 0 || space.free.blocks() > 0 {
            if space.allocate(&blocks(1), true).is_err() {
                space.begin_window(0);
                space.open_window();
            }
        }
        space.begin_window(u64::MAX);
        space.open_window();
        // The list of the extents takes some bytes more than 25 blocks.
        let pieces = space.allocate(&blocks(25), true).unwrap();
        assert_eq!(pieces.iter().map(|extent| extent.blocks).collect::<Vec<_>>(), [10, 10, 6]);
        let long_key = Need { key_bytes: 6000, value_bytes: 4000, block_bytes: 512 };
        assert_eq!(space.allocate(&long_key, true), Err(AllocError::Now));
        assert_eq!(space.allocate(&blocks(26), true), Err(AllocError::AtAll));
    }

    #[test]
    fn stores_leave_a_reserve_to_deletes() {
        let mut space = space(160);
        let mut stored = 0;
        loop {
            match space.allocate(&blocks(1), false) {
                Ok(_) => stored += 1,
                Err(AllocError::Now) => {
                    space.begin_window(0);
                    space.open_window();
                }
                Err(AllocError::AtAll) => break,
            }
        }
        assert_eq!(stored, 160 - u64::from(RESERVE_BLOCKS_MIN));
        space.begin_window(0);
        space.open_window();
        assert!(space.allocate(&blocks(1), true).is_ok());
    }
}
