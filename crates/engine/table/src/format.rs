//! What writer and reader agree on: constants, block trailer and footer. The page that says it in
//! full is `docs/formats/table.md`.
//!
//! ```text
//! data blocks | filter, or parts of filter and index | tombstones | sketches | properties | index | footer
//! ```
//!
//! Sections are back to back, so their lengths in the footer place them all, and every byte of a
//! table is under some checksum. A block's checksum also covers the file it is in, its offset and
//! its kind, so intact bytes that were read from the wrong place do not pass.

use crate::Compression;
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::{u32_at, u64_at};
use esker_base::{Error, Result};

/// The version written, and the newest that can be read.
pub const VERSION: u32 = 1;

/// The last eight bytes of every table.
pub const MAGIC: [u8; 8] = *b"eskerTBL";

/// A required feature: samples of key hashes are written as bits. Tables without it have whole hashes.
pub const SAMPLES_AS_BITS: u32 = 1;

/// A required feature: the table has operands of merges. Tables without it have none.
pub const HAS_OPERANDS: u32 = 2;

/// A required feature: the table has values that expire. Tables without it have none.
pub const HAS_EXPIRING: u32 = 4;

/// A required feature: the table has values that are in value files. Tables without it have none.
pub const HAS_SEPARATED: u32 = 8;

/// A required feature: index and filter are cut into parts. Tables without it have them whole.
pub const HAS_PARTS: u32 = 16;

/// A required feature: the table has values that are in value files in blocks. Tables without it have none.
pub const HAS_VALUES_IN_BLOCKS: u32 = 32;

/// Feature flags a reader must know to read the table at all.
pub const KNOWN_FEATURES: u32 = SAMPLES_AS_BITS
    | HAS_OPERANDS
    | HAS_EXPIRING
    | HAS_SEPARATED
    | HAS_PARTS
    | HAS_VALUES_IN_BLOCKS;

/// Data blocks are closed when they have so many bytes: about a page of the device, so that a get
/// reads and checks few bytes that it does not need.
pub const BLOCK_TARGET_BYTES: usize = 4096;

/// A data block is closed before a further version would take it beyond this. An eighth more than the
/// target holds four values of 1 KiB in place of three: scans look up fewer blocks.
pub const BLOCK_CLOSING_BYTES: usize = BLOCK_TARGET_BYTES / 8 * 9;

/// The longest value. Batches are far shorter, so none that was acknowledged is refused here; it
/// keeps the 32-bit offsets inside a block, and what a reader believes, in bounds.
pub const VALUE_BYTES_MAX: usize = 1 << 30;

/// Every so many entries a key is stored whole. 16 keeps the scan after the binary search short
/// and still saves most of the shared prefixes.
pub const RESTART_INTERVAL: usize = 16;

/// Bytes after each block: compression code and checksum.
pub const TRAILER_BYTES: usize = 5;

/// The length of a version 1 footer.
pub const FOOTER_BYTES: usize = 92;

/// The part of a footer whose place no version will change: its length, the version, the checksum
/// and the magic. So any release can distinguish a newer table from a damaged one.
pub const FOOTER_TAIL_BYTES: usize = 20;

/// Longer footers than this are taken for damage.
pub const FOOTER_BYTES_MAX: usize = 4096;

/// What a block holds. Part of its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum BlockKind {
    /// Versions.
    Data = 1,
    /// Separators and lengths of the data blocks.
    Index = 2,
    /// The filter.
    Filter = 3,
    /// Range tombstones.
    Tombstones = 4,
    /// Counts and bounds.
    Properties = 5,
    /// Sketches of the key hashes.
    Sketches = 6,
    /// The index of some data blocks.
    IndexPart = 7,
    /// The filter of the keys in some data blocks.
    FilterPart = 8,
}

impl BlockKind {
    /// The kind's name, for messages.
    pub fn name(self) -> &'static str {
        match self {
            BlockKind::Data => "data block",
            BlockKind::Index => "index",
            BlockKind::Filter => "filter",
            BlockKind::Tombstones => "range tombstone block",
            BlockKind::Properties => "properties",
            BlockKind::Sketches => "sketches",
            BlockKind::IndexPart => "part of the index",
            BlockKind::FilterPart => "part of the filter",
        }
    }
}

/// The checksum of a block: of where it belongs, then of its stored bytes and compression code.
pub fn block_checksum(file_id: u64, offset: u64, kind: BlockKind, stored: &[u8]) -> u32 {
    let mut place = [0; 17];
    place[..8].copy_from_slice(&file_id.to_le_bytes());
    place[8..16].copy_from_slice(&offset.to_le_bytes());
    place[16] = kind as u8;
    crc32c_append(crc32c(&place), stored)
}

