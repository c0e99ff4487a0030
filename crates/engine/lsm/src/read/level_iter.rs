//! Reads a run as one sequence. Its tables are opened one after another, when they are reached.

use crate::version::{Run, TableHandle};
use esker_api::KeyRange;
use esker_base::{EntryCursor, Error, Kind, Result, Seqno};
use esker_table::{BlockCache, BlockScan, PinnedValue, ReadPurpose, TableIter};
use std::ops::{Bound, Range};
use std::sync::Arc;

/// A cursor over a run. It may be bound to a range of keys: then tables wholly outside are never
/// opened, while those across a bound yield all they have.
pub struct LevelIter {
    run: Arc<Run>,
    cache: Arc<BlockCache>,
    purpose: ReadPurpose,
    /// The tables that the bounds leave.
    within: Range<usize>,
    /// The lower bound.
    start: Bound<Vec<u8>>,
    /// The upper bound.
    end: Bound<Vec<u8>>,
    /// The table that the cursor is in and its cursor, open or kept from the last seek.
    open: Option<(usize, TableIter)>,
    /// Whether `open` is on a version.
    valid: bool,
    /// The table whose read failed last.
    failed: Option<usize>,
}

impl LevelIter {
    /// A cursor over `run`.
    pub fn new(run: Arc<Run>, cache: Arc<BlockCache>, purpose: ReadPurpose) -> Self {
        let within = 0..run.tables().len();
        let (start, end) = (Bound::Unbounded, Bound::Unbounded);
        LevelIter {
            run,
            cache,
            purpose,
            within,
            start,
            end,
            open: None,
            valid: false,
            failed: None,
        }
    }

    /// A cursor over tables that are part of one run, in key order.
    pub fn of_tables(
        tables: Vec<Arc<TableHandle>>,
        cache: Arc<BlockCache>,
        purpose: ReadPurpose,
    ) -> Self {
        Self::new(Arc::new(Run::new(0, tables)), cache, purpose)
    }

    /// Leaves out the tables that do not meet `range`.
    pub fn bounded(mut self, range: &KeyRange) -> Self {
        self.bind(range);
        self
    }

    /// Whether this is a cursor over `run`.
    pub(crate) fn is_of(&self, run: &Arc<Run>) -> bool {
        Arc::ptr_eq(&self.run, run)
    }

    /// Is no longer valid, and holds no block until the next seek.
    pub(crate) fn rest(&mut self) {
        (self.valid, self.failed) = (false, None);
        if let Some((_, cursor)) = &mut self.open {
            cursor.rest();
        }
    }

    /// As [`LevelIter::bounded`], whatever the bounds were. The cursor is not valid afterwards.
    pub(crate) fn bind(&mut self, range: &KeyRange) {
        self.valid = false;
        let tables = self.run.tables();
        let from = tables.partition_point(|table| table.meta.ends_below(range));
        let to = tables.partition_point(|table| !range.ends_before(&table.meta.smallest));
        self.within = from..to.max(from);
        (self.start, self.end) = (range.start.clone(), range.end.clone());
        if let Some((at, cursor)) = &mut self.open {
            limit_read_ahead(cursor, *at, &self.within, &self.end);
        }
    }

    /// The table whose read failed, if one did.
    pub(crate) fn failed(&self) -> Option<&Arc<TableHandle>> {
        self.failed.map(|at| &self.run.tables()[at])
    }

    /// Moves the cursor of the table `at`, opened now if it is not the one open. Returns whether it is on a version.
    fn enter(&mut self, at: usize, go: impl FnOnce(&mut TableIter) -> Result<()>) -> Result<bool> {
        self.valid = false;
        let entered = self.enter_table(at, go);
        match entered {
            Ok(valid) => self.valid = valid,
            Err(_) => self.failed = Some(at),
        }
        entered
    }

    /// As [`LevelIter::enter`], to go backward.
    fn enter_backward(
        &mut self,
        at: usize,
        go: impl FnOnce(&mut TableIter) -> Result<()>,
    ) -> Result<bool> {
        if let Err(error) = self.table_cursor(at) {
            (self.valid, self.failed) = (false, Some(at));
            return Err(error);
        }
        if let Some((_, cursor)) = &mut self.open {
            cursor.set_start(match at == self.within.start {
                true => self.start.as_ref().map(|key| &key[..]),
                false => Bound::Unbounded,
            });
        }
        self.enter(at, go)
    }

