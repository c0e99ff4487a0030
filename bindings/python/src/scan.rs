//! A walk over the entries of a range, in both directions, that reads ahead.
//!
//! Its position is a gap: before the first entry, between two entries, or after the last. A step returns
//! the entry on one side of the gap, and moves the gap past it. So a step forward and one back return
//! the same entry.
//!
//! Entries are read in chunks without the interpreter lock. The first chunk is small, and each further
//! one four times as large, so that a short walk costs little and a long one rarely asks for the lock.

use crate::chunk::{BYTES_MAX, Chunk};
use crate::open::Open;
use crate::transaction_state::Shared;
use esker::api::KeyspaceRef;
use esker::{Cursor, DbCursor, Error, KeyRange, Result};
use std::sync::Arc;

/// Entries of the first chunk.
const AHEAD_MIN: usize = 4;
/// Entries of the largest chunk.
const AHEAD_MAX: usize = 1024;
/// Entries of the largest chunk in a transaction, for which what is read may count as read.
const AHEAD_MAX_IN_TRANSACTION: usize = 64;
/// A chunk ends after so many bytes.
const AHEAD_BYTES: usize = 128 << 10;

/// Where entries come from.
pub(crate) enum Source {
    Database(Box<DbCursor>),
    Transaction {
        shared: Arc<Shared>,
        keyspace: KeyspaceRef,
        range: KeyRange,
        changes: u64,
    },
    /// An empty range.
    Nothing,
}

enum Gap {
    Start,
    Stop,
    Before(Vec<u8>),
    After(Vec<u8>),
}

pub(crate) struct Scan {
    source: Source,
    open: Arc<Open>,
    /// What all keys start with. It is left out of the keys in chunks.
    prefix: Vec<u8>,
    with_values: bool,
    chunk: Chunk,
    /// How many entries of the chunk were passed.
    at: usize,
    /// The direction of the chunk.
    is_back: bool,
    /// Whether no entry follows the chunk.
    is_last: bool,
    /// Whether the cursor is on the last entry of the chunk.
    is_placed: bool,
    ahead: usize,
    /// The gap before the chunk.
    gap: Gap,
}

impl Scan {
    pub(crate) fn new(source: Source, open: Arc<Open>, is_back: bool, with_values: bool) -> Self {
        Scan {
            source,
            open,
            prefix: Vec::new(),
            with_values,
            chunk: Chunk::default(),
            at: 0,
            is_back,
            is_last: false,
            is_placed: false,
            ahead: AHEAD_MIN,
            gap: if is_back { Gap::Stop } else { Gap::Start },
        }
    }

