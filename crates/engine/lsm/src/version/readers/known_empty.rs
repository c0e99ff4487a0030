//! Ranges of deleted keys that scans pass without reading them again.
//!
//! A scan that passed many deleted keys leaves a note: the range from the first to the last of
//! them. A later scan that meets a deleted key in the range continues at its end.
//!
//! Invariants of a note with the sequence number `s`:
//! 1. A put to a key of the range with a higher sequence number than `s` cuts the key out of the
//!    note before the put is visible.
//! 2. If the note is proven, no key of the range has an entry at `s`.
//!
//! So a scan at `s` or later that finds a proven note may pass the range. Deletes, flush and
//! compaction add no entry. An older snapshot ignores the note.
//!
//! A note begins while writes are in progress. Those that have a sequence number may miss the note,
//! those that get one later find it: adding reads the last one given out, `t`, under the lock of
//! the notes. If the scan's snapshot is at least `t`, the note is proven at once. Otherwise it says
//! `t` and is not proven. The next scan at `t` or later passes the keys once more and proves it.
//!
//! A put into a note costs some 100 ns more, so cuts are limited: by the entries that scans have
//! passed or skip. Beyond that limit all notes are dropped, which is always safe.

use esker_base::{Entry, KeyspaceId, Seqno};
use parking_lot::RwLock;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The number of notes.
const NOTES_MAX: usize = 128;

/// Notes have no longer keys than this.
const KEY_BYTES_MAX: usize = 512;

/// What a scan that skips a range pays for, in cuts.
const CUTS_OF_SKIP: u64 = 8;

/// Deleted keys that a scan passed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PassedKeys {
    pub(crate) keyspace: KeyspaceId,
    /// The first key.
    pub(crate) from: Vec<u8>,
    /// The end, exclusive.
    pub(crate) to: Vec<u8>,
    /// The snapshot at which none of the keys has an entry.
    pub(crate) snapshot: Seqno,
    /// The number of keys that were passed one by one.
    pub(crate) keys: u64,
}

/// The notes of a database. See the file's head.
#[derive(Default)]
pub(crate) struct KnownEmpty {
    /// Whether there are notes. Changed under the lock only.
    is_any: AtomicBool,
    notes: RwLock<Notes>,
}

#[derive(Default)]
struct Notes {
    /// Disjoint, by keyspace and range.
    list: Vec<Note>,
    /// The priority of the note that was evicted last.
    evicted: u64,
    /// The number of cuts that scans have paid for.
    cuts_left: AtomicU64,
}

struct Note {
    keyspace: KeyspaceId,
    from: Box<[u8]>,
    /// Exclusive.
    to: Box<[u8]>,
    seqno: Seqno,
    is_proven: bool,
    /// The number of keys that scans passed to find this.
    keys: u64,
    /// The note with the lowest priority is evicted first. A use raises the priority above that of
    /// all notes evicted before.
    priority: AtomicU64,
}

impl KnownEmpty {
    /// Adds what a scan has passed. `last_reserved` returns the last sequence number given out.
    #[cold]
    pub(crate) fn add(&self, passed: PassedKeys, last_reserved: impl FnOnce() -> Seqno) {
        if passed.to.len() > KEY_BYTES_MAX || passed.from.len() > KEY_BYTES_MAX {
            return;
        }
        let mut notes = self.notes.write();
        // Before the sequence number is read: a later write looks for notes, and waits for the lock.
        self.is_any.store(true, Ordering::Release);
        notes.add(passed, last_reserved());
        self.is_any.store(!notes.list.is_empty(), Ordering::Release);
    }

    /// Returns the note in which `key` is passed at `snapshot`, as its end that is ahead in the
    /// direction of travel: the first key after the range, or its first key.
    #[inline]
    pub(crate) fn skips(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: Seqno,
        forward: bool,
    ) -> Option<Vec<u8>> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        self.notes.read().skips(keyspace, key, snapshot, forward)
    }

    /// Cuts the puts of a batch out of all notes: after they have their sequence numbers, before
    /// they are visible.
    #[inline]
    pub(crate) fn cut(&self, encoded: &[u8]) {
        if self.is_any.load(Ordering::Acquire) {
            self.cut_entries(encoded);
        }
    }

    /// Drops all notes that have a key from `from` to `to`, for an ingest: after it has its sequence
    /// number, before it is visible.
    pub(crate) fn cut_range(&self, keyspace: KeyspaceId, from: &[u8], to: &[u8]) {
        if !self.is_any.load(Ordering::Acquire) {
            return;
        }
        let mut notes = self.notes.write();
        notes.list.retain(|note| {
            note.keyspace != keyspace || &note.to[..] <= from || to < &note.from[..]
        });
        self.is_any.store(!notes.list.is_empty(), Ordering::Release);
    }

    #[cold]
    fn cut_entries(&self, mut encoded: &[u8]) {
        while let Some(entry) = Entry::decode(&mut encoded) {
            let (keyspace, key) = (entry.keyspace, entry.key);
            if !entry.kind.may_give_value() || self.notes.read().position(keyspace, key).is_none() {
                continue;
            }
            let mut notes = self.notes.write();
            notes.cut(keyspace, key);
            self.is_any.store(!notes.list.is_empty(), Ordering::Release);
        }
    }
}

