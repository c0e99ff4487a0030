//! What a partition is asked, what it answers, and the input and output it wants done.

use crate::format::record::value_at;
use esker_base::{Error, Result};
use esker_uring::{Buffer, Slice};

/// A condition on a store.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum StoreCondition {
    /// None.
    #[default]
    Always,
    /// The key must be there.
    IfPresent,
    /// The key must not be there.
    IfAbsent,
}

/// A key and a value, laid out so that they are written without a copy.
#[derive(Debug)]
pub struct Item {
    pub(super) key: Vec<u8>,
    pub(super) value_bytes: usize,
    pub(super) buffer: Buffer,
    /// Where in the buffer the record begins: a multiple of what memory is aligned to for direct I/O.
    pub(super) start: usize,
}

/// What a record's memory is aligned to.
const ALIGNMENT: usize = 4096;

impl Item {
    /// An item with a value of `value_bytes` zeros. `block_bytes` is the store's.
    pub fn new(key: &[u8], value_bytes: usize, block_bytes: u32) -> Self {
        let bytes = record_bytes(key.len(), value_bytes, block_bytes);
        Item { key: key.to_vec(), value_bytes, buffer: Buffer::zeroed(bytes), start: 0 }
    }

    /// Space for the value of an item, to be filled and made an item of by [`Item::of`]. What it holds is stale.
    pub fn room(key_bytes: usize, value_bytes: usize, block_bytes: u32) -> Slice {
        let (at, bytes) =
            (value_at(key_bytes, 1), record_bytes(key_bytes, value_bytes, block_bytes));
        Buffer::stale(bytes).slice(at..at + value_bytes)
    }

    /// Where in a page of 4096 bytes a value has to begin for [`Item::of`] to take it as it is, if the page and those
    /// behind it have space for the whole blocks of the record.
    pub fn place(key_bytes: usize) -> usize {
        value_at(key_bytes, 1) % ALIGNMENT
    }

    /// An item whose value is in [space](Item::room) or in [place](Item::place). Otherwise it is copied.
    pub fn of(key: &[u8], value: Slice, block_bytes: u32) -> Self {
        let (at, value_bytes) = (value_at(key.len(), 1), value.len());
        let end = value.range().end;
        let start = value.range().start.checked_sub(at).filter(|start| start % ALIGNMENT == 0);
        let mut buffer = value.into_buffer();
        let record = record_bytes(key.len(), value_bytes, block_bytes);
        if let Some(start) = start
            && let Some(padding) = buffer.get_mut(end..start + record)
        {
            padding.fill(0);
            return Item { key: key.to_vec(), value_bytes, buffer, start };
        }
        let mut item = Item::new(key, value_bytes, block_bytes);
        item.value_mut().copy_from_slice(&buffer[end - value_bytes..end]);
        item
    }

    /// The value, to fill in. It is in its buffer unaligned.
    pub fn value_mut(&mut self) -> &mut [u8] {
        let at = self.start + value_at(self.key.len(), 1);
        &mut self.buffer[at..at + self.value_bytes]
    }
}

/// The bytes of a record in one extent, in whole blocks.
fn record_bytes(key_bytes: usize, value_bytes: usize, block_bytes: u32) -> usize {
    (value_at(key_bytes, 1) + value_bytes).next_multiple_of(block_bytes as usize)
}

/// Something to do.
#[derive(Debug)]
pub enum Request {
    /// Stores an item, on a condition. Answered once it survives power loss.
    Store(Item, StoreCondition),
    /// Removes a key. Answered once that survives power loss.
    Delete(Vec<u8>),
    /// Reads a key's value.
    Retrieve(Vec<u8>),
    /// Asks whether a key is there. Answered at once.
    Exist(Vec<u8>),
    /// Lists at most `limit` keys of the partition, in order of (hash, key), from `from` on, which need
    /// not be there. Answered at once.
    List {
        /// Where to begin; at the front if there is none.
        from: Option<Vec<u8>>,
        /// How many at the most.
        limit: usize,
    },
}

/// What comes of a request.
#[derive(Debug)]
pub enum Answer {
    /// Done; the key was there before, or not.
    Done {
        /// Whether the key was there before.
        was_present: bool,
    },
    /// The value, a part of its record.
    Value(Slice),
    /// The key is not there: nothing was done.
    Absent,
    /// The key is there: so says an exist, or the condition of a store that was not done.
    Present,
    /// Keys.
    Keys(Vec<Vec<u8>>),
}

/// The end of a request.
#[derive(Debug)]
pub struct Reply {
    /// What was given with the request.
    pub token: u64,
    /// The answer, or why there is none. After an error of a store or delete it may or may not have been
    /// done.
    pub result: Result<Answer>,
}

/// Input or output to do, and then to report by its tag.
#[derive(Debug)]
pub struct Io {
    /// Names it.
    pub tag: u64,
    /// What to do.
    pub what: IoKind,
}

/// What to do to the device. Offsets and lengths are whole blocks.
#[derive(Debug)]
pub enum IoKind {
    /// Read into a slice, all of it. The caller that does that allocates it, when it begins.
    Read {
        /// In bytes.
        offset: u64,
        /// How many.
        bytes: usize,
    },
    /// Write a slice.
    Write {
        /// In bytes.
        offset: u64,
        /// What to write.
        from: Slice,
    },
    /// Write a slice so that it survives power loss when that is reported.
    WriteDurably {
        /// In bytes.
        offset: u64,
        /// What to write.
        from: Slice,
    },
    /// Make everything that was reported written before this was taken survive power loss.
    Sync,
}

/// The refusals that need no inspect the store.
pub(super) fn check_lengths(key: &[u8], value_bytes: usize, limit: usize) -> Result<()> {
    if key.is_empty() {
        return Err(Error::EmptyKey);
    }
    if key.len() > esker_base::MAX_KEY_BYTES {
        return Err(Error::KeyTooLong { bytes: key.len() });
    }
    if value_bytes > limit {
        return Err(Error::ValueTooLong { bytes: value_bytes, limit });
    }
    Ok(())
}
