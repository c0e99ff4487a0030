//! A cursor over fjall's ranges. A range is an iterator with two ends and no seek, so that a seek, and
//! a turn, begins a new one at the same time.

use super::foreign;
use ::fjall::{Guard, Iter, Keyspace, KvPair, Readable, Snapshot};
use esker_api::{Cursor, KeyRange};
use esker_base::Result;
use std::ops::Bound;
use std::path::Path;

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

pub(super) struct FjallCursor<'a> {
    keyspace: &'a Keyspace,
    dir: &'a Path,
    moment: Snapshot,
    range: KeyRange,
    walk: Option<Walk>,
    current: Option<KvPair>,
}

/// A range in progress.
enum Walk {
    Up(Iter),
    Down(Iter),
}

impl<'a> FjallCursor<'a> {
    pub(super) fn new(
        keyspace: &'a Keyspace,
        dir: &'a Path,
        moment: Snapshot,
        range: KeyRange,
    ) -> Self {
        FjallCursor { keyspace, dir, moment, range, walk: None, current: None }
    }

    /// Goes to the first entry within `start` and the range's end.
    fn go_up(&mut self, start: Bound<Vec<u8>>) -> Result<()> {
        let bounds = (start, self.range.end.clone());
        let mut iter = self.begin(bounds);
        let found = iter.as_mut().and_then(Iterator::next);
        self.walk = iter.map(Walk::Up);
        self.take(found)
    }

    /// Goes to the last entry within the range's start and `end`.
    fn go_down(&mut self, end: Bound<Vec<u8>>) -> Result<()> {
        let bounds = (self.range.start.clone(), end);
        let mut iter = self.begin(bounds);
        let found = iter.as_mut().and_then(DoubleEndedIterator::next_back);
        self.walk = iter.map(Walk::Down);
        self.take(found)
    }

    fn begin(&self, bounds: Bounds) -> Option<Iter> {
        (!is_empty(&bounds)).then(|| self.moment.range(self.keyspace, bounds))
    }

    fn take(&mut self, found: Option<Guard>) -> Result<()> {
        self.current = None;
        let pair = found.map(Guard::into_inner).transpose();
        self.current = pair.map_err(|error| foreign("read", self.dir, error))?;
        Ok(())
    }
}

/// Whether no key can be within `bounds`. The map under fjall's write buffer panics at such.
fn is_empty((start, end): &Bounds) -> bool {
    match (start, end) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
        | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
        _ => false,
    }
}

impl Cursor for FjallCursor<'_> {
    fn seek_first(&mut self) -> Result<()> {
        self.go_up(self.range.start.clone())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.go_down(self.range.end.clone())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.range.starts_after(key) {
            return self.seek_first();
        }
        self.go_up(Bound::Included(key.to_vec()))
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        if self.range.ends_before(key) {
            return self.seek_last();
        }
        self.go_down(Bound::Included(key.to_vec()))
    }

    fn next(&mut self) -> Result<()> {
        let Some((key, _)) = self.current.take() else { return Ok(()) };
        if let Some(Walk::Up(iter)) = &mut self.walk {
            let found = iter.next();
            return self.take(found);
        }
        self.go_up(Bound::Excluded(key.to_vec()))
    }

    fn prev(&mut self) -> Result<()> {
        let Some((key, _)) = self.current.take() else { return Ok(()) };
        if let Some(Walk::Down(iter)) = &mut self.walk {
            let found = iter.next_back();
            return self.take(found);
        }
        self.go_down(Bound::Excluded(key.to_vec()))
    }

    fn current(&self) -> Option<(&[u8], &[u8])> {
        self.current.as_ref().map(|(key, value)| (&key[..], &value[..]))
    }
}
