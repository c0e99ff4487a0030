//! A cursor over TidesDB's iterator: bounds, and copies of the current entry.

use super::handle::Scan;
use crate::check::foreign;
use esker_api::{Cursor, KeyRange};
use esker_base::Result;
use std::ops::Bound;
use std::path::Path;
use tidesdb::{Error, Iterator};

pub(super) struct TidesCursor<'a> {
    scan: Scan<'a>,
    dir: &'a Path,
    range: KeyRange,
    current: Option<(Vec<u8>, Vec<u8>)>,
}

impl<'a> TidesCursor<'a> {
    pub(super) fn new(scan: Scan<'a>, dir: &'a Path, range: KeyRange) -> Self {
        TidesCursor { scan, dir, range, current: None }
    }

    /// Moves the iterator and takes the entry that it is at, if that is within the range.
    fn go(
        &mut self,
        movement: impl FnOnce(&mut Iterator<'static>) -> Result<(), Error>,
    ) -> Result<()> {
        self.current = None;
        let iterator = &mut self.scan.iterator;
        let found = movement(iterator).and_then(|()| match iterator.is_valid() {
            true => iterator.key_value().map(Some),
            false => Ok(None),
        });
        let found = found.map_err(|error| foreign("read", self.dir, error))?;
        self.current = found.filter(|(key, _)| self.range.contains(key));
        Ok(())
    }
}

impl Cursor for TidesCursor<'_> {
    fn seek_first(&mut self) -> Result<()> {
        match self.range.start.clone() {
            Bound::Unbounded => self.go(Iterator::seek_to_first),
            Bound::Included(start) => self.go(|iterator| iterator.seek(&start)),
            Bound::Excluded(start) => self.go(|iterator| {
                iterator.seek(&start)?;
                match iterator.is_valid() && iterator.key()? == start {
                    true => iterator.next(),
                    false => Ok(()),
                }
            }),
        }
    }

    fn seek_last(&mut self) -> Result<()> {
        match self.range.end.clone() {
            Bound::Unbounded => self.go(Iterator::seek_to_last),
            Bound::Included(end) => self.go(|iterator| iterator.seek_for_prev(&end)),
            Bound::Excluded(end) => self.go(|iterator| {
                iterator.seek_for_prev(&end)?;
                match iterator.is_valid() && iterator.key()? == end {
                    true => iterator.prev(),
                    false => Ok(()),
                }
            }),
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        match self.range.starts_after(key) {
            true => self.seek_first(),
            false => self.go(|iterator| iterator.seek(key)),
        }
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        match self.range.ends_before(key) {
            true => self.seek_last(),
            false => self.go(|iterator| iterator.seek_for_prev(key)),
        }
    }

    fn next(&mut self) -> Result<()> {
        if self.current.is_none() {
            return Ok(());
        }
        self.go(Iterator::next)
    }

    fn prev(&mut self) -> Result<()> {
        if self.current.is_none() {
            return Ok(());
        }
        self.go(Iterator::prev)
    }

    fn current(&self) -> Option<(&[u8], &[u8])> {
        self.current.as_ref().map(|(key, value)| (&key[..], &value[..]))
    }
}
