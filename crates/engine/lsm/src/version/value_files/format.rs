//! The bytes of a value file, and its name. `docs/formats/values.md` describes them.

use esker_base::ValuePlace;
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::{take, take_u8, take_varint64};

/// The description of a value file in the manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ValueFileMeta {
    /// The ID of the file.
    pub file: u64,
    /// The size of the file, in bytes.
    pub bytes: u64,
    /// The number of its values.
    pub values: u64,
    /// The bytes of its values.
    pub value_bytes: u64,
    /// Whether it holds one large value, in blocks.
    pub in_blocks: bool,
}

impl ValueFileMeta {
    /// The description of a file of `bytes` bytes without values.
    pub(crate) fn new(file: u64, bytes: u64) -> Self {
        ValueFileMeta { file, bytes, values: 0, value_bytes: 0, in_blocks: false }
    }
}

/// The name of the value file with this ID.
pub fn value_file_name(file: u64) -> String {
    format!("{file:08}.values")
}

/// The ID in a name that [`value_file_name`] made.
pub fn parse_value_file_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".values")?;
    (digits.len() >= 8).then(|| digits.parse().ok()).flatten()
}

/// The first bytes of every value file.
const MAGIC: [u8; 8] = *b"eskerVAL";

/// The version of a file of values, one behind another.
const VERSION: u32 = 1;

/// The version of a file of one large value, in blocks.
const VERSION_IN_BLOCKS: u32 = 2;

/// The bytes before the first value.
pub(super) const HEADER_BYTES: usize = 24;

/// The most bytes before a value: its checksum, how it is compressed, and its length as a varint.
pub(super) const HEAD_BYTES_MAX: usize = 4 + 1 + 10;

/// The first bytes of the value file with this ID.
pub(crate) fn value_file_header(file: u64) -> [u8; HEADER_BYTES] {
    header_of(file, VERSION)
}

/// The first bytes of the file with this ID of a large value.
pub(crate) fn large_value_header(file: u64) -> [u8; HEADER_BYTES] {
    header_of(file, VERSION_IN_BLOCKS)
}

fn header_of(file: u64, version: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&version.to_le_bytes());
    header[12..20].copy_from_slice(&file.to_le_bytes());
    let checksum = crc32c(&header[..20]);
    header[20..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// The checksum of a value: of where it belongs, and how and as what it is stored.
pub(crate) fn value_checksum(file: u64, offset: u64, compression: u8, stored: &[u8]) -> u32 {
    let mut place = [0; 17];
    place[..8].copy_from_slice(&file.to_le_bytes());
    place[8..16].copy_from_slice(&offset.to_le_bytes());
    place[16] = compression;
    crc32c_append(crc32c(&place), stored)
}

/// The place of the value whose `head` is at `at` of the file `file`. The head does not have the length
/// before compression.
pub(super) fn place_of(file: u64, at: u64, head: &[u8]) -> Option<ValuePlace> {
    let mut rest = head;
    let input = &mut rest;
    let checksum = u32::from_le_bytes(take(input, 4)?.try_into().ok()?);
    let (compression, bytes) = (take_u8(input)?, take_varint64(input)?);
    let offset = at + (head.len() - input.len()) as u64;
    Some(ValuePlace { file, offset, bytes, compression, value_bytes: 0, checksum })
}
