//! The empty key, keys of zeroes and keys that start with many bytes `ff` are keys like any others,
//! and ranges may be open. A model in memory says what every call has to answer.

use crate::support::copied;
use esker_api::{Cursor, KeyRange, Keyspaces, Value, WriteBatch};
use esker_base::background::Stepped;
use esker_base::{Error, MAX_KEY_BYTES, Rng};
use esker_lsm::{Db, Env, Keyspace, Settings, Snapshot};
use esker_storage::MemoryStorage;
use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::path::Path;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Pair = (Vec<u8>, Vec<u8>);

fn settings() -> Settings {
    Settings::default().segment_bytes(256 << 10).memory_bytes(8 << 20)
}

/// With space for keys of 64 KiB.
fn large() -> Settings {
    Settings::default().segment_bytes(4 << 20).memory_bytes(32 << 20)
}

fn in_memory(storage: &Arc<MemoryStorage>) -> Db {
    let env = Env::over(storage.clone()).background(Arc::new(Stepped));
    Db::open_with(env, settings()).unwrap()
}

/// A key around one of the two edges, or between them.
fn key(rng: &mut Rng) -> Vec<u8> {
    let mut key = match rng.below(4) {
        0 => vec![0; rng.below(5) as usize],
        1 => vec![0xff; 14 + rng.below(5) as usize],
        2 => vec![b'k'],
        _ => Vec::new(),
    };
    for _ in 0..rng.below(3) {
        key.push([0, 1, 0xfe, 0xff][rng.below(4) as usize]);
    }
    key
}

fn bound(rng: &mut Rng) -> Bound<Vec<u8>> {
    match rng.below(3) {
        0 => Unbounded,
        1 => Included(key(rng)),
        _ => Excluded(key(rng)),
    }
}

/// A range, and whether it can be deleted: its end must come after its start.
fn range(rng: &mut Rng) -> (KeyRange, bool) {
    let range = match rng.below(4) {
        0 => KeyRange::prefix(key(rng)),
        _ => KeyRange { start: bound(rng), end: bound(rng) },
    };
    let after = |key: &Vec<u8>| [&key[..], &[0]].concat();
    let start = match &range.start {
        Unbounded => Vec::new(),
        Included(key) => key.clone(),
        Excluded(key) => after(key),
    };
    let is_whole = match &range.end {
        Unbounded => true,
        Included(key) => start <= *key,
        Excluded(key) => start < *key,
    };
    (range, is_whole)
}

