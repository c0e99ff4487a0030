//! Cursors against a map: whatever is written, flushed and compacted, wherever they move.

use crate::support::copied;
use esker_api::{Cursor, KeyRange};
use esker_base::background::Stepped;
use esker_base::{Clock, Result, Rng, SystemClock};
use esker_lsm::{Db, DbCursor, Env, Keyspace, Log, Settings, Snapshot};
use esker_storage::MemoryStorage;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct World {
    rng: Rng,
    db: Db,
    keyspace: Keyspace,
    map: Map,
    /// Snapshots, and the map when each was taken.
    snapshots: Vec<(Snapshot, Map)>,
}

/// A cursor, the entries of its range, and the key at which it must be.
struct Open {
    cursor: DbCursor,
    expected: Map,
    at: Option<Vec<u8>>,
}

/// Mostly of one kind; some are stored differently from how they are given.
fn key(rng: &mut Rng) -> Vec<u8> {
    match rng.below(30) {
        0 => vec![0; rng.below(3) as usize],
        1 => [vec![0xff; 15 + rng.below(3) as usize], vec![0; rng.below(2) as usize]].concat(),
        _ => format!("key{:03}", rng.below(150)).into_bytes(),
    }
}

impl World {
    fn new(seed: u64) -> World {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let settings =
            Settings::default().log(Log::None).segment_bytes(256 << 10).memory_bytes(8 << 20);
        let db = Db::open_with(env, settings).unwrap();
        let keyspace = db.default_keyspace();
        let (map, snapshots) = Default::default();
        World { rng: Rng::new(seed), db, keyspace, map, snapshots }
    }

    fn put(&mut self, key: Vec<u8>) {
        // A scan copies short values of MemTables in advance, and no long ones.
        let longest = if self.rng.one_in(100) { 40_000 } else { 160 };
        let mut value = vec![0; self.rng.below(longest) as usize];
        self.rng.fill(&mut value);
        self.keyspace.put(&key, &value).unwrap();
        self.map.insert(key, value);
    }

    fn write(&mut self) {
        match self.rng.below(100) {
            // Its versions fill blocks, for each has a snapshot.
            0..20 => {
                self.put(b"key070".to_vec());
                self.snapshots.push((self.db.snapshot(), self.map.clone()));
                if self.snapshots.len() > 80 {
                    drop(self.snapshots.remove(self.rng.below(80) as usize));
                }
            }
            20..35 => {
                let key = key(&mut self.rng);
                self.keyspace.delete(&key).unwrap();
                self.map.remove(&key);
            }
            35 => {
                let range = self.range();
                self.keyspace.delete_range(range.clone()).unwrap();
                self.map.retain(|key, _| !range.contains(key));
            }
            _ => {
                let key = key(&mut self.rng);
                self.put(key);
            }
        }
    }

    /// A range that is not empty.
    fn range(&mut self) -> KeyRange {
        let (one, other) = (key(&mut self.rng), key(&mut self.rng));
        let (start, end) = if one < other { (one, other) } else { (other, one) };
        let mut bound = |key: Vec<u8>, is_inner: bool| match self.rng.below(4) {
            0 => Bound::Unbounded,
            1 if is_inner => Bound::Excluded(key),
            _ => Bound::Included(key),
        };
        let is_wide = start < end;
        let start = bound(start, false);
        KeyRange { start, end: bound(end, is_wide) }
    }

    fn open(&mut self) -> Open {
        let old = self.rng.below(2 * self.snapshots.len() as u64 + 1) as usize;
        let (snapshot, map) = match self.snapshots.get(old) {
            Some((snapshot, map)) => (snapshot.clone(), map.clone()),
            None => (self.db.snapshot(), self.map.clone()),
        };
        let range = if self.rng.below(3) == 0 { KeyRange::all() } else { self.range() };
        let cursor = snapshot.cursor(&self.keyspace, range.clone()).unwrap();
        let expected = map.into_iter().filter(|(key, _)| range.contains(key)).collect();
        Open { cursor, expected, at: None }
    }
}

impl Open {
    fn step(&mut self, rng: &mut Rng) -> Result<()> {
        let (map, at) = (&self.expected, self.at.take());
        let (first, last) = (|| map.keys().next(), || map.keys().next_back());
        let choice = rng.below(100);
        let from = at.clone();
        let found = match (choice, at) {
            (0..80, Some(at)) => {
                self.cursor.next()?;
                map.range((Bound::Excluded(at), Bound::Unbounded)).map(|(key, _)| key).next()
            }
            (80..90, Some(at)) => {
                self.cursor.prev()?;
                map.range(..at).map(|(key, _)| key).next_back()
            }
            (90..93, _) => {
                let key = key(rng);
                self.cursor.seek(&key)?;
                map.range(key..).map(|(key, _)| key).next()
            }
            (93..96, _) => {
                let key = key(rng);
                self.cursor.seek_back(&key)?;
                map.range(..=key).map(|(key, _)| key).next_back()
            }
            (96, _) => {
                self.cursor.seek_last()?;
                last()
            }
            _ => {
                self.cursor.seek_first()?;
                first()
            }
        };
        self.at = found.cloned();
        let expected = self.at.as_ref().map(|key| (&key[..], &map[key][..]));
        assert_eq!(self.cursor.current(), expected, "{choice} from {from:?} of {:?}", self.cursor);
        Ok(())
    }
}

