//! Help for unit tests: a cursor over a list.

use esker_base::key::compare_versions;
use esker_base::{EntryCursor, Error, Kind, Result, Seqno};

/// Key, seqno, kind, value.
pub type ListEntry = (Vec<u8>, Seqno, Kind, Vec<u8>);

/// A cursor over a sorted list. `at` is one more than the place; 0 and beyond the end are invalid.
pub struct ListCursor {
    entries: Vec<ListEntry>,
    at: usize,
    steps_left: usize,
}

impl ListCursor {
    pub fn new(mut entries: Vec<ListEntry>) -> Self {
        entries.sort_by(|a, b| compare_versions((&a.0, a.1), (&b.0, b.1)));
        ListCursor { entries, at: 0, steps_left: usize::MAX }
    }

    /// Makes every seek and step after the first `steps` fail once.
    pub fn failing_after(mut self, steps: usize) -> Self {
        self.steps_left = steps;
        self
    }

    fn go(&mut self, at: usize) -> Result<()> {
        if self.steps_left == 0 {
            (self.at, self.steps_left) = (0, usize::MAX);
            return Err(Error::corruption("list", 0, "made to fail"));
        }
        self.steps_left -= 1;
        self.at = at;
        Ok(())
    }

    fn before(&self, key: &[u8], seqno: Seqno) -> usize {
        self.entries.partition_point(|e| compare_versions((&e.0, e.1), (key, seqno)).is_lt())
    }
}

impl EntryCursor for ListCursor {
    fn valid(&self) -> bool {
        (1..=self.entries.len()).contains(&self.at)
    }
    fn seek_first(&mut self) -> Result<()> {
        self.go(1)
    }
    fn seek_last(&mut self) -> Result<()> {
        self.go(self.entries.len())
    }
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.go(self.before(key, seqno) + 1)
    }
    fn seek_before(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.go(self.before(key, seqno))
    }
    fn next(&mut self) -> Result<()> {
        self.go(self.at + 1)
    }
    fn prev(&mut self) -> Result<()> {
        self.go(self.at - 1)
    }
    fn key(&self) -> &[u8] {
        &self.entries[self.at - 1].0
    }
    fn seqno(&self) -> Seqno {
        self.entries[self.at - 1].1
    }
    fn kind(&self) -> Kind {
        self.entries[self.at - 1].2
    }
    fn value(&self) -> &[u8] {
        &self.entries[self.at - 1].3
    }
}
