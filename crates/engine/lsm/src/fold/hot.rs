//! Remembers the values of keys with many operands, so that no read folds thousands.
//!
//! A note is a value of a key at a sequence number: the fold of everything up to there. A reader
//! that meets the operands of the key newest first stops at the note. Notes say what the past was,
//! which does not change, so no write has to cut them. They are for MemTables only: a note counts
//! for a view if everything that the view has in tables is not newer than the note.
//!
//! Two things leave notes:
//!
//! * A read that has folded [`MANY`] operands of MemTables or more.
//! * A writer of a merge, once the merge is visible. It inspects one merge in [`LOOKS_ONE_IN`], which
//!   a hash of the sequence number picks. If the key has many operands since its last note, the
//!   writer reads the key.
//!
//! So a read folds about [`MANY`] operands since the last note, and those that a flush has combined.
//!
//! Some keys get no note: the value is too long, or the operator fails. The read of such
//! a key costs more the more operands there are, so writers leave the key alone for [`REST`] sequence
//! numbers, and twice as long after each further attempt.

use super::expiry::Time;
use esker_api::Value;
use esker_base::{KeyspaceId, Seqno, hash64};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// So many operands in MemTables are worth a note.
pub(crate) const MANY: usize = 16;

/// A writer inspects the operands of a key after one merge in so many.
const LOOKS_ONE_IN: u64 = 16;

const SHARDS: usize = 16;
/// Notes of a shard.
const NOTES_MAX: usize = 64;
/// The longest value of a note, with its key.
const NOTE_BYTES_MAX: usize = 64 << 10;
/// Keys and values of a shard's notes, in bytes.
const SHARD_BYTES_MAX: usize = 128 << 10;
/// Notes of a key: one of the present, and others at snapshots.
const OF_KEY_MAX: usize = 8;

/// For so many sequence numbers writers leave a key alone after a read that left no note, at first.
const REST: u64 = 1024;
/// Keys share rests by their hash.
const RESTS: usize = 1024;

/// A value of a key.
#[derive(Clone, Debug)]
pub(crate) struct HotValue {
    pub(crate) seqno: Seqno,
    /// `None` is no value.
    pub(crate) value: Option<Value>,
    /// When the note is no longer right, because what the operands are merged into has expired.
    pub(crate) until: Option<u64>,
}

/// The notes of some keys.
#[derive(Default)]
struct Shard {
    keys: BTreeMap<(KeyspaceId, Box<[u8]>), Vec<HotValue>>,
    /// Of all keys and values.
    bytes: usize,
}

/// The bytes of a key and its notes.
fn bytes_of(key: &[u8], notes: &[HotValue]) -> usize {
    let values = notes.iter().map(|note| note.value.as_ref().map_or(0, |value| value.len()));
    key.len() + values.sum::<usize>()
}

impl Shard {
    fn forget(&mut self, key: &(KeyspaceId, Box<[u8]>)) {
        if let Some(notes) = self.keys.remove(key) {
            self.bytes -= bytes_of(&key.1, &notes);
        }
    }

    /// Forgets other keys than `own` until the notes are few and short enough.
    fn shrink(&mut self, own: &(KeyspaceId, Box<[u8]>)) {
        while self.keys.len() > NOTES_MAX || self.bytes > SHARD_BYTES_MAX {
            // Any other: the hottest are noted again soon.
            let behind = self.keys.range(own..).map(|(key, _)| key).find(|key| *key != own);
            let victim = behind.or_else(|| self.keys.keys().find(|key| *key != own));
            let Some(victim) = victim.cloned() else { return };
            self.forget(&victim);
        }
    }
}

/// Until when writers leave the keys of a hash alone, and for how long that was.
#[derive(Default)]
struct Rest {
    until: AtomicU64,
    length: AtomicU64,
}

/// The notes of a database.
#[derive(Default)]
pub(crate) struct HotFolds {
    /// Whether there may be a note.
    is_any: AtomicBool,
    shards: [Mutex<Shard>; SHARDS],
    /// There are none before a read leaves no note.
    rests: OnceLock<Box<[Rest]>>,
}

