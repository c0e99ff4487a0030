//! Keeps out of a full cache what is read once.
//!
//! A long scan reads many blocks that are not read again soon. Each would evict another block, which costs time
//! now, and a miss later. So a full cache takes such a block when it is read for the second time, if the
//! doorkeeper remembers the first (G. Einziger, R. Friedman, B. Manes, "TinyLFU: A Highly Efficient
//! Cache Admission Policy", 2017, section 3.4.2).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Remembers keys by their hashes. Each has one place, until another key takes it.
#[derive(Default)]
pub(crate) struct Doorkeeper {
    /// Four bytes for each key, allocated by the first.
    marks: OnceLock<Box<[AtomicU32]>>,
}

impl Doorkeeper {
    /// Whether it remembers a key with this hash. It does from now on. `keys` says for how many keys
    /// it should have places.
    #[inline]
    pub(crate) fn knows(&self, hash: u64, keys: impl FnOnce() -> usize) -> bool {
        let marks = self
            .marks
            .get_or_init(|| (0..keys().next_power_of_two()).map(|_| AtomicU32::new(0)).collect());
        let place = &marks[hash as usize & (marks.len() - 1)];
        let mark = (hash >> 32) as u32;
        let knows = place.load(Ordering::Relaxed) == mark;
        if !knows {
            place.store(mark, Ordering::Relaxed);
        }
        knows
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
    fn a_key_is_known_from_the_second_time_on() {
        let doorkeeper = Doorkeeper::default();
        let knows = |n| doorkeeper.knows(hash(n), || 100);
        assert!(!knows(1) && !knows(2));
        assert!(knows(1) && knows(2) && knows(1));
    }

    #[test]
    fn most_keys_that_have_places_are_remembered_and_old_ones_are_not() {
        let doorkeeper = Doorkeeper::default();
        let known = |keys: std::ops::Range<u64>| {
            keys.filter(|&n| doorkeeper.knows(hash(n), || 1000)).count()
        };
        assert!(known(0..400) < 5);
        assert!(known(0..400) > 200);
        assert!(known(1000..9000) < 50);
        assert!(known(0..400) < 5);
    }
}
