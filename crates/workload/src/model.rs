//! An ordered map with snapshots: the plainest store that keeps every promise of `esker_api`.
//!
//! All versions of all keys stay in one `BTreeMap`, ordered by key and then newest first; nothing is
//! ever collected. A snapshot is a seqno. Slow on purpose: it is what faster stores are held against.

use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::{Error, Kind, MAX_KEY_BYTES, MAX_SEQNO, Result, Seqno};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

type VersionKey = (Vec<u8>, Reverse<Seqno>);

#[derive(Debug, Default)]
struct Versions {
    /// What each write left: a value, or nothing for a delete.
    map: BTreeMap<VersionKey, Option<Vec<u8>>>,
    newest: Seqno,
}

impl Versions {
    fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.map.insert((key.to_vec(), Reverse(self.newest)), value.map(<[u8]>::to_vec));
    }

    fn get(&self, key: &[u8], at: Seqno) -> Option<&[u8]> {
        let newest_first = (key.to_vec(), Reverse(at))..=(key.to_vec(), Reverse(0));
        self.map.range(newest_first).next()?.1.as_deref()
    }

    /// The first live pair whose key is within `bounds`.
    fn first(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>), at: Seqno) -> Option<Pair> {
        let mut start = bounds.0.map(<[u8]>::to_vec);
        loop {
            let from = match start {
                Bound::Included(key) => Bound::Included((key, Reverse(MAX_SEQNO))),
                Bound::Excluded(key) => Bound::Excluded((key, Reverse(0))),
                Bound::Unbounded => Bound::Unbounded,
            };
            let key = &self.map.range((from, Bound::Unbounded)).next()?.0.0;
            if is_past(key, bounds.1) {
                return None;
            }
            if let Some(value) = self.get(key, at) {
                return Some((key.clone(), value.to_vec()));
            }
            start = Bound::Excluded(key.clone());
        }
    }

    /// The last live pair whose key is within `bounds`.
    fn last(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>), at: Seqno) -> Option<Pair> {
        let mut end = bounds.1.map(<[u8]>::to_vec);
        loop {
            let to = match end {
                Bound::Included(key) => Bound::Included((key, Reverse(0))),
                Bound::Excluded(key) => Bound::Excluded((key, Reverse(MAX_SEQNO))),
                Bound::Unbounded => Bound::Unbounded,
            };
            let key = &self.map.range((Bound::Unbounded, to)).next_back()?.0.0;
            if is_before(key, bounds.0) {
                return None;
            }
            if let Some(value) = self.get(key, at) {
                return Some((key.clone(), value.to_vec()));
            }
            end = Bound::Excluded(key.clone());
        }
    }
}

fn is_past(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
        Bound::Unbounded => false,
    }
}

fn is_before(key: &[u8], start: Bound<&[u8]>) -> bool {
    match start {
        Bound::Included(start) => key < start,
        Bound::Excluded(start) => key <= start,
        Bound::Unbounded => false,
    }
}

type Pair = (Vec<u8>, Vec<u8>);

/// One keyspace, the default one, in an ordered map.
#[derive(Debug, Default)]
pub struct Model {
    versions: RwLock<Versions>,
}

impl Model {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// All live pairs, in order.
    pub fn pairs(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let versions = self.read();
        let mut pairs: Vec<Pair> = Vec::new();
        let mut seen: Option<&[u8]> = None;
        for ((key, _), value) in &versions.map {
            if seen != Some(&key[..]) {
                pairs.extend(value.as_ref().map(|value| (key.clone(), value.clone())));
            }
            seen = Some(key);
        }
        pairs
    }

    /// The number of writes ever applied.
    pub fn writes(&self) -> u64 {
        self.read().newest
    }

    fn read(&self) -> RwLockReadGuard<'_, Versions> {
        // A panic elsewhere can't leave the map half changed: batches are checked beforehand.
        self.versions.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, batch: &WriteBatch) -> Result<()> {
        if batch.has_empty_key() {
            return Err(Error::EmptyKey);
        }
        if batch.longest_key() > MAX_KEY_BYTES {
            return Err(Error::KeyTooLong { bytes: batch.longest_key() });
        }
        if batch.has_empty_range() {
            return Err(Error::EmptyRange);
        }
        match batch.iter().find(|entry| entry.keyspace != self.keyspace_id()) {
            Some(entry) => Err(Error::UnknownKeyspace { name: entry.keyspace.to_string() }),
            None => Ok(()),
        }
    }
}

impl Kv for Model {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.read().get(key, MAX_SEQNO).map(Value::from))
    }

    fn try_get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.get(key)
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.check(batch)?;
        let mut versions = self.versions.write().unwrap_or_else(PoisonError::into_inner);
        for entry in batch.iter() {
            versions.newest += 1;
            match entry.kind {
                Kind::Put => versions.set(entry.key, Some(entry.value)),
                Kind::Delete => versions.set(entry.key, None),
                Kind::RangeDelete => {
                    let mut start = Bound::Included(entry.key.to_vec());
                    let end = Bound::Excluded(entry.value);
                    while let Some((key, _)) =
                        versions.first((start.as_ref().map(|key| &key[..]), end), MAX_SEQNO)
                    {
                        versions.set(&key, None);
                        start = Bound::Excluded(key);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Ordered for Model {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let at = self.read().newest;
        Ok(Box::new(ModelCursor { model: self, range, at, current: None }))
    }

    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        Ok(Box::new(ModelCursor { model: self, range, at: snapshot.seqno(), current: None }))
    }

    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        Ok(self.read().get(key, snapshot.seqno()).map(Value::from))
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(Moment(self.read().newest)))
    }
}

