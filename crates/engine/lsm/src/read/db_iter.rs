//! Iterates over a keyspace's entries in one view, in either direction, at a snapshot.
//!
//! A merging iterator yields every version of every key, newest first. This module folds them into
//! entries: it skips versions newer than the snapshot and keeps the first other one. It drops that
//! one if it is a delete, or is older than a range tombstone that covers it.
//!
//! Backward, the merging iterator yields a key's oldest version first. The newest visible one is
//! known only when the previous key is reached; until then the candidate is kept separately.
//!
//! Forward, the walk [lends](DbIter::lend) one block of each run, and copies of a few entries of each
//! MemTable. The caller combines these without the walk, which only finds what follows in a source.
//! After any other move, the walk must be positioned again.

mod lending;

use super::block_merge::BlockMerge;
use super::merged_get::add_note;
use super::merging_iter::MergingIter;
use super::skip::{self, Passed};
use super::source::{self, PinnedView, Source};
use crate::fold::expiry::{ExpiryClock, living};
use crate::fold::key_fold::Fold;
use crate::fold::values::Values;
use crate::fold::{Merges, Verdict, verdict};
use crate::tree::Tree;
use crate::user_keys::KeyFormat;
use crate::version::aging::Expired;
use crate::version::readers::held_memory::HeldMemory;
use crate::version::readers::known_empty::PassedKeys;
use crate::version::readers::snapshot_tracker::Snapshot;
use esker_api::KeyRange;
use esker_base::{EntryCursor, Error, KeyspaceId, MAX_SEQNO, Result, Seqno};
use esker_table::{PinnedValue, format::BLOCK_CLOSING_BYTES};
use lending::Copies;
use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;

/// A buffer of this size is kept for the next value; one that a larger value left is not.
pub(crate) const KEPT_BYTES: usize = 64 << 10;

/// Which way the cursor last went, and so where the merge is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum IterState {
    /// Not on an entry.
    Nowhere,
    /// On an entry; the merge is on its version.
    OnVersion,
    /// On an entry; the merge is before all versions of its key, and the entry is in the buffers.
    Before,
    /// On an entry that was folded, that expires, or that has its value in a value file, which is in the buffers; the merge is at a version
    /// of its key, or of a greater key, or at the end.
    Folded,
}

/// Where a pair's value is.
pub(crate) enum IterValue<'a> {
    /// In a segment or a buffer, which the walk may lose.
    Borrowed(&'a [u8]),
    /// In a table's block, which is held now.
    Held,
}

/// The first key that is not lent.
struct Limit {
    key: Cow<'static, [u8]>,
    /// Whether the range ends there. Otherwise the keys from there on are not stored as given.
    ends_range: bool,
}

impl Limit {
    fn of(range: &KeyRange, keys: KeyFormat) -> Option<Limit> {
        let end = match &range.end {
            Bound::Unbounded => None,
            Bound::Excluded(end) => Some(end.clone()),
            Bound::Included(end) => Some([&end[..], &[0]].concat()),
        };
        let edge = keys.high_edge();
        match (end, edge) {
            (Some(end), edge) if edge.is_none_or(|edge| &end[..] <= edge) => {
                Some(Limit { key: end.into(), ends_range: true })
            }
            (_, edge) => edge.map(|edge| Limit { key: edge.into(), ends_range: false }),
        }
    }
}

/// A position in the entries of one view. The moves are those of [`esker_api::Cursor`].
pub(crate) struct DbIter {
    merge: MergingIter<Source>,
    /// Owns what `merge` reads.
    view: PinnedView,
    range: KeyRange,
    keys: KeyFormat,
    /// Where a lent block ends at the latest.
    limit: Option<Limit>,
    snapshot: Seqno,
    is_new: bool,
    stand: IterState,
    key: Vec<u8>,
    value: Vec<u8>,
    passed: Passed,
    merges: Arc<Merges>,
    time: Arc<ExpiryClock>,
    /// What of the keyspace has expired by its age.
    expired: Expired,
    /// Whether an entry that has expired was passed.
    has_expired: bool,
    /// Whether the value in the buffer will expire, by its own time.
    expires: bool,
    /// What a cursor that has gone left for the next.
    buffers: BlockMerge,
    /// The memory of the blocks that it is at.
    held: HeldMemory,
    copies: Copies,
}

