//! A cursor over LevelDB's iterator. The iterator knows no bounds and no seek backwards, so both are
//! done here.

use super::handle::Iterator;
use esker_api::{Cursor, KeyRange};
use esker_base::Result;
use std::ops::Bound;

pub(super) struct LevelCursor<'a> {
    iterator: Iterator<'a>,
    range: KeyRange,
    /// Whether the iterator is on an entry, and it is in the range.
    on_pair: bool,
}

impl<'a> LevelCursor<'a> {
    pub(super) fn new(iterator: Iterator<'a>, range: KeyRange) -> Self {
        LevelCursor { iterator, range, on_pair: false }
    }

    /// Looks whether the iterator came to be in the range.
    fn arrive(&mut self) -> Result<()> {
        self.on_pair = false;
        self.on_pair = self.iterator.valid()? && self.range.contains(self.iterator.pair().0);
        Ok(())
    }

    /// Moves the iterator, which went forward to an entry, one entry back if that entry is `past`
    /// the bound.
    fn back_while(&mut self, past: impl Fn(&[u8]) -> bool) -> Result<()> {
        self.on_pair = false;
        if !self.iterator.valid()? {
            self.iterator.seek_last();
        } else if past(self.iterator.pair().0) {
            self.iterator.prev();
        }
        self.arrive()
    }
}

impl Cursor for LevelCursor<'_> {
    fn seek_first(&mut self) -> Result<()> {
        self.on_pair = false;
        match &self.range.start {
            Bound::Unbounded => self.iterator.seek_first(),
            Bound::Included(start) => self.iterator.seek(start),
            Bound::Excluded(start) => {
                self.iterator.seek(start);
                if self.iterator.valid()? && self.iterator.pair().0 == start {
                    self.iterator.next();
                }
            }
        }
        self.arrive()
    }

    fn seek_last(&mut self) -> Result<()> {
        match self.range.end.clone() {
            Bound::Unbounded => {
                self.iterator.seek_last();
                self.arrive()
            }
            Bound::Included(end) => {
                self.iterator.seek(&end);
                self.back_while(|key| key > &end[..])
            }
            Bound::Excluded(end) => {
                self.iterator.seek(&end);
                self.back_while(|key| key >= &end[..])
            }
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.range.starts_after(key) {
            return self.seek_first();
        }
        self.iterator.seek(key);
        self.arrive()
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        if self.range.ends_before(key) {
            return self.seek_last();
        }
        self.iterator.seek(key);
        self.back_while(|found| found > key)
    }

    fn next(&mut self) -> Result<()> {
        if !self.on_pair {
            return Ok(());
        }
        self.iterator.next();
        self.arrive()
    }

    fn prev(&mut self) -> Result<()> {
        if !self.on_pair {
            return Ok(());
        }
        self.iterator.prev();
        self.arrive()
    }

    fn current(&self) -> Option<(&[u8], &[u8])> {
        self.on_pair.then(|| self.iterator.pair())
    }
}
