//! Which keys were evicted lately: fingerprints with the time of their eviction, counted in
//! evictions. Sets of four; the oldest of a set makes space. A false match only costs an entry that
//! begins in the wrong queue.

const WAYS: usize = 4;

/// A fingerprint above, a time below; zero is empty.
#[derive(Default)]
pub(super) struct Ghost {
    marks: Box<[u64]>,
    now: u32,
}

impl Ghost {
    /// The bytes of a ghost that remembers so many.
    pub fn bytes_of(marks: usize) -> usize {
        marks.next_multiple_of(WAYS) * size_of::<u64>()
    }

    pub fn memory_bytes(&self) -> usize {
        self.marks.len() * size_of::<u64>()
    }

    /// Remembers `marks` from now on, and forgets what it knew.
    pub fn resize(&mut self, marks: usize) {
        self.marks = vec![0; marks.next_multiple_of(WAYS)].into_boxed_slice();
        self.now = 0;
    }

    fn set(&self, tag: u32) -> std::ops::Range<usize> {
        let sets = (self.marks.len() / WAYS) as u64;
        let start = ((u64::from(tag) * sets) >> 32) as usize * WAYS;
        start..start + WAYS
    }

    /// Notes an eviction.
    pub fn add(&mut self, tag: u32) {
        if self.marks.is_empty() {
            return;
        }
        self.now = self.now.wrapping_add(1).max(1);
        let now = self.now;
        let set = self.set(tag);
        let oldest = self.marks[set].iter_mut().max_by_key(|mark| {
            if **mark == 0 { u32::MAX } else { now.wrapping_sub(**mark as u32) }
        });
        *oldest.expect("a set has ways") = u64::from(tag) << 32 | u64::from(now);
    }

    /// Whether `tag` was evicted within as many evictions as it remembers; it is forgotten then.
    pub fn take(&mut self, tag: u32) -> bool {
        if self.marks.is_empty() {
            return false;
        }
        let (now, window) = (self.now, self.marks.len() as u32);
        let set = self.set(tag);
        let hit = self.marks[set].iter_mut().find(|mark| {
            **mark != 0 && (**mark >> 32) as u32 == tag && now.wrapping_sub(**mark as u32) < window
        });
        hit.is_some_and(|mark| std::mem::take(mark) != 0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_ghost_remembers_the_latest_once_and_forgets_the_old() {
        let tag = |n: u32| n.wrapping_mul(0x9e37_79b9);
        let mut ghost = Ghost::default();
        ghost.add(tag(1));
        assert!(!ghost.take(tag(1)), "a ghost without space is empty");
        ghost.resize(64);
        (0..1000).for_each(|n| ghost.add(tag(n)));
        assert!(!ghost.take(tag(1)));
        assert!(ghost.take(tag(999)) && !ghost.take(tag(999)));
        let known = (0..999).filter(|&n| ghost.take(tag(n))).collect::<Vec<_>>();
        assert!(known.len() > 32 && known.iter().all(|&n| n >= 1000 - 64), "{known:?}");
    }
}