impl Notes {
    /// The note whose range has `key`.
    fn position(&self, keyspace: KeyspaceId, key: &[u8]) -> Option<usize> {
        let starts_by = |note: &Note| (note.keyspace, &note.from[..]) <= (keyspace, key);
        let at = self.list.partition_point(starts_by).checked_sub(1)?;
        let note = &self.list[at];
        (note.keyspace == keyspace && key < &note.to[..]).then_some(at)
    }

    /// The notes that overlap `passed` or adjoin it.
    fn around(&self, passed: &PassedKeys) -> Range<usize> {
        let keyspace = passed.keyspace;
        let ends_before = |note: &Note| (note.keyspace, &note.to[..]) < (keyspace, &passed.from);
        let starts_by = |note: &Note| (note.keyspace, &note.from[..]) <= (keyspace, &passed.to);
        self.list.partition_point(ends_before)..self.list.partition_point(starts_by)
    }

    fn skips(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: Seqno,
        forward: bool,
    ) -> Option<Vec<u8>> {
        let note = &self.list[self.position(keyspace, key)?];
        if !note.is_proven || note.seqno > snapshot {
            return None;
        }
        note.priority.store(self.evicted.saturating_add(note.keys), Ordering::Relaxed);
        self.cuts_left.fetch_add(CUTS_OF_SKIP, Ordering::Relaxed);
        Some(if forward { note.to.to_vec() } else { note.from.to_vec() })
    }

    fn add(&mut self, passed: PassedKeys, last_reserved: Seqno) {
        *self.cuts_left.get_mut() += passed.keys;
        let around = self.around(&passed);
        let mut pieces: Vec<Note> = Vec::with_capacity(around.len() + 1);
        // Up to here the keys that were passed are in pieces.
        let mut at = passed.from.clone();
        for note in self.list.splice(around.clone(), []) {
            if at[..] < note.from[..] {
                push(&mut pieces, Note::begun(&passed, &at, &note.from, last_reserved));
            }
            at.clear();
            at.extend_from_slice(&note.to);
            note.proven_by(&passed).into_iter().for_each(|piece| push(&mut pieces, piece));
        }
        if at < passed.to {
            push(&mut pieces, Note::begun(&passed, &at, &passed.to, last_reserved));
        }
        for piece in &mut pieces {
            *piece.priority.get_mut() = self.evicted.saturating_add(piece.keys);
        }
        self.list.splice(around.start..around.start, pieces);
        while self.list.len() > NOTES_MAX {
            self.evict();
        }
    }

    fn evict(&mut self) {
        let priority = |note: &Note| note.priority.load(Ordering::Relaxed);
        let by_priority = |at: &usize| priority(&self.list[*at]);
        if let Some(lowest) = (0..self.list.len()).min_by_key(by_priority) {
            self.evicted = priority(&self.list.remove(lowest));
        }
    }

    fn cut(&mut self, keyspace: KeyspaceId, key: &[u8]) {
        // Another writer may have cut meanwhile.
        let Some(at) = self.position(keyspace, key) else { return };
        let cuts_left = self.cuts_left.get_mut();
        if *cuts_left == 0 || key.len() >= KEY_BYTES_MAX {
            self.list.clear();
            return;
        }
        *cuts_left -= 1;
        let note = self.list.remove(at);
        let after: Box<[u8]> = [key, &[0]].concat().into();
        let parts = [(note.from.clone(), key.into()), (after, note.to.clone())];
        let parts = parts.into_iter().filter(|(from, to)| from < to);
        self.list.splice(at..at, parts.map(|(from, to)| note.part(from, to)));
        if self.list.len() > NOTES_MAX {
            self.evict();
        }
    }
}

