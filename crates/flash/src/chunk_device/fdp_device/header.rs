//! The first block of a disk with placement identifiers: `docs/formats/flash.md`.

use super::BLOCK_BYTES;
use crate::Geometry;
use esker_base::checksum::crc32c;
use esker_base::coding::u32_at;

const MAGIC: &[u8; 8] = b"ESKRPLAC";
const VERSION: u32 = 1;
const CHECKED: usize = 24;

/// Bytes before the first chunk.
pub(super) const HEADER_BYTES: u64 = 1 << 20;

pub(super) fn encode(geometry: &Geometry) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_BYTES as usize);
    block.extend_from_slice(MAGIC);
    block.extend_from_slice(&VERSION.to_le_bytes());
    for number in [geometry.groups, geometry.units_per_group, geometry.chunks_per_unit, 0] {
        block.extend_from_slice(&number.to_le_bytes());
    }
    block.extend_from_slice(&geometry.chunk_bytes.to_le_bytes());
    let checksum = crc32c(&block[..CHECKED]);
    block.extend_from_slice(&checksum.to_le_bytes());
    block.resize(BLOCK_BYTES as usize, 0);
    block
}

/// What a block says. `Ok(None)` if it is something else; what is wrong, if it is of another version or damaged.
pub(super) fn decode(block: &[u8]) -> Result<Option<Geometry>, String> {
    if !block.starts_with(MAGIC) {
        return Ok(None);
    }
    let version = u32_at(block, 8);
    if version != VERSION {
        return Err(format!("its layout has version {version}; this program reads {VERSION}"));
    }
    if crc32c(&block[..CHECKED]) != u32_at(block, CHECKED) {
        return Err("its first block is damaged".to_owned());
    }
    let number = |at: usize| u16::from_le_bytes([block[at], block[at + 1]]);
    Ok(Some(Geometry::of_blocks(number(12), number(14), number(16), u32_at(block, 20))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_a_damaged_one_is_refused() {
        let geometry = Geometry::of_blocks(1, 2, 300, 1 << 30);
        let block = encode(&geometry);
        assert_eq!(decode(&block), Ok(Some(geometry)));
        assert_eq!(decode(&[0; 4096]), Ok(None));
        for at in [8, 13, 16, 21, 27] {
            let mut other = block.clone();
            other[at] ^= 1;
            assert!(decode(&other).is_err(), "{at}");
        }
    }
}
