//! What reads of an index return.

use crate::db::range::Range;
use crate::engine::Engine;
use crate::index::format;
use crate::index::registry::IndexSlot;
use crate::version::readers::snapshot_tracker::Snapshot;
use esker_api::{KeyRange, KeyspaceRef, Value};
use esker_base::{Error, IndexError, Result};
use std::collections::VecDeque;
use std::iter::FusedIterator;
use std::sync::Arc;

/// Rows that are read together, at first and at most.
const CHUNK_MIN: usize = 4;
const CHUNK_MAX: usize = 256;
/// A chunk of so many bytes is followed by a smaller one.
const CHUNK_BYTES: usize = 1 << 20;

/// A row that an index found.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct IndexRow {
    /// The key in the index.
    pub index_key: Value,
    /// The key of the row.
    pub key: Value,
    /// The value of the row.
    pub value: Value,
}

/// The keys of an index in a range, with the keys of their rows: an iterator from both ends. Ends after
/// the first error.
#[must_use = "a range reads nothing until it is iterated"]
pub struct IndexEntries {
    engine: Arc<Engine>,
    slot: Arc<IndexSlot>,
    range: KeyRange,
    /// Of the first step, if none was given.
    snapshot: Option<Snapshot>,
    opened: Option<Range>,
    is_done: bool,
}

/// One of the two ends of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

impl IndexEntries {
    pub(super) fn new(engine: &Arc<Engine>, slot: &Arc<IndexSlot>, range: KeyRange) -> Self {
        let (engine, slot) = (engine.clone(), slot.clone());
        IndexEntries { engine, slot, range, snapshot: None, opened: None, is_done: false }
    }

    /// Reads at `snapshot`.
    pub(super) fn at(mut self, snapshot: &Snapshot) -> Self {
        self.snapshot = Some(snapshot.clone());
        self
    }

    fn open(&mut self) -> Result<&mut Range> {
        let (engine, slot) = (&self.engine, &self.slot);
        engine.tree.check_usable()?;
        slot.check_ready()?;
        // After the index is ready, so a new snapshot sees all of it.
        let snapshot = self.snapshot.get_or_insert_with(|| engine.take_snapshot());
        slot.check_ready_at(engine.tree.resolve_snapshot(&*snapshot)?)?;
        let entries = KeyspaceRef { id: slot.entries, store: engine.tree.store_id };
        let range = Range::new(engine, None, entries, self.range.clone()).at(snapshot);
        Ok(self.opened.insert(range))
    }

    fn try_step(&mut self, end: End) -> Result<Option<(Value, Value)>> {
        let opened = match &mut self.opened {
            Some(_) => self.opened.as_mut().expect("it was just there"),
            None => self.open()?,
        };
        let next = match end {
            End::Front => opened.next(),
            End::Back => opened.next_back(),
        };
        let Some((entry, value)) = next.transpose()? else { return Ok(None) };
        let Some((index_key, row)) = format::split_entry_key(&entry) else {
            let what = format!("an entry of index {:?} is malformed", self.slot.name);
            return Err(Error::corruption(self.engine.tree.storage.describe(), 0, what));
        };
        let key = match self.slot.registered()?.is_unique {
            true => value,
            false => Value::copy_of(row),
        };
        Ok(Some((Value::copy_of(&index_key), key)))
    }

    fn step(&mut self, end: End) -> Option<Result<(Value, Value)>> {
        if self.is_done {
            return None;
        }
        let item = self.try_step(end).transpose();
        if !matches!(item, Some(Ok(_))) {
            (self.is_done, self.opened) = (true, None);
        }
        item
    }
}

impl Iterator for IndexEntries {
    type Item = Result<(Value, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(End::Front)
    }
}

impl DoubleEndedIterator for IndexEntries {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(End::Back)
    }
}

impl FusedIterator for IndexEntries {}

/// The rows of an index in a range: an iterator from both ends. Ends after the first error.
///
/// Entries and rows are read at one snapshot, rows several at once.
#[must_use = "a range reads nothing until it is iterated"]
pub struct IndexRows {
    entries: IndexEntries,
    /// Rows that were read from the front, in order.
    front: VecDeque<IndexRow>,
    /// Rows that were read from the back, the last first.
    back: VecDeque<IndexRow>,
    chunk: usize,
    is_done: bool,
}

impl IndexRows {
    pub(super) fn new(entries: IndexEntries) -> Self {
        let (front, back) = (VecDeque::new(), VecDeque::new());
        IndexRows { entries, front, back, chunk: CHUNK_MIN, is_done: false }
    }

    /// Reads the next rows of `end`.
    fn read(&mut self, end: End) -> Result<()> {
        let mut found = Vec::new();
        while found.len() < self.chunk {
            match self.entries.step(end).transpose()? {
                Some(entry) => found.push(entry),
                None => break,
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        let IndexEntries { engine, slot, snapshot, .. } = &self.entries;
        let rows = KeyspaceRef { id: slot.rows, store: engine.tree.store_id };
        let values = engine.multi_get(rows, found.iter().map(|(_, key)| key), snapshot.as_ref())?;
        let read = match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        };
        let mut bytes = 0;
        for ((index_key, key), value) in found.into_iter().zip(values) {
            let Some(value) = value else { return Err(dangling(slot, &index_key, &key)) };
            bytes += value.len();
            read.push_back(IndexRow { index_key, key, value });
        }
        self.chunk = match bytes < CHUNK_BYTES {
            true => (self.chunk * 4).min(CHUNK_MAX),
            false => (self.chunk / 4).max(CHUNK_MIN),
        };
        Ok(())
    }

    fn take(&mut self, end: End) -> Option<IndexRow> {
        // Where nothing is left in between, what the other end has read is next.
        match end {
            End::Front => self.front.pop_front().or_else(|| self.back.pop_back()),
            End::Back => self.back.pop_front().or_else(|| self.front.pop_back()),
        }
    }

    fn step(&mut self, end: End) -> Option<Result<IndexRow>> {
        if self.is_done {
            return None;
        }
        let own = match end {
            End::Front => &self.front,
            End::Back => &self.back,
        };
        if own.is_empty()
            && let Err(error) = self.read(end)
        {
            self.is_done = true;
            return Some(Err(error));
        }
        let row = self.take(end);
        self.is_done = row.is_none();
        row.map(Ok)
    }
}

#[cold]
fn dangling(slot: &IndexSlot, index_key: &[u8], key: &[u8]) -> Error {
    let escaped = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let (index, index_key, key) = (slot.name.clone(), escaped(index_key), escaped(key));
    IndexError::Dangling { index, index_key, key }.into()
}

impl Iterator for IndexRows {
    type Item = Result<IndexRow>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(End::Front)
    }
}

impl DoubleEndedIterator for IndexRows {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(End::Back)
    }
}

impl FusedIterator for IndexRows {}

impl std::fmt::Debug for IndexEntries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexEntries").field("index", &self.slot.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for IndexRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexRows").field("entries", &self.entries).finish_non_exhaustive()
    }
}
