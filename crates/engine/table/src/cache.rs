//! The cache of data blocks that all tables share.
//!
//! Several databases may share one cache. Their file ids collide, so each is an *owner* of its blocks.
//!
//! It holds blocks unpacked and checked, so that a hit costs a hash, a shard's read lock and a
//! reference count. Which blocks stay is decided by CLOCK-Pro: a scan does not push out what is
//! read again and again. Blocks of removed files are not hunted down: file ids are never reused,
//! so nobody asks for them any more, and they age out.

use crate::block::Block;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A shard holds at least this many bytes, so that no block is too large for it that should not be.
const SHARD_BYTES_MIN: usize = 1 << 20;

/// More shards than threads that could meet in one.
const SHARDS_MAX: usize = 64;

/// What an entry costs beside its block: key, list links, reference counts, hash slot.
const ENTRY_OVERHEAD_BYTES: usize = 128;

/// A block as it is expected to weigh, for sizing.
const EXPECTED_BLOCK_BYTES: usize = 4096 + ENTRY_OVERHEAD_BYTES;

type Blocks = Cache<
    OwnedKey,
    Block,
    BlockWeighter,
    BuildHasherDefault<BlockKeyHasher>,
    DefaultLifecycle<OwnedKey, Block>,
>;

/// A concurrent cache of data blocks, bounded in bytes, as one of its owners sees it.
pub struct BlockCache {
    shared: Arc<Shared>,
    owner: u32,
}

struct Shared {
    blocks: Blocks,
    owners: AtomicU32,
}

/// Whose block it is, and where that lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct OwnedKey {
    owner: u32,
    key: BlockKey,
}

/// Where a block lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockKey {
    pub(crate) file_id: u64,
    pub(crate) offset: u64,
}

impl Hash for OwnedKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.key.file_id ^ u64::from(self.owner) << 40);
        state.write_u64(self.key.offset);
    }
}

/// Folds two numbers into well-mixed bits. Unkeyed, so that the same operations meet the same
/// cache in every run.
#[derive(Default, Clone, Copy)]
pub(crate) struct BlockKeyHasher(u64);

impl Hasher for BlockKeyHasher {
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word ^ 0x2d35_8dcc_aa6c_78a5) * 0x8bb8_4b93_962e_acc9;
        self.0 = wide as u64 ^ (wide >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Clone)]
struct BlockWeighter;

impl Weighter<OwnedKey, Block> for BlockWeighter {
    fn weight(&self, _key: &OwnedKey, block: &Block) -> u64 {
        (block.memory_bytes() + ENTRY_OVERHEAD_BYTES) as u64
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
        let blocks = Cache::with_options(
            options,
            BlockWeighter,
            BuildHasherDefault::default(),
            DefaultLifecycle::default(),
        );
        BlockCache { shared: Arc::new(Shared { blocks, owners: AtomicU32::new(1) }), owner: 0 }
    }

    /// The same cache for another owner, whose file ids are others.
    pub fn for_another_owner(&self) -> Self {
        let owner = self.shared.owners.fetch_add(1, Ordering::Relaxed);
        BlockCache { shared: self.shared.clone(), owner }
    }

    /// Removes the blocks of this owner. Takes time for each block of the cache.
    pub fn remove_own(&self) {
        self.shared.blocks.retain(|key, _| key.owner != self.owner);
    }

    /// Bytes of memory that the blocks of this owner take. Takes time for each block of the cache.
    pub fn own_bytes(&self) -> usize {
        let blocks = self.shared.blocks.iter();
        let own = blocks.filter(|(key, _)| key.owner == self.owner);
        own.map(|(key, block)| BlockWeighter.weight(&key, &block) as usize).sum()
    }

    /// Makes the cache larger or smaller. What no longer fits goes at once.
    pub fn set_capacity(&self, bytes: usize) {
        self.shared.blocks.set_capacity(bytes as u64);
    }

    /// Bytes of memory that the cached blocks may take.
    pub fn capacity_bytes(&self) -> usize {
        self.shared.blocks.capacity() as usize
    }

    /// Bytes of memory that the cached blocks take.
    pub fn used_bytes(&self) -> usize {
        self.shared.blocks.weight() as usize
    }

    /// Lookups that found their block.
    pub fn hits(&self) -> u64 {
        self.shared.blocks.hits()
    }

    /// Lookups that did not.
    pub fn misses(&self) -> u64 {
        self.shared.blocks.misses()
    }

    #[inline]
    pub(crate) fn get(&self, key: BlockKey) -> Option<Block> {
        self.shared.blocks.get(&OwnedKey { owner: self.owner, key })
    }

    pub(crate) fn insert(&self, key: BlockKey, block: Block) {
        self.shared.blocks.insert(OwnedKey { owner: self.owner, key }, block);
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

    fn key(offset: u64) -> BlockKey {
        BlockKey { file_id: 1, offset }
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
        cache.insert(key(1), block());
        assert!(cache.get(key(1)).is_none());
        assert_eq!(cache.used_bytes(), 0);
    }

    #[test]
    fn owners_of_one_cache_do_not_see_the_blocks_of_each_other() {
        let cache = BlockCache::new(1 << 20);
        let other = cache.for_another_owner();
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

    #[test]
    fn hits_and_misses_are_counted() {
        let cache = BlockCache::new(1 << 20);
        cache.insert(key(1), block());
        assert!(cache.get(key(1)).is_some() && cache.get(key(2)).is_none());
        assert_eq!((cache.hits(), cache.misses()), (1, 1));
    }
}
