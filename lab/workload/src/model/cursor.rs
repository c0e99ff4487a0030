//! A cursor over the model: each move is a separate lookup at the cursor's snapshot.

use super::Model;
use super::versions::Pair;
use esker_api::{Cursor, KeyRange};
use esker_base::{Result, Seqno};
use std::ops::Bound;

pub(super) struct ModelCursor<'a> {
    pub(super) model: &'a Model,
    pub(super) range: KeyRange,
    pub(super) at: Seqno,
    pub(super) current: Option<Pair>,
}

impl ModelCursor<'_> {
    /// Goes to the first entry after `start` and within the range.
    fn go_up(&mut self, start: Bound<&[u8]>) {
        let start = match start {
            Bound::Included(key) | Bound::Excluded(key) if !self.range.starts_after(key) => start,
            _ => self.range.start.as_ref().map(|key| &key[..]),
        };
        let end = self.range.end.as_ref().map(|key| &key[..]);
        self.current = self.model.read().first((start, end), self.at);
    }

    /// Goes to the last entry before `end` and within the range.
    fn go_down(&mut self, end: Bound<&[u8]>) {
        let end = match end {
            Bound::Included(key) | Bound::Excluded(key) if !self.range.ends_before(key) => end,
            _ => self.range.end.as_ref().map(|key| &key[..]),
        };
        let start = self.range.start.as_ref().map(|key| &key[..]);
        self.current = self.model.read().last((start, end), self.at);
    }
}

impl Cursor for ModelCursor<'_> {
    fn seek_first(&mut self) -> Result<()> {
        self.go_up(Bound::Unbounded);
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.go_down(Bound::Unbounded);
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.go_up(Bound::Included(key));
        Ok(())
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        self.go_down(Bound::Included(key));
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if let Some((key, _)) = self.current.take() {
            self.go_up(Bound::Excluded(&key));
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if let Some((key, _)) = self.current.take() {
            self.go_down(Bound::Excluded(&key));
        }
        Ok(())
    }

    fn current(&self) -> Option<(&[u8], &[u8])> {
        self.current.as_ref().map(|(key, value)| (&key[..], &value[..]))
    }
}