    fn enter_table(
        &mut self,
        at: usize,
        go: impl FnOnce(&mut TableIter) -> Result<()>,
    ) -> Result<bool> {
        let cursor = self.table_cursor(at)?;
        go(cursor)?;
        Ok(cursor.valid())
    }

    /// The cursor of the table `at`, opened now if it is not the one open.
    fn table_cursor(&mut self, at: usize) -> Result<&mut TableIter> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != at) {
            let reader = self.run.tables()[at].reader(&self.cache)?;
            let mut cursor = reader.cursor(self.purpose);
            limit_read_ahead(&mut cursor, at, &self.within, &self.end);
            match &self.open {
                Some((before, last)) if before + 1 == at => cursor.go_on_from(last),
                Some((after, last)) if *after == at + 1 => cursor.go_back_from(last),
                Some((_, last)) => cursor.remember_walks_of(last),
                None => {}
            }
            self.open = Some((at, cursor));
        }
        Ok(&mut self.open.as_mut().expect("a table was just opened").1)
    }

    /// The first table that does not end before `key`.
    fn table_of(&self, key: &[u8]) -> usize {
        let tables = &self.run.tables()[self.within.clone()];
        self.within.start + tables.partition_point(|table| table.meta.ends_before(key))
    }

    /// Goes to the first version in the tables from `at` on. Tables of range tombstones alone have
    /// none.
    fn first_from(&mut self, at: usize) -> Result<()> {
        self.valid = false;
        for at in at..self.within.end {
            if self.enter(at, TableIter::seek_first)? {
                break;
            }
        }
        Ok(())
    }

    /// Goes to the last version in the tables before `to`.
    fn last_before(&mut self, to: usize) -> Result<()> {
        self.valid = false;
        for at in (self.within.start..to).rev() {
            if self.enter_backward(at, TableIter::seek_last)? {
                break;
            }
        }
        Ok(())
    }

    /// Holds the value of the version that the cursor is on.
    #[inline]
    pub(crate) fn hold_value(&self, held: &mut PinnedValue) {
        self.current().hold_value(held);
    }

    /// Whether the bounds leave no table.
    pub(crate) fn is_empty(&self) -> bool {
        self.within.is_empty()
    }

    /// Starts `scan` at the current version: see [`TableIter::scan_block`].
    pub(crate) fn scan_block(
        &self,
        snapshot: Seqno,
        limit: Option<&[u8]>,
        scan: &mut BlockScan,
    ) -> Result<()> {
        self.current().scan_block(snapshot, limit, scan)
    }

    /// Takes `scan` on to the next block of the run. Returns false if there is none. The cursor is not
    /// valid afterwards.
    pub(crate) fn scan_next_block(
        &mut self,
        limit: Option<&[u8]>,
        scan: &mut BlockScan,
    ) -> Result<bool> {
        self.valid = false;
        let Some((mut at, cursor)) = self.open.as_mut().map(|(at, cursor)| (*at, cursor)) else {
            return Ok(false);
        };
        let mut found = cursor.scan_next_block(limit, scan);
        while let Ok(false) = found
            && at + 1 < self.within.end
        {
            at += 1;
            let go = |cursor: &mut TableIter| cursor.scan_first_block(limit, scan);
            found = self.table_cursor(at).and_then(go);
        }
        if found.is_err() {
            self.failed = Some(at);
        }
        found
    }

    /// Returns the report of the entry at which `scan`, of the block that the cursor is in, found
    /// damage.
    pub(crate) fn damage(&mut self, scan: &BlockScan) -> Option<Error> {
        let (at, cursor) = self.open.as_ref()?;
        self.failed = Some(*at);
        Some(cursor.damage(scan))
    }

    #[inline]
    fn current(&self) -> &TableIter {
        debug_assert!(self.valid, "the cursor is on no version");
        &self.open.as_ref().expect("a valid cursor is in a table").1
    }
}

/// Keeps the cursor of the table `at` from reading ahead beyond the `end` of the tables `within`.
fn limit_read_ahead(
    cursor: &mut TableIter,
    at: usize,
    within: &Range<usize>,
    end: &Bound<Vec<u8>>,
) {
    cursor.set_end(match at + 1 == within.end {
        true => end.as_ref().map(|key| &key[..]),
        false => Bound::Unbounded,
    });
}

impl EntryCursor for LevelIter {
    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    fn seek_first(&mut self) -> Result<()> {
        self.first_from(self.within.start)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.last_before(self.within.end)
    }