impl DbIter {
    /// A walk in the view of `snapshot`, or in the current one.
    pub(crate) fn new(
        tree: &Tree,
        keyspace: KeyspaceId,
        range: KeyRange,
        snapshot: &Snapshot,
    ) -> Result<DbIter> {
        let (snapshot, own) = (snapshot.seqno(), snapshot.view());
        let mut walk = DbIter {
            merge: MergingIter::new(Vec::new()),
            view: PinnedView::new(tree, own),
            limit: Limit::of(&range, tree.keys),
            keys: tree.keys,
            range,
            snapshot,
            is_new: true,
            stand: IterState::Nowhere,
            key: Vec::new(),
            value: Vec::new(),
            passed: Passed::new(keyspace, snapshot, tree.known_empty.clone()),
            merges: tree.merges.clone(),
            time: tree.time.clone(),
            expired: Expired::default(),
            has_expired: false,
            expires: false,
            buffers: BlockMerge::default(),
            held: tree.transient.hold(0),
            copies: Copies::default(),
        };
        walk.view.set_runs(&mut walk.merge, tree, keyspace, &walk.range)?;
        walk.expired = walk.view.expired(keyspace);
        // Of tables that are left out.
        walk.has_expired = tree.time.needs_mark();
        walk.view.set_memtables(&mut walk.merge, keyspace, snapshot);
        walk.count_blocks();
        Ok(walk)
    }

    /// Becomes a walk in the view of `snapshot`, or in the current one, whatever it was before. Keeps the
    /// cursors of runs that this view has too. After an error it must not be used.
    pub(crate) fn renew(
        &mut self,
        tree: &Tree,
        keyspace: KeyspaceId,
        range: &KeyRange,
        snapshot: &Snapshot,
    ) -> Result<()> {
        let (snapshot, own) = (snapshot.seqno(), snapshot.view());
        let has_same_runs = self.range == *range
            && self.passed.keyspace() == keyspace
            && self.view.is_current(tree, own);
        (self.snapshot, self.is_new, self.stand) = (snapshot, true, IterState::Nowhere);
        self.passed.begin_at(keyspace, snapshot);
        if !has_same_runs {
            (self.limit, self.range) = (Limit::of(range, tree.keys), range.clone());
            self.view.load(tree, own);
            self.view.set_runs(&mut self.merge, tree, keyspace, range)?;
            self.expired = self.view.expired(keyspace);
            self.has_expired |= tree.time.needs_mark();
        }
        self.view.set_memtables(&mut self.merge, keyspace, snapshot);
        self.count_blocks();
        Ok(())
    }

    /// A cursor of a run has one block, which is larger only if its first value is.
    fn count_blocks(&mut self) {
        let is_run = |source: &&Source| matches!(source, Source::Run(_));
        let runs = self.merge.children().iter().filter(is_run).count();
        self.held.set(runs * BLOCK_CLOSING_BYTES);
    }

    /// Keeps `buffers` for the next cursor, and no entry of a MemTable or a block.
    pub(crate) fn rest(&mut self, mut buffers: BlockMerge) {
        buffers.release();
        self.buffers = buffers;
        self.stand = IterState::Nowhere;
        self.value.shrink_to(KEPT_BYTES);
        source::keep_runs_at_rest(&mut self.merge);
        self.held.set(0);
    }

    /// Takes what [`DbIter::rest`] has kept.
    pub(crate) fn take_buffers(&mut self) -> BlockMerge {
        std::mem::take(&mut self.buffers)
    }

    /// What the version at the merge decides, given that it is the newest of its key at
    /// the snapshot.
    #[inline]
    fn verdict(&self) -> Verdict {
        let (key, seqno) = (self.merge.key(), self.merge.seqno());
        let tombstones = self.view.tombstones();
        let is_covered = || {
            self.expired.has(seqno)
                || tombstones.iter().any(|it| it.covering(key, self.snapshot) > seqno)
        };
        verdict(self.merge.kind(), is_covered)
    }

