//! Cursors against a map: whatever is written, flushed and compacted, wherever they move.

use esker_api::{Cursor, KeyRange};
use esker_base::background::Stepped;
use esker_base::{Result, Rng};
use esker_lsm::{Db, DbCursor, Env, Keyspace, Log, Settings, Snapshot};
use esker_storage::MemoryStorage;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct World {
    rng: Rng,
    db: Db,
    keyspace: Keyspace,
    map: Map,
    /// Snapshots, and the map when each was taken.
    snapshots: Vec<(Snapshot, Map)>,
}

/// A cursor, the entries of its range, and the key at which it must stand.
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
        let env =
            Env { background: Arc::new(Stepped), ..Env::over(Arc::new(MemoryStorage::new())) };
        let settings =
            Settings::default().log(Log::None).segment_bytes(256 << 10).memory_bytes(8 << 20);
        let db = Db::open_with(env, settings).unwrap();
        let keyspace = db.default_keyspace();
        let (map, snapshots) = Default::default();
        World { rng: Rng::new(seed), db, keyspace, map, snapshots }
    }

    fn put(&mut self, key: Vec<u8>) {
        let mut value = vec![0; self.rng.below(160) as usize];
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
        let cursor = self.db.cursor_at(&self.keyspace, range.clone(), &snapshot).unwrap();
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
