//! Reads the edits in a chunk of the journal.

use super::chunk_reader::Content;
use super::{JournalRecord, decode_edit, durable_before, edit_bytes, sequence_of};
use crate::chunk_device::BLOCK_BYTES;
use esker_base::Result;

/// A complete edit, and its location.
pub(crate) struct WholeEdit {
    pub(crate) sequence: u64,
    /// The last edit that was durable when this was written, if it says so.
    pub(crate) durable: Option<u64>,
    pub(crate) ops: Vec<JournalRecord>,
}

/// The whole edits in a chunk, from the block at `from` on, and where they begin. Inspects `most` bytes.
pub(crate) fn scan(
    content: &mut Content<'_>,
    from: u64,
    most: u64,
) -> Result<Vec<(u64, WholeEdit)>> {
    let (mut at, mut edits) = (from, Vec::new());
    while at < content.written && at < from.saturating_add(most) {
        let head = content.from(at, BLOCK_BYTES as usize)?;
        let mut taken = BLOCK_BYTES;
        if let Some(sequence) = sequence_of(head)
            && let Some(len) = edit_bytes(head, sequence)
            && at + len as u64 <= content.written
        {
            let bytes = content.from(at, len)?;
            let durable = durable_before(bytes, sequence);
            if let Some((ops, whole)) = decode_edit(bytes, sequence) {
                edits.push((at, WholeEdit { sequence, durable, ops }));
                taken = whole as u64;
            }
        }
        at += taken;
    }
    Ok(edits)
}

/// The edits of a chunk without a gap: the changes, the number of the last one, and where it ends.
pub(crate) struct Edits {
    pub(crate) sequence: u64,
    pub(crate) end: u64,
    pub(crate) ops: Vec<JournalRecord>,
}

/// The edits in a chunk up to the first that is not whole. `None` without a whole snapshot.
pub(crate) fn edits(content: &mut Content<'_>) -> Result<Option<Edits>> {
    let block = BLOCK_BYTES as usize;
    let mut at = BLOCK_BYTES;
    let Some(first) = content.from(at, block)?.get(..block) else { return Ok(None) };
    let Some(mut sequence) = sequence_of(first) else { return Ok(None) };
    let Some((mut ops, taken)) = edit(content, at, sequence)? else { return Ok(None) };
    at += taken as u64;
    while let Some((more, taken)) = edit(content, at, sequence + 1)? {
        ops.extend(more);
        sequence += 1;
        at += taken as u64;
    }
    Ok(Some(Edits { sequence, end: at, ops }))
}

/// The edit of this sequence number at a place in a chunk, and the bytes that it takes. `None` if it is not whole.
fn edit(
    content: &mut Content<'_>,
    at: u64,
    sequence: u64,
) -> Result<Option<(Vec<JournalRecord>, usize)>> {
    let Some(len) = edit_bytes(content.from(at, BLOCK_BYTES as usize)?, sequence) else {
        return Ok(None);
    };
    Ok(decode_edit(content.from(at, len)?, sequence))
}