fn within(model: &Model, range: &KeyRange) -> Vec<Pair> {
    let pairs = model.iter().filter(|(key, _)| range.contains(key));
    pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn current(cursor: &impl Cursor) -> Option<Pair> {
    cursor.current().map(|(key, value)| (key.to_vec(), value.to_vec()))
}

struct Pairing {
    storage: Arc<MemoryStorage>,
    /// `None` only between a close and the next open.
    db: Option<Db>,
    keyspace: Keyspace,
    model: Model,
    stamp: u64,
}

impl Pairing {
    fn new() -> Self {
        let storage = Arc::new(MemoryStorage::new());
        let db = in_memory(&storage);
        let (keyspace, model) = (db.default_keyspace(), Model::new());
        Pairing { storage, db: Some(db), keyspace, model, stamp: 0 }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn write(&mut self, rng: &mut Rng) {
        let mut batch = WriteBatch::new();
        for _ in 0..1 + rng.below(4) {
            let key = key(rng);
            match rng.below(8) {
                0 | 1 => {
                    batch.delete(&self.keyspace, &key);
                    self.model.remove(&key);
                }
                2 => {
                    let (range, is_whole) = range(rng);
                    if is_whole {
                        self.model.retain(|key, _| !range.contains(key));
                        batch.delete_range(&self.keyspace, range);
                    }
                }
                _ => {
                    self.stamp += 1;
                    let value = self.stamp.to_be_bytes().to_vec();
                    batch.put(&self.keyspace, &key, &value);
                    self.model.insert(key, value);
                }
            }
        }
        self.db().write(&batch).unwrap();
    }

    fn upkeep(&mut self, rng: &mut Rng) {
        match rng.below(12) {
            0 | 1 => self.db().flush().unwrap(),
            2 => self.db().compact().unwrap(),
            3 => {
                self.db.take().unwrap().close().unwrap();
                self.db = Some(in_memory(&self.storage));
                self.keyspace = self.db().default_keyspace();
            }
            _ => {}
        }
    }
}

/// Every read of `db` at `at` answers as `model` does.
fn check(keyspace: &Keyspace, model: &Model, at: &Snapshot, rng: &mut Rng) {
    let probes: Vec<_> = (0..8).map(|_| key(rng)).collect();
    for key in &probes {
        let found = at.get(keyspace, key).unwrap();
        assert_eq!(found.as_deref(), model.get(key).map(|value| &value[..]), "{key:?}");
    }
    for _ in 0..4 {
        let (range, _) = range(rng);
        let expected = within(model, &range);
        let read = || at.range(keyspace, range.clone());
        let forward: Vec<Pair> = read().map(copied).collect();
        assert_eq!(forward, expected, "{range:?}");
        let mut backward: Vec<Pair> = read().rev().map(copied).collect();
        backward.reverse();
        assert_eq!(backward, expected, "{range:?}");
        seek(&mut at.cursor(keyspace, range).unwrap(), &expected, rng);
    }
    let prefix = key(rng);
    let pairs: Vec<Pair> = at.prefix(keyspace, &prefix).map(copied).collect();
    assert_eq!(pairs, within(model, &KeyRange::prefix(&prefix)), "{prefix:?}");
}

/// Seeks and steps both ways from wherever they lead.
fn seek(cursor: &mut impl Cursor, expected: &[Pair], rng: &mut Rng) {
    for _ in 0..4 {
        let sought = key(rng);
        let mut at = if rng.one_in(2) {
            cursor.seek(&sought).unwrap();
            expected.iter().position(|(key, _)| *key >= sought)
        } else {
            cursor.seek_back(&sought).unwrap();
            expected.iter().rposition(|(key, _)| *key <= sought)
        };
        assert_eq!(current(cursor), at.map(|at| expected[at].clone()), "{sought:?}");
        for _ in 0..3 {
            let Some(here) = at else { break };
            at = if rng.one_in(2) {
                cursor.next().unwrap();
                Some(here + 1).filter(|at| *at < expected.len())
            } else {
                cursor.prev().unwrap();
                here.checked_sub(1)
            };
            assert_eq!(current(cursor), at.map(|at| expected[at].clone()), "{sought:?}");
        }
    }
}

#[test]
fn every_call_treats_edge_keys_and_open_ranges_like_a_sorted_map() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut pairing = Pairing::new();
        let mut older: Option<(Model, Snapshot)> = None;
        for _ in 0..60 {
            pairing.write(&mut rng);
            pairing.upkeep(&mut rng);
            let now = pairing.db().snapshot();
            check(&pairing.keyspace, &pairing.model, &now, &mut rng);
            // A snapshot ends with the open that made it.
            if let Some((model, at)) = older.take() {
                match at.get(&pairing.keyspace, b"") {
                    Ok(_) => {
                        check(&pairing.keyspace, &model, &at, &mut rng);
                        older = Some((model, at));
                    }
                    Err(Error::ForeignHandle { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            if older.is_none() || rng.one_in(10) {
                older = Some((pairing.model.clone(), now));
            }
        }
    }
}

#[test]
fn multi_get_and_try_get_find_edge_keys() {
    let pairing = Pairing::new();
    let (db, keyspace) = (pairing.db(), &pairing.keyspace);
    let keys: [&[u8]; 5] = [b"", b"\0", b"\0\0", &[0xff; 16], &[0xff; 17]];
    for key in keys {
        db.put(keyspace, key, key).unwrap();
    }
    let found = db.multi_get(keyspace, keys).unwrap();
    for (key, value) in keys.iter().zip(found) {
        assert_eq!(value.as_deref(), Some(*key));
        assert_eq!(db.try_get(keyspace, key).unwrap().as_deref(), Some(*key));
    }
    assert_eq!(db.get(keyspace, [0xff; 18]).unwrap(), None);
    assert_eq!(db.get(keyspace, [0; 3]).unwrap(), None);
}

#[test]
fn a_change_of_an_edge_key_is_seen_as_one() {
    let pairing = Pairing::new();
    let (db, id) = (pairing.db(), pairing.keyspace.id());
    let before = db.snapshot();
    db.put(&pairing.keyspace, b"", b"1").unwrap();
    db.delete_range(&pairing.keyspace, [0xff; 16]..).unwrap();
    for _ in 0..2 {
        let changed = |key: &[u8]| {
            let alone = db.changed_since(id, key, &before).unwrap();
            let range = KeyRange::of::<&[u8]>(key..=key);
            assert_eq!(db.range_changed_since(id, &range, &before).unwrap(), alone, "{key:?}");
            alone
        };
        assert!(changed(b"") && changed(&[0xff; 16]) && changed(&[0xff; 99]));
        assert!(!changed(b"\0") && !changed(&[0xff; 15]) && !changed(b"k"));
        db.flush().unwrap();
    }
}

#[test]
fn the_longest_keys_are_64_kib_at_both_edges_and_no_longer() {
    let storage = Arc::new(MemoryStorage::new());
    let env = Env::over(storage).background(Arc::new(Stepped));
    let db = Db::open_with(env, large()).unwrap();
    let keyspace = db.default_keyspace();
    for byte in [0, 0xff] {
        let longest = vec![byte; MAX_KEY_BYTES];
        db.put(&keyspace, &longest, b"1").unwrap();
        let longer = vec![byte; MAX_KEY_BYTES + 1];
        assert!(matches!(db.put(&keyspace, &longer, b"2"), Err(Error::KeyTooLong { .. })));
        for _ in 0..2 {
            assert_eq!(db.get(&keyspace, &longest).unwrap().as_deref(), Some(&b"1"[..]));
            assert_eq!(db.get(&keyspace, &longer).unwrap(), None);
            assert_eq!(db.range(&keyspace, &longest..&longer).count(), 1);
            assert_eq!(db.range(&keyspace, &longer..).count(), 0);
            db.flush().unwrap();
        }
        db.delete_range(&keyspace, &longest..=&longest).unwrap();
        assert_eq!(db.get(&keyspace, &longest).unwrap(), None);
    }
}

#[test]
fn a_cleared_keyspace_is_empty_and_leaves_others_alone() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), large()).unwrap();
    let cleared = db.keyspace("cleared", Default::default()).unwrap();
    let kept = db.default_keyspace();
    for key in [&b""[..], b"\0", b"k", &[0xff; 40], &[0xff; 65_536]] {
        let value = vec![7; 100];
        db.put(&cleared, key, &value).unwrap();
        db.put(&kept, key, &value).unwrap();
    }
    db.flush().unwrap();
    let before = db.snapshot();
    db.clear(&cleared).unwrap();
    db.put(&cleared, b"new", b"1").unwrap();
    for _ in 0..2 {
        let keys: Vec<_> = db.range(&cleared, ..).map(|pair| pair.unwrap().0).collect();
        assert_eq!(keys, [b"new"]);
        assert_eq!(before.iter(&cleared).count(), 5);
        assert_eq!(db.range(&kept, ..).count(), 5);
        db.compact().unwrap();
    }
    drop(before);
    db.compact().unwrap();
    let tables = |name: &str| {
        let levels = db.levels();
        let of = levels.iter().find(|levels| levels.name == name).unwrap();
        of.levels.iter().flat_map(|level| &level.runs).map(|run| run.bytes()).sum::<u64>()
    };
    assert!(tables("cleared") * 10 < tables("default"), "the space comes back");
}

#[test]
fn table_bounds_are_told_as_users_know_them() {
    let pairing = Pairing::new();
    for key in [&b""[..], b"k", &[0xff; 20]] {
        pairing.db().put(&pairing.keyspace, key, b"1").unwrap();
    }
    pairing.db().flush().unwrap();
    let levels = pairing.db().levels();
    let table = &levels[0].levels[0].runs[0].tables[0];
    assert_eq!((&table.smallest[..], &table.largest[..]), (&b""[..], &[0xff; 20][..]));
}

fn copy_of_old_database() -> tempfile::TempDir {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/keys_as_given");
    let dir = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(golden).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    dir
}

/// A program from before the map wrote it: these keys, each with itself behind a `v` as its value.
#[test]
fn a_database_from_before_the_map_keeps_its_keys_as_they_are() {
    let dir = copy_of_old_database();
    let expected: Vec<Pair> = [&b"\0"[..], b"\0\0", b"\0\x01", b"a", &[0xff; 16]]
        .map(|key| (key.to_vec(), [&b"v"[..], key].concat()))
        .to_vec();
    for round in 0..3 {
        let db = Db::open(dir.path(), settings()).unwrap();
        let keyspace = db.default_keyspace();
        let pairs: Vec<Pair> = db.range(&keyspace, ..).map(copied).collect();
        assert_eq!(pairs, expected, "round {round}");
        assert!(!db.takes_empty_key());
        assert!(matches!(db.put(&keyspace, b"", b"1"), Err(Error::EmptyKey)));
        assert_eq!(db.get(&keyspace, b"").unwrap(), None);
        for (key, value) in &expected {
            assert_eq!(db.get(&keyspace, key).unwrap().as_deref(), Some(&value[..]));
            // Written by this program, they stay the same keys.
            db.put(&keyspace, key, value).unwrap();
        }
        if round == 1 {
            db.compact().unwrap();
        }
        db.close().unwrap();
    }
}

#[test]
fn open_ranges_work_in_a_database_from_before_the_map() {
    let dir = copy_of_old_database();
    let db = Db::open(dir.path(), large()).unwrap();
    let keyspace = db.default_keyspace();
    let longest = vec![0xff; MAX_KEY_BYTES];
    db.put(&keyspace, &longest, b"1").unwrap();
    let keys = |db: &Db| -> Vec<Value> {
        let pairs = db.range(&db.default_keyspace(), ..);
        pairs.map(|pair| pair.unwrap().0).collect()
    };
    db.delete_range(&keyspace, b"a"..).unwrap();
    assert_eq!(keys(&db), [&b"\0"[..], b"\0\0", b"\0\x01"]);
    db.delete_range(&keyspace, ..=b"\0").unwrap();
    assert_eq!(keys(&db), [&b"\0\0"[..], b"\0\x01"]);
    db.close().unwrap();
    let db = Db::open(dir.path(), large()).unwrap();
    assert_eq!(keys(&db), [&b"\0\0"[..], b"\0\x01"]);
    db.clear(&db.default_keyspace()).unwrap();
    assert_eq!(keys(&db), Vec::<Vec<u8>>::new());
}

#[test]
fn a_range_without_an_end_says_which_segments_it_needs_in_a_database_from_before_the_map() {
    let dir = copy_of_old_database();
    let db = Db::open(dir.path(), settings()).unwrap();
    let error = db.clear(&db.default_keyspace()).unwrap_err();
    let Error::OpenRangeTooLarge { segment_bytes, .. } = error else { panic!("{error}") };
    assert!(error.to_string().contains("pre-release"), "{error}");
    db.close().unwrap();
    let db = Db::open(dir.path(), settings().segment_bytes(segment_bytes)).unwrap();
    db.clear(&db.default_keyspace()).unwrap();
    assert_eq!(db.range(&db.default_keyspace(), ..).count(), 0);
}

#[test]
fn a_copy_stores_keys_as_its_original_does() {
    let (old, copy) = (copy_of_old_database(), tempfile::tempdir().unwrap());
    let db = Db::open(old.path(), settings()).unwrap();
    db.checkpoint(copy.path()).unwrap();
    assert!(!Db::open(copy.path(), settings()).unwrap().takes_empty_key());
}
