//! The cache of data blocks, and of [parts](crate::part_cache) of indexes and filters, that all tables share.
//!
//! Several databases may share one cache. Their file ids collide, so each is an *owner* of its blocks.
//!
//! It holds blocks unpacked and checked. A hit costs the lock of a [slot](BlockSlots) and a
//! reference count, or else, if another block has the slot, a lookup in the hash table of a shard.
//! CLOCK-Pro decides which blocks stay: a scan does not push out what is read again and again. Blocks
//! that a scan reads ahead have to pass a [doorkeeper](Doorkeeper) first, once the cache is full.
//! When a table leaves the tree, its blocks are removed. A reader that still has the table may insert
//! some again. File ids are never reused, so no later read asks for these, and they age out.

use crate::block::Block;
use crate::block_key::{BlockKey, BlockKeyHasher, OwnedKey};
use crate::block_slots::{BlockSlots, Hit};
use crate::doorkeeper::Doorkeeper;
use crate::part_cache::{PartCache, PartSlots, PartUse};
use crate::parts::Part;
use esker_storage::WideReader;
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A shard holds at least this many bytes, so that no block is too large for it that should not be.
const SHARD_BYTES_MIN: usize = 1 << 20;

/// More shards than threads that could meet in one.
const SHARDS_MAX: usize = 64;

/// One in so many bytes may be for parts of indexes and filters. They go before data blocks, because each is used
/// for about 200 of these.
const PARTS_SHARE: usize = 2;

/// The capacity for blocks follows the bytes of parts in steps of one in so many bytes.
const STEPS: usize = 64;

/// What an entry costs in addition to its block: key, list links, reference counts, hash slot, block
/// slot, marks of the doorkeeper.
const ENTRY_OVERHEAD_BYTES: usize = 208;

/// A block as it is expected to weigh, for sizing.
const EXPECTED_BLOCK_BYTES: usize = 4096 + ENTRY_OVERHEAD_BYTES;

type Blocks = Cache<OwnedKey, Block, BlockWeighter, BuildHasherDefault<BlockKeyHasher>, Evictions>;

/// A concurrent cache of data blocks, bounded in bytes, as one of its owners sees it.
pub struct BlockCache {
    shared: Arc<Shared>,
    owner: u32,
    reader: Arc<WideReader>,
}

struct Shared {
    blocks: Blocks,
    slots: Arc<BlockSlots>,
    owners: AtomicU32,
    /// Of blocks and parts together, in bytes.
    capacity: AtomicUsize,
    parts: PartCache,
    doorkeeper: Doorkeeper,
    /// What blocks may take: the rest. The lock is held while it changes.
    block_capacity: Mutex<usize>,
}

#[derive(Clone)]
struct BlockWeighter;

impl Weighter<OwnedKey, Block> for BlockWeighter {
    fn weight(&self, _key: &OwnedKey, block: &Block) -> u64 {
        (block.memory_bytes() + ENTRY_OVERHEAD_BYTES) as u64
    }
}

/// Takes blocks that are evicted from their slots.
#[derive(Clone)]
struct Evictions(Arc<BlockSlots>);

impl Lifecycle<OwnedKey, Block> for Evictions {
    /// Blocks to be freed after the locks are released: most insertions evict no more.
    type RequestState = [Option<Block>; 2];

    fn on_evict(&self, freed: &mut Self::RequestState, key: OwnedKey, block: Block) {
        self.0.count_eviction();
        // A slot has the block only while it holds it. To look into each slot would cost a cache miss.
        if Arc::strong_count(block.bytes()) > 1 {
            self.0.remove(&key, key.places());
        }
        if let Some(place) = freed.iter_mut().find(|place| place.is_none()) {
            *place = Some(block);
        }
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockCache({} of {} bytes)", self.used_bytes(), self.capacity_bytes())
    }
}

