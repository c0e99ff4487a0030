//! Where a value is that is not stored next to its key.
//!
//! ```text
//! file varint | offset varint | bytes varint | compression u8 | length varint | checksum u32
//! ```
//!
//! See `docs/formats/values.md`.

use crate::coding::{put_varint64, take, take_u8, take_varint64};

/// The place of a value in a value file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValuePlace {
    /// The ID of the file.
    pub file: u64,
    /// The offset of the value in the file, in bytes.
    pub offset: u64,
    /// The bytes of the value in the file.
    pub bytes: u64,
    /// How the value is stored there: 0 as it is, 1 and 2 with this compression, 3 in blocks.
    pub compression: u8,
    /// The length of the value.
    pub value_bytes: u64,
    /// The checksum of the value as it is in the file.
    pub checksum: u32,
}

/// Not compressed, in blocks that have a checksum each. Such a value has a file of its own.
const IN_BLOCKS: u8 = 3;

impl ValuePlace {
    /// The place of a value that is stored in blocks.
    pub fn in_blocks(file: u64, offset: u64, bytes: u64, value_bytes: u64, checksum: u32) -> Self {
        ValuePlace { file, offset, bytes, compression: IN_BLOCKS, value_bytes, checksum }
    }

    /// Whether the value is stored in blocks.
    pub fn is_in_blocks(&self) -> bool {
        self.compression == IN_BLOCKS
    }

    /// The place as the value of an entry.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        [self.file, self.offset, self.bytes].into_iter().for_each(|it| put_varint64(&mut out, it));
        out.push(self.compression);
        put_varint64(&mut out, self.value_bytes);
        out.extend_from_slice(&self.checksum.to_le_bytes());
        out
    }

    /// Reads what [`ValuePlace::encode`] wrote. `None` if `stored` is no place.
    pub fn decode(mut stored: &[u8]) -> Option<ValuePlace> {
        let input = &mut stored;
        let place = ValuePlace {
            file: take_varint64(input)?,
            offset: take_varint64(input)?,
            bytes: take_varint64(input)?,
            compression: take_u8(input)?,
            value_bytes: take_varint64(input)?,
            checksum: u32::from_le_bytes(take(input, 4)?.try_into().ok()?),
        };
        input.is_empty().then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_round_trips_and_every_truncation_is_refused() {
        let (bytes, value_bytes) = (4096, 1 << 33);
        let place = ValuePlace {
            file: 300,
            offset: 1 << 40,
            bytes,
            compression: 1,
            value_bytes,
            checksum: 0xdead_beef,
        };
        let encoded = place.encode();
        assert_eq!(ValuePlace::decode(&encoded), Some(place));
        for len in 0..encoded.len() {
            assert_eq!(ValuePlace::decode(&encoded[..len]), None, "{len} bytes");
        }
        assert_eq!(ValuePlace::decode(&[&encoded[..], &[0]].concat()), None);
    }
}
