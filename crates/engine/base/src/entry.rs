//! One write, and how it is laid out inside a write batch, a frame and therefore a log segment.
//!
//! `keyspace varint | kind u8 | key_len varint | value_len varint | key | value`
//!
//! A batch is entries back to back; a frame puts a header before a batch. So a put is encoded once,
//! by the caller's thread, and copied once. See `docs/formats/frame.md`.

use crate::coding::{put_varint64, take, take_u8, take_varint32, take_varint64, varint_bytes};
use crate::key::KeyspaceId;

/// What an entry does to its key. The numbers are on disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(u8)]
pub enum Kind {
    /// The key has no value from here on.
    #[default]
    Delete = 0,
    /// The key has this value from here on.
    Put = 1,
    /// All keys from `key` up to, not including, `value` have no value from here on.
    RangeDelete = 2,
    /// The key's value changes by this operand: see `MergeOperator`.
    Merge = 3,
    /// The key has a value, which is in a value file. The entry's value is its place there: see
    /// `ValuePlace`. In tables only.
    Separated = 4,
    /// The key has a value until a time. The entry's value is the time, then the value: see
    /// `split_expiry`.
    ExpiringPut = 5,
    /// Several operands of the key, combined: see `esker_base::combined`. In tables only.
    Combined = 6,
}

/// The length of the time before the value of an expiring put.
pub const EXPIRY_BYTES: usize = 8;

/// Splits the stored value of an expiring put into its time and its value.
///
/// The time is in milliseconds since 1970-01-01. In a batch that is not written yet, it is the time
/// to live. `None` if `stored` is shorter than a time.
#[inline]
pub fn split_expiry(stored: &[u8]) -> Option<(u64, &[u8])> {
    let (time, value) = stored.split_first_chunk::<EXPIRY_BYTES>()?;
    Some((u64::from_le_bytes(*time), value))
}

impl Kind {
    /// The kind with this number, or `None` for those that a log cannot have, which are refused.
    #[inline]
    pub fn from_u8(byte: u8) -> Option<Kind> {
        match byte {
            0 => Some(Kind::Delete),
            1 => Some(Kind::Put),
            2 => Some(Kind::RangeDelete),
            3 => Some(Kind::Merge),
            5 => Some(Kind::ExpiringPut),
            _ => None,
        }
    }

    /// Whether the key may have a value after such an entry.
    #[inline]
    pub fn may_give_value(self) -> bool {
        !matches!(self, Kind::Delete | Kind::RangeDelete)
    }
}

/// A borrowed view of one encoded write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// The keyspace written to.
    pub keyspace: KeyspaceId,
    /// What happens to the key.
    pub kind: Kind,
    /// The key; for a range delete, the first key of the range.
    pub key: &'a [u8],
    /// The value; empty for a delete. For a range delete, the first key after the range; in a batch
    /// that is not stored yet, empty if the range has no end.
    pub value: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The number of bytes that [`Entry::encode`] appends.
    #[inline]
    pub fn encoded_bytes(&self) -> usize {
        varint_bytes(u64::from(self.keyspace.0))
            + 1
            + varint_bytes(self.key.len() as u64)
            + varint_bytes(self.value.len() as u64)
            + self.key.len()
            + self.value.len()
    }

    /// Appends the entry to a batch.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.encoded_bytes());
        put_varint64(out, u64::from(self.keyspace.0));
        out.push(self.kind as u8);
        put_varint64(out, self.key.len() as u64);
        put_varint64(out, self.value.len() as u64);
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.value);
    }

    /// Reads a stored entry from the front of `input` and advances it. `None` if the bytes are no
    /// entry: truncated, of an unknown kind, without the time of its kind, or with an empty key, which
    /// no stored key is.
    #[inline]
    pub fn decode(input: &mut &'a [u8]) -> Option<Entry<'a>> {
        Entry::decode_unstored(input).filter(|entry| !entry.key.is_empty())
    }

    /// Reads an entry of a batch, which has keys as users give them: see [`stored_key`].
    ///
    /// [`stored_key`]: mod@crate::stored_key
    #[inline]
    pub fn decode_unstored(input: &mut &'a [u8]) -> Option<Entry<'a>> {
        let keyspace = KeyspaceId(take_varint32(input)?);
        let kind = Kind::from_u8(take_u8(input)?)?;
        let key_len = take_varint32(input)? as usize;
        let value_len = usize::try_from(take_varint64(input)?).ok()?;
        let key = take(input, key_len)?;
        let value = take(input, value_len)?;
        if kind == Kind::ExpiringPut && value_len < EXPIRY_BYTES {
            return None;
        }
        Some(Entry { keyspace, kind, key, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Entry<'static> {
        Entry { keyspace: KeyspaceId(300), kind: Kind::Put, key: b"key", value: &[7; 200] }
    }

    #[test]
    fn an_entry_round_trips() {
        let mut bytes = Vec::new();
        sample().encode(&mut bytes);
        assert_eq!(bytes.len(), sample().encoded_bytes());
        let mut input = &bytes[..];
        assert_eq!(Entry::decode(&mut input), Some(sample()));
        assert!(input.is_empty());
    }

    #[test]
    fn every_truncation_is_refused() {
        let mut bytes = Vec::new();
        sample().encode(&mut bytes);
        for len in 0..bytes.len() {
            assert_eq!(Entry::decode(&mut &bytes[..len]), None, "{len} bytes");
        }
    }

    #[test]
    fn reserved_and_unknown_kinds_are_refused() {
        for kind in (4..=255).filter(|kind| *kind != Kind::ExpiringPut as u8) {
            assert_eq!(Entry::decode(&mut &[0, kind, 1, 0, b'k'][..]), None);
        }
    }

    #[test]
    fn an_expiring_put_has_a_time() {
        let stored = [&7_u64.to_le_bytes()[..], b"value"].concat();
        for len in 0..=stored.len() {
            let entry = Entry { kind: Kind::ExpiringPut, value: &stored[..len], ..sample() };
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            let decoded = Entry::decode(&mut &bytes[..]);
            assert_eq!(decoded, (len >= EXPIRY_BYTES).then_some(entry), "{len} bytes");
        }
        assert_eq!(split_expiry(&stored), Some((7, &b"value"[..])));
        assert_eq!(split_expiry(&stored[..7]), None);
    }
}
