//! What a program implements: the effect of its commands on the state.

use crate::error::{Error, LimitError};
use crate::shared::Shared;
use esker::transaction::TransactionRange;
use esker::{IndexedBatch, KeyRange, Keyspace, Range, Value};
use openraft::RaftTypeConfig;
use std::ops::Bound;
use std::sync::Arc;

/// A deterministic state machine: the same commands in the same order give the same entries on all
/// nodes. So `apply` reads no clock, no random numbers and nothing outside of `writes`.
pub trait Application<C: RaftTypeConfig>: Send + Sync + 'static {
    /// Applies a command that is committed. What it writes becomes visible together with the record
    /// that it was applied.
    ///
    /// A command that cannot be carried out is an answer, for `C::R`. So is one that writes more than
    /// [`Writes`] allows: [`Writes::undo`] takes back what it wrote before.
    ///
    /// # Errors
    /// An error of the database. openraft then stops the node. [`Error::Limit`] stops all nodes, at each
    /// start, because all of them apply the command.
    fn apply(&self, command: &C::D, writes: &mut Writes<'_>) -> Result<C::R, Error>;

    /// Returns the response to an entry of the log that has no command: a change of membership or
    /// the first entry of a leader.
    fn no_command(&self) -> C::R;
}

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 64 << 10;
/// The most puts, deletes and range deletes of a command.
const WRITES_MAX: usize = 1 << 15;
/// The most range deletes of a command.
const RANGE_DELETES_MAX: usize = 512;
/// The most bytes of a command, as the database encodes its writes.
const COMMAND_BYTES_MAX: usize = 4 << 20;

/// Commands are applied in one batch until it has so much. Then it still takes any command: that and
/// what a command may write are below what all databases with [`BATCH_BYTES_MAX`] accept, which are
/// 1,024 range deletes and 65,536 entries.
const JOINED_BYTES: usize = 1 << 20;
const JOINED_WRITES: usize = 1 << 14;
const JOINED_RANGE_DELETES: usize = 256;

/// The largest batch that is written, in encoded bytes, with space for the records of Raft.
pub(crate) const BATCH_BYTES_MAX: usize = COMMAND_BYTES_MAX + JOINED_BYTES + (256 << 10);

/// The entries of the state machine while commands are applied. Reads see earlier writes.
///
/// A command may write 4 MiB, keys included, in 32,768 puts and deletes, of which 512 may be range
/// deletes. Keys have at most 64 KiB. These limits are the same on all nodes, whatever their settings,
/// so that all give the same answer. A write beyond one is not added, and its error says which it is.
pub struct Writes<'a> {
    batch: &'a mut IndexedBatch,
    state: &'a Keyspace,
    /// What the batch had before the command.
    before: Size,
}

#[derive(Clone, Copy)]
struct Size {
    bytes: usize,
    writes: usize,
    range_deletes: usize,
}

impl Size {
    fn of(batch: &IndexedBatch) -> Self {
        let batch = batch.as_batch();
        Size {
            bytes: batch.encoded().len(),
            writes: batch.len(),
            range_deletes: batch.range_deletes(),
        }
    }
}

/// Whether `batch` is to be written before a further command.
pub(crate) fn is_full(batch: &IndexedBatch) -> bool {
    let Size { bytes, writes, range_deletes } = Size::of(batch);
    bytes > JOINED_BYTES || writes > JOINED_WRITES || range_deletes > JOINED_RANGE_DELETES
}

impl<'a> Writes<'a> {
    /// Those of a command that follows what `batch` has.
    pub(crate) fn begin(batch: &'a mut IndexedBatch, state: &'a Keyspace) -> Self {
        batch.set_savepoint();
        let before = Size::of(batch);
        Writes { batch, state, before }
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// An error of the database.
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> esker::Result<Option<Value>> {
        self.batch.get(self.state, key)
    }

    /// Iterates over the entries with keys in `range`.
    pub fn range(&mut self, range: impl Into<KeyRange>) -> TransactionRange<'_> {
        self.batch.range(self.state, range)
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// If the key is too long, or the command writes too much. Nothing is added.
    pub fn put(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), LimitError> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.check_limits(&[key, value], false)?;
        self.batch.put(self.state, key, value);
        Ok(())
    }

