//! The journal: checkpoints of a partition's directory, each a whole snapshot or the changes since the
//! one before; and the marks that say which of them was durable.

use super::record::EXTENTS_MAX;
use super::{TAG_BYTES, is_sealed, seal};
use crate::extent::Extent;
use esker_base::coding::{
    put_bytes, put_varint32, take_bytes, take_u32, take_u64, take_varint32, u32_at, u64_at,
    varint_bytes,
};

/// The bytes in front of a checkpoint's lists.
pub const HEADER_BYTES: usize = 64;

const MAGIC: u32 = u32::from_le_bytes(*b"EHJ1");
const MARK_MAGIC: u32 = u32::from_le_bytes(*b"EHM1");

/// The bytes of a mark.
pub const MARK_BYTES: usize = 32;

/// A checkpoint: what recovery starts from, and where it looks for what came later.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Checkpoint {
    /// Its number. Higher ones are later.
    pub epoch: u64,
    /// The epoch of the snapshot that begins this half of the journal: of this one, if it is that.
    pub generation: u64,
    /// Records up to this one are in the directory, or are dead; but for the late ones.
    pub seqno: u64,
    /// Where later records may be.
    pub windows: Vec<Extent>,
    /// Records up to `seqno` that were on their way: seqno and first block.
    pub late: Vec<(u64, u32)>,
    /// Changes, or all entries of a snapshot, one behind the other: see [`put_change`].
    pub changes: Vec<u8>,
}

impl Checkpoint {
    /// Whether it is a whole directory.
    pub fn is_snapshot(&self) -> bool {
        self.epoch == self.generation
    }

    /// Whether it is the front of a snapshot in pieces or one of these, but not the last: others are behind it.
    pub fn is_followed(&self) -> bool {
        self.seqno == 0 && self.windows.is_empty()
    }

    /// The most bytes of changes.
    pub const CHANGES_BYTES_MAX: u64 = u32::MAX as u64;

    /// How many bytes it has, up to a whole block.
    pub fn bytes(&self, block_bytes: u32) -> u64 {
        let lists = self.windows.len() * 8 + self.late.len() * 12;
        let bytes = HEADER_BYTES + lists + self.changes.len();
        bytes.next_multiple_of(block_bytes as usize) as u64
    }

    /// The checkpoint's bytes at `offset` of the device, up to a whole block.
    pub fn encode(&self, offset: u64, block_bytes: u32, secret: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes(block_bytes) as usize);
        bytes.resize(TAG_BYTES, 0);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(0u32.to_le_bytes());
        for word in [self.epoch, self.generation, offset, self.seqno] {
            bytes.extend(word.to_le_bytes());
        }
        let changes = u32::try_from(self.changes.len()).expect("within CHANGES_BYTES_MAX");
        for word in [self.windows.len() as u32, self.late.len() as u32, changes, 0] {
            bytes.extend(word.to_le_bytes());
        }
        for extent in &self.windows {
            bytes.extend(extent.start.to_le_bytes());
            bytes.extend(extent.blocks.to_le_bytes());
        }
        for (seqno, start) in &self.late {
            bytes.extend(seqno.to_le_bytes());
            bytes.extend(start.to_le_bytes());
        }
        bytes.extend_from_slice(&self.changes);
        seal(&mut bytes, secret);
        bytes.resize(bytes.len().next_multiple_of(block_bytes as usize), 0);
        bytes
    }

    /// The bytes of the checkpoint whose header is at the front, without what fills its last block.
    pub fn bytes_of(header: &[u8]) -> Option<u64> {
        let lists = [(48, 8), (52, 12), (56, 1)];
        let bytes =
            lists.iter().map(|&(at, size)| u64::from(u32_at(header, at)) * size).sum::<u64>();
        (u32_at(header, 8) == MAGIC).then_some(HEADER_BYTES as u64 + bytes)
    }

    /// Reads the checkpoint at the front of `bytes`, which are at `offset` of the device.
    pub fn decode(bytes: &[u8], offset: u64, secret: u64) -> Option<Checkpoint> {
        let len = Self::bytes_of(bytes.get(..HEADER_BYTES)?)?;
        let bytes = bytes.get(..usize::try_from(len).ok()?)?;
        if !is_sealed(bytes, secret) || u64_at(bytes, 32) != offset {
            return None;
        }
        let (windows, late) = (u32_at(bytes, 48), u32_at(bytes, 52));
        let mut rest = &bytes[HEADER_BYTES..];
        let windows = (0..windows)
            .map(|_| Some(Extent { start: take_u32(&mut rest)?, blocks: take_u32(&mut rest)? }))
            .collect::<Option<_>>()?;
        let late = (0..late)
            .map(|_| Some((take_u64(&mut rest)?, take_u32(&mut rest)?)))
            .collect::<Option<_>>()?;
        Some(Checkpoint {
            epoch: u64_at(bytes, 16),
            generation: u64_at(bytes, 24),
            seqno: u64_at(bytes, 40),
            windows,
            late,
            changes: rest.to_vec(),
        })
    }
}

