//! The names of blocks in the block cache.

use std::hash::{Hash, Hasher};

/// Blocks that are not compressed are longer than this, so that those of a file differ in place.
const PLACE_BYTES: u64 = 2048;

/// Whose block it is, and where that starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OwnedKey {
    pub(crate) owner: u32,
    pub(crate) key: BlockKey,
}

impl OwnedKey {
    /// Numbers that say in which slots the block may be. In one file they grow with the offset.
    #[inline]
    pub(crate) fn places(&self) -> [u64; 2] {
        let mut hasher = BlockKeyHasher::default();
        hasher.write_u64(self.key.file_id ^ u64::from(self.owner) << 40);
        let first = hasher.finish();
        // Files whose first slots are the same have others here.
        [first, first.rotate_right(32)].map(|file| file.wrapping_add(self.key.offset / PLACE_BYTES))
    }

    /// Well-mixed bits.
    pub(crate) fn mixed(&self) -> u64 {
        let mut hasher = BlockKeyHasher::default();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// Where a block starts.
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
