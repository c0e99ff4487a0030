//! A record: one store or delete, as it is in its extents.

use super::{TAG_BYTES, is_sealed, seal};
use crate::extent::Extent;
use esker_base::checksum::crc32c;
use esker_base::coding::{u32_at, u64_at};

/// The bytes in front of the extents' list and the key.
pub const HEADER_BYTES: usize = 56;

/// The bytes of an extent in a list.
pub const EXTENT_BYTES: usize = 8;

/// The most extents of a record.
pub const EXTENTS_MAX: usize = 64;

const MAGIC: u32 = u32::from_le_bytes(*b"EHR1");
/// Where the magic is, for a quick look.
const MAGIC_AT: usize = TAG_BYTES;

/// What a record does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// Sets a key to a value.
    Store = 1,
    /// Removes a key.
    Delete = 2,
}

/// Longer headers are not mended: it would take long.
const MENDED_BYTES_MAX: usize = 512;

/// What is shown of a key that may be damaged.
const KEY_SHOWN_BYTES: usize = 64;

/// What a damaged header says. Any of it may be wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remains {
    /// Which write of its partition it was.
    pub seqno: u64,
    /// The first bytes of the key.
    pub key: Vec<u8>,
}

/// What a record's header says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// What it does.
    pub kind: RecordKind,
    /// Which write of its partition it is.
    pub seqno: u64,
    /// All writes up to this one were known durable when the record was written: so a reader that finds the
    /// record must find theirs.
    pub durable_through: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The value's length, in bytes.
    pub value_bytes: u32,
    /// The value's CRC-32C.
    pub value_checksum: u32,
    /// Where the record is: all its extents, the first of which begins with the header.
    pub extents: Vec<Extent>,
}

/// Where a record's value begins, counted from the record's first byte.
pub fn value_at(key_bytes: usize, extents: usize) -> usize {
    let listed = if extents > 1 { extents * EXTENT_BYTES } else { 0 };
    HEADER_BYTES + listed + key_bytes
}

