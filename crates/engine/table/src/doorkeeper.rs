//! Keeps blocks that are read once out of a full cache.
//!
//! A long scan reads many blocks that are not read again soon. Each would evict another block, which
//! costs time now, and a miss later. So a full cache takes such a block when it is read for the
//! second time, if the doorkeeper remembers the first (G. Einziger, R. Friedman, B. Manes, "TinyLFU: A
//! Highly Efficient Cache Admission Policy", 2017, section 3.4.2).

use parking_lot::Mutex;

/// It has places for so many keys for each block that the cache may have: at most 16 bytes a block.
const KEYS_A_BLOCK: usize = 2;

/// It keeps its places until it should have so many times fewer, or more at all. Those of before are
/// forgotten then.
const SHRINKS_AT: usize = 8;

/// Remembers keys by their hashes. Each has one place, until another key takes it.
#[derive(Default)]
pub(crate) struct Doorkeeper {
    marks: Mutex<Box<[u32]>>,
}

impl Doorkeeper {
    /// Remembers the key with this hash. Returns whether it was remembered before. The cache may now
    /// have `blocks` blocks.
    pub(crate) fn remember(&self, hash: u64, blocks: usize) -> bool {
        let places = (blocks * KEYS_A_BLOCK).next_power_of_two();
        let mut marks = self.marks.lock();
        if marks.len() < places || marks.len() > places * SHRINKS_AT {
            *marks = vec![0; places].into();
        }
        let place = hash as usize & (marks.len() - 1);
        let mark = (hash >> 32) as u32;
        std::mem::replace(&mut marks[place], mark) == mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::hash64;

    fn hash(n: u64) -> u64 {
        hash64(&n.to_le_bytes())
    }

    #[test]
    fn a_key_is_remembered_from_the_first_time_on() {
        let doorkeeper = Doorkeeper::default();
        let remember = |n| doorkeeper.remember(hash(n), 100);
        assert!(!remember(1) && !remember(2));
        assert!(remember(1) && remember(2) && remember(1));
    }

    #[test]
    fn most_keys_that_have_places_are_remembered_and_old_ones_are_not() {
        let doorkeeper = Doorkeeper::default();
        let known = |keys: std::ops::Range<u64>| {
            keys.filter(|&n| doorkeeper.remember(hash(n), 500)).count()
        };
        assert!(known(0..400) < 5);
        assert!(known(0..400) > 200);
        assert!(known(1000..9000) < 50);
        assert!(known(0..400) < 5);
    }

    #[test]
    fn its_places_follow_the_size_of_the_cache() {
        let doorkeeper = Doorkeeper::default();
        let places_for = |blocks| {
            doorkeeper.remember(hash(1), blocks);
            doorkeeper.marks.lock().len()
        };
        assert_eq!([0, 1, 3, 1000].map(places_for), [1, 2, 8, 2048]);
        assert_eq!([900, 200, 60].map(places_for), [2048, 2048, 128]);
    }
}
