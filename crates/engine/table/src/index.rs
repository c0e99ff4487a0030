//! Which data block holds a version, answered from memory.
//!
//! ```text
//! index:      number of blocks varint | entries
//! entry:      shared varint | unshared varint | seqno varint | block_bytes varint | key suffix
//! ```
//!
//! Entry `n` is a *separator*: a version at or after the last of block `n` and before the first of
//! block `n + 1`. Between different keys it is a short key with seqno 0; where one key's versions
//! run on into the next block it is the very last version. So the first separator at or after a
//! version names the only block that can hold it.
//!
//! After opening, the keys' common prefix is taken off all of them, and the next eight bytes of
//! each, as a big-endian number, go into an array of their own: a search reads that array alone
//! unless separators agree in all eight. Above it is a sample of every 64th number, so that a
//! search touches a few lines of the sample, which stay cached, and then one small range.

use crate::block::common_prefix;
use esker_base::Seqno;
use esker_base::coding::{take, take_varint64};
use std::cmp::Ordering;
use std::ops::Range;

/// One number in so many is in the sample.
const SAMPLE_EVERY: usize = 64;

/// The index of an open table.
#[derive(Default, Debug)]
pub(crate) struct Index {
    /// What every separator starts with.
    common: Vec<u8>,
    /// Every 64th head.
    sample: Vec<u64>,
    /// Eight bytes of each separator behind the common prefix, zeros behind short ones.
    heads: Vec<u64>,
    /// Where each separator's bytes end in `tails`.
    tail_ends: Vec<u32>,
    /// The separators without the common prefix.
    tails: Vec<u8>,
    /// The separators' seqnos, or nothing if all are 0.
    seqnos: Vec<Seqno>,
    /// Where each block ends, from the first one's start.
    block_ends: Vec<u64>,
}

impl Index {
    /// Reads an encoded index. `None` if it is none, or its separators are not in order.
    pub(crate) fn decode(mut input: &[u8]) -> Option<Index> {
        let index = Index::decode_front(&mut input)?;
        input.is_empty().then_some(index)
    }

    /// The same, and leaves in `input` what follows the index.
    pub(crate) fn decode_front(input: &mut &[u8]) -> Option<Index> {
        let blocks = usize::try_from(take_varint64(input)?).ok()?;
        // An entry takes four bytes at least, so this bounds what a false count can reserve.
        if blocks > input.len() / 4 {
            return None;
        }
        let mut keys: Vec<u8> = Vec::new();
        let mut index = Index::default();
        index.tail_ends.reserve_exact(blocks);
        index.block_ends.reserve_exact(blocks);
        let (mut last, mut block_end) = (0..0, 0u64);
        for n in 0..blocks {
            let shared = usize::try_from(take_varint64(input)?).ok()?;
            let unshared = usize::try_from(take_varint64(input)?).ok()?;
            let seqno = take_varint64(input)?;
            block_end = block_end.checked_add(take_varint64(input)?)?;
            let suffix = take(input, unshared)?;
            if shared > last.len() {
                return None;
            }
            let start = keys.len();
            keys.extend_from_within(last.start..last.start + shared);
            keys.extend_from_slice(suffix);
            index.note_seqno(n, seqno);
            if n > 0 && !in_order(&keys, last, start, index.seqno(n - 1), seqno) {
                return None;
            }
            last = start..keys.len();
            index.tail_ends.push(u32::try_from(keys.len()).ok()?);
            index.block_ends.push(block_end);
        }
        index.take_keys(&keys);
        Some(index)
    }

    fn note_seqno(&mut self, n: usize, seqno: Seqno) {
        if seqno != 0 && self.seqnos.is_empty() {
            self.seqnos.resize(n, 0);
        }
        if seqno != 0 || !self.seqnos.is_empty() {
            self.seqnos.push(seqno);
        }
    }

    /// Cuts `keys`, which end where `tail_ends` says, into prefix, heads and tails.
    fn take_keys(&mut self, keys: &[u8]) {
        let bounds = |ends: &[u32], n: usize| {
            let start = if n == 0 { 0 } else { ends[n - 1] as usize };
            start..ends[n] as usize
        };
        let blocks = self.tail_ends.len();
        if blocks == 0 {
            return;
        }
        // In order, so that what the first and the last share, all share.
        let first = &keys[bounds(&self.tail_ends, 0)];
        let common = common_prefix(first, &keys[bounds(&self.tail_ends, blocks - 1)]);
        self.common = first[..common].to_vec();
        self.tails.reserve_exact(keys.len() - common * blocks);
        let mut tail_ends = Vec::with_capacity(blocks);
        for n in 0..blocks {
            let tail = &keys[bounds(&self.tail_ends, n)][common..];
            self.heads.push(head(tail));
            self.tails.extend_from_slice(tail);
            tail_ends.push(self.tails.len() as u32);
        }
        self.tail_ends = tail_ends;
        self.sample = self.heads.iter().step_by(SAMPLE_EVERY).copied().collect();
    }

    /// The number of blocks.
    pub(crate) fn len(&self) -> usize {
        self.block_ends.len()
    }

    /// Where block `n` is, from the first one's start, its trailer included.
    #[inline]
    pub(crate) fn block(&self, n: usize) -> Range<u64> {
        let start = if n == 0 { 0 } else { self.block_ends[n - 1] };
        start..self.block_ends[n]
    }

    /// The bytes of all blocks.
    pub(crate) fn blocks_end(&self) -> u64 {
        self.block_ends.last().copied().unwrap_or(0)
    }

    #[inline]
    fn tail(&self, n: usize) -> &[u8] {
        let start = if n == 0 { 0 } else { self.tail_ends[n - 1] as usize };
        &self.tails[start..self.tail_ends[n] as usize]
    }