    /// Folds the versions of a key, with the merge at the newest of the snapshot, an
    /// operand. Takes key and value, and leaves the merge on an older version or behind.
    #[cold]
    fn fold(&mut self) -> Result<()> {
        self.key.clear();
        self.key.extend_from_slice(self.merge.key());
        let keyspace = self.passed.keyspace();
        let mut fold = Fold::new();
        for list in self.view.tombstones().iter() {
            fold.delete_below(list.covering(&self.key, self.snapshot));
        }
        let least = self.view.version().tables_through;
        let note = self.merges.hot.get(keyspace, &self.key, (least, self.snapshot), &*self.time);
        while !fold.is_done() && self.merge.valid() && self.merge.key() == &self.key[..] {
            match note.as_ref().filter(|note| self.merge.seqno() <= note.seqno) {
                Some(note) => add_note(&mut fold, note, &self.time),
                None => {
                    let (seqno, kind) = (self.merge.seqno(), self.merge.kind());
                    let values = &self.view.version().values;
                    fold.add(seqno, kind, self.merge.value(), &*self.time, values)
                }
            }?;
            self.merge.next()?;
        }
        let merger = match self.view.version().keyspaces.get(&keyspace) {
            Some(found) => self.merges.merger(&found.name, found.settings.merge),
            None => self.merges.merger("", None),
        };
        self.expires = fold.until().is_some();
        self.value = fold.finish(&merger, &self.key)?.unwrap_or_default();
        // Of one that the fold may have met.
        self.has_expired |= self.time.needs_mark();
        Ok(())
    }

    /// Takes the value of the expiring put at the merge. Returns false if it has expired.
    #[cold]
    fn take_living(&mut self) -> bool {
        let found = living(self.merge.value(), &*self.time);
        self.value.clear();
        self.value.extend_from_slice(found.unwrap_or_default());
        self.has_expired |= found.is_none();
        self.expires = found.is_some();
        found.is_some()
    }

    /// Takes the value of the version at the merge, which is in a value file.
    #[cold]
    fn take_separated(&mut self) -> Result<()> {
        self.value = self.view.version().values.read(self.merge.value())?;
        self.expires = false;
        Ok(())
    }

    /// Goes forward from the version that the merge is on, which is the newest of its key or
    /// newer than the snapshot, to the next entry.
    fn find_next_user_entry(&mut self) -> Result<()> {
        self.passed.begin();
        while self.merge.valid() {
            if self.range.ends_before(self.merge.key()) {
                break;
            }
            if self.merge.seqno() > self.snapshot {
                self.key.clear();
                self.key.extend_from_slice(self.merge.key());
                skip::pass_newer(&mut self.merge, &self.key, self.snapshot)?;
                continue;
            }
            match self.verdict() {
                Verdict::Value => {
                    self.stand = IterState::OnVersion;
                    return Ok(());
                }
                Verdict::Operand => {
                    self.fold()?;
                    self.stand = IterState::Folded;
                    return Ok(());
                }
                Verdict::Separated => {
                    self.take_separated()?;
                    self.key.clear();
                    self.key.extend_from_slice(self.merge.key());
                    self.stand = IterState::Folded;
                    return Ok(());
                }
                Verdict::Expiring if self.take_living() => {
                    self.key.clear();
                    self.key.extend_from_slice(self.merge.key());
                    self.stand = IterState::Folded;
                    return Ok(());
                }
                Verdict::Expiring | Verdict::Absent => {}
            }
            self.key.clear();
            self.key.extend_from_slice(self.merge.key());
            match self.passed.pass(&self.key, true) {
                Some(end) => self.merge.skip_to(&end, self.snapshot)?,
                None => skip::pass_key(&mut self.merge, &self.key)?,
            }
        }
        self.stand = IterState::Nowhere;
        Ok(())
    }

