//! What locks are on and who has them: keys and transactions.

use esker_base::{KeyspaceId, hash64};
use std::hash::Hasher;

/// A transaction that holds or waits for locks. A number is never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TransactionId(pub(crate) u64);

/// A key of a keyspace, with the hash by which the table finds it.
#[derive(Clone, Copy)]
pub(crate) struct LockKey<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) key: &'a [u8],
    pub(crate) hash: u64,
}

impl<'a> LockKey<'a> {
    #[inline]
    pub(crate) fn new(keyspace: KeyspaceId, key: &'a [u8]) -> Self {
        // Neighbouring ids are to be far apart: the multiplier is 2^64 over the golden ratio.
        let spread = (u64::from(keyspace.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        LockKey { keyspace, key, hash: hash64(key) ^ spread }
    }
}

/// The hash of a [`TransactionId`]. These count up, so that a multiplication spreads them well enough.
#[derive(Default)]
pub(super) struct OwnerHasher(u64);

impl Hasher for OwnerHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("a transaction's id is one number")
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