    /// Leaves `prefix` out of all keys, which start with it.
    pub(crate) fn without_prefix(mut self, prefix: Vec<u8>) -> Self {
        self.prefix = prefix;
        self
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.open.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Passes the next entry of the chunk in this direction, if there is one, and returns its place.
    #[inline]
    pub(crate) fn step_in_chunk(&mut self, is_back: bool) -> Result<Option<usize>> {
        self.check_open()?;
        if is_back != self.is_back || self.at == self.chunk.len() || self.is_stale() {
            return Ok(None);
        }
        self.at += 1;
        Ok(Some(self.at - 1))
    }

    /// Passes the next entry in this direction, and reads ahead. May wait.
    pub(crate) fn step(&mut self, is_back: bool) -> Result<Option<usize>> {
        let goes_on = is_back == self.is_back && !self.is_stale();
        if goes_on && self.is_last {
            return Ok(None);
        }
        self.ahead = if goes_on { (self.ahead * 4).min(self.ahead_max()) } else { AHEAD_MIN };
        self.fill(is_back, self.ahead, AHEAD_BYTES)?;
        if self.chunk.len() == 0 {
            return Ok(None);
        }
        self.at = 1;
        Ok(Some(0))
    }

    /// Takes up to `rows` entries in the direction of the walk. Returns them with how many of them were
    /// passed before. May wait.
    pub(crate) fn take(&mut self, is_back: bool, rows: usize) -> Result<(Chunk, usize)> {
        self.check_open()?;
        let goes_on = is_back == self.is_back && !self.is_stale();
        if !(goes_on && (self.at < self.chunk.len() || self.is_last)) {
            self.fill(is_back, rows, BYTES_MAX)?;
        }
        let passed = self.at;
        self.at = self.chunk.len();
        if let Some(gap) = self.gap_here() {
            self.gap = gap;
        }
        self.at = 0;
        Ok((std::mem::take(&mut self.chunk), passed))
    }

    #[inline]
    pub(crate) fn key(&self, at: usize) -> &[u8] {
        self.chunk.key(at)
    }

    #[inline]
    pub(crate) fn value(&self, at: usize) -> &[u8] {
        self.chunk.value(at)
    }

    pub(crate) fn seek_start(&mut self) {
        self.place(Gap::Start);
    }

    pub(crate) fn seek_stop(&mut self) {
        self.place(Gap::Stop);
    }

    /// Places the gap before the first entry whose key is `key` or after it.
    pub(crate) fn seek(&mut self, key: &[u8]) {
        self.place(Gap::Before([&self.prefix, key].concat()));
    }

    fn place(&mut self, gap: Gap) {
        self.gap = gap;
        self.chunk.clear();
        (self.at, self.is_last, self.is_placed) = (0, false, false);
        self.ahead = AHEAD_MIN;
    }

    /// Whether the transaction has written since the chunk was read.
    #[inline]
    fn is_stale(&self) -> bool {
        match &self.source {
            Source::Transaction { shared, changes, .. } => *changes != shared.changes(),
            _ => false,
        }
    }

    fn ahead_max(&self) -> usize {
        match &self.source {
            Source::Transaction { .. } => AHEAD_MAX_IN_TRANSACTION,
            _ => AHEAD_MAX,
        }
    }

    /// The gap after the entry that was passed last, if one of the chunk was.
    fn gap_here(&self) -> Option<Gap> {
        let key = |at| [&self.prefix, self.chunk.key(at)].concat();
        match self.is_back {
            _ if self.at == 0 => None,
            true => Some(Gap::Before(key(self.at - 1))),
            false => Some(Gap::After(key(self.at - 1))),
        }
    }

    /// Reads the next chunk in this direction.
    fn fill(&mut self, is_back: bool, rows: usize, bytes: usize) -> Result<()> {
        let goes_on = self.is_placed && is_back == self.is_back && self.at == self.chunk.len();
        if let Some(gap) = self.gap_here() {
            self.gap = gap;
        }
        self.chunk.clear();
        (self.at, self.is_back, self.is_placed, self.is_last) = (0, is_back, false, false);
        let (prefix, with_values) = (self.prefix.len(), self.with_values);
        let limits = Limits { rows, bytes, prefix, with_values };
        let chunk = &mut self.chunk;
        let filled = match &mut self.source {
            Source::Nothing => Ok(false),
            Source::Database(cursor) => {
                let gap = (!goes_on).then_some(&self.gap);
                let filled = read(&mut **cursor, gap, chunk, is_back, &limits);
                self.is_placed = matches!(filled, Ok(true));
                filled
            }
            Source::Transaction { shared, keyspace, range, changes } => {
                *changes = shared.changes();
                let (keyspace, range, gap) = (*keyspace, range.clone(), &self.gap);
                shared.with(|transaction| {
                    let mut cursor = transaction.cursor(keyspace, range)?;
                    read(&mut *cursor, Some(gap), chunk, is_back, &limits)
                })
            }
        };
        match filled {
            Ok(has_more) => self.is_last = !has_more,
            Err(_) => self.chunk.clear(),
        }
        filled.map(|_| ())
    }
}

struct Limits {
    rows: usize,
    bytes: usize,
    prefix: usize,
    with_values: bool,
}

/// Moves the cursor to the entry next to the gap. False if there can be none.
fn place<C: Cursor + ?Sized>(cursor: &mut C, gap: &Gap, is_back: bool) -> Result<bool> {
    match (gap, is_back) {
        (Gap::Start, false) => cursor.seek_first()?,
        (Gap::Stop, true) => cursor.seek_last()?,
        (Gap::Start, true) | (Gap::Stop, false) => return Ok(false),
        (Gap::Before(key), false) => cursor.seek(key)?,
        (Gap::After(key), true) => cursor.seek_back(key)?,
        (Gap::After(key), false) => {
            cursor.seek(key)?;
            pass(cursor, key, is_back)?;
        }
        (Gap::Before(key), true) => {
            cursor.seek_back(key)?;
            pass(cursor, key, is_back)?;
        }
    }
    Ok(true)
}

/// Passes the entry with this key, if the cursor is on it.
fn pass<C: Cursor + ?Sized>(cursor: &mut C, key: &[u8], is_back: bool) -> Result<()> {
    match cursor.current().is_some_and(|(found, _)| found == key) {
        true => onward(cursor, is_back),
        false => Ok(()),
    }
}

#[inline]
fn onward<C: Cursor + ?Sized>(cursor: &mut C, is_back: bool) -> Result<()> {
    if is_back { cursor.prev() } else { cursor.next() }
}

/// Reads entries up to the limits, from the gap on, or else from the entry after the current one.
/// Whether one of the limits was reached: then the cursor is on the last entry that was read.
fn read<C: Cursor + ?Sized>(
    cursor: &mut C,
    gap: Option<&Gap>,
    chunk: &mut Chunk,
    is_back: bool,
    limits: &Limits,
) -> Result<bool> {
    match gap {
        None => onward(cursor, is_back)?,
        Some(gap) if !place(cursor, gap, is_back)? => return Ok(false),
        Some(_) => {}
    }
    while let Some((key, value)) = cursor.current() {
        chunk.push(&key[limits.prefix..], limits.with_values.then_some(value));
        if chunk.len() >= limits.rows || chunk.bytes() >= limits.bytes {
            return Ok(true);
        }
        onward(cursor, is_back)?;
    }
    Ok(false)
}
