//! Operands of one key.

use esker_base::{Error, Kind, Result, Seqno, combined};

/// Byte strings, each older than the one before, in one buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operands {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Operands {
    /// Adds an operand that is older than all others.
    pub(crate) fn push_older(&mut self, operand: &[u8]) {
        self.bytes.extend_from_slice(operand);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The operands, oldest first, as operators take them.
    pub(super) fn oldest_first(&self) -> Vec<&[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let all = starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end]);
        let mut all: Vec<&[u8]> = all.collect();
        all.reverse();
        all
    }
}

/// Takes a version that is an operand apart: the seqno of the oldest operand that it stands for, and
/// the operand.
///
/// # Errors
/// If the version is of combined operands and does not say so many.
pub(crate) fn parts_of(seqno: Seqno, kind: Kind, value: &[u8]) -> Result<(Seqno, &[u8])> {
    match kind {
        Kind::Combined => combined::decode(seqno, value)
            .ok_or_else(|| Error::corruption("a table", 0, "combined operands without their span")),
        _ => Ok((seqno, value)),
    }
}