/// Appends a change: `key` now has its value in `extents`, or none if there are none.
pub fn put_change(out: &mut Vec<u8>, key: &[u8], extents: &[Extent]) {
    put_bytes(out, key);
    put_varint32(out, extents.len() as u32);
    for extent in extents {
        put_varint32(out, extent.start);
        put_varint32(out, extent.blocks);
    }
}

/// The bytes that [`put_change`] appends.
pub fn entry_bytes(key: &[u8], extents: &[Extent]) -> u64 {
    let listed = extents.iter().map(|extent| {
        varint_bytes(u64::from(extent.start)) + varint_bytes(u64::from(extent.blocks))
    });
    let counts = varint_bytes(key.len() as u64) + varint_bytes(extents.len() as u64);
    (counts + key.len() + listed.sum::<usize>()) as u64
}

/// The same at the most, for a key of `key_bytes`.
pub fn entry_bytes_max(key_bytes: usize) -> u64 {
    (key_bytes + 4 + EXTENTS_MAX * 10) as u64
}

/// Reads a change from the front of `input`.
pub fn take_change<'a>(input: &mut &'a [u8]) -> Option<(&'a [u8], Vec<Extent>)> {
    let key = take_bytes(input)?;
    let extents = take_varint32(input)?;
    let extents = (0..extents)
        .map(|_| Some(Extent { start: take_varint32(input)?, blocks: take_varint32(input)? }))
        .collect::<Option<_>>()?;
    Some((key, extents))
}

/// A mark, up to a whole block: the checkpoint `epoch` was durable.
pub fn encode_mark(epoch: u64, partition: u32, block_bytes: u32, secret: u64) -> Vec<u8> {
    let mut bytes = vec![0; TAG_BYTES];
    bytes.extend(MARK_MAGIC.to_le_bytes());
    bytes.extend(partition.to_le_bytes());
    bytes.extend(epoch.to_le_bytes());
    bytes.resize(MARK_BYTES, 0);
    seal(&mut bytes, secret);
    bytes.resize(block_bytes as usize, 0);
    bytes
}

/// The epoch of the mark at the front of `bytes`, if there is one.
pub fn decode_mark(bytes: &[u8], partition: u32, secret: u64) -> Option<u64> {
    let bytes = bytes.get(..MARK_BYTES)?;
    let is_one = u32_at(bytes, 8) == MARK_MAGIC && u32_at(bytes, 12) == partition;
    (is_one && is_sealed(bytes, secret)).then(|| u64_at(bytes, 16))
}

/// The bytes of the mark at the front of `bytes`, if there seems to be one.
pub fn mark_bytes(bytes: &[u8]) -> Option<usize> {
    (u32_at(bytes, 8) == MARK_MAGIC).then_some(MARK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint() -> Checkpoint {
        let mut changes = Vec::new();
        put_change(&mut changes, b"kept", &[Extent { start: 1, blocks: 2 }]);
        put_change(&mut changes, b"gone", &[]);
        let windows = vec![Extent { start: 100, blocks: 50 }, Extent { start: 7, blocks: 1 }];
        Checkpoint { epoch: 5, generation: 4, seqno: 90, windows, late: vec![(88, 3)], changes }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let bytes = checkpoint().encode(8192, 512, 9);
        assert_eq!(bytes.len(), 512);
        let decoded = Checkpoint::decode(&bytes, 8192, 9).unwrap();
        assert_eq!(decoded, checkpoint());
        let mut rest = &decoded.changes[..];
        assert_eq!(take_change(&mut rest).unwrap().0, b"kept");
        assert_eq!(take_change(&mut rest), Some((&b"gone"[..], vec![])));
        assert!(rest.is_empty());
    }

    #[test]
    fn the_bytes_of_an_entry_are_known_before() {
        for (key, extents) in [(&b"k"[..], vec![(0, 1)]), (&[7; 200], vec![(1 << 30, 300), (5, 1)])]
        {
            let extent = |(start, blocks)| Extent { start, blocks };
            let extents: Vec<_> = extents.into_iter().map(extent).collect();
            let mut out = Vec::new();
            put_change(&mut out, key, &extents);
            assert_eq!(entry_bytes(key, &extents), out.len() as u64);
            assert!(entry_bytes_max(key.len()) >= out.len() as u64);
        }
    }

    #[test]
    fn damage_and_other_places_are_seen() {
        let bytes = checkpoint().encode(8192, 512, 9);
        assert!(Checkpoint::decode(&bytes, 8704, 9).is_none());
        assert!(Checkpoint::decode(&bytes, 8192, 8).is_none());
        let len = Checkpoint::bytes_of(&bytes).unwrap() as usize;
        for bit in 0..len * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Checkpoint::decode(&bytes, 8192, 9).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn a_mark_is_of_its_partition() {
        let bytes = encode_mark(12, 3, 512, 9);
        assert_eq!(decode_mark(&bytes, 3, 9), Some(12));
        assert_eq!(decode_mark(&bytes, 2, 9), None);
        assert_eq!(decode_mark(&[0; 512], 3, 9), None);
    }
}
