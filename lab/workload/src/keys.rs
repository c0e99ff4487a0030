//! Key numbers as key bytes, laid out as RocksDB's `db_bench` does it.
//!
//! A key of `n` bytes is the number, big-endian in the first min(`n`, 8) bytes, then `'0'` up to the
//! length. So the byte order of keys is the order of their numbers.

/// The byte that fills a key beyond its number.
const PADDING: u8 = b'0';

/// A key whose number changes in place: making the next key writes eight bytes and allocates nothing.
#[derive(Clone, Debug)]
pub struct KeyBuffer {
    bytes: Vec<u8>,
}

impl KeyBuffer {
    /// The key of number zero, `key_bytes` long. Panics if that is zero.
    pub fn new(key_bytes: usize) -> Self {
        assert!(key_bytes > 0, "a key has at least one byte");
        let mut buffer = KeyBuffer { bytes: vec![PADDING; key_bytes] };
        buffer.set(0);
        buffer
    }

    /// Turns into the key of `number`, at most [`KeyBuffer::largest`].
    #[inline]
    pub fn set(&mut self, number: u64) -> &[u8] {
        debug_assert!(number <= Self::largest(self.bytes.len()), "the number does not fit the key");
        let digits = number.to_be_bytes();
        let len = self.bytes.len();
        match self.bytes.first_chunk_mut::<8>() {
            Some(head) => *head = digits,
            None => self.bytes.copy_from_slice(&digits[8 - len..]),
        }
        &self.bytes
    }

    /// The key as last set.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The largest number that a key of `key_bytes` bytes holds.
    pub fn largest(key_bytes: usize) -> u64 {
        if key_bytes >= 8 { u64::MAX } else { (1 << (8 * key_bytes)) - 1 }
    }

    /// The number of `key`, or `None` if no number has this key.
    pub fn number(key: &[u8]) -> Option<u64> {
        let (head, padding) = key.split_at(key.len().min(8));
        if head.is_empty() || padding.iter().any(|&byte| byte != PADDING) {
            return None;
        }
        Some(head.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_big_endian_number_and_then_zeros() {
        assert_eq!(KeyBuffer::new(12).set(0x0102), b"\0\0\0\0\0\0\x01\x020000");
        assert_eq!(KeyBuffer::new(8).set(u64::MAX), [0xff; 8]);
        assert_eq!(KeyBuffer::new(4).set(0x0102_0304), [1, 2, 3, 4]);
    }

    #[test]
    fn keys_sort_as_their_numbers_and_give_them_back() {
        for key_bytes in [2, 4, 8, 16] {
            let (mut low, mut high) = (KeyBuffer::new(key_bytes), KeyBuffer::new(key_bytes));
            for number in [0, 1, 254, 255, 256, 65_534] {
                assert!(low.set(number) < high.set(number + 1));
                assert_eq!(KeyBuffer::number(low.bytes()), Some(number));
            }
        }
    }

    #[test]
    fn bytes_that_are_no_key_have_no_number() {
        assert_eq!(KeyBuffer::number(b""), None);
        assert_eq!(KeyBuffer::number(b"\0\0\0\0\0\0\0\x011"), None);
    }

    #[test]
    fn the_largest_number_fits_exactly() {
        assert_eq!(KeyBuffer::largest(1), 255);
        assert_eq!(KeyBuffer::new(3).set(KeyBuffer::largest(3)), [0xff; 3]);
        assert_eq!(KeyBuffer::largest(16), u64::MAX);
    }
}
