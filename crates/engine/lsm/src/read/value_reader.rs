//! Reads a value without holding it in memory.

use super::get::{InMemory, InTables, get_from_memory, get_from_tables};
use super::lookup::{LookupKey, ReadTier};
use super::merged_get::merged_get;
use super::separated::LargeValue;
use crate::tree::Tree;
use crate::version::blocks::{BLOCK_BYTES, BlockSums, Blocks};
use crate::version::readers::super_version::SuperVersion;
use esker_api::Value;
use esker_base::{Error, KeyspaceId, Result, Seqno};

/// A value that was found.
pub(crate) enum FoundValue {
    /// It is in memory.
    Here(Value),
    /// It is in a file of its own.
    Large(LargeValue),
}

/// Finds the value of the user's `key` at `snapshot`, as a get does, and reads it only if it is not large.
pub(crate) fn find_value(
    tree: &Tree,
    view: &SuperVersion,
    keyspace: KeyspaceId,
    key: &[u8],
    snapshot: Seqno,
) -> Result<Option<FoundValue>> {
    let stored = tree.keys.stored(key);
    let tables = view.version.keyspaces.get(&keyspace).ok_or_else(|| tree.unknown(keyspace))?;
    let sought = LookupKey::new(view, keyspace, &stored, snapshot).of_aging(tables.expired());
    let tier = ReadTier::MayBlock;
    let here = |value: Option<Value>| Ok(value.map(FoundValue::Here));
    let deleted_below = match get_from_memory(tree, view, sought, tier)? {
        InMemory::Decided(value) => return here(value),
        InMemory::Operand => return here(merged_get(tree, view, tables, sought, tier)?),
        InMemory::Below(deleted_below) => deleted_below,
    };
    let tables_of = (&**tables, &view.version.values);
    match get_from_tables(tree, tables_of, sought, deleted_below, tier)? {
        InTables::Decided(found) => here(found.map(|(_, value)| value)),
        InTables::Expiring(value) => here(value),
        InTables::Large(large) => Ok(Some(FoundValue::Large(large))),
        InTables::Operand => here(merged_get(tree, view, tables, sought, tier)?),
    }
}

/// A position in a value.
#[derive(Debug)]
pub(crate) struct ValuePosition {
    source: Source,
    at: u64,
}

#[derive(Debug)]
enum Source {
    Here(Value),
    Blocks {
        large: LargeValue,
        blocks: Blocks,
        /// The block that was read last. Empty before the first.
        block: Vec<u8>,
        number: u64,
        /// Of all blocks so far, if they were read in order: then the end shows whether they are of the value.
        sums: Option<(u64, BlockSums)>,
    },
}

impl ValuePosition {
    /// The start of a value.
    pub(crate) fn start(found: FoundValue) -> Result<Self> {
        let source = match found {
            FoundValue::Here(value) => Source::Here(value),
            FoundValue::Large(large) => Source::Blocks {
                blocks: large.file.blocks(&large.place)?,
                block: Vec::new(),
                number: 0,
                sums: Some((0, BlockSums::of(large.place.file))),
                large,
            },
        };
        Ok(ValuePosition { source, at: 0 })
    }

    /// The length of the value, in bytes.
    pub(crate) fn len(&self) -> u64 {
        match &self.source {
            Source::Here(value) => value.len() as u64,
            Source::Blocks { large, .. } => large.place.value_bytes,
        }
    }

    /// The offset of the next byte.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Goes to an offset, which may be behind the end.
    pub(crate) fn seek(&mut self, at: u64) {
        self.at = at;
    }

    /// Copies the next bytes to `to`, as many as there are at once, and goes behind them. 0 at the end.
    pub(crate) fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        let from = self.chunk()?;
        let bytes = from.len().min(to.len());
        to[..bytes].copy_from_slice(&from[..bytes]);
        self.at += bytes as u64;
        Ok(bytes)
    }

    /// What is in memory from the position on. Empty at the end only.
    fn chunk(&mut self) -> Result<&[u8]> {
        if self.at >= self.len() {
            return Ok(&[]);
        }
        match &mut self.source {
            Source::Here(value) => Ok(&value[self.at as usize..]),
            Source::Blocks { large, blocks, block, number, sums } => {
                let wanted = self.at / BLOCK_BYTES as u64;
                if block.is_empty() || *number != wanted {
                    load(large, (blocks, wanted), sums, block)?;
                    *number = wanted;
                }
                Ok(&block[(self.at % BLOCK_BYTES as u64) as usize..])
            }
        }
    }
}

/// Reads a block to `block`, which is empty then if that failed: no other read takes it for its block.
fn load(
    large: &LargeValue,
    wanted: (&Blocks, u64),
    in_order: &mut Option<(u64, BlockSums)>,
    block: &mut Vec<u8>,
) -> Result<()> {
    let read = load_in_order(large, wanted, in_order, block);
    read.inspect_err(|_| block.clear())
}

fn load_in_order(
    LargeValue { place, file }: &LargeValue,
    (blocks, wanted): (&Blocks, u64),
    in_order: &mut Option<(u64, BlockSums)>,
    block: &mut Vec<u8>,
) -> Result<()> {
    let Some((next, mut sums)) = in_order.filter(|(next, _)| *next == wanted) else {
        *in_order = None;
        return file.read_block((blocks, wanted), &mut BlockSums::of(place.file), block);
    };
    file.read_block((blocks, wanted), &mut sums, block)?;
    if next + 1 == blocks.count() {
        file.check_sums(place, &sums)?;
    }
    *in_order = Some((next + 1, sums));
    Ok(())
}

/// The error of a read, for a caller that knows those of the system only. It has `error` as its source.
pub(crate) fn as_io(error: Error) -> std::io::Error {
    let kind = match &error {
        Error::Io { source, .. } => source.kind(),
        error if error.is_corruption() => std::io::ErrorKind::InvalidData,
        _ => std::io::ErrorKind::Other,
    };
    std::io::Error::new(kind, error)
}