    #[inline]
    fn misses_seeks(&self) -> bool {
        self.open.as_ref().is_some_and(|(_, cursor)| cursor.misses_seeks())
    }

    #[cold]
    fn begin_seek(&mut self, key: &[u8], seqno: Seqno) {
        let at = self.table_of(key);
        self.valid = false;
        // The seek meets the same failure.
        if at < self.within.end
            && let Ok(cursor) = self.table_cursor(at)
        {
            cursor.begin_seek(key, seqno);
        }
    }

    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let at = self.table_of(key);
        self.valid = false;
        if at == self.within.end {
            return Ok(());
        }
        if self.enter(at, |cursor| cursor.seek(key, seqno))? {
            return Ok(());
        }
        self.first_from(at + 1)
    }

    fn seek_before(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let tables = &self.run.tables()[self.within.clone()];
        let starting = tables.partition_point(|table| &table.meta.smallest[..] <= key);
        self.valid = false;
        if starting == 0 {
            return Ok(());
        }
        let at = self.within.start + starting - 1;
        if self.enter_backward(at, |cursor| cursor.seek_before(key, seqno))? {
            return Ok(());
        }
        self.last_before(at)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid, "the cursor is on no version");
        let (at, cursor) = self.open.as_mut().expect("a valid cursor is in a table");
        self.valid = false;
        if let Err(error) = cursor.next() {
            self.failed = Some(*at);
            return Err(error);
        }
        if cursor.valid() {
            self.valid = true;
            return Ok(());
        }
        let after = *at + 1;
        self.first_from(after)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid, "the cursor is on no version");
        let (at, cursor) = self.open.as_mut().expect("a valid cursor is in a table");
        self.valid = false;
        if let Err(error) = cursor.prev() {
            self.failed = Some(*at);
            return Err(error);
        }
        if cursor.valid() {
            self.valid = true;
            return Ok(());
        }
        let before = *at;
        self.last_before(before)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current().key()
    }

    #[inline]
    fn seqno(&self) -> Seqno {
        self.current().seqno()
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.current().kind()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current().value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::version_edit::tests::sample_table;
    use crate::version::TableMeta;

    const ENDS: std::ops::Range<u8> = 0..11;

    fn table(smallest: u8, largest: u8, largest_is_exclusive: bool) -> Arc<TableHandle> {
        let (smallest, largest) = (vec![smallest], vec![largest]);
        TableHandle::detached(TableMeta {
            smallest,
            largest,
            largest_is_exclusive,
            ..sample_table(1)
        })
    }

    fn bounds() -> impl Iterator<Item = Bound<Vec<u8>>> {
        let at = |key: u8| [Bound::Included(vec![key]), Bound::Excluded(vec![key])];
        ENDS.flat_map(at).chain([Bound::Unbounded])
    }

    #[test]
    fn the_tables_within_a_range_are_those_that_may_hold_or_delete_keys_in_it() {
        let tables = vec![table(2, 4, false), table(6, 8, true), table(8, 9, false)];
        let run = Arc::new(Run::new(1, tables));
        // Every bound, and a key between each and the next.
        let keys: Vec<Vec<u8>> = ENDS.flat_map(|key| [vec![key], vec![key, 1]]).collect();
        let holds = |table: &TableHandle, key: &[u8]| table.meta.overlaps(key, key);
        for range in bounds().flat_map(|start| bounds().map(move |end| (start.clone(), end))) {
            let range = KeyRange { start: range.0, end: range.1 };
            let mut in_range = keys.iter().filter(|key| range.contains(key)).peekable();
            if in_range.peek().is_none() {
                continue;
            }
            let meet = |table: &&Arc<TableHandle>| in_range.clone().any(|key| holds(table, key));
            let expected: Vec<_> = run.tables().iter().filter(meet).map(|t| &t.meta).collect();
            let cache = Arc::new(BlockCache::new(0));
            let cursor = LevelIter::new(run.clone(), cache, ReadPurpose::Read).bounded(&range);
            let within = run.tables()[cursor.within].iter().map(|table| &table.meta);
            assert_eq!(within.collect::<Vec<_>>(), expected, "{range:?}");
            let meeting = run.tables().iter().map(|t| &t.meta).filter(|meta| meta.meets(&range));
            assert_eq!(meeting.collect::<Vec<_>>(), expected, "{range:?}");
        }
    }
}
