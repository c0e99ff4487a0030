//! Passes old versions and deleted keys without reading them one by one.
//!
//! After a few versions of one key, every source that is not past the key yet seeks. Of deleted
//! keys in a row, a walk skips those that [`KnownEmpty`] has a note of.
//! It notes those that it has passed.

use super::merging_iter::MergingIter;
use crate::version::readers::known_empty::{KnownEmpty, PassedKeys};
use esker_base::{EntryCursor, KeyspaceId, Result, Seqno};
use std::sync::Arc;

/// After so many versions of one key, a walk seeks past the others.
pub(crate) const STEPS: u32 = 8;

/// A scan that passed so many deleted keys in a row notes their range.
const NOTED_KEYS: u64 = 32;

/// After so many deleted keys, the walk looks again whether a note has the next one.
const KEYS_BETWEEN_LOOKS: u64 = 16;

/// The deleted keys that a move has passed.
pub(crate) struct Passed {
    keyspace: KeyspaceId,
    snapshot: Seqno,
    known_empty: Arc<KnownEmpty>,
    from: Vec<u8>,
    /// Exclusive.
    to: Vec<u8>,
    /// The number of keys passed one by one.
    keys: u64,
    /// The same since the last skip.
    keys_since_skip: u64,
    /// The number of ranges that were skipped.
    skips: u64,
}

impl Passed {
    /// No keys yet.
    pub(crate) fn new(keyspace: KeyspaceId, snapshot: Seqno, known_empty: Arc<KnownEmpty>) -> Self {
        let (from, to) = (Vec::new(), Vec::new());
        let (keys, keys_since_skip, skips) = (0, 0, 0);
        Passed { keyspace, snapshot, known_empty, from, to, keys, keys_since_skip, skips }
    }

    pub(crate) fn keyspace(&self) -> KeyspaceId {
        self.keyspace
    }

    /// Begins anew, at another snapshot of another keyspace.
    pub(crate) fn begin_at(&mut self, keyspace: KeyspaceId, snapshot: Seqno) {
        self.begin();
        (self.keyspace, self.snapshot) = (keyspace, snapshot);
    }

    /// Begins a move.
    #[inline]
    pub(crate) fn begin(&mut self) {
        (self.keys, self.keys_since_skip, self.skips) = (0, 0, 0);
    }

    fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// Whether a later scan gains from a note.
    #[inline]
    fn is_noted(&self) -> bool {
        self.keys >= NOTED_KEYS || self.skips > 1
    }

    /// Adds a key. Returns where the keys end, in the direction of travel, that are known to be
    /// deleted as well: the first key after them, or the first of them.
    pub(crate) fn pass(&mut self, key: &[u8], forward: bool) -> Option<Vec<u8>> {
        if !self.add(key, forward) {
            return None;
        }
        let end = self.known_empty.skips(self.keyspace, key, self.snapshot, forward)?;
        self.skip(&end, forward);
        Some(end)
    }

    /// Takes the keys, if they are worth a note.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<PassedKeys> {
        self.is_noted().then(|| self.take_noted())
    }

    #[cold]
    fn take_noted(&mut self) -> PassedKeys {
        let (from, to) = (std::mem::take(&mut self.from), std::mem::take(&mut self.to));
        let (keyspace, snapshot, keys) = (self.keyspace, self.snapshot, self.keys);
        self.begin();
        PassedKeys { keyspace, from, to, snapshot, keys }
    }

    /// Adds a key. Returns whether to look for a note that has it: at first, after each skip, and
    /// from time to time.
    #[inline]
    fn add(&mut self, key: &[u8], forward: bool) -> bool {
        if self.is_empty() || !forward {
            self.from.clear();
            self.from.extend_from_slice(key);
        }
        if self.is_empty() || forward {
            self.to.clear();
            self.to.extend_from_slice(key);
            self.to.push(0);
        }
        self.keys += 1;
        self.keys_since_skip += 1;
        self.keys_since_skip <= 2 || self.keys_since_skip.is_multiple_of(KEYS_BETWEEN_LOOKS)
    }

    /// Adds a range up to `end`, in the direction of travel.
    fn skip(&mut self, end: &[u8], forward: bool) {
        let own = if forward { &mut self.to } else { &mut self.from };
        own.clear();
        own.extend_from_slice(end);
        self.keys_since_skip = 0;
        self.skips += 1;
    }
}

/// Takes `merge` forward past all versions of `key`, on one of which it is.
#[inline]
pub(crate) fn pass_key<C: EntryCursor>(merge: &mut MergingIter<C>, key: &[u8]) -> Result<()> {
    for _ in 0..STEPS {
        merge.next()?;
        if !merge.valid() || merge.key() != key {
            return Ok(());
        }
    }
    // Nothing sorts between the oldest version of a key, seqno 0, and the next key; and a version
    // with seqno 0 is itself to be passed.
    merge.skip_to(key, 0)?;
    while merge.valid() && merge.key() == key {
        merge.next()?;
    }
    Ok(())
}

/// Takes `merge` forward past versions of `key` that are newer than `snapshot`. It is on one.
pub(crate) fn pass_newer<C: EntryCursor>(
    merge: &mut MergingIter<C>,
    key: &[u8],
    snapshot: Seqno,
) -> Result<()> {
    for _ in 0..STEPS {
        merge.next()?;
        if !merge.valid() || merge.seqno() <= snapshot || merge.key() != key {
            return Ok(());
        }
    }
    merge.skip_to(key, snapshot)
}
