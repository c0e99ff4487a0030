//! Collects one separator a data block and encodes the index. The layout is in [`crate::index`].

use crate::block::common_prefix;
use esker_base::Seqno;
use esker_base::coding::put_varint64;

/// The index of a table that is being written.
#[derive(Default)]
pub(crate) struct IndexBuilder {
    encoded: Vec<u8>,
    blocks: u64,
    last_separator: Vec<u8>,
    last_seqno: Seqno,
    separator_bytes: u64,
    data_bytes: u64,
}

impl IndexBuilder {
    /// Bytes of the entries so far.
    pub(crate) fn bytes(&self) -> usize {
        self.encoded.len()
    }

    /// The number of blocks so far.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Bytes of the blocks so far.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// The separator of the last block.
    pub(crate) fn last_separator(&self) -> (Vec<u8>, Seqno) {
        (self.last_separator.clone(), self.last_seqno)
    }

    /// Bytes of all separators so far, each whole: what a reader has in memory briefly.
    pub(crate) fn separator_bytes(&self) -> u64 {
        self.separator_bytes
    }

    /// Adds a block of `block_bytes` bytes, whose last version is `last` and after which `next`
    /// comes, if anything.
    pub(crate) fn add(&mut self, last: (&[u8], Seqno), next: Option<&[u8]>, block_bytes: u64) {
        let (last_key, last_seqno) = last;
        let separator = match next {
            Some(next) if next == last_key => (last_key.to_vec(), last_seqno),
            Some(next) => (shortest_separator(last_key, next), 0),
            None => (last_key.to_vec(), 0),
        };
        self.add_separator(separator, block_bytes);
    }

    /// Adds a block of `block_bytes` bytes with a separator that is known.
    pub(crate) fn add_separator(&mut self, (separator, seqno): (Vec<u8>, Seqno), block_bytes: u64) {
        let shared = common_prefix(&separator, &self.last_separator);
        put_varint64(&mut self.encoded, shared as u64);
        put_varint64(&mut self.encoded, (separator.len() - shared) as u64);
        put_varint64(&mut self.encoded, seqno);
        put_varint64(&mut self.encoded, block_bytes);
        self.encoded.extend_from_slice(&separator[shared..]);
        self.separator_bytes += separator.len() as u64;
        (self.last_separator, self.last_seqno) = (separator, seqno);
        self.data_bytes += block_bytes;
        self.blocks += 1;
    }

    /// The encoded index.
    pub(crate) fn finish(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(10 + self.encoded.len());
        put_varint64(&mut out, self.blocks);
        out.extend_from_slice(&self.encoded);
        out
    }
}

/// A short key `k` with `low <= k < high`, given `low < high`.
fn shortest_separator(low: &[u8], high: &[u8]) -> Vec<u8> {
    let common = common_prefix(low, high);
    if common == low.len() {
        return low.to_vec();
    }
    if high.len() > common + 1 {
        return high[..=common].to_vec();
    }
    // `high` ends where it differs: raise the first byte of `low` that stays below it.
    let first = if low[common] + 1 < high[common] { common } else { common + 1 };
    match low[first..].iter().position(|&byte| byte != 0xff) {
        Some(ones) => {
            let mut separator = low[..=first + ones].to_vec();
            separator[first + ones] += 1;
            separator
        }
        None => low.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;

    #[test]
    fn separators_separate_and_are_no_longer_than_needed() {
        let cases: [(&[u8], &[u8], &[u8]); 8] = [
            (b"apple", b"banana", b"b"),
            (b"ab", b"abc", b"ab"),
            (b"abcde", b"abz", b"abd"),
            (b"abc", b"abd", b"abc"),
            (b"abcdef", b"abd", b"abce"),
            (b"ab\xff\xffz", b"ac", b"ab\xff\xff{"),
            (b"ab\xff\xff", b"ac", b"ab\xff\xff"),
            (b"a", b"c", b"b"),
        ];
        for (low, high, expected) in cases {
            assert_eq!(shortest_separator(low, high), expected, "{low:?} {high:?}");
        }
    }

    #[test]
    fn separators_hold_for_any_keys() {
        let mut rng = Rng::new(3);
        let mut key = || -> Vec<u8> {
            (0..1 + rng.below(5)).map(|_| [0, 1, 2, 254, 255][rng.below(5) as usize]).collect()
        };
        for _ in 0..100_000 {
            let (a, b) = (key(), key());
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            if low < high {
                let separator = shortest_separator(&low, &high);
                assert!(low <= separator && separator < high, "{low:?} {separator:?} {high:?}");
                assert!(separator.len() <= low.len().max(high.len()));
            }
        }
    }
}
