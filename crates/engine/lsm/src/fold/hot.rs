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

use esker_api::Value;
use esker_base::{KeyspaceId, Seqno, hash64};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// So many operands in MemTables are worth a note.
pub(crate) const MANY: usize = 16;

/// A writer inspects the operands of a key after one merge in so many.
const LOOKS_ONE_IN: u64 = 16;

const SHARDS: usize = 16;
/// Notes of a shard.
const NOTES_MAX: usize = 64;
/// The longest value of a note, with its key.
const NOTE_BYTES_MAX: usize = 64 << 10;
/// Notes of a key: one of the present, and others at snapshots.
const OF_KEY_MAX: usize = 8;

/// A value of a key.
#[derive(Clone, Debug)]
pub(crate) struct HotValue {
    pub(crate) seqno: Seqno,
    /// `None` is no value.
    pub(crate) value: Option<Value>,
}

type Shard = BTreeMap<(KeyspaceId, Box<[u8]>), Vec<HotValue>>;

/// The notes of a database.
#[derive(Default)]
pub(crate) struct HotFolds {
    /// Whether there may be a note.
    is_any: AtomicBool,
    shards: [Mutex<Shard>; SHARDS],
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

    /// The newest note of `key` at or below `snapshot`, and not below `least`.
    pub(crate) fn get(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: Seqno,
        least: Seqno,
    ) -> Option<HotValue> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        let shard = self.shard(key).lock();
        let notes = shard.get(&(keyspace, Box::from(key)))?;
        let is_right = |note: &&HotValue| (least..=snapshot).contains(&note.seqno);
        notes.iter().filter(is_right).max_by_key(|note| note.seqno).cloned()
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
        let bytes = key.len() + note.value.as_ref().map_or(0, |value| value.len());
        if bytes > NOTE_BYTES_MAX {
            return;
        }
        let mut shard = self.shard(key).lock();
        let own = (keyspace, Box::from(key));
        if shard.len() >= NOTES_MAX && !shard.contains_key(&own) {
            // Any other: the hottest are noted again soon.
            let next = shard.range(&own..).next().or_else(|| shard.first_key_value());
            let victim = next.map(|(key, _)| key.clone());
            victim.and_then(|victim| shard.remove(&victim));
        }
        let notes = shard.entry(own).or_default();
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
        }
        self.is_any.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYSPACE: KeyspaceId = KeyspaceId::DEFAULT;

    fn note(hot: &HotFolds, key: &[u8], seqno: Seqno, snapshots: &[Seqno]) {
        let value = Some(Value::copy_of(&seqno.to_le_bytes()));
        hot.note(KEYSPACE, key, HotValue { seqno, value }, || snapshots.to_vec());
    }

    fn get(hot: &HotFolds, key: &[u8], snapshot: Seqno, least: Seqno) -> Option<Seqno> {
        hot.get(KEYSPACE, key, snapshot, least).map(|note| note.seqno)
    }

    #[test]
    fn a_note_counts_from_its_seqno_on_and_above_what_is_in_tables() {
        let hot = HotFolds::default();
        assert_eq!(get(&hot, b"k", 9, 0), None);
        note(&hot, b"k", 5, &[]);
        assert_eq!(get(&hot, b"k", 5, 5), Some(5));
        assert_eq!((get(&hot, b"k", 4, 0), get(&hot, b"k", 9, 6)), (None, None));
        assert_eq!(get(&hot, b"other", 9, 0), None);
        assert_eq!(hot.get(KeyspaceId(7), b"k", 9, 0).map(|note| note.seqno), None);
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
        assert!(hot.shards.iter().all(|shard| shard.lock().len() <= NOTES_MAX));
        let long = Some(Value::from(vec![0; NOTE_BYTES_MAX]));
        hot.note(KEYSPACE, b"long", HotValue { seqno: 1, value: long }, Vec::new);
        assert_eq!(get(&hot, b"long", 9, 0), None);
    }

    #[test]
    fn writers_look_at_about_one_merge_in_sixteen() {
        let looked = (0..160_000).filter(|&seqno| looks(seqno)).count();
        assert!((9_000..11_000).contains(&looked), "{looked}");
    }
}