    /// Deletes `key`, whether it exists or not.
    ///
    /// # Errors
    /// Those of [`Writes::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<(), LimitError> {
        let key = key.as_ref();
        self.check_limits(&[key], false)?;
        self.batch.delete(self.state, key);
        Ok(())
    }

    /// Deletes all keys in `range`. An empty range deletes nothing.
    ///
    /// # Errors
    /// Those of [`Writes::put`], and if the command has too many range deletes. Nothing is added.
    pub fn delete_range(&mut self, range: impl Into<KeyRange>) -> Result<(), LimitError> {
        let range = range.into();
        if is_empty(&range) {
            return Ok(());
        }
        let (start, end) = (key_of(&range.start), key_of(&range.end));
        self.check_limits(&[start, end], true)?;
        self.check_limits(&[end, start], true)?;
        self.batch.delete_range(self.state, range);
        Ok(())
    }

    /// Takes back all that the command has written. It may write anew.
    pub fn undo(&mut self) {
        // There is a savepoint: the one that `begin` or an earlier call of this has set.
        let undone = self.batch.rollback_to_savepoint();
        debug_assert!(undone.is_ok(), "{undone:?}");
        self.batch.set_savepoint();
    }

    /// Fails if the command may not write an entry of these parts. The first is a key.
    fn check_limits(&self, parts: &[&[u8]], is_range: bool) -> Result<(), LimitError> {
        // More than the entry's head takes as it is encoded.
        const HEAD_BYTES: usize = 32;
        let key_bytes = parts[0].len();
        if key_bytes > KEY_BYTES_MAX {
            return Err(LimitError::KeyTooLong { bytes: key_bytes, limit: KEY_BYTES_MAX });
        }
        let (now, before) = (Size::of(self.batch), self.before);
        let added = HEAD_BYTES + parts.iter().map(|part| part.len()).sum::<usize>();
        let bytes = now.bytes - before.bytes + added;
        if bytes > COMMAND_BYTES_MAX {
            return Err(LimitError::TooManyBytes { bytes, limit: COMMAND_BYTES_MAX });
        }
        if now.writes - before.writes == WRITES_MAX {
            return Err(LimitError::TooManyWrites { limit: WRITES_MAX });
        }
        if is_range && now.range_deletes - before.range_deletes == RANGE_DELETES_MAX {
            return Err(LimitError::TooManyRangeDeletes { limit: RANGE_DELETES_MAX });
        }
        Ok(())
    }
}

fn key_of(bound: &Bound<Vec<u8>>) -> &[u8] {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => key,
        Bound::Unbounded => &[],
    }
}

/// Whether no key can be in `range`: the database rejects it.
fn is_empty(range: &KeyRange) -> bool {
    let after = |key: &[u8]| [key, &[0]].concat();
    let start = match &range.start {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key.clone(),
        Bound::Excluded(key) => after(key),
    };
    match &range.end {
        Bound::Unbounded => false,
        Bound::Included(key) => after(key) <= start,
        Bound::Excluded(key) => *key <= start,
    }
}

/// Reads the applied state. Clones share it, and threads may.
///
/// A read sees what this node has applied. For a linearizable read, await
/// `Raft::ensure_linearizable` first.
#[derive(Clone)]
pub struct State {
    pub(crate) shared: Arc<Shared>,
}

/// The applied state within [`State::read`].
pub struct Entries<'a> {
    state: &'a Keyspace,
}

impl State {
    /// Returns the value of `key`.
    ///
    /// # Errors
    /// An error of the database.
    pub fn get(&self, key: impl AsRef<[u8]>) -> esker::Result<Option<Value>> {
        self.read(|state| state.get(key))
    }

    /// Runs `read` on the entries. No snapshot is installed meanwhile.
    ///
    /// `read` should be short: an install waits for it, and later reads and `apply` wait for the
    /// install. It must not call this state again, which would wait for itself behind an install. A
    /// range that is returned from it fails once the next install drops the keyspace.
    pub fn read<T>(&self, read: impl FnOnce(&Entries<'_>) -> T) -> T {
        read(&Entries { state: &self.shared.state.read().unwrap().keyspace })
    }
}

impl Entries<'_> {
    /// Returns the value of `key`.
    ///
    /// # Errors
    /// An error of the database.
    pub fn get(&self, key: impl AsRef<[u8]>) -> esker::Result<Option<Value>> {
        self.state.get(key)
    }

    /// Iterates over the entries with keys in `range`, at one snapshot.
    pub fn range(&self, range: impl Into<KeyRange>) -> Range {
        self.state.range(range)
    }

    /// Iterates over the entries whose keys start with `prefix`, at one snapshot.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.state.prefix(prefix)
    }

    /// Iterates over all entries, at one snapshot.
    pub fn iter(&self) -> Range {
        self.state.iter()
    }
}
