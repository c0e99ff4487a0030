//! What stands in the journal and in logs: `docs/formats/flash.md`.

mod ops;

use crate::Geometry;
use crate::zones::BLOCK_BYTES;
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::{u32_at, u64_at};
pub(super) use ops::{Extent, Made, Op, Resets};
use ops::{put_op, take_op};

const HEADER_MAGIC: &[u8; 8] = b"ESKRFLSH";
const VERSION: u32 = 3;
/// It said nothing of resets; and before version 3, nothing was said of how long a file is expected to live.
const FIRST_VERSION: u32 = 1;
const HEADER_CHECKED: usize = 32;
const EDIT_MAGIC: u32 = 0x4a46_4b45;
const EDIT_HEADER: usize = 24;
const LOG_MAGIC: u32 = 0x4c46_4b45;
/// Bytes before the payload of a log's record.
pub(super) const LOG_HEADER: usize = 32;

const BLOCK: usize = BLOCK_BYTES as usize;

/// What the first block of a chunk of the journal says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) generation: u64,
    /// Which of the journal's chunks were bad when it was written, a bit each.
    pub(super) bad: u16,
}

/// The first block of a chunk of the journal.
pub(super) fn header(geometry: &Geometry, header: Header) -> Vec<u8> {
    header_of(VERSION, geometry, header)
}

fn header_of(version: u32, geometry: &Geometry, header: Header) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK);
    block.extend_from_slice(HEADER_MAGIC);
    block.extend_from_slice(&version.to_le_bytes());
    for number in [geometry.groups, geometry.units_per_group, geometry.chunks_per_unit, header.bad]
    {
        block.extend_from_slice(&number.to_le_bytes());
    }
    block.extend_from_slice(&geometry.chunk_bytes.to_le_bytes());
    block.extend_from_slice(&header.generation.to_le_bytes());
    let checksum = crc32c(&block[..HEADER_CHECKED]);
    block.extend_from_slice(&checksum.to_le_bytes());
    block.resize(BLOCK, 0);
    block
}

/// What the first block of a chunk of the journal says. `Ok(None)` if the block is something else; what is wrong, if it is
/// one of another version or another geometry.
pub(super) fn check_header(block: &[u8], geometry: &Geometry) -> Result<Option<Header>, String> {
    if !block.starts_with(HEADER_MAGIC) {
        return Ok(None);
    }
    if crc32c(&block[..HEADER_CHECKED]) != u32_at(block, HEADER_CHECKED) {
        return Ok(None);
    }
    let version = u32_at(block, 8);
    if !(FIRST_VERSION..=VERSION).contains(&version) {
        let read = format!("{FIRST_VERSION} to {VERSION}");
        return Err(format!("its layout has version {version}; this program reads {read}"));
    }
    let found =
        Header { generation: u64_at(block, 24), bad: u16::from_le_bytes([block[18], block[19]]) };
    if block[..HEADER_CHECKED] != header_of(version, geometry, found)[..HEADER_CHECKED] {
        let reason = "it was laid out with other numbers of groups, units or chunks, or their size";
        return Err(format!("{reason}; open it as it was made"));
    }
    Ok(Some(found))
}

/// The geometry that the first block of a chunk of the journal names. `None` if it is something else.
pub(crate) fn geometry_in(block: &[u8]) -> Option<Geometry> {
    let checked = block.get(..HEADER_CHECKED)?;
    let is_whole = block.len() > HEADER_CHECKED + 4
        && checked.starts_with(HEADER_MAGIC)
        && (FIRST_VERSION..=VERSION).contains(&u32_at(checked, 8))
        && crc32c(checked) == u32_at(block, HEADER_CHECKED);
    let number = |at: usize| u16::from_le_bytes([checked[at], checked[at + 1]]);
    is_whole.then(|| Geometry::of_blocks(number(12), number(14), number(16), u32_at(checked, 20)))
}

