//! A large value in blocks, each with a checksum: the only value of its file. `docs/formats/values.md`
//! describes the bytes.
//!
//! ```text
//! header │ block, checksum │ block, checksum │ … │ trailer
//! ```
//!
//! A reader checks a block at a time, so it never holds the whole value.

use super::format::{HEADER_BYTES, ValueFileMeta, value_checksum};
use esker_base::ValuePlace;
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::{u32_at, u64_at};

/// The bytes of the value in each block. The last block has what is left.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;

/// The most bytes of a value. So sums of offsets and lengths stay far from overflow.
pub(crate) const VALUE_BYTES_MAX: u64 = 4 << 30;

/// The checksum behind each block.
pub(super) const CHECKSUM_BYTES: usize = 4;

/// What follows the last block: the length of the value, its checksum, and a checksum of both.
pub(super) const TRAILER_BYTES: usize = 16;

/// The blocks of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    place: ValuePlace,
}

impl Blocks {
    /// The blocks of the value at `place`. `None` if it is in no blocks, or no value can be there.
    pub(crate) fn of(place: &ValuePlace) -> Option<Blocks> {
        let is_possible = place.is_in_blocks()
            && place.offset == HEADER_BYTES as u64
            && place.value_bytes <= VALUE_BYTES_MAX
            && place.bytes == stored_bytes(place.value_bytes);
        is_possible.then_some(Blocks { place: *place })
    }

    /// The number of blocks.
    pub(crate) fn count(&self) -> u64 {
        self.place.value_bytes.div_ceil(BLOCK_BYTES as u64)
    }

    /// The offset of a block in the file, and the bytes of the value in it.
    pub(super) fn block(&self, number: u64) -> (u64, usize) {
        let before = number * BLOCK_BYTES as u64;
        let offset = self.place.offset + before + number * CHECKSUM_BYTES as u64;
        let bytes = (self.place.value_bytes - before).min(BLOCK_BYTES as u64) as usize;
        (offset, bytes)
    }
}

/// The bytes in the file of a value with so many.
fn stored_bytes(value_bytes: u64) -> u64 {
    value_bytes + value_bytes.div_ceil(BLOCK_BYTES as u64) * CHECKSUM_BYTES as u64
}

/// The checksum of a value in blocks: of where it belongs, and of the checksums of its blocks, so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockSums {
    file: u64,
    sum: u32,
}

impl BlockSums {
    /// That of the value of the file `file`, before its first block.
    pub(crate) fn of(file: u64) -> Self {
        BlockSums { file, sum: crc32c(&file.to_le_bytes()) }
    }

    /// Adds the next block, which is at `offset` of the file, and returns its checksum.
    pub(crate) fn add(&mut self, offset: u64, block: &[u8]) -> u32 {
        let place = ValuePlace::in_blocks(self.file, offset, 0, 0, 0);
        let checksum = value_checksum(self.file, offset, place.compression, block);
        self.sum = crc32c_append(self.sum, &checksum.to_le_bytes());
        checksum
    }

    /// The checksum, once all blocks were added.
    pub(crate) fn sum(&self) -> u32 {
        self.sum
    }

    /// The place of a value of `value_bytes` bytes, all of whose blocks were added.
    pub(crate) fn place(&self, value_bytes: u64) -> ValuePlace {
        let (offset, bytes) = (HEADER_BYTES as u64, stored_bytes(value_bytes));
        ValuePlace::in_blocks(self.file, offset, bytes, value_bytes, self.sum)
    }
}

/// The last bytes of the file of the value at `place`.
pub(crate) fn trailer(place: &ValuePlace) -> [u8; TRAILER_BYTES] {
    let mut trailer = [0; TRAILER_BYTES];
    trailer[..8].copy_from_slice(&place.value_bytes.to_le_bytes());
    trailer[8..12].copy_from_slice(&place.checksum.to_le_bytes());
    let checksum = crc32c_append(crc32c(&place.file.to_le_bytes()), &trailer[..12]);
    trailer[12..].copy_from_slice(&checksum.to_le_bytes());
    trailer
}

/// The place of the value of the file `file`, of which these are the last bytes. `None` if they are damaged.
pub(super) fn place_in_trailer(file: u64, bytes: &[u8; TRAILER_BYTES]) -> Option<ValuePlace> {
    let (value_bytes, sum) = (u64_at(bytes, 0), u32_at(bytes, 8));
    if value_bytes > VALUE_BYTES_MAX {
        return None;
    }
    let place = BlockSums { file, sum }.place(value_bytes);
    (trailer(&place) == *bytes).then_some(place)
}

/// The description of the file of the value at `place`.
pub(crate) fn describe(place: &ValuePlace) -> ValueFileMeta {
    let bytes = HEADER_BYTES as u64 + place.bytes + TRAILER_BYTES as u64;
    let (values, value_bytes, in_blocks) = (1, place.bytes, true);
    ValueFileMeta { values, value_bytes, in_blocks, ..ValueFileMeta::new(place.file, bytes) }
}
