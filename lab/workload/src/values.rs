//! Values that cost nothing to make and compress to about half, as `db_bench` makes them.
//!
//! A pool of bytes is made once: pieces of a hundred bytes, each fifty random printable characters
//! said twice. A value is the next slice of the pool, so that making one is moving an offset.

use esker_base::Rng;

/// A piece's length; half of it is random. With values of a hundred bytes each value is one piece.
const PIECE_BYTES: usize = 100;

/// The least size of a pool: larger than what any block compressor looks back over, so that a
/// value's copy a pool's length earlier is no help to it.
const POOL_BYTES: usize = 1 << 20;

/// Bytes to cut values from. Shared between threads.
#[derive(Debug)]
pub struct ValuePool {
    bytes: Vec<u8>,
    value_bytes: usize,
}

impl ValuePool {
    /// A pool for values of `value_bytes`, whose content follows from `rng`.
    pub fn new(value_bytes: usize, rng: &mut Rng) -> Self {
        let len = POOL_BYTES.max(value_bytes).next_multiple_of(PIECE_BYTES);
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let start = bytes.len();
            bytes.extend((0..PIECE_BYTES / 2).map(|_| b' ' + rng.below(95) as u8));
            bytes.extend_from_within(start..);
        }
        ValuePool { bytes, value_bytes }
    }

    /// A way through the pool from its start.
    pub fn values(&self) -> Values<'_> {
        Values { pool: self, at: 0 }
    }

    /// The way of thread number `thread` of `threads`: each starts elsewhere, so that threads do not
    /// write the same values at the same time. Only with values about as long as the pool can two
    /// of them share a start.
    pub fn values_of(&self, thread: usize, threads: usize) -> Values<'_> {
        let starts = (self.bytes.len() - self.value_bytes) / PIECE_BYTES;
        let share = starts as u128 * (thread % threads.max(1)) as u128 / threads.max(1) as u128;
        Values { pool: self, at: share as usize * PIECE_BYTES }
    }
}

/// An endless row of values.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    pool: &'a ValuePool,
    at: usize,
}

impl<'a> Values<'a> {
    /// The next value.
    #[inline]
    pub fn next_value(&mut self) -> &'a [u8] {
        self.next_of(self.pool.value_bytes)
    }

    /// The next value, of `len` bytes: those of the pool at most.
    #[inline]
    pub fn next_of(&mut self, len: usize) -> &'a [u8] {
        if self.at + len > self.pool.bytes.len() {
            self.at = 0;
        }
        let value = &self.pool.bytes[self.at..self.at + len];
        self.at += len;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_the_length_asked_for() {
        for value_bytes in [0, 1, 100, 4096, POOL_BYTES, 3 * POOL_BYTES + 7] {
            let pool = ValuePool::new(value_bytes, &mut Rng::new(1));
            let mut values = pool.values();
            assert!((0..30).all(|_| values.next_value().len() == value_bytes));
        }
    }

    #[test]
    fn values_of_several_lengths_follow_each_other() {
        let pool = ValuePool::new(POOL_BYTES, &mut Rng::new(1));
        let mut values = pool.values();
        let lens = [100, 7, 4_096, POOL_BYTES, 30];
        let found = lens.map(|len| values.next_of(len));
        assert_eq!(found.map(<[u8]>::len), lens);
        assert_eq!(found[1], &pool.bytes[100..107]);
    }

    #[test]
    fn threads_start_at_different_values() {
        for (value_bytes, threads) in [(100, 3), (1_000, 64), (POOL_BYTES / 2, 16)] {
            let pool = ValuePool::new(value_bytes, &mut Rng::new(1));
            let ways = (0..threads).map(|thread| pool.values_of(thread, threads));
            let firsts: std::collections::HashSet<_> =
                ways.map(|mut values| values.next_value()).collect();
            assert_eq!(firsts.len(), threads, "of {value_bytes} bytes");
        }
        let pool = ValuePool::new(POOL_BYTES, &mut Rng::new(1));
        assert_eq!(pool.values_of(5, 8).next_value().len(), POOL_BYTES);
    }

    #[test]
    fn half_of_a_value_repeats_the_other_half() {
        let pool = ValuePool::new(100, &mut Rng::new(1));
        let mut values = pool.values();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            let value = values.next_value();
            assert_eq!(value[..50], value[50..]);
            seen.insert(value);
        }
        assert_eq!(seen.len(), 1000, "values differ from each other");
    }

    #[test]
    fn the_seed_decides_the_bytes() {
        let bytes = |seed| ValuePool::new(100, &mut Rng::new(seed)).bytes;
        assert_eq!(bytes(1), bytes(1));
        assert_ne!(bytes(1), bytes(2));
    }
}
