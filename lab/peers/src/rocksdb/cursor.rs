//! A cursor over RocksDB's iterator, which knows bounds and both directions itself.

use super::foreign;
use super::moment::Moment;
use ::rocksdb::{DB, DBAccess, DBRawIteratorWithThreadMode, ReadOptions};
use esker_api::{Cursor, KeyRange};
use esker_base::Result;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

pub(super) struct RocksCursor<'a, D: DBAccess> {
    // Before the moment, so that it is dropped first.
    iterator: DBRawIteratorWithThreadMode<'a, D>,
    dir: &'a Path,
    _moment: Option<Arc<Moment>>,
}

impl<'a> RocksCursor<'a, DB> {
    /// A cursor at `moment`, or of now.
    pub(super) fn new(
        database: &'a DB,
        dir: &'a Path,
        range: KeyRange,
        moment: Option<Arc<Moment>>,
    ) -> Self {
        let reads = moment.as_ref().map_or_else(ReadOptions::default, |moment| moment.reads());
        let iterator = database.raw_iterator_opt(within(range, reads));
        RocksCursor { iterator, dir, _moment: moment }
    }
}

/// `reads` within `range` alone.
pub(super) fn within(range: KeyRange, mut reads: ReadOptions) -> ReadOptions {
    // RocksDB's lower bound is in the range and its upper bound is not. The key that follows another
    // is that key and a zero byte.
    match range.start {
        Bound::Unbounded => {}
        Bound::Included(start) => reads.set_iterate_lower_bound(start),
        Bound::Excluded(start) => reads.set_iterate_lower_bound(following(start)),
    }
    match range.end {
        Bound::Unbounded => {}
        Bound::Included(end) => reads.set_iterate_upper_bound(following(end)),
        Bound::Excluded(end) => reads.set_iterate_upper_bound(end),
    }
    reads
}

impl<'a, D: DBAccess> RocksCursor<'a, D> {
    /// A cursor over an iterator that was made [`within`] its range.
    pub(super) fn over(iterator: DBRawIteratorWithThreadMode<'a, D>, dir: &'a Path) -> Self {
        RocksCursor { iterator, dir, _moment: None }
    }

    fn arrived(&self) -> Result<()> {
        if self.iterator.valid() {
            return Ok(());
        }
        self.iterator.status().map_err(|error| foreign("read", self.dir, error))
    }
}

fn following(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

impl<D: DBAccess> Cursor for RocksCursor<'_, D> {
    fn seek_first(&mut self) -> Result<()> {
        self.iterator.seek_to_first();
        self.arrived()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.iterator.seek_to_last();
        self.arrived()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.iterator.seek(key);
        self.arrived()
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        self.iterator.seek_for_prev(key);
        self.arrived()
    }

    fn next(&mut self) -> Result<()> {
        if self.iterator.valid() {
            self.iterator.next();
        }
        self.arrived()
    }

    fn prev(&mut self) -> Result<()> {
        if self.iterator.valid() {
            self.iterator.prev();
        }
        self.arrived()
    }

    fn current(&self) -> Option<(&[u8], &[u8])> {
        self.iterator.item()
    }
}
