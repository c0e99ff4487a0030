//! Ranges of entries as iterators.

use super::cursor::DbCursor;
use crate::engine::Engine;
use crate::recovery::close::EngineHandle;
use crate::version::readers::snapshot_tracker::Snapshot;
use esker_api::{Cursor, KeyRange, KeyspaceRef, Value};
use esker_base::Result;
use std::iter::FusedIterator;
use std::sync::Arc;

/// An iterator over the entries in a range of keys, from both ends.
///
/// Created by `range`, `prefix` and `iter` of [`Db`](crate::Db), [`Keyspace`](crate::Keyspace) and
/// [`Snapshot`]. A range of a snapshot reads at it, others at a snapshot taken by the first step. It
/// ends after the first error. A long value shares the memory of its block: see [`Value`]. A
/// [`cursor`](crate::Db::cursor) lends its entries instead.
#[must_use = "a range reads nothing until it is iterated"]
pub struct Range {
    inner: Arc<Engine>,
    /// Keeps the database open during iteration, if the range came from a [`Db`](crate::Db).
    _open: Option<Arc<EngineHandle>>,
    keyspace: KeyspaceRef,
    range: KeyRange,
    snapshot: Option<Snapshot>,
    /// At the last entry that `next` returned.
    front: Option<DbCursor>,
    /// At the last entry that `next_back` returned.
    back: Option<DbCursor>,
    is_done: bool,
}

/// One of the two ends of a range.
#[derive(Clone, Copy)]
enum End {
    Front,
    Back,
}

impl Range {
    pub(crate) fn new(
        inner: &Arc<Engine>,
        open: Option<Arc<EngineHandle>>,
        keyspace: KeyspaceRef,
        range: KeyRange,
    ) -> Self {
        Range {
            inner: inner.clone(),
            _open: open,
            keyspace,
            range,
            snapshot: None,
            front: None,
            back: None,
            is_done: false,
        }
    }

    /// Reads at `snapshot`. Has no effect after the first step.
    pub(super) fn at(mut self, snapshot: &Snapshot) -> Self {
        if self.front.is_none() && self.back.is_none() && !self.is_done {
            self.snapshot = Some(snapshot.clone());
        }
        self
    }

    /// At the end, drops what keeps obsolete data alive.
    #[inline]
    fn end_unless(&mut self, goes_on: bool) {
        if !goes_on {
            (self.front, self.back, self.snapshot) = (None, None, None);
            self.is_done = true;
        }
    }

    /// Moves the cursor of one end to its next entry, opened now if there is none.
    #[inline]
    fn advance(&mut self, end: End) -> Result<()> {
        let own = match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        };
        match (own, end) {
            (Some(cursor), End::Front) => cursor.next(),
            (Some(cursor), End::Back) => cursor.prev(),
            (None, _) => self.open(end),
        }
    }

    #[cold]
    fn open(&mut self, end: End) -> Result<()> {
        let inner = &self.inner;
        let snapshot = self.snapshot.get_or_insert_with(|| inner.take_snapshot()).clone();
        let keyspace = inner.tree.resolve(self.keyspace)?;
        let cursor = DbCursor::new(inner, keyspace, self.range.clone(), snapshot)?;
        match end {
            End::Front => self.front.insert(cursor).seek_first(),
            End::Back => self.back.insert(cursor).seek_last(),
        }
    }

    /// The current entry of `end`, unless the other end returned its key already.
    #[inline]
    fn pair(&self, end: End) -> Option<(Value, Value)> {
        let (own, other) = match end {
            End::Front => (&self.front, &self.back),
            End::Back => (&self.back, &self.front),
        };
        let own = own.as_ref()?;
        let (key, _) = own.current()?;
        let returned = other.as_ref().and_then(Cursor::current).map(|(key, _)| key);
        let has_met = returned.is_some_and(|returned| match end {
            End::Front => key >= returned,
            End::Back => key <= returned,
        });
        (!has_met).then(|| (Value::copy_of(key), own.shared_value()))
    }

    #[inline]
    fn step(&mut self, end: End) -> Option<Result<(Value, Value)>> {
        if self.is_done {
            return None;
        }
        let item = match self.advance(end) {
            Ok(()) => self.pair(end).map(Ok),
            Err(error) => Some(Err(error)),
        };
        self.end_unless(matches!(item, Some(Ok(_))));
        item
    }
}

impl Iterator for Range {
    type Item = Result<(Value, Value)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.step(End::Front)
    }
}

impl DoubleEndedIterator for Range {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(End::Back)
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
