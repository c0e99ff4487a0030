//! How several operands of a key are stored as one.
//!
//! The value is the varint of a span, then the operand. The version has the sequence number of the
//! newest operand; the span is how far below that of the oldest is. So a repair that finds operands
//! alone and combined, because an input of a compaction is still there, counts none twice.

use crate::Seqno;
use crate::coding::{put_varint64, take_varint64};

/// Returns the value of a version with the sequence number `newest`.
pub fn encode(newest: Seqno, oldest: Seqno, operand: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(operand.len() + 3);
    put_varint64(&mut value, newest - oldest);
    value.extend_from_slice(operand);
    value
}

/// Returns the sequence number of the oldest operand, and the operand that all were combined to.
/// `None` if `value` is not one of a version with the sequence number `newest`.
pub fn decode(newest: Seqno, mut value: &[u8]) -> Option<(Seqno, &[u8])> {
    let span = take_varint64(&mut value)?;
    Some((newest.checked_sub(span)?, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combined_operands_are_encoded() {
        for (newest, oldest) in [(9, 5), (9, 9), (1 << 50, 0)] {
            let value = encode(newest, oldest, b"operand");
            assert_eq!(decode(newest, &value), Some((oldest, &b"operand"[..])));
        }
        assert_eq!(encode(9, 5, b"x"), b"\x04x");
        assert_eq!(decode(3, b"\x04x"), None);
        assert_eq!(decode(3, b""), None);
    }
}