impl BlockCache {
    /// An empty cache of at most `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        let options = OptionsBuilder::new()
            .shards((bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX))
            .estimated_items_capacity(bytes / EXPECTED_BLOCK_BYTES + 1)
            .weight_capacity(bytes as u64)
            .build()
            .expect("both capacities are set");
        let slots = Arc::new(BlockSlots::new());
        let evictions = Evictions(slots.clone());
        let hasher = BuildHasherDefault::default();
        let blocks = Cache::with_options(options, BlockWeighter, hasher, evictions);
        let owners = AtomicU32::new(1);
        let shared = Shared {
            blocks,
            slots,
            owners,
            capacity: AtomicUsize::new(bytes),
            parts: PartCache::new(bytes / PARTS_SHARE),
            doorkeeper: Doorkeeper::default(),
            block_capacity: Mutex::new(bytes),
        };
        let shared = Arc::new(shared);
        BlockCache { shared, owner: 0, reader: Arc::new(WideReader::without_threads()) }
    }

    /// The same cache for another owner, whose file ids are others. `reader` reads what the cache does
    /// not have.
    pub fn for_another_owner(&self, reader: WideReader) -> Self {
        self.owned_anew(Arc::new(reader))
    }

    /// The same cache for other files with the same ids, which the same reader reads.
    pub fn for_other_files(&self) -> Self {
        self.owned_anew(self.reader.clone())
    }

    fn owned_anew(&self, reader: Arc<WideReader>) -> Self {
        let owner = self.shared.owners.fetch_add(1, Ordering::Relaxed);
        BlockCache { shared: self.shared.clone(), owner, reader }
    }

    /// Returns what reads many blocks at once for this owner.
    pub fn reader(&self) -> &WideReader {
        &self.reader
    }

    /// Removes the blocks and parts of this owner. Takes time for each block of the cache.
    pub fn remove_own(&self) {
        self.shared.blocks.retain(|key, _| key.owner != self.owner);
        self.shared.slots.remove_all(|key| key.owner == self.owner);
        self.shared.slots.note_free_space();
        self.shared.parts.remove_owner(self.owner);
        self.fit_blocks();
    }

    /// Bytes of memory that the blocks and parts of this owner take. Takes time for each block of the cache.
    pub fn own_bytes(&self) -> usize {
        let blocks = self.shared.blocks.iter();
        let own = blocks.filter(|(key, _)| key.owner == self.owner);
        let blocks: usize =
            own.map(|(key, block)| BlockWeighter.weight(&key, &block) as usize).sum();
        blocks + self.shared.parts.owner_bytes(self.owner)
    }

    /// Makes the cache larger or smaller. What no longer fits goes at once.
    pub fn set_capacity(&self, bytes: usize) {
        self.shared.capacity.store(bytes, Ordering::Relaxed);
        self.shared.parts.set_limit(bytes / PARTS_SHARE);
        self.fit_blocks();
    }

    /// Gives blocks what parts leave of the capacity, rounded down to a step.
    fn fit_blocks(&self) {
        let mut now = self.shared.block_capacity.lock();
        let capacity = self.capacity_bytes();
        let parts = self.part_bytes().next_multiple_of(capacity / STEPS + 1);
        let wanted = capacity.saturating_sub(parts);
        if *now != wanted {
            if wanted > *now {
                self.shared.slots.note_free_space();
            }
            *now = wanted;
            self.shared.blocks.set_capacity(wanted as u64);
        }
    }

    /// Bytes of memory that the cached blocks and parts may take.
    pub fn capacity_bytes(&self) -> usize {
        self.shared.capacity.load(Ordering::Relaxed)
    }

    /// Bytes of memory that the cached blocks and parts take.
    pub fn used_bytes(&self) -> usize {
        self.shared.blocks.weight() as usize + self.part_bytes()
    }

    /// Bytes of memory that parts of indexes and filters take.
    pub fn part_bytes(&self) -> usize {
        self.shared.parts.used_bytes()
    }

    /// Slots for the parts of a table of this owner, which is in `level`.
    pub(crate) fn part_slots(&self, level: u8, parts: usize) -> Arc<PartSlots> {
        PartSlots::new(self.owner, level, parts)
    }

    /// Keeps part `at` of a table, and takes the capacity from data blocks.
    pub(crate) fn insert_part(
        &self,
        table: &Arc<PartSlots>,
        at: usize,
        part: &Arc<Part>,
        purpose: PartUse,
    ) {
        self.shared.parts.insert(table, at, part, purpose);
        self.fit_blocks();
    }

    /// Drops the parts of a table, which is closed.
    pub(crate) fn forget_parts(&self, table: &PartSlots) {
        self.shared.parts.forget(table);
        self.fit_blocks();
    }

    /// Whether blocks were evicted. Until then, the cache has all blocks that were read.
    #[inline]
    pub fn has_evicted(&self) -> bool {
        self.shared.slots.has_evicted()
    }

    /// Lookups that found their block.
    pub fn hits(&self) -> u64 {
        self.shared.blocks.hits() + self.shared.slots.hits()
    }

    /// Lookups that did not.
    pub fn misses(&self) -> u64 {
        self.shared.blocks.misses()
    }

    #[inline]
    pub(crate) fn get(&self, key: BlockKey) -> Option<Block> {
        let key = OwnedKey { owner: self.owner, key };
        let places = key.places();
        match self.shared.slots.get(&key, places) {
            Some(Hit { block, is_first: false }) => Some(block),
            Some(Hit { block, is_first: true }) => {
                let _ = self.shared.blocks.get(&key);
                Some(block)
            }
            None => self.get_slowly(key, places),
        }
    }

    /// Whether a block is here. The cache does not count that as a use.
    pub(crate) fn has(&self, key: BlockKey) -> bool {
        self.shared.blocks.peek(&OwnedKey { owner: self.owner, key }).is_some()
    }

    /// Asks the processor for a block that is read soon, if a slot has it.
    #[inline]
    pub(crate) fn prefetch(&self, key: BlockKey) {
        let key = OwnedKey { owner: self.owner, key };
        self.shared.slots.prefetch(&key, key.places());
    }

    /// Finds a block that is in no slot, and puts it into one if that is free.
    #[inline(never)]
    fn get_slowly(&self, key: OwnedKey, places: [u64; 2]) -> Option<Block> {
        let block = self.shared.blocks.get(&key)?;
        self.offer_to_slot(key, places, &block);
        Some(block)
    }

    /// Puts a block that was just found into a slot, if one is free.
    fn offer_to_slot(&self, key: OwnedKey, places: [u64; 2], block: &Block) {
        let Shared { blocks, slots, .. } = &*self.shared;
        let most = || self.capacity_bytes() / EXPECTED_BLOCK_BYTES;
        // An eviction in between has looked into the slot before the block was there. Another copy of the
        // block may be in the cache by now.
        if slots.offer(key, places, block, most)
            && !blocks.peek(&key).is_some_and(|kept| kept.is(block))
        {
            slots.remove(&key, places);
        }
    }

    pub(crate) fn insert(&self, key: BlockKey, block: Block) {
        self.shared.blocks.insert(OwnedKey { owner: self.owner, key }, block);
    }

    /// Inserts a block that a scan read ahead. A full cache takes it only if the doorkeeper remembers it.
    pub(crate) fn insert_read_ahead(&self, key: BlockKey, block: &Block) {
        let owned = OwnedKey { owner: self.owner, key };
        let most = || self.capacity_bytes() / EXPECTED_BLOCK_BYTES;
        if !self.shared.slots.is_full() || self.shared.doorkeeper.remember(owned.mixed(), most()) {
            self.shared.blocks.insert(owned, block.clone());
        }
    }

    /// Removes a block, if it is there. That is no eviction.
    pub(crate) fn remove(&self, key: BlockKey) {
        let key = OwnedKey { owner: self.owner, key };
        // The slot comes second: a lookup in between offers only what the cache has.
        if self.shared.blocks.remove(&key).is_some() {
            self.shared.slots.remove(&key, key.places());
            self.shared.slots.note_free_space();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_builder::BlockBuilder;
    use esker_base::Kind;

    fn block() -> Block {
        let mut builder = BlockBuilder::default();
        builder.add(b"key", 0, 1, Kind::Put, &[0; 4000]);
        Block::new(builder.finish().into()).unwrap()
    }

    /// No two of a few have the same slot.
    fn key(n: u64) -> BlockKey {
        BlockKey { file_id: 1, offset: n * 4300 }
    }

    #[test]
    fn the_cache_stays_within_its_bytes_as_they_change() {
        let cache = BlockCache::new(1 << 20);
        let insert =
            |range: std::ops::Range<u64>| range.for_each(|n| cache.insert(key(n), block()));
        insert(0..1000);
        assert!(cache.used_bytes() <= 1 << 20);
        assert!(cache.used_bytes() > 1 << 19);
        cache.set_capacity(1 << 16);
        assert!(cache.used_bytes() <= 1 << 16);
        cache.set_capacity(4 << 20);
        insert(1000..2000);
        assert!(cache.used_bytes() > 3 << 20 && cache.used_bytes() <= 4 << 20);
    }

    #[test]
    fn a_cache_without_room_keeps_nothing_and_harms_nothing() {
        let cache = BlockCache::new(0);
        assert!(!cache.has_evicted());
        cache.insert(key(1), block());
        assert!(cache.get(key(1)).is_none());
        assert_eq!(cache.used_bytes(), 0);
        assert!(cache.has_evicted(), "a block that is not taken counts");
    }

    #[test]
    fn owners_of_one_cache_do_not_see_the_blocks_of_each_other() {
        let cache = BlockCache::new(1 << 20);
        let other = cache.for_another_owner(WideReader::without_threads());
        cache.insert(key(1), block());
        other.insert(key(1), block());
        other.insert(key(2), block());
        assert!(cache.get(key(2)).is_none() && other.get(key(2)).is_some());
        assert_eq!(cache.own_bytes() + other.own_bytes(), cache.used_bytes());
        assert_eq!(cache.own_bytes() * 2, other.own_bytes());
        other.remove_own();
        assert!(other.get(key(1)).is_none() && cache.get(key(1)).is_some());
        assert_eq!((other.own_bytes(), cache.own_bytes()), (0, cache.used_bytes()));
    }

    /// Takes blocks out of the cache by `remove` after they were read several times.
    fn those_removed_are_not_held_after(remove: impl Fn(&BlockCache)) {
        let cache = BlockCache::new(1 << 20);
        let blocks: Vec<Block> = (0..100).map(|_| block()).collect();
        for (n, block) in (0..).zip(&blocks) {
            cache.insert(key(n), block.clone());
            (0..3).for_each(|_| assert!(cache.get(key(n)).is_some()));
        }
        let holders = |n: u64| Arc::strong_count(blocks[n as usize].bytes()) - 1;
        let held = (0..100).filter(|&n| holders(n) == 2).count();
        assert!(held >= 70, "{held} have a slot");
        remove(&cache);
        // A lookup might find it in a slot.
        let is_gone = |n: &u64| {
            let key = OwnedKey { owner: cache.owner, key: key(*n) };
            !cache.shared.blocks.contains_key(&key)
        };
        assert!((0..100).filter(is_gone).count() >= 50, "few were removed");
        assert!((0..100).filter(is_gone).all(|n| holders(n) == 0));
    }

    #[test]
    fn a_block_that_leaves_the_cache_leaves_its_slot() {
        those_removed_are_not_held_after(|cache| cache.set_capacity(0));
        those_removed_are_not_held_after(BlockCache::remove_own);
        those_removed_are_not_held_after(|cache| {
            for n in 100..5000 {
                cache.insert(key(n), block());
                cache.get(key(n));
            }
        });
        those_removed_are_not_held_after(|cache| (0..100).for_each(|n| cache.remove(key(n))));
    }

    #[test]
    fn what_is_removed_was_not_evicted_and_others_stay() {
        let cache = BlockCache::new(1 << 20);
        let other = cache.for_another_owner(WideReader::without_threads());
        [&cache, &other]
            .iter()
            .for_each(|cache| (1..3).for_each(|n| cache.insert(key(n), block())));
        cache.remove(key(1));
        cache.remove(key(9));
        assert!(cache.get(key(1)).is_none() && cache.get(key(2)).is_some());
        assert!(other.get(key(1)).is_some() && other.get(key(2)).is_some());
        assert!(!cache.has_evicted());
    }

    #[test]
    fn a_block_takes_one_slot() {
        let cache = BlockCache::new(1 << 20);
        let (found, key) = (block(), OwnedKey { owner: cache.owner, key: key(1) });
        cache.insert(key.key, found.clone());
        (0..3).for_each(|_| cache.offer_to_slot(key, key.places(), &found));
        assert_eq!(Arc::strong_count(found.bytes()), 3, "here, in the cache, in a slot");
    }

    #[test]
    fn a_block_that_is_evicted_right_after_it_was_found_gets_no_slot() {
        let cache = BlockCache::new(1 << 20);
        let (found, key) = (block(), OwnedKey { owner: cache.owner, key: key(1) });
        cache.offer_to_slot(key, key.places(), &found);
        assert!(cache.get(key.key).is_none());
        // By then, another thread has read it again.
        cache.insert(key.key, block());
        cache.offer_to_slot(key, key.places(), &found);
        assert!(!cache.get(key.key).unwrap().is(&found));
    }

    /// Reads a block ahead of a scan. Returns whether the cache has it then.
    fn read_ahead(cache: &BlockCache, n: u64) -> bool {
        cache.insert_read_ahead(key(n), &block());
        cache.get(key(n)).is_some()
    }

    #[test]
    fn a_full_cache_takes_a_block_that_was_read_ahead_the_second_time() {
        let cache = BlockCache::new(1 << 20);
        assert!(read_ahead(&cache, 1), "it is not full");
        (1000..2000).for_each(|n| cache.insert(key(n), block()));
        assert!(!read_ahead(&cache, 2) && read_ahead(&cache, 2));
    }

    #[test]
    fn a_cache_with_free_space_again_takes_what_is_read_ahead_at_once() {
        let cache = BlockCache::new(1 << 20);
        let fill = || (1000..2000).for_each(|n| cache.insert(key(n), block()));
        fill();
        assert!(!read_ahead(&cache, 1));
        cache.set_capacity(64 << 20);
        assert!((2000..10_000).all(|n| read_ahead(&cache, n)));
        cache.set_capacity(1 << 20);
        fill();
        assert!(!read_ahead(&cache, 2));
        cache.remove_own();
        assert!(read_ahead(&cache, 2));
        fill();
        (1000..2000).for_each(|n| cache.remove(key(n)));
        assert!(read_ahead(&cache, 3));
    }

    /// Others are read a few times each, and then no more.
    #[test]
    fn what_is_read_again_and_again_stays_while_others_pass() {
        let cache = BlockCache::new(1 << 20);
        let read = |n: u64| cache.get(key(n)).is_some();
        let pass = |n: u64| {
            cache.insert(key(n), block());
            assert!(read(n) && read(n));
        };
        (1000..2000).for_each(pass);
        (0..20).for_each(pass);
        for n in 2000..9000 {
            pass(n);
            read(n % 20);
        }
        let kept = (0..20).filter(|&n| read(n)).count();
        assert!(kept >= 18, "{kept}");
    }

    /// Whatever slots they share.
    #[test]
    fn a_lookup_finds_its_own_block() {
        let cache = BlockCache::new(1 << 20);
        let blocks: Vec<Block> = (0..100).map(|_| block()).collect();
        let key = |n: usize| BlockKey { file_id: n as u64 % 2, offset: n as u64 * 500 };
        blocks.iter().enumerate().for_each(|(n, block)| cache.insert(key(n), block.clone()));
        for n in (0..100).cycle().take(500) {
            assert!(cache.get(key(n)).unwrap().is(&blocks[n]));
        }
    }

    #[test]
    fn hits_of_slots_are_counted() {
        let cache = BlockCache::new(1 << 20);
        cache.insert(key(1), block());
        (0..10_000).for_each(|_| assert!(cache.get(key(1)).is_some()));
        assert_eq!((cache.hits(), cache.misses()), (10_000, 0));
    }

    #[test]
    fn hits_and_misses_are_counted() {
        let cache = BlockCache::new(1 << 20);
        cache.insert(key(1), block());
        assert!(cache.get(key(1)).is_some() && cache.get(key(2)).is_none());
        assert_eq!((cache.hits(), cache.misses()), (1, 1));
    }
}
