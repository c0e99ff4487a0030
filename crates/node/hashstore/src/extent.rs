//! Runs of blocks, and sets of them.
//!
//! A block is the unit in which space is given out: 512 bytes, or what the device writes in one piece if
//! that is more. Blocks are numbered from the start of a partition's data.

use std::collections::{BTreeMap, BTreeSet};

/// A run of blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Extent {
    /// The number of the first block.
    pub start: u32,
    /// How many blocks; never 0.
    pub blocks: u32,
}

impl Extent {
    /// The number of the block behind it.
    pub fn end(self) -> u32 {
        self.start + self.blocks
    }
}

/// A set of blocks, as maximal extents. Each change takes logarithmic time.
#[derive(Clone, Default, Debug)]
pub struct Extents {
    by_start: BTreeMap<u32, u32>,
    by_size: BTreeSet<(u32, u32)>,
    blocks: u64,
}

impl Extents {
    /// The set of all blocks of `extent`.
    pub fn of(extent: Extent) -> Self {
        let mut set = Self::default();
        set.insert(extent);
        set
    }

    /// The number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The number of maximal extents.
    pub fn len(&self) -> usize {
        self.by_start.len()
    }

    /// The maximal extents, in order.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.by_start.iter().map(|(&start, &blocks)| Extent { start, blocks })
    }

    fn link(&mut self, extent: Extent) {
        self.by_start.insert(extent.start, extent.blocks);
        self.by_size.insert((extent.blocks, extent.start));
        self.blocks += u64::from(extent.blocks);
    }

    fn unlink(&mut self, extent: Extent) {
        self.by_start.remove(&extent.start);
        self.by_size.remove(&(extent.blocks, extent.start));
        self.blocks -= u64::from(extent.blocks);
    }

    /// The extent that starts nearest below or at `block`.
    fn at_or_below(&self, block: u32) -> Option<Extent> {
        let (&start, &blocks) = self.by_start.range(..=block).next_back()?;
        Some(Extent { start, blocks })
    }

    /// Adds blocks, none of which may be in the set.
    pub fn insert(&mut self, extent: Extent) {
        let mut whole = extent;
        if let Some(before) = self.at_or_below(extent.start) {
            assert!(before.end() <= extent.start, "{extent:?} is in the set already: {before:?}");
            if before.end() == extent.start {
                self.unlink(before);
                whole = Extent { start: before.start, blocks: before.blocks + whole.blocks };
            }
        }
        if let Some((&start, &blocks)) = self.by_start.range(extent.start..).next() {
            assert!(extent.end() <= start, "{extent:?} is in the set already, from {start}");
            if extent.end() == start {
                self.unlink(Extent { start, blocks });
                whole.blocks += blocks;
            }
        }
        self.link(whole);
    }

    /// Takes blocks out. False, and nothing changed, unless all of them are in the set.
    pub fn remove(&mut self, extent: Extent) -> bool {
        let Some(around) = self.at_or_below(extent.start) else { return false };
        if extent.end() > around.end() {
            return false;
        }
        self.unlink(around);
        if around.start < extent.start {
            self.link(Extent { start: around.start, blocks: extent.start - around.start });
        }
        if extent.end() < around.end() {
            self.link(Extent { start: extent.end(), blocks: around.end() - extent.end() });
        }
        true
    }

    /// Takes out one extent of `blocks`: from the front of the smallest that is large enough.
    pub fn take_best_fit(&mut self, blocks: u32) -> Option<Extent> {
        let &(_, start) = self.by_size.range((blocks, 0)..).next()?;
        let taken = Extent { start, blocks };
        self.remove(taken);
        Some(taken)
    }

    /// Takes out at most `blocks` from the front of the largest extent.
    pub fn take_from_largest(&mut self, blocks: u64) -> Option<Extent> {
        let &(size, start) = self.by_size.last()?;
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX).min(size);
        let taken = Extent { start, blocks };
        self.remove(taken);
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;

    fn extent(start: u32, blocks: u32) -> Extent {
        Extent { start, blocks }
    }

    #[test]
    fn neighbours_grow_together() {
        let mut set = Extents::default();
        for start in [0, 20, 10] {
            set.insert(extent(start, 5));
        }
        assert_eq!(set.len(), 3);
        set.insert(extent(5, 5));
        set.insert(extent(15, 5));
        assert_eq!(set.iter().collect::<Vec<_>>(), [extent(0, 25)]);
    }

    #[test]
    #[should_panic(expected = "is in the set already")]
    fn a_block_is_never_in_it_twice() {
        let mut set = Extents::of(extent(10, 10));
        set.insert(extent(5, 6));
    }

    #[test]
    fn the_smallest_that_fits_is_taken_from() {
        let mut set = Extents::default();
        for (start, blocks) in [(0, 9), (20, 4), (40, 6)] {
            set.insert(extent(start, blocks));
        }
        assert_eq!(set.take_best_fit(5), Some(extent(40, 5)));
        assert_eq!(set.take_best_fit(10), None);
        assert_eq!(set.take_from_largest(7), Some(extent(0, 7)));
        assert_eq!(set.blocks(), 19 - 12);
    }

    #[test]
    fn it_agrees_with_a_plain_set_of_blocks() {
        let (mut rng, mut set, mut plain) = (Rng::new(1), Extents::default(), BTreeSet::new());
        for _ in 0..20_000 {
            let some = extent(rng.below(200) as u32, 1 + rng.below(8) as u32);
            let range = some.start..some.end();
            if range.clone().all(|block| !plain.contains(&block)) {
                set.insert(some);
                plain.extend(range);
            } else {
                let is_in = range.clone().all(|block| plain.contains(&block));
                assert_eq!(set.remove(some), is_in);
                if is_in {
                    plain.retain(|block| !range.contains(block));
                }
            }
            assert_eq!(set.blocks(), plain.len() as u64);
        }
        let listed: BTreeSet<_> = set.iter().flat_map(|e| e.start..e.end()).collect();
        assert_eq!(listed, plain);
        assert!(set.iter().zip(set.iter().skip(1)).all(|(a, b)| a.end() < b.start));
    }
}
