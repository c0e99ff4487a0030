//! Key numbers scattered over all that a key can hold, no two to the same place.

use crate::KeyBuffer;

/// Any constants do that have high and low bits set; the second must be odd.
const ADDED: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR: u64 = 0xbf58_476d_1ce4_e5b9;

/// A permutation of the numbers that keys of one length hold.
///
/// Adding, multiplying by an odd number and folding the high bits into the low ones each give
/// different results for different numbers of a given width, so all of them together do too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scatter {
    mask: u64,
    fold: u32,
}

impl Scatter {
    /// For keys of `key_bytes` bytes.
    pub(super) fn new(key_bytes: usize) -> Self {
        let mask = KeyBuffer::largest(key_bytes);
        Scatter { mask, fold: mask.count_ones() / 2 }
    }

    /// Where `number` goes.
    #[inline]
    pub(super) fn of(self, number: u64) -> u64 {
        let mut x = number.wrapping_add(ADDED) & self.mask;
        for _ in 0..3 {
            x ^= x >> self.fold;
            x = x.wrapping_mul(FACTOR) & self.mask;
        }
        x ^ x >> self.fold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_keys_are_all_used() {
        for key_bytes in [1, 2] {
            let largest = KeyBuffer::largest(key_bytes);
            let scatter = Scatter::new(key_bytes);
            let mut places: Vec<_> = (0..=largest).map(|number| scatter.of(number)).collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..=largest));
        }
    }

    #[test]
    fn neighbours_lie_anywhere() {
        let scatter = Scatter::new(10);
        let mut buckets = [0u32; 64];
        for number in 0..64_000 {
            buckets[(scatter.of(number) >> 58) as usize] += 1;
        }
        // A thousand each, give or take six standard deviations.
        assert!(buckets.iter().all(|&count| (810..1_190).contains(&count)), "{buckets:?}");
        let ups = (0..1_000).filter(|&n| scatter.of(n) < scatter.of(n + 1)).count();
        assert!((400..600).contains(&ups), "{ups} of 1,000 go up");
    }
}
