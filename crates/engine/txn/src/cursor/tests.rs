//! The cursor against a model: the entries that a store and a write set make together, in a vector.

use super::*;
use crate::read_set::ReadSet;
use crate::write_set::WriteSet;
use esker_api::BatchLimits;
use esker_base::{Entry, KeyspaceId, Kind};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A cursor over entries in a vector.
struct Pairs {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    at: Option<usize>,
}

impl Pairs {
    fn new<'a>(map: impl IntoIterator<Item = (&'a u8, &'a u8)>, range: &KeyRange) -> Self {
        let pairs = map.into_iter().map(|(&key, &value)| (vec![key], vec![value]));
        Pairs { pairs: pairs.filter(|(key, _)| range.contains(key)).collect(), at: None }
    }
}

impl Cursor for Pairs {
    fn seek_first(&mut self) -> Result<()> {
        self.seek(b"")
    }
    fn seek_last(&mut self) -> Result<()> {
        self.seek_back(&[0xff])
    }
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.at = self.pairs.iter().position(|(own, _)| &own[..] >= key);
        Ok(())
    }
    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        self.at = self.pairs.iter().rposition(|(own, _)| &own[..] <= key);
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        self.at = self.at.map(|at| at + 1).filter(|&at| at < self.pairs.len());
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        self.at = self.at.and_then(|at| at.checked_sub(1));
        Ok(())
    }
    fn current(&self) -> Option<(&[u8], &[u8])> {
        self.at.map(|at| (&self.pairs[at].0[..], &self.pairs[at].1[..]))
    }
}

#[derive(Clone, Copy, Debug)]
enum Move {
    First,
    Last,
    Seek(u8),
    SeekBack(u8),
    Next,
    Prev,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        1 => Just(Move::First),
        1 => Just(Move::Last),
        2 => (0..20u8).prop_map(Move::Seek),
        2 => (0..20u8).prop_map(Move::SeekBack),
        5 => Just(Move::Next),
        5 => Just(Move::Prev),
    ];
    vec(one, 1..30)
}

fn ranges() -> impl Strategy<Value = KeyRange> {
    let bound = || {
        prop_oneof![
            Just(Bound::Unbounded),
            (0..20u8).prop_map(|key| Bound::Included(vec![key])),
            (0..20u8).prop_map(|key| Bound::Excluded(vec![key])),
        ]
    };
    (bound(), bound()).prop_map(|(start, end)| KeyRange { start, end })
}

/// The store's entries.
fn stored() -> impl Strategy<Value = BTreeMap<u8, u8>> {
    proptest::collection::btree_map(0..20u8, 0..100u8, 0..12)
}

/// Puts and deletes.
fn own() -> impl Strategy<Value = Vec<(u8, Option<u8>)>> {
    vec((0..20u8, proptest::option::of(100..200u8)), 0..12)
}

const KEYSPACE: KeyspaceId = KeyspaceId(3);

fn write_set(writes: &[(u8, Option<u8>)]) -> WriteSet {
    let mut set = WriteSet::default();
    let limits =
        BatchLimits { bytes: 1 << 20, entries: 1 << 10, entry_bytes: 1 << 20, empty_key: true };
    for (key, value) in writes {
        let (kind, value) = match value {
            Some(value) => (Kind::Put, vec![*value]),
            None => (Kind::Delete, Vec::new()),
        };
        let entry = Entry { keyspace: KEYSPACE, kind, key: &[*key], value: &value };
        set.push(&entry, limits).unwrap();
    }
    set
}

/// The entries that moves lead to.
type Seen = Vec<Option<(Vec<u8>, Vec<u8>)>>;

/// Where each move leads.
fn walk(cursor: &mut dyn Cursor, moves: &[Move]) -> Seen {
    let step = |one: &Move| {
        match *one {
            Move::First => cursor.seek_first(),
            Move::Last => cursor.seek_last(),
            Move::Seek(key) => cursor.seek(&[key]),
            Move::SeekBack(key) => cursor.seek_back(&[key]),
            Move::Next => cursor.next(),
            Move::Prev => cursor.prev(),
        }
        .unwrap();
        cursor.current().map(|(key, value)| (key.to_vec(), value.to_vec()))
    };
    moves.iter().map(step).collect()
}

/// Where the moves lead, and what they read on the way.
fn walk_merged(
    stored: &BTreeMap<u8, u8>,
    writes: &[(u8, Option<u8>)],
    range: &KeyRange,
    moves: &[Move],
) -> (Seen, ReadSet) {
    let (mut set, mut reads) = (write_set(writes), ReadSet::default());
    let seen = {
        let theirs = Box::new(Pairs::new(stored, range));
        let stretch = ScannedRange::new(&mut reads, KEYSPACE, range.clone());
        let writes = set.of(KEYSPACE);
        let mut cursor = TransactionCursor::new(theirs, writes, range.clone(), Some(stretch));
        walk(&mut cursor, moves)
    };
    (seen, reads)
}

fn has_read(reads: &ReadSet, key: u8) -> bool {
    reads.keys().any(|(_, read)| read == [key])
        || reads.ranges().any(|(_, range)| range.contains(&[key]))
}

proptest! {
    #[test]
    fn own_writes_are_merged_with_the_stores_pairs(
        stored in stored(), own in own(), range in ranges(), moves in moves(),
    ) {
        let mut both = stored.clone();
        for &(key, value) in &own {
            match value {
                Some(value) => drop(both.insert(key, value)),
                None => drop(both.remove(&key)),
            }
        }
        let expected = walk(&mut Pairs::new(&both, &range), &moves);
        prop_assert_eq!(walk_merged(&stored, &own, &range, &moves).0, expected);
    }

    /// If the cursor would have seen something else had the store had, or not had, an entry, then that key
    /// is among what was read.
    #[test]
    fn whatever_could_have_changed_the_walk_counts_as_read(
        stored in stored(), own in own(), range in ranges(), moves in moves(), key in 0..20u8,
    ) {
        let (seen, reads) = walk_merged(&stored, &own, &range, &moves);
        let mut otherwise = stored.clone();
        if otherwise.remove(&key).is_none() {
            otherwise.insert(key, 77);
        }
        let (seen_otherwise, _) = walk_merged(&otherwise, &own, &range, &moves);
        prop_assert!(seen == seen_otherwise || has_read(&reads, key), "{key}");
    }
}