/// Appends `piece` to pieces that end where it starts.
fn push(pieces: &mut Vec<Note>, piece: Note) {
    match pieces.last_mut() {
        Some(last)
            if last.to == piece.from
                && (last.seqno, last.is_proven) == (piece.seqno, piece.is_proven) =>
        {
            last.to = piece.to;
            last.keys = last.keys.saturating_add(piece.keys);
        }
        _ => pieces.push(piece),
    }
}

impl Note {
    /// Begins a note of a part of what a scan has passed, after `last_reserved` was given out.
    fn begun(passed: &PassedKeys, from: &[u8], to: &[u8], last_reserved: Seqno) -> Note {
        Note {
            keyspace: passed.keyspace,
            from: from.into(),
            to: to.into(),
            seqno: last_reserved.max(passed.snapshot),
            is_proven: last_reserved <= passed.snapshot,
            keys: passed.keys,
            priority: AtomicU64::new(0),
        }
    }

    /// A part of the range.
    fn part(&self, from: Box<[u8]>, to: Box<[u8]>) -> Note {
        let priority = AtomicU64::new(self.priority.load(Ordering::Relaxed));
        Note { from, to, priority, ..*self }
    }

    /// The note once a scan has passed keys of its range: in parts, if it was not proven before.
    fn proven_by(mut self, passed: &PassedKeys) -> Vec<Note> {
        if self.seqno > passed.snapshot {
            return vec![self];
        }
        if self.is_proven {
            self.seqno = passed.snapshot;
            return vec![self];
        }
        let inner_from = (&self.from[..]).max(&passed.from);
        let inner_to = (&self.to[..]).min(&passed.to);
        let parts =
            [(&self.from[..], inner_from), (inner_from, inner_to), (inner_to, &self.to[..])];
        let parts = parts.into_iter().enumerate().filter(|(_, (from, to))| from < to);
        let proven = parts.map(|(at, (from, to))| {
            let part = self.part(from.into(), to.into());
            match at {
                1 => Note { seqno: passed.snapshot, is_proven: true, ..part },
                _ => part,
            }
        });
        proven.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_api::WriteBatch;
    use esker_base::Rng;
    use std::collections::BTreeSet;

    const KEYSPACE: KeyspaceId = KeyspaceId::DEFAULT;

    fn passed(from: &str, to: &str, snapshot: Seqno) -> PassedKeys {
        let (from, to) = (from.as_bytes().to_vec(), to.as_bytes().to_vec());
        PassedKeys { keyspace: KEYSPACE, from, to, snapshot, keys: 32 }
    }

    fn put(known: &KnownEmpty, key: &str) {
        let mut batch = WriteBatch::new();
        batch.put(KEYSPACE, key, "value");
        known.cut(batch.encoded());
    }

    fn skips(known: &KnownEmpty, key: &str, snapshot: Seqno) -> Option<(String, String)> {
        let end = |forward| {
            let end = known.skips(KEYSPACE, key.as_bytes(), snapshot, forward);
            end.map(|end| String::from_utf8(end).unwrap())
        };
        Some((end(false)?, end(true)?))
    }

    fn range(from: &str, to: &str) -> Option<(String, String)> {
        Some((from.to_owned(), to.to_owned()))
    }

    #[test]
    fn a_note_says_nothing_to_older_snapshots_nor_about_other_keys() {
        let known = KnownEmpty::default();
        assert_eq!(skips(&known, "c", 9), None);
        known.add(passed("b", "d", 5), || 5);
        assert_eq!(skips(&known, "b", 5), range("b", "d"));
        assert_eq!(skips(&known, "c", 9), range("b", "d"));
        assert_eq!(skips(&known, "c", 4), None);
        assert_eq!(skips(&known, "a", 5), None);
        assert_eq!(skips(&known, "d", 5), None);
        assert_eq!(known.skips(KeyspaceId(7), b"c", 5, true), None);
    }

    #[test]
    fn a_put_cuts_its_key_out() {
        let known = KnownEmpty::default();
        known.add(passed("b", "d", 5), || 5);
        put(&known, "d");
        put(&known, "a");
        assert_eq!(skips(&known, "c", 6), range("b", "d"));
        put(&known, "c");
        assert_eq!(skips(&known, "b", 6), range("b", "c"));
        assert_eq!(skips(&known, "c", 6), None);
        assert_eq!(skips(&known, "cc", 6), range("c\0", "d"));
        put(&known, "b");
        assert_eq!(skips(&known, "b", 6), None);
    }

    #[test]
    fn a_note_beside_writers_is_proven_by_a_scan_that_sees_their_writes() {
        let known = KnownEmpty::default();
        known.add(passed("b", "f", 5), || 7);
        assert_eq!(skips(&known, "c", 9), None);
        known.add(passed("c", "g", 6), || 7);
        assert_eq!(skips(&known, "c", 9), None);
        // The scan has seen the range up to "e" only.
        known.add(passed("c", "e", 7), || 9);
        assert_eq!(skips(&known, "c", 6), None);
        assert_eq!(skips(&known, "c", 7), range("c", "e"));
        assert_eq!(skips(&known, "b", 9), None);
        assert_eq!(skips(&known, "e", 9), None);
    }

    #[test]
    fn scans_join_the_ranges_that_they_skip() {
        let known = KnownEmpty::default();
        known.add(passed("b", "d", 5), || 5);
        known.add(passed("e", "g", 6), || 6);
        known.add(passed("c", "f", 7), || 7);
        assert_eq!(skips(&known, "b", 7), range("b", "g"));
        assert_eq!(skips(&known, "b", 6), None);
    }

    #[test]
    fn cuts_are_paid_for_by_scans() {
        let known = KnownEmpty::default();
        known.add(PassedKeys { keys: 3, ..passed("b", "d", 5) }, || 5);
        for key in ["c1", "c2", "c3"] {
            put(&known, key);
            assert_eq!(skips(&known, "b", 4), None);
        }
        assert!(known.is_any.load(Ordering::Relaxed));
        put(&known, "c4");
        assert!(!known.is_any.load(Ordering::Relaxed));
    }

    #[test]
    fn what_is_used_stays() {
        let known = KnownEmpty::default();
        known.add(PassedKeys { keys: 1000, ..passed("z1", "z2", 5) }, || 5);
        for n in 0..100 * NOTES_MAX {
            known.add(passed(&format!("a{n:06}"), &format!("a{n:06}b"), 5), || 5);
            assert!(skips(&known, "z1", 5).is_some());
        }
        assert_eq!(known.notes.read().list.len(), NOTES_MAX);
    }

    /// Scans and writes of the keys 0 to 99, of which some get their sequence numbers late.
    #[test]
    fn notes_hold_whatever_is_put_and_passed() {
        let name = |key: u64| format!("{key:02}");
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let known = KnownEmpty::default();
            // The keys that have entries after each sequence number.
            let mut states: Vec<BTreeSet<u64>> = vec![BTreeSet::new()];
            // A put that has the next sequence number, and has looked for notes or not.
            let mut begun: Option<(u64, bool)> = None;
            for _ in 0..200 {
                let last = states.len() as u64 - 1;
                match (rng.below(10), begun) {
                    (0..2, None) => begun = Some((rng.below(100), false)),
                    (0..2, Some((key, false))) => {
                        put(&known, &name(key));
                        begun = Some((key, true));
                    }
                    (0..3, Some((key, true))) => {
                        let mut state = states[last as usize].clone();
                        state.insert(key);
                        states.push(state);
                        begun = None;
                    }
                    (3, None) => {
                        let mut state = states[last as usize].clone();
                        state.retain(|_| rng.one_in(5));
                        states.push(state);
                    }
                    (4..8, _) => {
                        let snapshot = last - rng.below(last.min(2) + 1);
                        let (from, keys) = (rng.below(100), 1 + rng.below(30));
                        let to = (from..100).find(|key| states[snapshot as usize].contains(key));
                        let to = to.unwrap_or(100).min(from + keys);
                        if from < to {
                            let to = if to == 100 { "a".to_owned() } else { name(to) };
                            let reserved = last + u64::from(begun.is_some());
                            known.add(passed(&name(from), &to, snapshot), || reserved);
                        }
                    }
                    _ => {}
                }
                for _ in 0..5 {
                    let last = states.len() as u64 - 1;
                    let snapshot = last - rng.below(last.min(3) + 1);
                    let state = &states[snapshot as usize];
                    if let Some((from, to)) = skips(&known, &name(rng.below(100)), snapshot) {
                        let skipped = from..to;
                        let inside = state.iter().find(|key| skipped.contains(&name(**key)));
                        assert_eq!(inside, None, "seed {seed}");
                    }
                }
            }
        }
    }
}
