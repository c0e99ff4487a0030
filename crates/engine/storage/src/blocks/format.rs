//! What is where on the device, and what the directory is as bytes: `docs/formats/blocks.md`.

use super::BLOCK_BYTES;
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::{
    put_bytes, put_varint32, put_varint64, take_bytes, take_varint32, take_varint64, u32_at, u64_at,
};

pub(super) const SUPERBLOCK_MAGIC: &[u8; 8] = b"ESKRBLKS";
const DIRECTORY_MAGIC: &[u8; 8] = b"ESKRNAME";
const VERSION: u32 = 1;

/// What space is given out in. Small enough that a device of some gigabytes has thousands, large enough that a table
/// is in a few runs.
pub(super) const CHUNK_BYTES: u64 = 1 << 20;

/// Space for one copy of the directory: some 20,000 files.
pub(super) const SLOT_BYTES: u64 = 1 << 20;

/// Copies of the directory: see `directory`.
pub(super) const SLOTS: u64 = 3;

/// Where chunk 0 starts.
pub(super) const DATA_START: u64 = 4 << 20;

const SUPERBLOCK_CHECKED: usize = 36;
const DIRECTORY_HEADER_BYTES: usize = 32;

pub(super) fn slot_offset(slot: u64) -> u64 {
    BLOCK_BYTES + slot * SLOT_BYTES
}

/// The first block of a device of so many bytes.
pub(super) fn superblock(device_bytes: u64) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_BYTES as usize);
    block.extend_from_slice(SUPERBLOCK_MAGIC);
    block.extend_from_slice(&VERSION.to_le_bytes());
    block.extend_from_slice(&0u32.to_le_bytes());
    block.extend_from_slice(&device_bytes.to_le_bytes());
    block.extend_from_slice(&(CHUNK_BYTES as u32).to_le_bytes());
    block.extend_from_slice(&(SLOT_BYTES as u32).to_le_bytes());
    block.extend_from_slice(&(SLOTS as u32).to_le_bytes());
    block.extend_from_slice(&crc32c(&block).to_le_bytes());
    block.resize(BLOCK_BYTES as usize, 0);
    block
}

/// Says what is wrong with the first block of a device with `device_bytes` bytes.
pub(super) fn check_superblock(block: &[u8], device_bytes: u64) -> Result<(), String> {
    if !block.starts_with(SUPERBLOCK_MAGIC) {
        return Err("it does not contain Esker's files, and is not empty".to_owned());
    }
    let version = u32_at(block, 8);
    if version != VERSION {
        return Err(format!("its layout has version {version}; this program reads {VERSION}"));
    }
    if crc32c(&block[..SUPERBLOCK_CHECKED]) != u32_at(block, SUPERBLOCK_CHECKED) {
        return Err("the checksum of its first block does not match".to_owned());
    }
    let expected = superblock(u64_at(block, 16));
    if block[..SUPERBLOCK_CHECKED] != expected[..SUPERBLOCK_CHECKED] {
        return Err("its layout has features that this program does not know".to_owned());
    }
    if u64_at(block, 16) > device_bytes {
        return Err(format!("it had {} bytes, and has {device_bytes}", u64_at(block, 16)));
    }
    Ok(())
}

/// Chunks in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    pub(super) first: u32,
    pub(super) count: u32,
}

/// A file as the directory has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DirEntry {
    pub(super) name: String,
    pub(super) len: u64,
    pub(super) runs: Vec<Extent>,
}

/// The directory as bytes, a multiple of blocks.
pub(super) fn encode_directory(sequence: u64, entries: &[DirEntry]) -> Vec<u8> {
    let mut payload = Vec::new();
    for entry in entries {
        put_bytes(&mut payload, entry.name.as_bytes());
        put_varint64(&mut payload, entry.len);
        put_varint32(&mut payload, entry.runs.len() as u32);
        for run in &entry.runs {
            put_varint32(&mut payload, run.first);
            put_varint32(&mut payload, run.count);
        }
    }
    let mut out = Vec::with_capacity(DIRECTORY_HEADER_BYTES + payload.len());
    out.extend_from_slice(DIRECTORY_MAGIC);
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    let checksum = crc32c_append(crc32c(&out), &payload);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&payload);
    out.resize(out.len().next_multiple_of(BLOCK_BYTES as usize), 0);
    out
}

/// The sequence and the bytes that a slot says it has, from its first block. `None` if there is no directory.
pub(super) fn directory_head(block: &[u8]) -> Option<(u64, usize)> {
    let bytes = u32_at(block, 16) as usize + DIRECTORY_HEADER_BYTES;
    let is_one = block.starts_with(DIRECTORY_MAGIC) && bytes as u64 <= SLOT_BYTES;
    is_one.then(|| (u64_at(block, 8), bytes))
}

/// The files of a slot that holds a whole directory. `None` if it was truncated or is damaged.
pub(super) fn decode_directory(slot: &[u8]) -> Option<Vec<DirEntry>> {
    let (_, bytes) = directory_head(slot)?;
    let mut payload = slot.get(DIRECTORY_HEADER_BYTES..bytes)?;
    if crc32c_append(crc32c(&slot[..24]), payload) != u32_at(slot, 24) {
        return None;
    }
    let count = u32_at(slot, 20);
    let entries = (0..count).map(|_| take_entry(&mut payload)).collect::<Option<Vec<_>>>()?;
    payload.is_empty().then_some(entries)
}

fn take_entry(input: &mut &[u8]) -> Option<DirEntry> {
    let name = String::from_utf8(take_bytes(input)?.to_vec()).ok()?;
    let len = take_varint64(input)?;
    let count = take_varint32(input)?;
    let run = |_| Some(Extent { first: take_varint32(input)?, count: take_varint32(input)? });
    let runs = (0..count).map(run).collect::<Option<Vec<_>>>()?;
    Some(DirEntry { name, len, runs })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<DirEntry> {
        let runs = vec![Extent { first: 7, count: 3 }, Extent { first: 900, count: 1 }];
        vec![
            DirEntry { name: "000001.table".to_owned(), len: 3_500_000, runs },
            DirEntry { name: "empty".to_owned(), len: 0, runs: Vec::new() },
        ]
    }

    #[test]
    fn a_directory_is_read_as_it_was_written() {
        let bytes = encode_directory(5, &entries());
        assert_eq!(bytes.len() % BLOCK_BYTES as usize, 0);
        assert_eq!(directory_head(&bytes).unwrap().0, 5);
        assert_eq!(decode_directory(&bytes).unwrap(), entries());
    }

    #[test]
    fn every_flipped_bit_of_a_directory_is_noticed() {
        let bytes = encode_directory(5, &entries());
        let (_, used) = directory_head(&bytes).unwrap();
        // Bytes 28 to 31 are reserved.
        for at in (0..used).filter(|at| !(28..32).contains(at)) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert_eq!(decode_directory(&damaged), None, "byte {at}");
        }
    }

    #[test]
    fn a_first_block_of_something_else_is_refused() {
        let block = superblock(1 << 30);
        check_superblock(&block, 1 << 30).unwrap();
        check_superblock(&block, 2 << 30).unwrap();
        assert!(check_superblock(&block, 1 << 29).is_err(), "cut off");
        assert!(check_superblock(&[1; 4096], 1 << 30).is_err());
        for at in 0..SUPERBLOCK_CHECKED + 4 {
            let mut damaged = block.clone();
            damaged[at] ^= 1;
            assert!(check_superblock(&damaged, 1 << 30).is_err(), "byte {at}");
        }
    }
}