/// Whether the writer of the merge `seqno` inspects the operands of its key.
#[inline]
pub(crate) fn looks(seqno: Seqno) -> bool {
    (seqno.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(LOOKS_ONE_IN)
}

impl HotFolds {
    fn shard(&self, key: &[u8]) -> &Mutex<Shard> {
        &self.shards[hash64(key) as usize % SHARDS]
    }

    /// The newest note of `key` at or below `snapshot`, and not below `least`, that is right at `time`.
    pub(crate) fn get(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        (least, snapshot): (Seqno, Seqno),
        time: &impl Time,
    ) -> Option<HotValue> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        let shard = self.shard(key).lock();
        let notes = shard.keys.get(&(keyspace, Box::from(key)))?;
        let has_expired = |note: &HotValue| note.until.is_some_and(|until| time.has_passed(until));
        let is_right = |note: &&HotValue| (least..=snapshot).contains(&note.seqno);
        let newest = notes.iter().filter(is_right).max_by_key(|note| note.seqno);
        newest.filter(|note| !has_expired(note)).cloned()
    }

    /// Notes the value of `key` at `seqno`. Of the other notes of the key those stay that a reader at
    /// one of `snapshots` may need.
    pub(crate) fn note(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        note: HotValue,
        snapshots: impl FnOnce() -> Vec<Seqno>,
    ) {
        if bytes_of(key, std::slice::from_ref(&note)) > NOTE_BYTES_MAX {
            return;
        }
        let mut shard = self.shard(key).lock();
        let own = (keyspace, Box::from(key));
        let mut notes = shard.keys.remove(&own).unwrap_or_default();
        if !notes.is_empty() {
            shard.bytes -= bytes_of(key, &notes);
        }
        notes.retain(|other| other.seqno != note.seqno);
        notes.push(note);
        notes.sort_by_key(|note| std::cmp::Reverse(note.seqno));
        if notes.len() > 1 {
            let snapshots = snapshots();
            // Newest first: a snapshot needs the first note at or below it.
            let mut newer = Seqno::MAX;
            notes.retain(|note| {
                let end = std::mem::replace(&mut newer, note.seqno);
                end == Seqno::MAX || snapshots.iter().any(|at| (note.seqno..end).contains(at))
            });
            notes.truncate(OF_KEY_MAX);
            while bytes_of(key, &notes) > SHARD_BYTES_MAX {
                notes.pop();
            }
        }
        shard.bytes += bytes_of(key, &notes);
        shard.keys.insert(own.clone(), notes);
        shard.shrink(&own);
        self.is_any.store(true, Ordering::Release);
    }

    fn rest_of<'a>(rests: &'a [Rest], keyspace: KeyspaceId, key: &[u8]) -> &'a Rest {
        let hash = hash64(key).wrapping_add(u64::from(keyspace.0));
        &rests[(hash >> 32) as usize % RESTS]
    }

    /// Whether writers leave `key` alone at `seqno`.
    pub(crate) fn rests(&self, keyspace: KeyspaceId, key: &[u8], seqno: Seqno) -> bool {
        self.rests.get().is_some_and(|rests| {
            seqno < Self::rest_of(rests, keyspace, key).until.load(Ordering::Relaxed)
        })
    }

    /// Says whether a writer that has read `key` at `seqno` has left a note.
    pub(crate) fn was_read(&self, keyspace: KeyspaceId, key: &[u8], seqno: Seqno, noted: bool) {
        if noted && self.rests.get().is_none() {
            return;
        }
        let rests = self.rests.get_or_init(|| (0..RESTS).map(|_| Rest::default()).collect());
        let rest = Self::rest_of(rests, keyspace, key);
        let before = rest.length.load(Ordering::Relaxed);
        let length = if noted { 0 } else { (2 * before).clamp(REST, 1 << 40) };
        rest.length.store(length, Ordering::Relaxed);
        rest.until.store(seqno + length, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::expiry::At;

    const KEYSPACE: KeyspaceId = KeyspaceId::DEFAULT;

    fn note(hot: &HotFolds, key: &[u8], seqno: Seqno, snapshots: &[Seqno]) {
        let value = Some(Value::copy_of(&seqno.to_le_bytes()));
        hot.note(KEYSPACE, key, HotValue { seqno, value, until: None }, || snapshots.to_vec());
    }

    fn get(hot: &HotFolds, key: &[u8], snapshot: Seqno, least: Seqno) -> Option<Seqno> {
        hot.get(KEYSPACE, key, (least, snapshot), &At(7)).map(|note| note.seqno)
    }

    #[test]
    fn a_note_counts_from_its_seqno_on_and_above_what_is_in_tables() {
        let hot = HotFolds::default();
        assert_eq!(get(&hot, b"k", 9, 0), None);
        note(&hot, b"k", 5, &[]);
        assert_eq!(get(&hot, b"k", 5, 5), Some(5));
        assert_eq!((get(&hot, b"k", 4, 0), get(&hot, b"k", 9, 6)), (None, None));
        assert_eq!(get(&hot, b"other", 9, 0), None);
        assert_eq!(hot.get(KeyspaceId(7), b"k", (0, 9), &At(7)).map(|note| note.seqno), None);
    }

    #[test]
    fn a_newer_note_replaces_those_that_no_snapshot_needs() {
        let hot = HotFolds::default();
        for seqno in [10, 20, 30, 40] {
            note(&hot, b"k", seqno, &[25]);
        }
        let found: Vec<_> = [15, 25, 35, 45].map(|at| get(&hot, b"k", at, 0)).into();
        assert_eq!(found, [None, Some(20), Some(20), Some(40)]);
    }

    #[test]
    fn notes_are_bounded() {
        let hot = HotFolds::default();
        (0..10_000_u32).for_each(|key| note(&hot, &key.to_le_bytes(), 1, &[]));
        assert!(hot.shards.iter().all(|shard| shard.lock().keys.len() <= NOTES_MAX));
        let value = || Some(Value::from(vec![0; NOTE_BYTES_MAX - 100]));
        for key in 0..100_u32 {
            for seqno in [10, 20, 30] {
                let note = HotValue { seqno, value: value(), until: None };
                hot.note(KEYSPACE, &key.to_le_bytes(), note, || vec![15, 25]);
            }
            assert_eq!(get(&hot, &key.to_le_bytes(), 99, 0), Some(30), "the last one stays");
        }
        for shard in &hot.shards {
            let shard = shard.lock();
            let bytes = shard.keys.iter().map(|((_, key), notes)| bytes_of(key, notes)).sum();
            assert_eq!(shard.bytes, bytes);
            assert!(bytes <= SHARD_BYTES_MAX, "{bytes}");
        }
        let long = Some(Value::from(vec![0; NOTE_BYTES_MAX]));
        hot.note(KEYSPACE, b"long", HotValue { seqno: 1, value: long, until: None }, Vec::new);
        assert_eq!(get(&hot, b"long", 9, 0), None);
    }

    #[test]
    fn a_note_of_a_value_that_has_expired_does_not_count() {
        let hot = HotFolds::default();
        hot.note(KEYSPACE, b"k", HotValue { seqno: 5, value: None, until: Some(9) }, Vec::new);
        let at = |now| hot.get(KEYSPACE, b"k", (0, 99), &At(now)).map(|note| note.seqno);
        assert_eq!((at(8), at(9)), (Some(5), None));
    }

    #[test]
    fn writers_leave_a_key_without_a_note_alone_for_longer_and_longer() {
        let hot = HotFolds::default();
        hot.was_read(KEYSPACE, b"k", 5, true);
        assert!(!hot.rests(KEYSPACE, b"k", 5));
        let reads = (6..1_000_000).filter(|&seqno| {
            let is_read = !hot.rests(KEYSPACE, b"k", seqno);
            if is_read {
                hot.was_read(KEYSPACE, b"k", seqno, false);
            }
            is_read
        });
        assert_eq!(reads.count(), 10);
        assert!(hot.rests(KEYSPACE, b"k", 1_000_000) && !hot.rests(KEYSPACE, b"other", 1_000_000));
        hot.was_read(KEYSPACE, b"k", 1_000_000, true);
        assert!(!hot.rests(KEYSPACE, b"k", 1_000_000));
    }

    #[test]
    fn writers_look_at_about_one_merge_in_sixteen() {
        let looked = (0..160_000).filter(|&seqno| looks(seqno)).count();
        assert!((9_000..11_000).contains(&looked), "{looked}");
    }
}