/// Appends the trailer to the block that `out` holds from `start` on, and that goes to `offset` of
/// its file.
pub(crate) fn put_trailer(
    out: &mut Vec<u8>,
    start: usize,
    (file_id, offset, kind): (u64, u64, BlockKind),
    compression: Compression,
) {
    out.push(compression as u8);
    let checksum = block_checksum(file_id, offset, kind, &out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// The last bytes of a table: how long each section is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footer {
    /// Lengths in bytes, trailers included, of data, filter, tombstones, sketches, properties and
    /// index, which are in that order from the table's start. 0 is a section left out.
    pub sections: [u64; 6],
    /// The file the table was written to.
    pub file_id: u64,
    /// Where in that file the table starts.
    pub offset: u64,
    /// Features a reader must know.
    pub required_features: u32,
    /// Features a reader may ignore.
    pub optional_features: u32,
}

impl Footer {
    /// The bytes of parts of index and filter, in the place of the filter. 0 in a table that has them whole.
    pub fn part_bytes(&self) -> u64 {
        if self.required_features & HAS_PARTS != 0 { self.sections[1] } else { 0 }
    }

    /// The bytes of a version 1 footer.
    pub fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        for section in self.sections {
            out.extend_from_slice(&section.to_le_bytes());
        }
        out.extend_from_slice(&self.file_id.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.required_features.to_le_bytes());
        out.extend_from_slice(&self.optional_features.to_le_bytes());
        out.extend_from_slice(&(FOOTER_BYTES as u32).to_le_bytes());
        out.extend_from_slice(&VERSION.to_le_bytes());
        let checksum = crc32c(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&MAGIC);
        out.try_into().expect("the fields add up to the footer's length")
    }

    /// Reads the footer at the end of `tail`, the last bytes of the table that ends at `end` of the
    /// file `name`.
    pub fn decode(tail: &[u8], name: &str, end: u64) -> Result<Footer> {
        let damaged = |what: &str| Error::corruption(name, end, format!("table footer: {what}"));
        let fixed =
            tail.len().checked_sub(FOOTER_TAIL_BYTES).ok_or_else(|| damaged("too short"))?;
        if tail[fixed + 12..] != MAGIC {
            return Err(damaged("the magic bytes are missing; this is not the end of a table"));
        }
        let footer_bytes = u32_at(tail, fixed) as usize;
        let version = u32_at(tail, fixed + 4);
        let start = tail
            .len()
            .checked_sub(footer_bytes)
            .filter(|&start| start <= fixed)
            .ok_or_else(|| damaged("impossible length"))?;
        if crc32c(&tail[start..fixed + 8]) != u32_at(tail, fixed + 8) {
            return Err(damaged("checksum mismatch"));
        }
        if version != VERSION {
            return Err(Error::NewerVersion {
                file: name.to_owned(),
                found: version,
                supported: VERSION,
            });
        }
        let footer = &tail[start..];
        if footer.len() != FOOTER_BYTES {
            return Err(damaged("impossible length"));
        }
        let footer = Footer {
            sections: std::array::from_fn(|section| u64_at(footer, 8 * section)),
            file_id: u64_at(footer, 48),
            offset: u64_at(footer, 56),
            required_features: u32_at(footer, 64),
            optional_features: u32_at(footer, 68),
        };
        let unknown = footer.required_features & !KNOWN_FEATURES;
        if unknown != 0 {
            return Err(Error::UnknownFeatures { file: name.to_owned(), flags: unknown });
        }
        Ok(footer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Footer {
        Footer {
            sections: [1, 2, 3, 4, 5, 6],
            file_id: 7,
            offset: 8,
            required_features: 0,
            optional_features: 9,
        }
    }

    /// `footer` with its checksum made right again.
    fn sealed(mut footer: Vec<u8>) -> Vec<u8> {
        let at = footer.len() - 12;
        let checksum = crc32c(&footer[..at]);
        footer[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
        footer
    }

    #[test]
    fn a_footer_round_trips_behind_other_bytes() {
        let mut tail = vec![0xee; 50];
        tail.extend_from_slice(&sample().encode());
        assert_eq!(Footer::decode(&tail, "f", 0).unwrap(), sample());
    }

    #[test]
    fn a_longer_footer_of_a_newer_version_is_called_newer() {
        let mut footer = vec![0x11; 30];
        footer.extend_from_slice(&sample().encode());
        footer[30 + 72..30 + 76].copy_from_slice(&(30 + FOOTER_BYTES as u32).to_le_bytes());
        footer[30 + 76..30 + 80].copy_from_slice(&2u32.to_le_bytes());
        let error = Footer::decode(&sealed(footer), "f", 0).unwrap_err();
        assert!(matches!(error, Error::NewerVersion { found: 2, supported: 1, .. }), "{error}");
    }

    #[test]
    fn unknown_required_features_are_refused() {
        // Those that are known are the lowest bits.
        let next = KNOWN_FEATURES + 1;
        let footer = Footer { required_features: next, ..sample() }.encode();
        let error = Footer::decode(&footer, "f", 0).unwrap_err();
        assert!(matches!(error, Error::UnknownFeatures { flags, .. } if flags == next), "{error}");
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_corruption() {
        let good = sample().encode();
        for bit in 0..good.len() * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Footer::decode(&bad, "f", 0).unwrap_err().is_corruption(), "bit {bit}");
        }
        for len in 0..good.len() {
            assert!(Footer::decode(&good[..len], "f", 0).unwrap_err().is_corruption());
            assert!(Footer::decode(&good[good.len() - len..], "f", 0).unwrap_err().is_corruption());
        }
    }
}