    #[inline]
    fn seqno(&self, n: usize) -> Seqno {
        self.seqnos.get(n).copied().unwrap_or(0)
    }

    /// The key of the separator of block `n`.
    pub(crate) fn separator(&self, n: usize) -> Vec<u8> {
        [&self.common[..], self.tail(n)].concat()
    }

    /// The block that holds the first version at or after `(key, seqno)`, or the one after the
    /// last.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], seqno: Seqno) -> usize {
        let Some(tail) = key.strip_prefix(&self.common[..]) else {
            return if key < &self.common[..] { 0 } else { self.len() };
        };
        let head = head(tail);
        let stretch = self.sample.partition_point(|&sampled| sampled < head);
        let start = stretch.saturating_sub(1) * SAMPLE_EVERY;
        let end = (stretch * SAMPLE_EVERY).min(self.heads.len());
        let low = start + self.heads[start..end].partition_point(|&other| other < head);
        if self.heads.get(low) != Some(&head) {
            return low;
        }
        self.find_among_equal_prefixes(low, head, tail, seqno)
    }

    /// As [`Index::find`], when separator `low` is the first with this head.
    fn find_among_equal_prefixes(&self, low: usize, head: u64, tail: &[u8], seqno: Seqno) -> usize {
        let mut high = low + self.heads[low..].partition_point(|&other| other == head);
        let mut low = low;
        while low < high {
            let middle = (low + high) / 2;
            let before = match self.tail(middle).cmp(tail) {
                Ordering::Less => true,
                Ordering::Equal => self.seqno(middle) > seqno,
                Ordering::Greater => false,
            };
            if before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Bytes of memory that the index takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.common.capacity()
            + self.tails.capacity()
            + 4 * self.tail_ends.capacity()
            + 8 * (self.sample.capacity() + self.heads.capacity())
            + 8 * (self.seqnos.capacity() + self.block_ends.capacity())
    }
}

/// Whether the key from `start` on, with `seqno`, comes after the key in `last` with `last_seqno`.
fn in_order(keys: &[u8], last: Range<usize>, start: usize, last_seqno: u64, seqno: u64) -> bool {
    match keys[last].cmp(&keys[start..]) {
        Ordering::Less => true,
        Ordering::Equal => last_seqno > seqno,
        Ordering::Greater => false,
    }
}

/// The first eight bytes, zeros behind short ones, as a number that orders as they do.
#[inline]
pub fn head(tail: &[u8]) -> u64 {
    if let Some(bytes) = tail.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..tail.len()].copy_from_slice(tail);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index_builder::IndexBuilder;
    use esker_base::key::compare_versions;
    use esker_base::{MAX_SEQNO, Rng};

    /// The last versions of some blocks, in order; keys of a small alphabet, many versions each.
    fn last_versions(rng: &mut Rng, prefix: &[u8]) -> Vec<(Vec<u8>, Seqno)> {
        let mut versions: Vec<(Vec<u8>, Seqno)> = (0..1 + rng.below(300))
            .map(|_| {
                let mut key = prefix.to_vec();
                key.extend((0..1 + rng.below(12)).map(|_| rng.below(2) as u8));
                (key, 1 + rng.below(4))
            })
            .collect();
        versions.sort_by(|a, b| compare_versions((&a.0, a.1), (&b.0, b.1)));
        versions.dedup();
        versions
    }

    fn encode(versions: &[(Vec<u8>, Seqno)]) -> Vec<u8> {
        let mut builder = IndexBuilder::default();
        for (n, (key, seqno)) in versions.iter().enumerate() {
            let next = versions.get(n + 1).map(|(key, _)| &key[..]);
            builder.add((key, *seqno), next, 10 + n as u64);
        }
        builder.finish()
    }

    #[test]
    fn every_version_is_found_in_its_block() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let versions =
                last_versions(&mut rng, &b"a longer common prefix"[..seed as usize % 20]);
            let index = Index::decode(&encode(&versions)).unwrap();
            assert_eq!(index.len(), versions.len());
            for (n, (key, seqno)) in versions.iter().enumerate() {
                assert_eq!(index.find(key, *seqno), n, "seed {seed}: last of the block");
                if let Some((next, next_seqno)) = versions.get(n + 1) {
                    assert_eq!(index.find(next, *next_seqno), n + 1, "seed {seed}");
                    if next == key {
                        assert_eq!(index.find(key, seqno - 1), n + 1, "seed {seed}: runs on");
                    } else {
                        assert_eq!(index.find(key, 0), n, "seed {seed}: older than all");
                    }
                }
            }
            let (last, _) = versions.last().unwrap();
            assert_eq!(index.find(&[&last[..], b"\0"].concat(), MAX_SEQNO), versions.len());
            assert_eq!(index.find(b"", MAX_SEQNO), 0);
        }
    }

    #[test]
    fn blocks_lie_back_to_back() {
        let versions = [(b"a".to_vec(), 1), (b"b".to_vec(), 1), (b"c".to_vec(), 1)];
        let index = Index::decode(&encode(&versions)).unwrap();
        assert_eq!((index.block(0), index.block(1), index.block(2)), (0..10, 10..21, 21..33));
        assert_eq!(index.blocks_end(), 33);
    }

    #[test]
    fn damaged_bytes_never_panic_and_truncation_is_refused() {
        let bytes = encode(&last_versions(&mut Rng::new(5), b"p"));
        for len in 0..bytes.len() {
            assert!(Index::decode(&bytes[..len]).is_none());
            for flip in [1, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[len] ^= flip;
                if let Some(index) = Index::decode(&bad) {
                    index.find(b"p\0\x01", 3);
                }
            }
        }
    }
}
