//! Lays out one data block. The layout is in [`crate::block`].

use crate::block::common_prefix;
use crate::format::RESTART_INTERVAL;
use esker_base::coding::{put_varint64, varint_bytes};
use esker_base::{Kind, Seqno};

/// Collects the entries of a block, then starts over for the next.
#[derive(Default)]
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    since_restart: usize,
    /// The key last added. Kept over blocks, so that the next separator can be cut.
    last_key: Vec<u8>,
}

impl BlockBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The key last added, to this block or an earlier one.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// The block's length if it ended now.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + 4
    }

    /// At most how many bytes a version adds.
    #[inline]
    pub(crate) fn bytes_to_add(key: &[u8], value: &[u8]) -> usize {
        const LENGTHS_SEQNO_AND_RESTART: usize = 1 + 5 + 7 + 4;
        LENGTHS_SEQNO_AND_RESTART + varint_bytes(value.len() as u64) + key.len() + value.len()
    }

    /// Appends a version, which must come after all earlier ones.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], seqno: Seqno, kind: Kind, value: &[u8]) {
        let shared = if self.bytes.is_empty() || self.since_restart == RESTART_INTERVAL {
            let at = u32::try_from(self.bytes.len()).expect("a block is shorter than 4 GiB");
            self.restarts.push(at);
            self.since_restart = 0;
            0
        } else {
            common_prefix(key, &self.last_key)
        };
        self.since_restart += 1;
        self.put_entry(shared, key, seqno, kind, value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
    }

    #[inline]
    fn put_entry(&mut self, shared: usize, key: &[u8], seqno: Seqno, kind: Kind, value: &[u8]) {
        let unshared = key.len() - shared;
        self.bytes.reserve(Self::bytes_to_add(key, value));
        let seqno_bytes = (71 - seqno.leading_zeros() as usize) / 8;
        let tag = kind as u8 | (seqno_bytes as u8) << 4;
        if (shared | unshared | value.len()) < 0x80 {
            self.bytes.extend_from_slice(&[tag, shared as u8, unshared as u8, value.len() as u8]);
        } else {
            self.bytes.push(tag);
            put_varint64(&mut self.bytes, shared as u64);
            put_varint64(&mut self.bytes, unshared as u64);
            put_varint64(&mut self.bytes, value.len() as u64);
        }
        self.bytes.extend_from_slice(&seqno.to_le_bytes()[..seqno_bytes]);
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value);
    }

    /// Ends the block and lends it out. [`BlockBuilder::clear`] starts the next.
    pub(crate) fn finish(&mut self) -> &[u8] {
        assert!(!self.is_empty(), "a block has at least one entry");
        for restart in &self.restarts {
            self.bytes.extend_from_slice(&restart.to_le_bytes());
        }
        self.bytes.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        &self.bytes
    }

    /// Forgets the block, and keeps the memory and the last key.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.restarts.clear();
        self.since_restart = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;
    use esker_base::MAX_SEQNO;

    #[test]
    fn entries_of_every_length_class_round_trip() {
        let versions = [
            (vec![1; 1], 0, Kind::Put, vec![]),
            (vec![1; 127], 1, Kind::Put, vec![2; 127]),
            (vec![1; 128], 256, Kind::Delete, vec![]),
            (vec![1; 300], MAX_SEQNO, Kind::Put, vec![3; 128]),
            (vec![2; 65_536], 65_535, Kind::Put, vec![4; 70_000]),
        ];
        let mut builder = BlockBuilder::default();
        let mut bytes_at_most = 8;
        for (key, seqno, kind, value) in &versions {
            builder.add(key, *seqno, *kind, value);
            bytes_at_most += BlockBuilder::bytes_to_add(key, value);
            assert!(builder.bytes() <= bytes_at_most);
        }
        let bytes = builder.finish().to_vec();
        let block = Block::new(bytes.clone(), bytes.len()).unwrap();
        let mut at = 0;
        for (key, seqno, kind, value) in &versions {
            let entry = block.entry(at).unwrap();
            assert_eq!((entry.seqno, entry.kind), (*seqno, *kind));
            assert_eq!(entry.shared + block.suffix(&entry).len(), key.len());
            assert_eq!(block.slice(entry.value..entry.end), value);
            at = entry.end;
        }
        assert_eq!(at, block.entries_end());
    }
}
