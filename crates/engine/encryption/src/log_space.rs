//! How much space the records of a log take: enough for as many writes as it has bytes for.

use crate::header::HEADER_BYTES;
use crate::record::{ALIGNMENT, OVERHEAD_BYTES};

/// The shortest write of the engine: a frame with one delete.
const WRITE_BYTES_MIN: u64 = 40;

/// What writes of so many bytes take at most.
pub(crate) fn sealed(bytes: u64) -> u64 {
    bytes + bytes.div_ceil(WRITE_BYTES_MIN) * OVERHEAD_BYTES as u64 + ALIGNMENT as u64
}

/// The length of the file for a log of so many bytes.
pub(crate) fn bytes_below(bytes: u64) -> u64 {
    HEADER_BYTES as u64 + sealed(bytes).next_multiple_of(ALIGNMENT as u64)
}
