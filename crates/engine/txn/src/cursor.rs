//! A cursor over the store's entries and a transaction's own writes, of which the latter win.
//!
//! Two positions move side by side: `theirs`, in the store, and `ours`, in the writes. Going forward,
//! both are at or after the entry that the cursor is on; going back, at or before it. The nearer one is
//! the cursor's entry, unless it is a delete, which hides the other's entry of that key, or is that entry.
//! A change of direction seeks both again.
//!
//! Entries of the store that the writes have deleted as a range are passed with one seek.

use crate::read_set::ScannedRange;
use crate::write_set::{OwnMerges, OwnWrites, Place};
use esker_api::{Cursor, KeyRange};
use esker_base::Result;
use std::cmp::Ordering;
use std::ops::Bound;

/// See the file's head.
pub(crate) struct TransactionCursor<'t> {
    theirs: Box<dyn Cursor + Send + 't>,
    /// All that `theirs` has left is deleted.
    theirs_over: bool,
    writes: Option<OwnWrites<'t>>,
    ours: Option<(&'t [u8], &'t Place)>,
    range: KeyRange,
    stand: IterState,
    direction: Direction,
    /// Of a serializable transaction.
    stretch: Option<ScannedRange<'t>>,
    /// Of writes with merges.
    merge: Option<Merge<'t>>,
    /// What merges of the write that the cursor is on come to.
    merged: Vec<u8>,
}

/// Returns the value of a key after operands on a base.
pub(crate) type Merge<'t> =
    Box<dyn Fn(&[u8], Option<&[u8]>, &[&[u8]]) -> Result<Vec<u8>> + Send + 't>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum IterState {
    Nowhere,
    Theirs,
    Ours,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Back,
}
use Direction::{Back, Forward};

impl<'t> TransactionCursor<'t> {
    /// A cursor over `range`, which `theirs` is bound to as well.
    pub(crate) fn new(
        theirs: Box<dyn Cursor + Send + 't>,
        writes: Option<OwnWrites<'t>>,
        range: KeyRange,
        stretch: Option<ScannedRange<'t>>,
    ) -> Self {
        let (ours, stand, direction) = (None, IterState::Nowhere, Forward);
        let theirs_over = false;
        let (merge, merged) = (None, Vec::new());
        TransactionCursor {
            theirs,
            theirs_over,
            writes,
            ours,
            range,
            stand,
            direction,
            stretch,
            merge,
            merged,
        }
    }

    /// The same over writes with merges.
    pub(crate) fn merging_by(mut self, merge: Merge<'t>) -> Self {
        self.merge = Some(merge);
        self
    }

    /// Goes to the first entry from `key` on, or to the last one up to it; without a key, from the
    /// range's end that it starts at.
    fn seek_to(&mut self, direction: Direction, key: Option<&[u8]>) -> Result<()> {
        self.stand = IterState::Nowhere;
        self.direction = direction;
        self.theirs_over = false;
        match (direction, key) {
            (Forward, None) => self.theirs.seek_first()?,
            (Forward, Some(key)) => self.theirs.seek(key)?,
            (Back, None) => self.theirs.seek_last()?,
            (Back, Some(key)) => self.theirs.seek_back(key)?,
        }
        let edge = match direction {
            Forward => &self.range.start,
            Back => &self.range.end,
        };
        let outside = |key: &&[u8]| match direction {
            Forward => self.range.starts_after(key),
            Back => self.range.ends_before(key),
        };
        let from = match key.filter(|key| !outside(key)) {
            Some(key) => Bound::Included(key),
            None => edge.as_ref().map(|key| &key[..]),
        };
        self.ours = self.own(from);
        self.land()
    }

    /// The write in the range that is nearest to `from` in the cursor's direction.
    fn own(&self, from: Bound<&[u8]>) -> Option<(&'t [u8], &'t Place)> {
        let keys = self.writes?.keys;
        // Bound at one end only: a range that is upside down is empty, and no error.
        let found = match self.direction {
            Forward => keys.range::<[u8], _>((from, Bound::Unbounded)).next(),
            Back => keys.range::<[u8], _>((Bound::Unbounded, from)).next_back(),
        };
        found.map(|(key, place)| (&key[..], place)).filter(|(key, _)| self.range.contains(key))
    }

    /// Finds out which of the two positions is the cursor's, past what is deleted.
    fn land(&mut self) -> Result<()> {
        self.stand = IterState::Nowhere;
        loop {
            self.pass_deleted()?;
            let theirs = self.their_key();
            let Some((key, place)) = self.ours else {
                self.stand = if theirs.is_some() { IterState::Theirs } else { IterState::Nowhere };
                return Ok(());
            };
            let order = theirs.map_or(Ordering::Less, |theirs| match self.direction {
                Forward => key.cmp(theirs),
                Back => theirs.cmp(key),
            });
            match (order, place) {
                (Ordering::Greater, _) => self.stand = IterState::Theirs,
                (_, Place::Put(_)) => self.stand = IterState::Ours,
                (_, Place::Merged(merges)) => {
                    self.merged = self.value_of(key, merges, order == Ordering::Equal)?;
                    self.stand = IterState::Ours;
                }
                (_, Place::Deleted) => {
                    if order == Ordering::Equal {
                        self.step_theirs()?;
                    }
                    self.step_ours(key);
                    continue;
                }
            }
            return Ok(());
        }
    }

