//! From a hash to slot numbers: open addressing with linear probing.
//!
//! A word holds 32 bits of the hash and a slot number plus one; zero is empty. Where probing starts
//! follows from the bits stored, so growing and removing need nothing but the words themselves.
//! Removing shifts back what follows: there are no marks of the dead, and a table under churn stays
//! as quick, and as large, as a fresh one.
//!
//! Invariant: between where a word's probing starts and where it is, no word is empty.

/// At most this share of the words is in use, in fourths.
const FULL_FOURTHS: usize = 3;

/// The fewest words.
const WORDS_MIN: usize = 16;

#[derive(Default)]
pub(super) struct Index {
    words: Box<[u64]>,
    len: usize,
}

#[inline]
fn tag_of(word: u64) -> u32 {
    (word >> 32) as u32
}

#[inline]
fn slot_of(word: u64) -> u32 {
    word as u32 - 1
}

impl Index {
    /// The bytes of an index of so many words.
    pub fn bytes_of(words: usize) -> usize {
        words * size_of::<u64>()
    }

    pub fn memory_bytes(&self) -> usize {
        Index::bytes_of(self.words.len())
    }

    /// How many words it must have for one more slot: more than now if it is full.
    pub fn words_for_one_more(&self) -> usize {
        if (self.len + 1) * 4 <= self.words.len() * FULL_FOURTHS {
            return self.words.len();
        }
        // Half as many again: what it costs at worst is a third of the words lying empty.
        (self.words.len() + self.words.len() / 2).max(WORDS_MIN)
    }

    /// How many words `slots` slots need.
    pub fn words_for(slots: usize) -> usize {
        (slots * 4).div_ceil(FULL_FOURTHS) + 1
    }

    /// Takes other words, which must suffice for what is in it.
    pub fn resize(&mut self, words: usize) {
        assert!(self.len < words, "an index has room for its slots");
        let old = std::mem::replace(&mut self.words, vec![0; words].into_boxed_slice());
        self.len = 0;
        old.into_iter().filter(|&word| word != 0).for_each(|word| self.put(word));
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.words.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.words.len() { 0 } else { at + 1 }
    }

    /// The slot with this tag that `is_it`, if there is one.
    #[inline]
    pub fn find(&self, tag: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        if self.words.is_empty() {
            return None;
        }
        let mut at = self.home(tag);
        loop {
            let word = self.words[at];
            if word == 0 {
                return None;
            }
            if tag_of(word) == tag && is_it(slot_of(word)) {
                return Some(slot_of(word));
            }
            at = self.after(at);
        }
    }

    /// Adds `slot`. There must be a word to spare: see [`Index::words_for_one_more`].
    pub fn insert(&mut self, tag: u32, slot: u32) {
        self.put(u64::from(tag) << 32 | u64::from(slot + 1));
    }

    fn put(&mut self, word: u64) {
        self.len += 1;
        assert!(self.len < self.words.len(), "an index always has an empty word");
        let mut at = self.home(tag_of(word));
        while self.words[at] != 0 {
            at = self.after(at);
        }
        self.words[at] = word;
    }

    /// Removes `slot`, which is there with this tag.
    pub fn remove(&mut self, tag: u32, slot: u32) {
        let word = u64::from(tag) << 32 | u64::from(slot + 1);
        let mut hole = self.home(tag);
        while self.words[hole] != word {
            assert_ne!(self.words[hole], 0, "a slot to be removed is in the index");
            hole = self.after(hole);
        }
        self.len -= 1;
        let mut at = hole;
        loop {
            at = self.after(at);
            let word = self.words[at];
            if word == 0 {
                break;
            }
            // It may move back into the hole unless its home lies after the hole.
            let from_home = self.distance(self.home(tag_of(word)), at);
            if from_home >= self.distance(hole, at) {
                self.words[hole] = word;
                hole = at;
            }
        }
        self.words[hole] = 0;
    }

    /// The steps from one place to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.words.len() - from }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_inserted_and_not_removed_is_found(
            // Few homes, so that runs are long and wrap around.
            steps in prop::collection::vec((any::<bool>(), 0..40u32, 0..4u32), 1..400),
        ) {
            let mut index = Index::default();
            let mut model = std::collections::BTreeMap::new();
            for (insert, slot, high) in steps {
                let tag = (high + 1).wrapping_mul(0x4000_0000).wrapping_sub(1 + slot % 3);
                if insert && !model.contains_key(&slot) {
                    let words = index.words_for_one_more();
                    if words != index.memory_bytes() / 8 {
                        index.resize(words);
                    }
                    index.insert(tag, slot);
                    model.insert(slot, tag);
                } else if !insert && let Some(tag) = model.remove(&slot) {
                    index.remove(tag, slot);
                    prop_assert_eq!(index.find(tag, |other| other == slot), None);
                }
                for (&slot, &tag) in &model {
                    prop_assert_eq!(index.find(tag, |other| other == slot), Some(slot));
                }
                prop_assert_eq!(index.len, model.len());
            }
        }
    }
}