#[test]
fn cursors_agree_with_a_map_whatever_is_written_flushed_and_compacted_meanwhile() {
    for seed in 0..8 {
        let mut world = World::new(seed);
        let mut cursors: Vec<Open> = Vec::new();
        for _ in 0..300 {
            match world.rng.below(100) {
                0..3 => world.db.flush().unwrap(),
                3..5 => world.db.compact().unwrap(),
                5..20 => {
                    if cursors.len() > 3 {
                        cursors.remove(world.rng.below(4) as usize);
                    }
                    cursors.push(world.open());
                }
                20..60 => (0..20).for_each(|_| world.write()),
                _ => {
                    for cursor in &mut cursors {
                        for _ in 0..world.rng.below(60) {
                            cursor.step(&mut world.rng).unwrap();
                        }
                    }
                }
            }
        }
    }
}

impl World {
    /// Reads everything with a new cursor, at present or at an older snapshot.
    fn scan(&mut self) {
        let Open { mut cursor, expected, .. } = self.open();
        let forward = self.rng.one_in(2);
        let mut found = Vec::new();
        if forward {
            cursor.seek_first().unwrap()
        } else {
            cursor.seek_last().unwrap()
        }
        while let Some((key, value)) = cursor.current() {
            found.push((key.to_vec(), value.to_vec()));
            if forward { cursor.next().unwrap() } else { cursor.prev().unwrap() }
        }
        if !forward {
            found.reverse();
        }
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{cursor:?}");
    }

    /// Deletes the first entry or the last.
    fn pop(&mut self, forward: bool) {
        let mut entries = self.db.range(&self.keyspace, ..);
        let found = if forward { entries.next() } else { entries.next_back() };
        let found = found.map(copied);
        let expected = if forward { self.map.pop_first() } else { self.map.pop_last() };
        assert_eq!(found, expected);
        if let Some((key, _)) = found {
            self.keyspace.delete(&key).unwrap();
        }
    }

    fn delete_some(&mut self) {
        let first = self.rng.below(150);
        for number in first..first + self.rng.below(100) {
            let key = format!("key{number:03}").into_bytes();
            self.keyspace.delete(&key).unwrap();
            self.map.remove(&key);
        }
    }
}

#[test]
fn scans_agree_with_a_map_where_keys_are_deleted_in_a_row_and_put_again() {
    for seed in 0..12 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            match world.rng.below(100) {
                0..2 => world.db.flush().unwrap(),
                2..4 => world.db.compact().unwrap(),
                4..16 => world.delete_some(),
                16..25 => (0..world.rng.below(4)).for_each(|_| world.write()),
                25..29 => {
                    let key = [key(&mut world.rng), vec![0]].concat();
                    world.put(key);
                }
                29..32 => {
                    let key = key(&mut world.rng);
                    (0..world.rng.below(40)).for_each(|_| world.put(key.clone()));
                }
                32..36 => world.snapshots.push((world.db.snapshot(), world.map.clone())),
                36..48 => world.pop(true),
                48..60 => world.pop(false),
                _ => world.scan(),
            }
        }
    }
}

#[test]
fn a_put_among_deleted_keys_is_seen_by_every_later_scan() {
    const KEYS: u64 = 1_000;
    let settings = Settings::default().log(Log::None).segment_bytes(256 << 10);
    let db = Db::open_with(Env::over(Arc::new(MemoryStorage::new())), settings).unwrap();
    let keyspace = db.default_keyspace();
    let name = |number: u64| format!("key{number:06}").into_bytes();
    for number in 0..KEYS {
        keyspace.put(name(number), b"value").unwrap();
        keyspace.delete(name(number)).unwrap();
    }
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let keyspace = &keyspace;
            scope.spawn(move || {
                let mut rng = Rng::new(writer);
                for _ in 0..150 {
                    let key = name(3 * rng.below(KEYS / 3) + writer);
                    keyspace.put(&key, b"value").unwrap();
                    let (low, high) = (keyspace.range(..=&key[..]), keyspace.range(&key[..]..));
                    let found = match rng.below(3) {
                        0 => keyspace.range(..).any(|entry| entry.unwrap().0 == key),
                        1 => low.last().is_some_and(|entry| entry.unwrap().0 == key),
                        _ => high.rev().last().is_some_and(|entry| entry.unwrap().0 == key),
                    };
                    assert!(found, "{key:?}");
                    keyspace.delete(&key).unwrap();
                }
            });
        }
    });
}

/// The shortest of some scans.
fn scan_time(keyspace: &Keyspace, forward: bool) -> Duration {
    let clock = SystemClock::new();
    let scans = (0..9).map(|_| {
        let started = clock.now();
        let mut entries = keyspace.iter();
        let found = if forward { entries.next() } else { entries.next_back() };
        assert!(found.unwrap().unwrap().1 == b"value"[..]);
        let next = if forward { entries.next() } else { entries.next_back() };
        assert!(next.is_none());
        clock.now() - started
    });
    scans.min().unwrap()
}

#[test]
fn a_scan_takes_no_time_for_versions_and_deleted_keys() {
    const MANY: u64 = 50_000;
    for forward in [true, false] {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings::default().log(Log::None)).unwrap();
        let keyspace = db.default_keyspace();
        keyspace.put(b"live", b"value").unwrap();
        let snapshot = db.snapshot();
        let one_version = scan_time(&keyspace, forward);
        (0..MANY).for_each(|_| keyspace.put(b"live", b"value").unwrap());
        let many_versions = scan_time(&keyspace, forward);
        assert_eq!(snapshot.iter(&keyspace).count(), 1);
        for number in 0..MANY {
            let side = if forward { "a" } else { "z" };
            let key = format!("{side}{number:06}");
            keyspace.put(&key, b"deleted").unwrap();
            keyspace.delete(&key).unwrap();
        }
        let many_deleted = scan_time(&keyspace, forward);
        // One by one, they take a thousand times as long.
        let limit = (60 * one_version).max(Duration::from_micros(500));
        assert!(many_versions < limit, "{many_versions:?} against {one_version:?}");
        assert!(many_deleted < limit, "{many_deleted:?} against {one_version:?}");
    }
}