    /// The value of `key` after the merges of the writes. The store `has` it, too: at its cursor.
    fn value_of(&self, key: &[u8], merges: &OwnMerges, has: bool) -> Result<Vec<u8>> {
        let stored = self.theirs.current().filter(|_| has).map(|(_, value)| value);
        let (Some(merge), Some(writes)) = (&self.merge, self.writes) else {
            unreachable!("transactions have puts and deletes only")
        };
        merges.value(writes.encoded, stored, |base, operands| merge(key, base, operands))
    }

    /// The key of the store that the cursor is at.
    fn their_key(&self) -> Option<&[u8]> {
        match self.theirs_over {
            true => None,
            false => self.theirs.current().map(|(key, _)| key),
        }
    }

    /// Moves the position in the store out of ranges that are deleted.
    fn pass_deleted(&mut self) -> Result<()> {
        let Some(writes) = self.writes.filter(|writes| !writes.deleted.is_empty()) else {
            return Ok(());
        };
        while let Some(range) = self.their_key().and_then(|key| writes.deleted.covering(key)) {
            match (self.direction, range) {
                (Forward, (_, Some(end))) => self.theirs.seek(end)?,
                (Forward, (_, None)) => self.theirs_over = true,
                (Back, (start, _)) if self.range.starts_after(start) => self.theirs_over = true,
                (Back, (start, _)) => {
                    self.theirs.seek_back(start)?;
                    if self.their_key() == Some(start) {
                        self.theirs.prev()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Goes to the next entry in `direction`.
    fn step(&mut self, direction: Direction) -> Result<()> {
        if self.stand != IterState::Nowhere && self.direction != direction {
            let key = self.current().map(|(key, _)| key.to_vec());
            self.seek_to(direction, key.as_deref())?;
            // An entry that has expired meanwhile is passed already.
            if self.current().map(|(found, _)| found) != key.as_deref() {
                return Ok(());
            }
        }
        match (std::mem::replace(&mut self.stand, IterState::Nowhere), self.ours) {
            (IterState::Nowhere, _) => return Ok(()),
            (IterState::Ours, Some((key, _))) => {
                if self.their_key() == Some(key) {
                    self.step_theirs()?;
                }
                self.step_ours(key);
            }
            (_, _) => self.step_theirs()?,
        }
        self.land()
    }

    fn step_theirs(&mut self) -> Result<()> {
        match self.direction {
            Forward => self.theirs.next(),
            Back => self.theirs.prev(),
        }
    }

    fn step_ours(&mut self, key: &[u8]) {
        self.ours = self.own(Bound::Excluded(key));
    }

    /// Adds the cursor's position to the scanned range, if there is one.
    fn note(&mut self, note: impl FnOnce(&mut ScannedRange<'t>, Option<&[u8]>)) {
        let Some(mut stretch) = self.stretch.take() else { return };
        note(&mut stretch, self.current().map(|(key, _)| key));
        self.stretch = Some(stretch);
    }
}

impl Cursor for TransactionCursor<'_> {
    fn seek_first(&mut self) -> Result<()> {
        self.seek_to(Forward, None)?;
        self.note(|stretch, landed| stretch.sought(None, landed));
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.seek_to(Back, None)?;
        self.note(|stretch, landed| stretch.sought_back(None, landed));
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_to(Forward, Some(key))?;
        self.note(|stretch, landed| stretch.sought(Some(key), landed));
        Ok(())
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        self.seek_to(Back, Some(key))?;
        self.note(|stretch, landed| stretch.sought_back(Some(key), landed));
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let stood = self.stand != IterState::Nowhere;
        self.step(Forward)?;
        if stood {
            self.note(ScannedRange::record_next);
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        let stood = self.stand != IterState::Nowhere;
        self.step(Back)?;
        if stood {
            self.note(ScannedRange::went_back);
        }
        Ok(())
    }

    fn current(&self) -> Option<(&[u8], &[u8])> {
        match (self.stand, self.ours, self.writes) {
            (IterState::Theirs, ..) => self.theirs.current(),
            (IterState::Ours, Some((key, Place::Put(value))), Some(writes)) => {
                Some((key, &writes.encoded[value.clone()]))
            }
            (IterState::Ours, Some((key, Place::Merged(_))), _) => Some((key, &self.merged)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
