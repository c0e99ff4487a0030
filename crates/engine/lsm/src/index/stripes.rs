//! Locks of rows and of index keys.

use esker_base::{KeyspaceId, hash64};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

/// How many locks rows share, and so many for keys of unique indexes.
const STRIPES: usize = 1024;

/// Locks that keys share by their hash.
pub(crate) struct Stripes {
    locks: Box<[Mutex<()>]>,
}

/// Locks that are held until this is dropped.
pub(crate) type HeldStripes<'a> = SmallVec<[MutexGuard<'a, ()>; 2]>;

/// Locks to take. Most batches change one row.
pub(crate) type WantedStripes = SmallVec<[u16; 8]>;

impl Default for Stripes {
    fn default() -> Self {
        Stripes { locks: (0..STRIPES).map(|_| Mutex::new(())).collect() }
    }
}

impl Stripes {
    /// The lock of `key` in `keyspace`.
    pub(crate) fn of(keyspace: KeyspaceId, key: &[u8]) -> u16 {
        let hash = hash64(key).wrapping_add(u64::from(keyspace.0).wrapping_mul(0x9e37_79b9));
        ((hash >> 32) as usize % STRIPES) as u16
    }

    /// Takes the locks `wanted`, in ascending order, so that two callers never wait for each other.
    pub(crate) fn lock(&self, mut wanted: WantedStripes) -> HeldStripes<'_> {
        wanted.sort_unstable();
        wanted.dedup();
        wanted.into_iter().map(|stripe| self.locks[usize::from(stripe)].lock()).collect()
    }

    /// Takes the lock `stripe`.
    pub(crate) fn lock_one(&self, stripe: u16) -> HeldStripes<'_> {
        let mut held = HeldStripes::new();
        held.push(self.locks[usize::from(stripe)].lock());
        held
    }

    /// Whether a caller has the lock `stripe`.
    #[cfg(test)]
    pub(crate) fn is_locked(&self, stripe: u16) -> bool {
        self.locks[usize::from(stripe)].is_locked()
    }

    /// Takes all locks.
    pub(crate) fn lock_all(&self) -> HeldStripes<'_> {
        self.locks.iter().map(Mutex::lock).collect()
    }
}
