//! Lays out one data block. The layout is in [`crate::block`].

use crate::block::{HEADER_BYTES, RESTART_BYTES};
use crate::format::RESTART_INTERVAL;
use esker_base::coding::{put_varint64, varint_bytes};
use esker_base::{Kind, Seqno};

/// Collects the entries of a block, then starts over for the next.
#[derive(Default)]
pub(crate) struct BlockBuilder {
    entries: Vec<u8>,
    values: Vec<u8>,
    /// Offset of the entry, and of its value from the first.
    restarts: Vec<(u32, u32)>,
    /// The block as a whole, once it is finished.
    finished: Vec<u8>,
    since_restart: usize,
    /// The key last added. Kept over blocks, so that the next separator can be cut.
    last_key: Vec<u8>,
}

impl BlockBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The key last added, to this block or an earlier one.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// The block's length if it ended now.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        HEADER_BYTES + RESTART_BYTES * self.restarts.len() + self.entries.len() + self.values.len()
    }

    /// At most how many bytes a version adds.
    #[inline]
    pub(crate) fn bytes_to_add(key: &[u8], value: &[u8]) -> usize {
        const TAG_KEY_LENGTHS_AND_SEQNO: usize = 1 + 5 + 7;
        TAG_KEY_LENGTHS_AND_SEQNO
            + RESTART_BYTES
            + varint_bytes(value.len() as u64)
            + key.len()
            + value.len()
    }

    /// Appends a version, which must come after all earlier ones. Its key shares `common` bytes
    /// with the last one added.
    #[inline]
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        common: usize,
        seqno: Seqno,
        kind: Kind,
        value: &[u8],
    ) {
        let mut shared = common;
        if self.entries.is_empty() || self.since_restart == RESTART_INTERVAL {
            self.restarts.push((offset(&self.entries), offset(&self.values)));
            self.since_restart = 0;
            shared = 0;
        }
        self.since_restart += 1;
        self.put_entry(shared, key, seqno, kind, value.len());
        self.values.extend_from_slice(value);
        self.last_key.truncate(common);
        self.last_key.extend_from_slice(&key[common..]);
    }

    #[inline]
    fn put_entry(&mut self, shared: usize, key: &[u8], seqno: Seqno, kind: Kind, value_len: usize) {
        let unshared = key.len() - shared;
        let out = &mut self.entries;
        let seqno_bytes = (71 - seqno.leading_zeros() as usize) / 8;
        let tag = kind as u8 | (seqno_bytes as u8) << 4;
        if (shared | unshared | value_len) < 0x80 {
            out.extend_from_slice(&[tag, shared as u8, unshared as u8, value_len as u8]);
        } else {
            out.push(tag);
            put_varint64(out, shared as u64);
            put_varint64(out, unshared as u64);
            put_varint64(out, value_len as u64);
        }
        out.extend_from_slice(&seqno.to_le_bytes()[..seqno_bytes]);
        out.extend_from_slice(&key[shared..]);
    }

    /// Ends the block and lends it out. [`BlockBuilder::clear`] starts the next.
    pub(crate) fn finish(&mut self) -> &[u8] {
        assert!(!self.is_empty(), "a block has at least one entry");
        let counts = [self.restarts.len() as u32, offset(&self.entries), offset(&self.values)];
        let out = &mut self.finished;
        out.clear();
        counts.iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
        for (entry, value) in &self.restarts {
            out.extend_from_slice(&entry.to_le_bytes());
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&self.entries);
        out.extend_from_slice(&self.values);
        out
    }

    /// Forgets the block, and keeps the memory and the last key.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.values.clear();
        self.restarts.clear();
        self.since_restart = 0;
    }
}

/// Where the next byte goes.
fn offset(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a block is shorter than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Block, common_prefix};
    use esker_base::MAX_SEQNO;

    #[test]
    fn entries_of_every_length_class_round_trip() {
        let versions = [
            (vec![1; 1], 0, Kind::Put, vec![]),
            (vec![1; 127], 1, Kind::Put, vec![2; 127]),
            (vec![1; 128], 256, Kind::Delete, vec![]),
            (vec![1; 300], MAX_SEQNO, Kind::Put, vec![3; 128]),
            (vec![2; 65_536], 65_535, Kind::Put, vec![4; 70_000]),
            (vec![3; 1], 0, Kind::Put, vec![5; 127]),
            (vec![4; 1], 1, Kind::Put, vec![6; 128]),
            (vec![5; 1], MAX_SEQNO, Kind::Put, vec![7; 16_383]),
            (vec![6; 1], 1, Kind::Put, vec![8; 16_384]),
            (vec![7; 1], 0, Kind::Put, vec![9; 200]),
        ];
        let mut builder = BlockBuilder::default();
        let mut bytes_at_most = HEADER_BYTES;
        for (key, seqno, kind, value) in &versions {
            let common = common_prefix(key, builder.last_key());
            builder.add(key, common, *seqno, *kind, value);
            bytes_at_most += BlockBuilder::bytes_to_add(key, value);
            assert!(builder.bytes() <= bytes_at_most);
        }
        let block = Block::new(builder.finish().into()).unwrap();
        let mut place = block.first();
        for (key, seqno, kind, value) in &versions {
            let entry = block.entry(place.entry).unwrap();
            assert_eq!((entry.seqno, entry.kind), (*seqno, *kind));
            assert_eq!(entry.shared + block.suffix(&entry).len(), key.len());
            assert_eq!(block.slice(block.value(place, &entry).unwrap()), value);
            let landing = block.seek(key, *seqno).unwrap().unwrap();
            assert!(landing.same_key && landing.place == place);
            place = place.after(&entry);
        }
        assert_eq!(place.entry, block.entries_end());
        assert_eq!(block.check_restarts(), Ok(()));
    }
}
