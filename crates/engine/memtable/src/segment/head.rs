//! What an entry of a segment says before its key. Gets, scans and flushes read it for each entry.

use super::Segment;
use crate::frame::MIN_ENTRY_BYTES;
use esker_base::{KeyspaceId, Kind};

/// What an entry says before its key, and where that starts in the segment.
pub(super) struct EntryHeader {
    pub(super) keyspace: KeyspaceId,
    pub(super) kind: Kind,
    pub(super) key: usize,
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
}

impl EntryHeader {
    /// Itself, if key and value end at `end` at the latest.
    #[inline]
    fn within(self, end: usize) -> Option<EntryHeader> {
        let value = self.key.checked_add(self.key_bytes)?;
        (value.checked_add(self.value_bytes)? <= end).then_some(self)
    }
}

/// The bits that say, in the first four bytes of an entry, that a length or the keyspace goes on.
const LONG_FIELDS: u32 = 0x8080_0080;

/// The one of them for the value's length, which is of two bytes as a rule if it is of more than one.
const LONG_VALUE: u32 = 0x8000_0000;

impl Segment {
    /// What an entry says before its key, if that is possible.
    #[inline]
    pub(super) fn head(&self, start: usize) -> Option<EntryHeader> {
        let end = self.header.capacity as usize;
        assert!(start + MIN_ENTRY_BYTES <= end, "places are in the segment");
        // SAFETY: a place is where a filled entry starts, which is five bytes long at least.
        let word = u32::from_le_bytes(unsafe { self.start.add(start).cast::<[u8; 4]>().read() });
        let (mut key, mut value_bytes) = (start + 4, (word >> 24) as usize);
        match word & LONG_FIELDS {
            0 => {}
            LONG_VALUE => {
                // SAFETY: the fifth byte of such an entry.
                let high = unsafe { self.start.add(key).read() };
                if high >= 0x80 {
                    return self.long_head(start);
                }
                (key, value_bytes) = (key + 1, value_bytes & 0x7f | usize::from(high) << 7);
            }
            _ => return self.long_head(start),
        }
        let head = EntryHeader {
            keyspace: KeyspaceId(word & 0xff),
            kind: Kind::from_u8((word >> 8) as u8)?,
            key,
            key_bytes: (word >> 16 & 0xff) as usize,
            value_bytes,
        };
        head.within(end)
    }

    /// The same for any lengths.
    #[cold]
    fn long_head(&self, start: usize) -> Option<EntryHeader> {
        let mut at = start;
        let keyspace = KeyspaceId(u32::try_from(self.varint(&mut at)?).ok()?);
        let kind = Kind::from_u8(u8::try_from(self.varint(&mut at)?).ok()?)?;
        let key_bytes = usize::try_from(self.varint(&mut at)?).ok()?;
        let value_bytes = usize::try_from(self.varint(&mut at)?).ok()?;
        let head = EntryHeader { keyspace, kind, key: at, key_bytes, value_bytes };
        head.within(self.header.capacity as usize)
    }

    /// Reads a varint of a filled entry.
    #[inline]
    fn varint(&self, at: &mut usize) -> Option<u64> {
        let mut value = 0;
        let mut shift = 0;
        while *at < self.header.capacity as usize && shift < 64 {
            // SAFETY: in bounds, and a byte of a filled entry, in which `fill` has decoded the same varint:
            // invariant 4.
            let byte = unsafe { self.start.add(*at).read() };
            *at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}