    /// Goes back from the version that the merge is on, which is the oldest of its key, to the
    /// nearest entry.
    fn find_prev_user_entry(&mut self) -> Result<()> {
        self.passed.begin();
        while self.merge.valid() {
            if self.range.starts_after(self.merge.key()) {
                break;
            }
            self.key.clear();
            self.key.extend_from_slice(self.merge.key());
            let (mut found, mut steps) = (false, 0);
            // Whether the buffer has the place of the value: older versions are met first.
            let mut is_separated = false;
            while self.merge.valid() && self.merge.key() == &self.key[..] {
                if steps == skip::STEPS {
                    (found, is_separated) = (self.find_newest_of_key()?, false);
                    break;
                }
                steps += 1;
                if self.merge.seqno() <= self.snapshot {
                    let verdict = self.verdict();
                    if verdict == Verdict::Operand {
                        (found, is_separated) = (self.find_newest_of_key()?, false);
                        break;
                    }
                    is_separated = verdict == Verdict::Separated;
                    found = match verdict {
                        Verdict::Value | Verdict::Separated => {
                            self.value.clear();
                            self.value.extend_from_slice(self.merge.value());
                            self.expires = false;
                            true
                        }
                        Verdict::Expiring => self.take_living(),
                        Verdict::Absent | Verdict::Operand => false,
                    };
                }
                self.merge.prev()?;
            }
            if is_separated {
                self.value = self.view.version().values.read(&self.value)?;
            }
            if found {
                self.stand = IterState::Before;
                return Ok(());
            }
            if let Some(start) = self.passed.pass(&self.key, false)
                && self.merge.valid()
                && self.merge.key() >= &start[..]
            {
                self.merge.seek_before(&start, MAX_SEQNO)?;
            }
        }
        self.stand = IterState::Nowhere;
        Ok(())
    }

    /// Goes to the version of the key in the buffer that the snapshot sees, and takes its value.
    /// Then goes back to the key before. Returns whether there is a value.
    #[cold]
    fn find_newest_of_key(&mut self) -> Result<bool> {
        self.merge.seek(&self.key, self.snapshot)?;
        let is_there = self.merge.valid() && self.merge.key() == &self.key[..];
        let verdict = if is_there { self.verdict() } else { Verdict::Absent };
        match verdict {
            Verdict::Value => {
                self.value.clear();
                self.value.extend_from_slice(self.merge.value());
                self.expires = false;
            }
            Verdict::Separated => self.take_separated()?,
            Verdict::Operand => self.fold()?,
            Verdict::Expiring | Verdict::Absent => {}
        }
        let found = match verdict {
            Verdict::Value | Verdict::Separated | Verdict::Operand => true,
            Verdict::Expiring => self.take_living(),
            Verdict::Absent => false,
        };
        self.merge.seek_before(&self.key, MAX_SEQNO)?;
        Ok(found)
    }

    /// Takes the deleted keys that the last move passed, if they are worth a note.
    #[inline]
    pub(crate) fn take_passed(&mut self) -> Option<PassedKeys> {
        self.passed.take()
    }

    /// Whether moves since the last call passed an entry that has expired.
    #[inline]
    pub(crate) fn take_expired(&mut self) -> bool {
        std::mem::take(&mut self.has_expired)
    }

    /// Goes to the entry of `key`, which the snapshot sees. If it has expired, goes to the next one and
    /// returns false.
    #[cold]
    pub(crate) fn seek_pair(&mut self, key: &[u8]) -> Result<bool> {
        self.seek(key)?;
        if self.key().is_some_and(|found| found == key) {
            return Ok(true);
        }
        if self.time.is_used() || self.expired.keeps_seqnos {
            return Ok(false);
        }
        self.stand = IterState::Nowhere;
        let what = "an entry that an open snapshot sees is gone; run `check`";
        Err(Error::corruption("the view of a cursor", 0, what))
    }

    /// Whether the current entry will expire, by its own time.
    #[inline]
    pub(crate) fn expires(&self) -> bool {
        self.expires && matches!(self.stand, IterState::Before | IterState::Folded)
    }

    /// Whether the walk was not moved yet.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    fn fallible(&mut self, go: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.is_new = false;
        let gone = go(self);
        if gone.is_err() {
            self.stand = IterState::Nowhere;
        }
        gone
    }
}

impl DbIter {
    pub(crate) fn seek_first(&mut self) -> Result<()> {
        match self.range.start.clone() {
            Bound::Unbounded => self.fallible(|cursor| {
                cursor.merge.seek_first()?;
                cursor.find_next_user_entry()
            }),
            Bound::Included(start) => self.seek(&start),
            Bound::Excluded(start) => self.fallible(|cursor| {
                cursor.seek_after(&start)?;
                cursor.find_next_user_entry()
            }),
        }
    }

