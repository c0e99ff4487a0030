//! The records of a manifest file: a length, a checksum, and an encoded edit.

use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::u32_at;

/// What comes before the edit.
pub(super) const RECORD_HEADER_BYTES: usize = 8;

/// The checksum of the record of `edit` at `offset` of the file.
pub(super) fn record_crc(offset: u64, edit: &[u8]) -> u32 {
    let crc = crc32c(&offset.to_le_bytes());
    let crc = crc32c_append(crc, &(edit.len() as u32).to_le_bytes());
    crc32c_append(crc, edit)
}

/// The edit's bytes of the record at the start of `bytes`, which are at `offset` of the file, if it checks
/// out.
pub(super) fn record_at(bytes: &[u8], offset: u64) -> Option<&[u8]> {
    let header = bytes.get(..RECORD_HEADER_BYTES)?;
    let length = u32_at(header, 0) as usize;
    if length == 0 {
        return None;
    }
    let edit = bytes.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES.checked_add(length)?)?;
    (record_crc(offset, edit) == u32_at(header, 4)).then_some(edit)
}
