//! The on-device format of the journal and of logs: `docs/formats/flash.md`.

pub(super) mod chunk_reader;
pub(super) mod journal_edits;
mod journal_record;

use crate::Geometry;
use crate::chunk_device::BLOCK_BYTES;
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::{u32_at, u64_at};
pub(crate) use journal_record::{CreateRecord, Extent, JournalRecord, Resets};
use journal_record::{put_op, take_op};

const HEADER_MAGIC: &[u8; 8] = b"ESKRFLSH";
const VERSION: u32 = 4;
/// It said nothing of resets. Lifetimes are expected since version 3. Since version 4, records of logs name edits.
const FIRST_VERSION: u32 = 1;
const HEADER_CHECKED: usize = 32;
const EDIT_MAGIC: u32 = 0x4a46_4b45;
const EDIT_HEADER: usize = 24;
const LOG_MAGIC: u32 = 0x4c46_4b45;
/// The first 4 bytes of a record that names an edit of the journal.
const NAMING_LOG_MAGIC: u32 = 0x4d46_4b45;
/// The first version whose logs may have such records.
pub(crate) const NAMING_VERSION: u32 = 4;
/// No more edits fit into the chunks of the journal.
const EDITS_MAX: u64 = 1 << 16;
/// Bytes before the payload of a log's record.
pub(crate) const LOG_HEADER: usize = 32;

const BLOCK: usize = BLOCK_BYTES as usize;

/// Chunks that hold nothing but the journal, one of them at a time: more than two, as some go bad.
pub(crate) const JOURNAL_CHUNKS: usize = 4;

/// How much of one is written at the most: every open reads it.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;

/// How much of one of its chunks is written.
pub(crate) fn journal_bytes(geometry: &Geometry) -> u64 {
    u64::from(geometry.chunk_bytes).min(JOURNAL_BYTES_MAX)
}

/// What the first block of a chunk of the journal says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) generation: u64,
    /// Which of the journal's chunks were bad when it was written, a bit each.
    pub(crate) bad: u16,
}