    pub(crate) fn seek_last(&mut self) -> Result<()> {
        match self.range.end.clone() {
            Bound::Unbounded => self.fallible(|cursor| {
                cursor.merge.seek_last()?;
                cursor.find_prev_user_entry()
            }),
            Bound::Included(end) => self.seek_back(&end),
            Bound::Excluded(end) => self.fallible(|cursor| {
                cursor.merge.seek_before(&end, MAX_SEQNO)?;
                cursor.find_prev_user_entry()
            }),
        }
    }

    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.range.starts_after(key) {
            return self.seek_first();
        }
        self.fallible(|cursor| {
            // Versions newer than the snapshot need not be looked at.
            cursor.merge.seek(key, cursor.snapshot)?;
            cursor.find_next_user_entry()
        })
    }

    pub(crate) fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        if self.range.ends_before(key) {
            return self.seek_last();
        }
        self.fallible(|cursor| {
            cursor.seek_after(key)?;
            if cursor.merge.valid() {
                cursor.merge.prev()?;
            } else {
                cursor.merge.seek_last()?;
            }
            cursor.find_prev_user_entry()
        })
    }

    pub(crate) fn next(&mut self) -> Result<()> {
        self.fallible(|cursor| match cursor.stand {
            IterState::Nowhere => Ok(()),
            IterState::OnVersion => {
                cursor.key.clear();
                cursor.key.extend_from_slice(cursor.merge.key());
                skip::pass_key(&mut cursor.merge, &cursor.key)?;
                cursor.find_next_user_entry()
            }
            IterState::Folded => {
                if cursor.merge.valid() && cursor.merge.key() == &cursor.key[..] {
                    skip::pass_key(&mut cursor.merge, &cursor.key)?;
                }
                cursor.find_next_user_entry()
            }
            IterState::Before => {
                let key = std::mem::take(&mut cursor.key);
                let passed = cursor.seek_after(&key);
                cursor.key = key;
                passed?;
                cursor.find_next_user_entry()
            }
        })
    }

    pub(crate) fn prev(&mut self) -> Result<()> {
        self.fallible(|cursor| match cursor.stand {
            IterState::Nowhere => Ok(()),
            IterState::OnVersion => {
                cursor.key.clear();
                cursor.key.extend_from_slice(cursor.merge.key());
                cursor.merge.seek_before(&cursor.key, MAX_SEQNO)?;
                cursor.find_prev_user_entry()
            }
            IterState::Folded => {
                cursor.merge.seek_before(&cursor.key, MAX_SEQNO)?;
                cursor.find_prev_user_entry()
            }
            IterState::Before => cursor.find_prev_user_entry(),
        })
    }

    /// Goes to the first entry after `key`, or at it unless `is_passed`.
    pub(crate) fn seek_on(&mut self, key: &[u8], is_passed: bool) -> Result<()> {
        self.fallible(|walk| {
            match is_passed {
                true => walk.seek_after(key)?,
                false => walk.merge.seek(key, walk.snapshot)?,
            }
            walk.find_next_user_entry()
        })
    }

    /// The key that the walk is on, if it is on one.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match self.stand {
            IterState::Nowhere => None,
            IterState::OnVersion => Some(self.merge.key()),
            IterState::Before | IterState::Folded => Some(&self.key),
        }
    }

    /// Where the value of the entry that the walk is on can be read.
    #[inline]
    pub(crate) fn value(&self, held: &mut PinnedValue) -> IterValue<'_> {
        if self.stand != IterState::OnVersion {
            return IterValue::Borrowed(&self.value);
        }
        match self.merge.top() {
            Source::Run(run) => {
                run.hold_value(held);
                IterValue::Held
            }
            Source::MemTable(memtable) => IterValue::Borrowed(memtable.value()),
        }
    }
}

impl DbIter {
    /// Puts the merge on the first version of the first key after `key`.
    fn seek_after(&mut self, key: &[u8]) -> Result<()> {
        // As in `skip::pass_key`.
        self.merge.seek(key, 0)?;
        while self.merge.valid() && self.merge.key() == key {
            self.merge.next()?;
        }
        Ok(())
    }
}