/// Changes as bytes: whole blocks. All edits up to `durable` survive power loss when this is written.
pub(super) fn encode_edit(sequence: u64, durable: u64, ops: &[Op]) -> Vec<u8> {
    let mut payload = Vec::new();
    ops.iter().for_each(|op| put_op(&mut payload, op));
    let mut out = Vec::with_capacity(EDIT_HEADER + payload.len());
    out.extend_from_slice(&EDIT_MAGIC.to_le_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&sequence.to_le_bytes());
    let checksum = crc32c_append(crc32c(&out), &payload);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&encode_durable(sequence, durable).to_le_bytes());
    out.extend_from_slice(&payload);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
    out
}

/// How many edits before this one were not durable, plus one, and the complement of that. 0 if there are too many.
fn encode_durable(sequence: u64, durable: u64) -> u32 {
    match u16::try_from(sequence - durable.min(sequence)) {
        Ok(behind) if behind > 0 => u32::from(behind) | u32::from(!behind) << 16,
        _ => 0,
    }
}

/// The last edit that was durable when the edit `sequence` was written, which begins `input`. `None` if it does not say so.
pub(super) fn durable_before(input: &[u8], sequence: u64) -> Option<u64> {
    let word = u32_at(input.get(..EDIT_HEADER)?, 20);
    let (behind, complement) = (word as u16, (word >> 16) as u16);
    (behind > 0 && behind == !complement).then(|| sequence.saturating_sub(behind.into()))
}

/// How long the edit of this sequence number is that begins so. `None` if it is another.
pub(super) fn edit_bytes(input: &[u8], sequence: u64) -> Option<usize> {
    let head = input.get(..EDIT_HEADER)?;
    let is_next = u32_at(head, 0) == EDIT_MAGIC && u64_at(head, 8) == sequence;
    is_next.then(|| EDIT_HEADER + u32_at(head, 4) as usize)
}

/// The edit of this sequence number at the beginning of `input`, and the bytes that it takes. `None` if it is not
/// whole.
pub(super) fn decode_edit(input: &[u8], sequence: u64) -> Option<(Vec<Op>, usize)> {
    let end = edit_bytes(input, sequence)?;
    let head = &input[..EDIT_HEADER];
    let mut payload = input.get(EDIT_HEADER..end)?;
    if crc32c_append(crc32c(&head[..16]), payload) != u32_at(head, 16) {
        return None;
    }
    let mut ops = Vec::new();
    while !payload.is_empty() {
        ops.push(take_op(&mut payload)?);
    }
    Some((ops, end.next_multiple_of(BLOCK)))
}

/// Whether a block has a sign of the edit of this sequence number.
pub(super) fn resembles_edit(block: &[u8], sequence: u64) -> bool {
    u32_at(block, 0) == EDIT_MAGIC || u64_at(block, 8) == sequence
}

/// Whether a block has a sign of a record of the log `id`.
pub(super) fn resembles_log(block: &[u8], id: u64) -> bool {
    u32_at(block, 0) == LOG_MAGIC || u64_at(block, 8) == id
}

/// The sequence number of an edit that begins so. `None` if it is none.
pub(super) fn sequence_of(input: &[u8]) -> Option<u64> {
    let head = input.get(..EDIT_HEADER)?;
    (u32_at(head, 0) == EDIT_MAGIC).then(|| u64_at(head, 8))
}

