//! Directory changes, as values and as bytes.

use crate::chunk_device::BLOCK_BYTES;
use crate::storage::lifetimes::lifetime::LifetimeClass;
use esker_base::coding::{
    put_bytes, put_varint32, put_varint64, take_bytes, take_u8, take_varint32, take_varint64,
};

/// A piece of a file: bytes in a row in one chunk, from the beginning of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// The place of the chunk among all of them.
    pub(crate) chunk: u32,
    pub(crate) block: u32,
    pub(crate) bytes: u32,
}

impl Extent {
    /// The bytes of whole blocks that it takes.
    pub(crate) fn taken(&self) -> u64 {
        u64::from(self.bytes).next_multiple_of(BLOCK_BYTES)
    }

    pub(crate) fn start(&self) -> u64 {
        u64::from(self.block) * BLOCK_BYTES
    }

    /// Whether both have a block of a chunk.
    pub(crate) fn overlaps(&self, other: &Extent) -> bool {
        self.chunk == other.chunk
            && self.start() < other.start() + other.taken()
            && other.start() < self.start() + self.taken()
    }
}

/// A file without its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CreateRecord {
    pub(crate) id: u64,
    /// How long it lives.
    pub(crate) stay: LifetimeClass,
    /// The size of a log; `None` for a file that grows.
    pub(crate) log_bytes: Option<u64>,
    pub(crate) name: String,
}

impl CreateRecord {
    /// A file of which only the number is known.
    pub(crate) fn unnamed(id: u64) -> Self {
        CreateRecord {
            id,
            stay: LifetimeClass::SHORTEST,
            log_bytes: None,
            name: format!("lost-{id:06}"),
        }
    }
}

/// A change of the directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum JournalRecord {
    Create(CreateRecord),
    /// A file goes on with these; a log has these chunks, too.
    Extend(u64, Vec<Extent>),
    Remove(String),
    /// What had the second name has none any more.
    Rename(String, String),
    /// A file's bytes are now stored here.
    Replace(u64, Vec<Extent>),
    /// These chunks were reset once more each.
    Reset(Vec<u32>),
    /// How often chunks were reset so far.
    Resets(Resets),
}

/// How often chunks were reset, in order: each number is the mean of so many in a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Resets {
    pub(crate) chunks_each: u32,
    pub(crate) counts: Vec<u32>,
}

pub(crate) fn put_op(out: &mut Vec<u8>, op: &JournalRecord) {
    match op {
        JournalRecord::Create(made) => {
            out.push(1);
            put_varint64(out, made.id);
            out.push(made.stay.encode());
            put_varint64(out, made.log_bytes.map_or(0, |bytes| bytes + 1));
            put_bytes(out, made.name.as_bytes());
        }
        JournalRecord::Extend(id, extents) | JournalRecord::Replace(id, extents) => {
            out.push(if matches!(op, JournalRecord::Extend(..)) { 2 } else { 5 });
            put_varint64(out, *id);
            put_varint32(out, extents.len() as u32);
            for extent in extents {
                put_varint32(out, extent.chunk);
                put_varint32(out, extent.block);
                put_varint32(out, extent.bytes);
            }
        }
        JournalRecord::Remove(name) => {
            out.push(3);
            put_bytes(out, name.as_bytes());
        }
        JournalRecord::Rename(from, to) => {
            out.push(4);
            put_bytes(out, from.as_bytes());
            put_bytes(out, to.as_bytes());
        }
        JournalRecord::Reset(chunks) => {
            out.push(6);
            put_numbers(out, chunks);
        }
        JournalRecord::Resets(Resets { chunks_each, counts }) => {
            out.push(7);
            put_varint32(out, *chunks_each);
            put_numbers(out, counts);
        }
    }
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u32]) {
    put_varint32(out, numbers.len() as u32);
    numbers.iter().for_each(|number| put_varint32(out, *number));
}

fn take_numbers(input: &mut &[u8]) -> Option<Vec<u32>> {
    let count = take_varint32(input)?;
    (0..count).map(|_| take_varint32(input)).collect()
}

pub(crate) fn take_op(input: &mut &[u8]) -> Option<JournalRecord> {
    let name = |input: &mut &[u8]| String::from_utf8(take_bytes(input)?.to_vec()).ok();
    match take_u8(input)? {
        kind @ (2 | 5) => {
            let (id, count) = (take_varint64(input)?, take_varint32(input)?);
            let extent = |_| {
                let (chunk, block) = (take_varint32(input)?, take_varint32(input)?);
                Some(Extent { chunk, block, bytes: take_varint32(input)? })
            };
            let extents = (0..count).map(extent).collect::<Option<_>>()?;
            Some(if kind == 2 {
                JournalRecord::Extend(id, extents)
            } else {
                JournalRecord::Replace(id, extents)
            })
        }
        1 => {
            let (id, stay) = (take_varint64(input)?, LifetimeClass::decode(take_u8(input)?));
            let log_bytes = take_varint64(input)?.checked_sub(1);
            Some(JournalRecord::Create(CreateRecord { id, stay, log_bytes, name: name(input)? }))
        }
        3 => Some(JournalRecord::Remove(name(input)?)),
        4 => Some(JournalRecord::Rename(name(input)?, name(input)?)),
        6 => Some(JournalRecord::Reset(take_numbers(input)?)),
        7 => {
            let chunks_each = take_varint32(input).filter(|each| *each > 0)?;
            Some(JournalRecord::Resets(Resets { chunks_each, counts: take_numbers(input)? }))
        }
        _ => None,
    }
}
