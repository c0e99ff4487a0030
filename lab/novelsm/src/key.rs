//! Keys as words: eight bytes at a time, the first one highest, so that words compare as bytes do.
//! The last is filled up with zeros; keys that differ only in those differ in length.

use super::memory::WORD_BYTES;
use std::cmp::Ordering;

/// Keys of up to so many words need no memory of their own.
const SHORT_WORDS: usize = 8;

/// A key that is looked for.
pub(super) struct KeyWords {
    short: [u64; SHORT_WORDS],
    long: Vec<u64>,
    bytes: usize,
}

impl KeyWords {
    pub(super) fn new(key: &[u8]) -> KeyWords {
        let mut words = KeyWords { short: [0; SHORT_WORDS], long: Vec::new(), bytes: key.len() };
        let count = words_of(key.len());
        if count > SHORT_WORDS {
            words.long = vec![0; count];
        }
        let to = if count > SHORT_WORDS { &mut words.long[..] } else { &mut words.short[..count] };
        let (whole, rest) = key.as_chunks();
        for (word, bytes) in to.iter_mut().zip(whole) {
            *word = u64::from_be_bytes(*bytes);
        }
        if !rest.is_empty() {
            let mut last = [0; WORD_BYTES];
            last[..rest.len()].copy_from_slice(rest);
            to[count - 1] = u64::from_be_bytes(last);
        }
        words
    }

    /// The words, in order.
    #[inline]
    pub(super) fn words(&self) -> &[u64] {
        if self.long.is_empty() { &self.short[..words_of(self.bytes)] } else { &self.long }
    }

    /// The key's length.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How a key of `bytes` bytes, whose words `word` gives, compares with this one.
    #[inline]
    pub(super) fn order_of(&self, bytes: usize, word: impl Fn(usize) -> u64) -> Ordering {
        for (index, own) in self.words().iter().take(words_of(bytes)).enumerate() {
            match word(index).cmp(own) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
        }
        bytes.cmp(&self.bytes)
    }
}

/// The words that so many bytes take.
#[inline]
pub(super) fn words_of(bytes: usize) -> usize {
    bytes.div_ceil(WORD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;

    #[test]
    fn words_compare_as_their_bytes_do() {
        let mut rng = Rng::new(5);
        for _ in 0..20_000 {
            let mut key = || -> Vec<u8> {
                let bytes = 1 + rng.below(if rng.clone().one_in(8) { 90 } else { 18 });
                (0..bytes).map(|_| rng.below(3) as u8 * 127).collect()
            };
            let (a, b) = (key(), key());
            let (a_words, b_words) = (KeyWords::new(&a), KeyWords::new(&b));
            let found = b_words.order_of(a.len(), |index| a_words.words()[index]);
            assert_eq!(found, a.cmp(&b), "{a:?} {b:?}");
        }
    }
}
