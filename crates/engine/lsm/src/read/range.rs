//! Ranges of entries as iterators.

use super::cursor::DbCursor;
use crate::db::Db;
use crate::engine::Inner;
use crate::version::snapshot_tracker::Snapshot;
use esker_api::{Cursor, KeyRange, KeyspaceRef};
use esker_base::Result;
use std::iter::FusedIterator;
use std::sync::Arc;

/// An iterator over the entries in a range of keys, from both ends.
///
/// It reads at the snapshot given by [`Range::at`], or at a snapshot taken by its first step. It
/// ends after the first error. Created by `range`, `prefix` and `iter` of [`Db`] and
/// [`Keyspace`](crate::Keyspace).
#[must_use = "a range reads nothing until it is iterated"]
pub struct Range {
    inner: Arc<Inner>,
    /// Keeps the database open during iteration, if the range came from a [`Db`].
    _db: Option<Db>,
    keyspace: KeyspaceRef,
    range: KeyRange,
    snapshot: Option<Snapshot>,
    /// At the last pair that `next` returned.
    front: Option<DbCursor>,
    /// At the last pair that `next_back` returned.
    back: Option<DbCursor>,
    is_done: bool,
}

/// One step: a cursor at its next pair, or `None` behind the last one.
type Step = fn(&mut DbCursor) -> Result<()>;

impl Range {
    pub(crate) fn new(
        inner: &Arc<Inner>,
        db: Option<Db>,
        keyspace: KeyspaceRef,
        range: KeyRange,
    ) -> Self {
        Range {
            inner: inner.clone(),
            _db: db,
            keyspace,
            range,
            snapshot: None,
            front: None,
            back: None,
            is_done: false,
        }
    }

    /// Reads at `snapshot`. Has no effect after the first step.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{Db, Settings};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let keyspace = db.default_keyspace();
    /// keyspace.put("a", "1")?;
    /// let snapshot = db.snapshot();
    /// keyspace.put("b", "2")?;
    /// assert_eq!(keyspace.iter().at(&snapshot).count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn at(mut self, snapshot: &Snapshot) -> Self {
        if self.front.is_none() && self.back.is_none() && !self.is_done {
            self.snapshot = Some(snapshot.clone());
        }
        self
    }

    /// At the end, gives up what keeps obsolete data alive.
    fn end_unless(&mut self, goes_on: bool) {
        if !goes_on {
            (self.front, self.back, self.snapshot) = (None, None, None);
            self.is_done = true;
        }
    }

    /// The cursor in `own` after a step, made if there is none.
    fn moved<'a>(
        &mut self,
        own: &'a mut Option<DbCursor>,
        first: Step,
        next: Step,
    ) -> Result<&'a DbCursor> {
        if let Some(cursor) = own {
            next(cursor)?;
        } else {
            let inner = &self.inner;
            let snapshot = self.snapshot.get_or_insert_with(|| inner.take_snapshot()).clone();
            let keyspace = inner.resolve(self.keyspace)?;
            let mut cursor = DbCursor::new(inner, keyspace, self.range.clone(), snapshot)?;
            first(&mut cursor)?;
            *own = Some(cursor);
        }
        Ok(own.as_ref().expect("it was made above"))
    }
}

/// The pair at which `cursor` stands, unless `has_met` says that the other end returned its key already.
fn pair(
    cursor: &DbCursor,
    other: Option<&DbCursor>,
    has_met: fn(&[u8], &[u8]) -> bool,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let (key, value) = cursor.current()?;
    let returned = other.and_then(Cursor::current).map(|(key, _)| key);
    if returned.is_some_and(|returned| has_met(key, returned)) {
        return None;
    }
    Some((key.to_vec(), value.to_vec()))
}

impl Iterator for Range {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let mut front = self.front.take();
        let moved = self.moved(&mut front, Cursor::seek_first, Cursor::next);
        let item = moved.map(|cursor| pair(cursor, self.back.as_ref(), |key, back| key >= back));
        self.front = front;
        self.end_unless(matches!(item, Ok(Some(_))));
        item.transpose()
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let mut back = self.back.take();
        let moved = self.moved(&mut back, Cursor::seek_last, Cursor::prev);
        let item = moved.map(|cursor| pair(cursor, self.front.as_ref(), |key, front| key <= front));
        self.back = back;
        self.end_unless(matches!(item, Ok(Some(_))));
        item.transpose()
    }
}

impl FusedIterator for Range {}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Range")
            .field("keyspace", &self.keyspace)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}