impl Record {
    /// The record's bytes in front of its value, which are those of `out`.
    pub fn encode(&self, partition: u32, secret: u64, out: &mut [u8]) {
        let listed: &[Extent] = if self.extents.len() > 1 { &self.extents } else { &[] };
        out[8..12].copy_from_slice(&MAGIC.to_le_bytes());
        out[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        out[16..24].copy_from_slice(&self.seqno.to_le_bytes());
        out[24..28].copy_from_slice(&partition.to_le_bytes());
        out[28..32].copy_from_slice(&self.extents[0].start.to_le_bytes());
        out[32..36].copy_from_slice(&(self.key.len() as u32).to_le_bytes());
        out[36..40].copy_from_slice(&(listed.len() as u32).to_le_bytes());
        out[40..44].copy_from_slice(&self.value_bytes.to_le_bytes());
        out[44..48].copy_from_slice(&self.value_checksum.to_le_bytes());
        out[48..56].copy_from_slice(&self.durable_through.to_le_bytes());
        let mut at = HEADER_BYTES;
        for extent in listed {
            out[at..at + 4].copy_from_slice(&extent.start.to_le_bytes());
            out[at + 4..at + 8].copy_from_slice(&extent.blocks.to_le_bytes());
            at += EXTENT_BYTES;
        }
        out[at..].copy_from_slice(&self.key);
        seal(out, secret);
    }

    /// Whether `bytes`, at least a header, may be a record's: to look no further at what is none.
    pub fn may_start(bytes: &[u8]) -> bool {
        u32_at(bytes, MAGIC_AT) == MAGIC
    }

    /// How many bytes in front of the value a record has that starts with these, if it is one.
    pub fn prefix_bytes(bytes: &[u8]) -> Option<usize> {
        let (key, extents) = (u32_at(bytes, 32) as usize, u32_at(bytes, 36) as usize);
        let is_one = Self::may_start(bytes)
            && (1..=esker_base::MAX_KEY_BYTES).contains(&key)
            && extents <= EXTENTS_MAX;
        is_one.then(|| value_at(key, extents))
    }

    /// Reads the record that starts at the front of `bytes` and is at block `start`, if there is a
    /// whole one up to its value.
    pub fn decode(
        bytes: &[u8],
        (partition, start): (u32, u32),
        block_bytes: u32,
        secret: u64,
    ) -> Option<Record> {
        let bytes = bytes.get(..Self::prefix_bytes(bytes.get(..HEADER_BYTES)?)?)?;
        if !is_sealed(bytes, secret) || u32_at(bytes, 24) != partition || u32_at(bytes, 28) != start
        {
            return None;
        }
        let kind = match u32_at(bytes, 12) {
            1 => RecordKind::Store,
            2 => RecordKind::Delete,
            _ => return None,
        };
        let (key_bytes, listed) = (u32_at(bytes, 32) as usize, u32_at(bytes, 36) as usize);
        let value_bytes = u32_at(bytes, 40);
        let list = bytes[HEADER_BYTES..].chunks_exact(EXTENT_BYTES).take(listed);
        let mut extents: Vec<_> = list
            .map(|bytes| Extent { start: u32_at(bytes, 0), blocks: u32_at(bytes, 4) })
            .collect();
        if extents.is_empty() {
            let blocks =
                (bytes.len() as u64 + u64::from(value_bytes)).div_ceil(u64::from(block_bytes));
            extents.push(Extent { start, blocks: u32::try_from(blocks).ok()? });
        }
        let key = bytes[bytes.len() - key_bytes..].to_vec();
        let (seqno, durable_through) = (u64_at(bytes, 16), u64_at(bytes, 48));
        let value_checksum = u32_at(bytes, 44);
        Some(Record { kind, seqno, durable_through, key, value_bytes, value_checksum, extents })
    }

    /// What is left of a header, if `bytes` may be one that was damaged and was at block `start`: of magic, partition and place
    /// one at most is wrong.
    pub fn remains(bytes: &[u8], (partition, start): (u32, u32)) -> Option<Remains> {
        let header = bytes.get(..HEADER_BYTES)?;
        let signs = [
            Self::may_start(header),
            u32_at(header, 24) == partition && u32_at(header, 28) == start,
        ];
        let seqno = u64_at(header, 16);
        // Zeros look like a place in the first block of the first partition.
        if signs == [false, false] || seqno == 0 {
            return None;
        }
        let (key_bytes, listed) = (u32_at(header, 32) as usize, u32_at(header, 36) as usize);
        let at = HEADER_BYTES.saturating_add(listed.min(EXTENTS_MAX) * EXTENT_BYTES);
        let key = bytes.get(at..).unwrap_or(&[]);
        let key = key[..key_bytes.min(key.len()).min(KEY_SHOWN_BYTES)].to_vec();
        Some(Remains { seqno, key })
    }

    /// The bytes of a header that is whole but for one byte, mended: its tag says which. `None` if there is none at the front
    /// of `bytes`.
    pub fn mended(bytes: &[u8], secret: u64) -> Option<Vec<u8>> {
        let mut copy = bytes.to_vec();
        for at in 0..copy.len().min(MENDED_BYTES_MAX) {
            let was = copy[at];
            for byte in 0..=u8::MAX {
                copy[at] = byte;
                let prefix = Self::prefix_bytes(&copy).filter(|prefix| at < *prefix);
                if prefix.and_then(|end| copy.get(..end)).is_some_and(|it| is_sealed(it, secret)) {
                    return Some(copy);
                }
            }
            copy[at] = was;
        }
        None
    }

    /// Where the value is in the record's bytes.
    pub fn value(&self) -> std::ops::Range<usize> {
        let at = value_at(self.key.len(), self.extents.len());
        at..at + self.value_bytes as usize
    }

    /// Whether the value in the record's bytes is the one that was written.
    pub fn has_value(&self, bytes: &[u8]) -> bool {
        bytes.get(self.value()).is_some_and(|value| crc32c(value) == self.value_checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(extents: &[(u32, u32)]) -> Record {
        let extents = extents.iter().map(|&(start, blocks)| Extent { start, blocks }).collect();
        let (key, value) = (b"a key".to_vec(), b"a value");
        let (value_bytes, value_checksum) = (value.len() as u32, crc32c(value));
        let (kind, seqno, durable_through) = (RecordKind::Store, 77, 75);
        Record { kind, seqno, durable_through, key, value_bytes, value_checksum, extents }
    }

    fn encoded(record: &Record) -> Vec<u8> {
        let mut bytes = vec![0; record.value().start];
        record.encode(3, 99, &mut bytes);
        bytes.extend_from_slice(b"a value");
        bytes
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        for extents in [&[(5, 1)][..], &[(5, 1), (9, 2), (70, 1)]] {
            let record = record(extents);
            let bytes = encoded(&record);
            assert_eq!(Record::decode(&bytes, (3, 5), 512, 99), Some(record.clone()));
            assert!(record.has_value(&bytes));
        }
    }

    #[test]
    fn no_bit_can_change_unseen() {
        let record = record(&[(5, 1), (9, 2)]);
        let bytes = encoded(&record);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let decoded = Record::decode(&bytes, (3, 5), 512, 99);
            assert!(decoded.is_none_or(|record| !record.has_value(&bytes)), "bit {bit}");
        }
    }

    #[test]
    fn a_record_means_nothing_elsewhere() {
        let bytes = encoded(&record(&[(5, 1)]));
        for (place, secret) in [((3, 6), 99), ((2, 5), 99), ((3, 5), 98)] {
            assert_eq!(Record::decode(&bytes, place, 512, secret), None);
        }
    }

    #[test]
    fn bytes_that_end_too_early_are_no_record() {
        let bytes = encoded(&record(&[(5, 1)]));
        for len in 0..HEADER_BYTES + 5 {
            assert_eq!(Record::decode(&bytes[..len], (3, 5), 512, 99), None);
        }
    }
}