/// A write into the log `id` at `offset`, as bytes: whole blocks.
pub(super) fn encode_log(id: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity((LOG_HEADER + bytes.len()).next_multiple_of(BLOCK));
    out.extend_from_slice(&LOG_MAGIC.to_le_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
    let checksum = crc32c_append(crc32c(&out), bytes);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
    out
}

/// The log whose record begins so, if it is one.
pub(super) fn log_of(input: &[u8]) -> Option<u64> {
    let head = input.get(..LOG_HEADER)?;
    let id = (u32_at(head, 0) == LOG_MAGIC).then(|| u64_at(head, 8))?;
    decode_log(input, id).map(|_| id)
}

/// How long the record of the log `id` is that begins so. `None` if it is another's.
pub(super) fn log_bytes(input: &[u8], id: u64) -> Option<usize> {
    let head = input.get(..LOG_HEADER)?;
    let is_of_it = u32_at(head, 0) == LOG_MAGIC && u64_at(head, 8) == id;
    is_of_it.then(|| LOG_HEADER + u32_at(head, 4) as usize)
}

/// The offset and the length of the write at the beginning of `input`. `None` if it is not whole, or of another log.
pub(super) fn decode_log(input: &[u8], id: u64) -> Option<(u64, u32)> {
    let end = log_bytes(input, id)?;
    let (head, len) = (&input[..LOG_HEADER], (end - LOG_HEADER) as u32);
    let bytes = input.get(LOG_HEADER..end)?;
    let is_whole = crc32c_append(crc32c(&head[..24]), bytes) == u32_at(head, 24);
    is_whole.then(|| (u64_at(head, 16), len))
}

#[cfg(test)]
mod tests {
    use super::super::stay::Stay;
    use super::*;

    fn ops() -> Vec<Op> {
        let made = Made {
            id: 7,
            stay: Stay::decode(0x53),
            log_bytes: None,
            name: "000007.table".to_owned(),
        };
        let log = Made { id: 300, log_bytes: Some(0), name: "log".to_owned(), ..made.clone() };
        let extent = Extent { chunk: 900, block: 12, bytes: 70_001 };
        vec![
            Op::Create(made),
            Op::Create(log),
            Op::Extend(7, vec![extent, Extent { chunk: 3, ..extent }]),
            Op::Rename("000007.table".to_owned(), "b".to_owned()),
            Op::Remove("log".to_owned()),
            Op::Replace(7, vec![extent]),
            Op::Reset(vec![900, 3]),
            Op::Resets(Resets { chunks_each: 2, counts: vec![0, 300, 7] }),
        ]
    }

    #[test]
    fn an_edit_is_read_as_it_was_written_and_only_in_its_turn() {
        let bytes = encode_edit(5, 3, &ops());
        assert_eq!(durable_before(&bytes, 5), Some(3));
        assert_eq!(durable_before(&encode_edit(100_000, 3, &ops()), 100_000), None);
        assert_eq!(bytes.len(), BLOCK);
        assert_eq!(decode_edit(&bytes, 5).unwrap(), (ops(), BLOCK));
        assert_eq!((sequence_of(&bytes), decode_edit(&bytes, 6)), (Some(5), None));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let (edit, log) = (encode_edit(5, 4, &ops()), encode_log(9, 4_000, &[7; 100]));
        assert_eq!(decode_log(&log, 9), Some((4_000, 100)));
        assert_eq!(decode_log(&log, 8), None, "of another log");
        let used = EDIT_HEADER + u32_at(&edit, 4) as usize;
        for at in (0..used).filter(|at| !(20..24).contains(at)) {
            let mut damaged = edit.clone();
            damaged[at] ^= 4;
            assert_eq!(decode_edit(&damaged, 5), None, "byte {at}");
        }
        for at in (0..LOG_HEADER + 100).filter(|at| !(28..32).contains(at)) {
            let mut damaged = log.clone();
            damaged[at] ^= 4;
            assert_eq!(decode_log(&damaged, 9), None, "byte {at}");
        }
    }

    #[test]
    fn a_header_of_another_geometry_or_version_is_said_to_be_so() {
        let geometry = Geometry::of_blocks(2, 4, 100, 1 << 20);
        let written = Header { generation: 3, bad: 0b0101 };
        let block = header(&geometry, written);
        assert_eq!(check_header(&block, &geometry), Ok(Some(written)));
        assert_eq!(check_header(&[0; BLOCK], &geometry), Ok(None));
        let other = Geometry::of_blocks(4, 2, 100, 1 << 20);
        assert!(check_header(&block, &other).unwrap_err().contains("as it was made"));
        for version in [1, 2] {
            let older = header_of(version, &geometry, written);
            assert_eq!(check_header(&older, &geometry), Ok(Some(written)));
            assert!(check_header(&older, &other).unwrap_err().contains("as it was made"));
        }
        let damaged = {
            let mut block = block.clone();
            block[8] = 4;
            block
        };
        assert_eq!(check_header(&damaged, &geometry), Ok(None));
        let newer = header_of(4, &geometry, written);
        assert!(check_header(&newer, &geometry).unwrap_err().contains("version 4"));
    }
}