/// The first block of a chunk of the journal.
pub(crate) fn header(geometry: &Geometry, header: Header) -> Vec<u8> {
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
pub(crate) fn check_header(block: &[u8], geometry: &Geometry) -> Result<Option<Header>, String> {
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

/// The version of a chunk of the journal whose first block is whole.
pub(crate) fn version_of(block: &[u8]) -> u32 {
    u32_at(block, 8)
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
pub(crate) fn encode_edit(sequence: u64, durable: u64, ops: &[JournalRecord]) -> Vec<u8> {
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
pub(crate) fn durable_before(input: &[u8], sequence: u64) -> Option<u64> {
    let word = u32_at(input.get(..EDIT_HEADER)?, 20);
    let (behind, complement) = (word as u16, (word >> 16) as u16);
    (behind > 0 && behind == !complement).then(|| sequence.saturating_sub(behind.into()))
}

/// How long the edit of this sequence number is that begins so. `None` if it is another.
pub(crate) fn edit_bytes(input: &[u8], sequence: u64) -> Option<usize> {
    let head = input.get(..EDIT_HEADER)?;
    let is_next = u32_at(head, 0) == EDIT_MAGIC && u64_at(head, 8) == sequence;
    is_next.then(|| EDIT_HEADER + u32_at(head, 4) as usize)
}

/// The edit of this sequence number at the beginning of `input`, and the bytes that it takes. `None` if it is not
/// whole.
pub(crate) fn decode_edit(input: &[u8], sequence: u64) -> Option<(Vec<JournalRecord>, usize)> {
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
pub(crate) fn resembles_edit(block: &[u8], sequence: u64) -> bool {
    u32_at(block, 0) == EDIT_MAGIC || u64_at(block, 8) == sequence
}

/// Whether a block has a sign of a record of the log `id`.
pub(crate) fn resembles_log(block: &[u8], id: u64) -> bool {
    is_log(block) || u64_at(block, 8) == id
}

fn is_log(head: &[u8]) -> bool {
    matches!(u32_at(head, 0), LOG_MAGIC | NAMING_LOG_MAGIC)
}

/// The sequence number of an edit that begins so. `None` if it is none.
pub(crate) fn sequence_of(input: &[u8]) -> Option<u64> {
    let head = input.get(..EDIT_HEADER)?;
    (u32_at(head, 0) == EDIT_MAGIC).then(|| u64_at(head, 8))
}

/// A write into the log `id` at `offset`, as bytes: whole blocks. All edits up to `durable` survive power loss when this is
/// written; `None` for a record that does not say so.
pub(crate) fn encode_log(id: u64, offset: u64, durable: Option<u64>, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity((LOG_HEADER + bytes.len()).next_multiple_of(BLOCK));
    let magic = if durable.is_some() { NAMING_LOG_MAGIC } else { LOG_MAGIC };
    let named = durable.map(|durable| (durable as u32).to_le_bytes());
    out.extend_from_slice(&magic.to_le_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
    let checksum = crc32c_append(crc32c(&out), named.as_ref().map_or(&[], |named| &named[..]));
    out.extend_from_slice(&crc32c_append(checksum, bytes).to_le_bytes());
    out.extend_from_slice(&named.unwrap_or_default());
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
    out
}

/// The log whose record begins so, if it is one.
pub(crate) fn log_of(input: &[u8]) -> Option<u64> {
    let id = log_in(input)?;
    decode_log(input, id).map(|_| id)
}

/// The log whose record seems to begin so.
pub(crate) fn log_in(input: &[u8]) -> Option<u64> {
    let head = input.get(..LOG_HEADER)?;
    is_log(head).then(|| u64_at(head, 8))
}

/// How long the record of the log `id` is that begins so. `None` if it is another's.
pub(crate) fn log_bytes(input: &[u8], id: u64) -> Option<usize> {
    let head = input.get(..LOG_HEADER)?;
    let is_of_it = is_log(head) && u64_at(head, 8) == id;
    is_of_it.then(|| LOG_HEADER + u32_at(head, 4) as usize)
}

/// The offset and the length of the write at the beginning of `input`. `None` if it is not whole, or of another log.
pub(crate) fn decode_log(input: &[u8], id: u64) -> Option<(u64, u32)> {
    let end = log_bytes(input, id)?;
    let (head, len) = (&input[..LOG_HEADER], (end - LOG_HEADER) as u32);
    let bytes = input.get(LOG_HEADER..end)?;
    let named = if u32_at(head, 0) == NAMING_LOG_MAGIC { &head[28..32] } else { &[] };
    let checksum = crc32c_append(crc32c_append(crc32c(&head[..24]), named), bytes);
    (checksum == u32_at(head, 24)).then(|| (u64_at(head, 16), len))
}

/// The edit that was durable when the whole record that begins so was written, if it follows the edit `last`.
pub(crate) fn edit_behind(record: &[u8], last: u64) -> Option<u64> {
    let head = record.get(..LOG_HEADER)?;
    let behind = u64::from(u32_at(head, 28).wrapping_sub(last as u32));
    let is_proof = u32_at(head, 0) == NAMING_LOG_MAGIC && (1..=EDITS_MAX).contains(&behind);
    is_proof.then(|| last + behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::lifetimes::lifetime::LifetimeClass;

    fn ops() -> Vec<JournalRecord> {
        let made = CreateRecord {
            id: 7,
            stay: LifetimeClass::decode(0x53),
            log_bytes: None,
            name: "000007.table".to_owned(),
        };
        let log =
            CreateRecord { id: 300, log_bytes: Some(0), name: "log".to_owned(), ..made.clone() };
        let extent = Extent { chunk: 900, block: 12, bytes: 70_001 };
        vec![
            JournalRecord::Create(made),
            JournalRecord::Create(log),
            JournalRecord::Extend(7, vec![extent, Extent { chunk: 3, ..extent }]),
            JournalRecord::Rename("000007.table".to_owned(), "b".to_owned()),
            JournalRecord::Remove("log".to_owned()),
            JournalRecord::Replace(7, vec![extent]),
            JournalRecord::Reset(vec![900, 3]),
            JournalRecord::Resets(Resets { chunks_each: 2, counts: vec![0, 300, 7] }),
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
        let edit = encode_edit(5, 4, &ops());
        let used = EDIT_HEADER + u32_at(&edit, 4) as usize;
        for at in (0..used).filter(|at| !(20..24).contains(at)) {
            let mut damaged = edit.clone();
            damaged[at] ^= 4;
            assert_eq!(decode_edit(&damaged, 5), None, "byte {at}");
        }
        for durable in [None, Some(3)] {
            let log = encode_log(9, 4_000, durable, &[7; 100]);
            assert_eq!(decode_log(&log, 9), Some((4_000, 100)));
            assert_eq!(decode_log(&log, 8), None, "of another log");
            let is_checked = |at: &usize| durable.is_some() || !(28..32).contains(at);
            for at in (0..LOG_HEADER + 100).filter(is_checked) {
                let mut damaged = log.clone();
                damaged[at] ^= 4;
                assert_eq!(decode_log(&damaged, 9), None, "byte {at}");
            }
        }
    }

    #[test]
    fn a_record_of_a_log_names_an_edit_behind_another() {
        let named = |durable, last| edit_behind(&encode_log(9, 0, durable, &[7]), last);
        assert_eq!(
            [named(Some(5), 4), named(Some(5), 5), named(Some(5), 6)],
            [Some(5), None, None]
        );
        assert_eq!(named(None, 0), None);
        let wrapped = (1 << 32) + 1;
        assert_eq!(named(Some(wrapped), wrapped - 3), Some(wrapped));
        assert_eq!(named(Some(wrapped), wrapped - EDITS_MAX - 1), None);
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
        for version in [1, 2, 3] {
            let older = header_of(version, &geometry, written);
            assert_eq!(check_header(&older, &geometry), Ok(Some(written)));
            assert!(check_header(&older, &other).unwrap_err().contains("as it was made"));
        }
        let damaged = {
            let mut block = block.clone();
            block[8] = 5;
            block
        };
        assert_eq!(check_header(&damaged, &geometry), Ok(None));
        let newer = header_of(5, &geometry, written);
        assert!(check_header(&newer, &geometry).unwrap_err().contains("version 5"));
    }
}