struct Moment(Seqno);

impl Snapshot for Moment {
    fn seqno(&self) -> Seqno {
        self.0
    }
}

struct ModelCursor<'a> {
    model: &'a Model,
    range: KeyRange,
    at: Seqno,
    current: Option<Pair>,
}

impl ModelCursor<'_> {
    /// Goes to the first pair after `start` and within the range.
    fn go_up(&mut self, start: Bound<&[u8]>) {
        let start = match start {
            Bound::Included(key) | Bound::Excluded(key) if !self.range.starts_after(key) => start,
            _ => self.range.start.as_ref().map(|key| &key[..]),
        };
        let end = self.range.end.as_ref().map(|key| &key[..]);
        self.current = self.model.read().first((start, end), self.at);
    }

    /// Goes to the last pair before `end` and within the range.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn model(keys: &[&[u8]]) -> Model {
        let model = Model::new();
        for key in keys {
            model.put(key, key).unwrap();
        }
        model
    }

    fn forward(model: &Model, range: KeyRange) -> Vec<Vec<u8>> {
        let mut cursor = model.cursor(range).unwrap();
        cursor.seek_first().unwrap();
        let mut keys = Vec::new();
        while let Some((key, _)) = cursor.current() {
            keys.push(key.to_vec());
            cursor.next().unwrap();
        }
        keys
    }

    #[test]
    fn the_newest_write_wins_and_a_delete_hides_it() {
        let model = model(&[b"a", b"b"]);
        model.put(b"a", b"2").unwrap();
        model.delete(b"b").unwrap();
        assert_eq!(model.get(b"a").unwrap().unwrap(), b"2");
        assert_eq!(model.get(b"b").unwrap(), None);
        assert_eq!(model.pairs(), [(b"a".to_vec(), b"2".to_vec())]);
        assert_eq!(model.writes(), 4);
    }

    #[test]
    fn a_snapshot_and_a_cursor_keep_their_moment() {
        let model = model(&[b"a", b"b", b"c"]);
        let snapshot = model.snapshot().unwrap();
        let mut cursor = model.cursor(KeyRange::all()).unwrap();
        model.delete_range(b"a", b"c").unwrap();
        model.put(b"d", b"new").unwrap();

        assert_eq!(model.get_at(b"a", &*snapshot).unwrap().unwrap(), b"a");
        assert_eq!(model.get_at(b"d", &*snapshot).unwrap(), None);
        cursor.seek_last().unwrap();
        assert_eq!(cursor.current().unwrap().0, b"c");
        cursor.prev().unwrap();
        assert_eq!(cursor.current().unwrap().0, b"b");
        let mut cursor = model.cursor_at(KeyRange::all(), &*snapshot).unwrap();
        cursor.seek_first().unwrap();
        assert_eq!(cursor.current().unwrap().0, b"a");
        assert_eq!(forward(&model, KeyRange::all()), [b"c", b"d"]);
    }

    #[test]
    fn cursors_stay_inside_their_range() {
        let model = model(&[b"a", b"b", b"c", b"d"]);
        let range = KeyRange::of(b"b".as_slice()..b"d".as_slice());
        assert_eq!(forward(&model, range.clone()), [b"b", b"c"]);
        let mut cursor = model.cursor(range).unwrap();
        cursor.seek(b"a").unwrap();
        assert_eq!(cursor.current().unwrap().0, b"b");
        cursor.seek_back(b"z").unwrap();
        assert_eq!(cursor.current().unwrap().0, b"c");
        cursor.next().unwrap();
        assert_eq!(cursor.current(), None);
        cursor.seek(b"d").unwrap();
        assert_eq!(cursor.current(), None);
        cursor.seek_back(b"a").unwrap();
        assert_eq!(cursor.current(), None);
    }

    #[test]
    fn seeks_land_on_the_key_or_its_neighbour() {
        let model = model(&[b"b", b"d"]);
        let mut cursor = model.cursor(KeyRange::all()).unwrap();
        for (key, at_or_after, at_or_before) in [
            (&b"a"[..], Some(&b"b"[..]), None),
            (b"b", Some(b"b"), Some(&b"b"[..])),
            (b"c", Some(b"d"), Some(b"b")),
            (b"e", None, Some(b"d")),
        ] {
            cursor.seek(key).unwrap();
            assert_eq!(cursor.current().map(|pair| pair.0), at_or_after);
            cursor.seek_back(key).unwrap();
            assert_eq!(cursor.current().map(|pair| pair.0), at_or_before);
        }
    }

    #[test]
    fn batches_that_must_be_refused_change_nothing() {
        let model = Model::new();
        let refused = |fill: &dyn Fn(&mut WriteBatch)| {
            let mut batch = WriteBatch::new();
            batch.put(model.keyspace_id(), b"good", b"");
            fill(&mut batch);
            model.write(&batch).unwrap_err()
        };
        let default = model.keyspace_id();
        let other = esker_base::KeyspaceId(7);
        assert!(matches!(refused(&|batch| batch.put(default, b"", b"")), Error::EmptyKey));
        assert!(matches!(
            refused(&|batch| batch.delete_range(default, b"b", b"a")),
            Error::EmptyRange
        ));
        assert!(matches!(
            refused(&|batch| batch.put(default, &[0; MAX_KEY_BYTES + 1], b"")),
            Error::KeyTooLong { .. }
        ));
        assert!(matches!(
            refused(&|batch| batch.put(other, b"k", b"")),
            Error::UnknownKeyspace { .. }
        ));
        assert_eq!(model.pairs(), []);
    }
}
