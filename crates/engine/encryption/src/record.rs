//! Records: what an encrypted file consists of behind its header.
//!
//! ```text
//! record := mark u32 | length u32 | offset u64 | length encrypted bytes | tag 16
//! ```
//!
//! The offset is that of the first byte in the decrypted file. The tag authenticates all of the record and,
//! through the nonce, its position in the file.

use crate::key::{FileKey, Purpose, TAG_BYTES};
use esker_base::coding::{u32_at, u64_at};

pub(crate) const HEAD_BYTES: usize = 16;
/// What a record takes in addition to its decrypted bytes.
pub(crate) const OVERHEAD_BYTES: usize = HEAD_BYTES + TAG_BYTES;
/// Records without a stride begin at multiples of this.
pub(crate) const ALIGNMENT: usize = 8;
/// The most decrypted bytes of a record.
pub(crate) const DATA_BYTES_MAX: usize = 64 << 10;
/// The most bytes of a record.
pub(crate) const RECORD_BYTES_MAX: usize = DATA_BYTES_MAX + OVERHEAD_BYTES;

/// Appends the record of `data` to `out`. It is for `position` in the file of `key`.
pub(crate) fn append(key: &FileKey, position: u64, offset: u64, data: &[u8], out: &mut Vec<u8>) {
    debug_assert!(!data.is_empty() && data.len() <= DATA_BYTES_MAX);
    let start = out.len();
    out.extend_from_slice(&key.mark.to_le_bytes());
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(data);
    let (head, data) = out[start..].split_at_mut(HEAD_BYTES);
    let tag = key.seal((Purpose::Record, position), head, data);
    out.extend_from_slice(&tag);
}

/// A record that was read.
pub(crate) struct Record<'a> {
    /// The offset of the first byte in the decrypted file.
    pub(crate) offset: u64,
    pub(crate) data: &'a [u8],
}

impl Record<'_> {
    /// The bytes that it takes in the file.
    pub(crate) fn bytes(&self) -> usize {
        OVERHEAD_BYTES + self.data.len()
    }
}

/// Whether a record of the file of `key` may begin here.
pub(crate) fn may_begin(key: &FileKey, bytes: &[u8]) -> bool {
    bytes.len() >= HEAD_BYTES && u32_at(bytes, 0) == key.mark
}

/// Decrypts the record that `bytes` begins with, in place. `None`: they begin with none of this file that was
/// written to this position, and may have changed.
pub(crate) fn open<'a>(key: &FileKey, position: u64, bytes: &'a mut [u8]) -> Option<Record<'a>> {
    if !may_begin(key, bytes) {
        return None;
    }
    let (length, offset) = (u32_at(bytes, 4) as usize, u64_at(bytes, 8));
    if length == 0 || length > DATA_BYTES_MAX || bytes.len() < OVERHEAD_BYTES + length {
        return None;
    }
    let (head, rest) = bytes.split_at_mut(HEAD_BYTES);
    let (data, rest) = rest.split_at_mut(length);
    let tag = rest[..TAG_BYTES].try_into().expect("16 bytes");
    key.open((Purpose::Record, position), head, data, tag).then_some(Record { offset, data })
}
