//! Record numbers as YCSB's keys: `user` and a decimal number.

use crate::distributions::scatter;

const PREFIX: &[u8] = b"user";

/// The most digits that a number has.
const MAX_DIGITS: usize = 20;

/// How record numbers become keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeyOrder {
    /// The number in the key is a hash: records that follow each other are anywhere.
    #[default]
    Hashed,
    /// The number in the key is the record's. Keys sort as the records only with enough zeros
    /// before them.
    Ordered,
}

/// A key whose number changes in place, without an allocation.
#[derive(Clone, Debug)]
pub struct RecordKey {
    order: KeyOrder,
    digits: usize,
    bytes: Vec<u8>,
}

impl RecordKey {
    /// Keys in `order`, with zeros before the number up to `digits` digits.
    pub fn new(order: KeyOrder, digits: usize) -> Self {
        let mut bytes = Vec::with_capacity(PREFIX.len() + digits.max(MAX_DIGITS));
        bytes.extend_from_slice(PREFIX);
        let mut key = RecordKey { order, digits, bytes };
        key.set(0);
        key
    }

    /// Turns into the key of record `number`.
    #[inline]
    pub fn set(&mut self, number: u64) -> &[u8] {
        let number = match self.order {
            KeyOrder::Hashed => scatter(number),
            KeyOrder::Ordered => number,
        };
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(number).as_bytes();
        let zeros = self.digits.saturating_sub(digits.len());
        self.bytes.truncate(PREFIX.len());
        self.bytes.resize(PREFIX.len() + zeros, b'0');
        self.bytes.extend_from_slice(digits);
        &self.bytes
    }

    /// The key as last set.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The mean length of the keys of records 0 to `records`. For hashed keys it is the one
    /// expected of uniform hashes.
    pub fn mean_bytes(order: KeyOrder, digits: usize, records: u64) -> f64 {
        // Of `all` numbers from zero on, those below ten have one digit, those below a hundred...
        let all = match order {
            KeyOrder::Hashed => 1 << 63,
            KeyOrder::Ordered => records.max(1),
        };
        let (mut below, mut sum, mut bound) = (0u64, 0.0, 1u64);
        for len in 1..=MAX_DIGITS {
            bound = bound.saturating_mul(10);
            sum += (bound.min(all) - below) as f64 * len.max(digits) as f64;
            below = bound.min(all);
        }
        PREFIX.len() as f64 + sum / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_keys_hold_the_number_with_zeros_before_it() {
        let mut key = RecordKey::new(KeyOrder::Ordered, 1);
        assert_eq!(key.set(0), b"user0");
        assert_eq!(key.set(907), b"user907");
        assert_eq!(key.set(u64::MAX), b"user18446744073709551615");
        let mut padded = RecordKey::new(KeyOrder::Ordered, 8);
        assert_eq!(padded.set(5), b"user00000005");
        assert_eq!(padded.set(123_456_789), b"user123456789");
        assert_eq!(RecordKey::new(KeyOrder::Ordered, 30).set(7).len(), 34);
    }

    #[test]
    fn hashed_keys_are_those_of_ycsb() {
        // The first keys that YCSB's own client loads.
        let mut key = RecordKey::new(KeyOrder::Hashed, 1);
        assert_eq!(key.set(0), b"user6284781860667377211");
        assert_eq!(key.set(1), b"user8517097267634966620");
    }

    #[test]
    fn the_mean_length_is_that_of_real_keys() {
        for (order, digits) in
            [(KeyOrder::Hashed, 1), (KeyOrder::Ordered, 1), (KeyOrder::Ordered, 3)]
        {
            let mut key = RecordKey::new(order, digits);
            let sum: usize = (0..20_000).map(|number| key.set(number).len()).sum();
            let mean = RecordKey::mean_bytes(order, digits, 20_000);
            assert!((sum as f64 / 20_000.0 - mean).abs() < 0.01, "{order:?}: {mean}");
        }
    }
}
