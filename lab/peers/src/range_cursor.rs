//! A cursor over the ranges of a peer: iterators that run in one direction and cannot seek.
//!
//! A seek, and a change of direction, begins a new iterator at the same snapshot.

use esker_api::{Cursor, KeyRange};
use esker_base::Result;
use std::ops::Bound;

pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Begins iterators at one snapshot and moves them.
///
/// Iterators and entries may borrow from the value that began them: [`RangeCursor`] drops them first.
pub(crate) trait Ranges {
    type Pair: Pair;
    type Up;
    type Down;
    fn up(&self, bounds: &Bounds) -> Result<Self::Up>;
    fn down(&self, bounds: &Bounds) -> Result<Self::Down>;
    fn next(&self, up: &mut Self::Up) -> Result<Option<Self::Pair>>;
    fn prev(&self, down: &mut Self::Down) -> Result<Option<Self::Pair>>;
}

/// An entry that an iterator yields.
pub(crate) trait Pair {
    fn key(&self) -> &[u8];
    fn value(&self) -> &[u8];
}

enum Walk<R: Ranges> {
    Up(R::Up),
    Down(R::Down),
}

/// The cursor. Fields are dropped in this order: `ranges` outlives what borrows from it.
pub(crate) struct RangeCursor<R: Ranges> {
    current: Option<R::Pair>,
    walk: Option<Walk<R>>,
    ranges: R,
    range: KeyRange,
}

impl<R: Ranges> RangeCursor<R> {
    pub(crate) fn new(ranges: R, range: KeyRange) -> Self {
        RangeCursor { current: None, walk: None, ranges, range }
    }

    /// Moves to the first entry at or after `start`.
    fn go_up(&mut self, start: Bound<Vec<u8>>) -> Result<()> {
        self.leave();
        let bounds = (start, self.range.end.clone());
        if is_empty(&bounds) {
            return Ok(());
        }
        let mut up = self.ranges.up(&bounds)?;
        self.current = self.ranges.next(&mut up)?;
        self.walk = Some(Walk::Up(up));
        Ok(())
    }

    /// Moves to the last entry at or before `end`.
    fn go_down(&mut self, end: Bound<Vec<u8>>) -> Result<()> {
        self.leave();
        let bounds = (self.range.start.clone(), end);
        if is_empty(&bounds) {
            return Ok(());
        }
        let mut down = self.ranges.down(&bounds)?;
        self.current = self.ranges.prev(&mut down)?;
        self.walk = Some(Walk::Down(down));
        Ok(())
    }

    fn leave(&mut self) {
        self.current = None;
        self.walk = None;
    }
}

/// Whether no key can be within `bounds`. Some peers panic at such.
fn is_empty((start, end): &Bounds) -> bool {
    match (start, end) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
        | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
        _ => false,
    }
}

impl<R: Ranges> Cursor for RangeCursor<R> {
    fn seek_first(&mut self) -> Result<()> {
        self.go_up(self.range.start.clone())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.go_down(self.range.end.clone())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        match self.range.starts_after(key) {
            true => self.seek_first(),
            false => self.go_up(Bound::Included(key.to_vec())),
        }
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        match self.range.ends_before(key) {
            true => self.seek_last(),
            false => self.go_down(Bound::Included(key.to_vec())),
        }
    }

    fn next(&mut self) -> Result<()> {
        let Some(pair) = self.current.take() else { return Ok(()) };
        if let Some(Walk::Up(up)) = &mut self.walk {
            drop(pair);
            self.current = self.ranges.next(up)?;
            return Ok(());
        }
        let start = Bound::Excluded(pair.key().to_vec());
        drop(pair);
        self.go_up(start)
    }

    fn prev(&mut self) -> Result<()> {
        let Some(pair) = self.current.take() else { return Ok(()) };
        if let Some(Walk::Down(down)) = &mut self.walk {
            drop(pair);
            self.current = self.ranges.prev(down)?;
            return Ok(());
        }
        let end = Bound::Excluded(pair.key().to_vec());
        drop(pair);
        self.go_down(end)
    }

    fn current(&self) -> Option<(&[u8], &[u8])> {
        self.current.as_ref().map(|pair| (pair.key(), pair.value()))
    }
}
