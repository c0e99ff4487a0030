//! Ranges as iterators, for loops.

use crate::cursor::DbCursor;
use crate::db::Db;
use crate::keyspace::Keyspace;
use crate::snapshot::Snapshot;
use esker_api::{Cursor, KeyRange};
use esker_base::Result;

/// The pairs of a range, not read yet. Iterate over it, after [`Range::at`] or [`Range::rev`] if
/// wanted.
pub struct Range {
    db: Db,
    keyspace: Keyspace,
    range: KeyRange,
    snapshot: Option<Snapshot>,
    reverse: bool,
}

impl Range {
    pub(crate) fn new(db: Db, keyspace: Keyspace, range: KeyRange) -> Self {
        Range { db, keyspace, range, snapshot: None, reverse: false }
    }

    /// As of `snapshot` in place of now.
    pub fn at(mut self, snapshot: &Snapshot) -> Self {
        self.snapshot = Some(snapshot.clone());
        self
    }

    /// From the last key to the first.
    pub fn rev(mut self) -> Self {
        self.reverse = !self.reverse;
        self
    }
}

impl IntoIterator for Range {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Pairs;

    fn into_iter(self) -> Pairs {
        let snapshot = self.snapshot.unwrap_or_else(|| self.db.snapshot());
        let cursor = self.db.cursor_at(&self.keyspace, self.range, &snapshot);
        Pairs { _db: self.db, cursor: Some(cursor), started: false, reverse: self.reverse }
    }
}

/// An iterator over pairs. Ends after the first error.
pub struct Pairs {
    /// Open for as long as somebody iterates.
    _db: Db,
    cursor: Option<Result<DbCursor>>,
    started: bool,
    reverse: bool,
}

impl Pairs {
    fn step(&mut self) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        let cursor = match self.cursor.as_mut()? {
            Ok(cursor) => cursor,
            Err(error) => return Some(Err(error.clone())),
        };
        let moved = match (self.started, self.reverse) {
            (false, false) => cursor.seek_first(),
            (false, true) => cursor.seek_last(),
            (true, false) => cursor.next(),
            (true, true) => cursor.prev(),
        };
        self.started = true;
        match moved {
            Ok(()) => cursor.current().map(|(key, value)| Ok((key.to_vec(), value.to_vec()))),
            Err(error) => Some(Err(error)),
        }
    }
}

impl Iterator for Pairs {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.step();
        if !matches!(item, Some(Ok(_))) {
            self.cursor = None;
        }
        item
    }
}
