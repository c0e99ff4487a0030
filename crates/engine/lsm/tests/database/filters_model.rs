//! Random histories of filtered keyspaces: each read finds what was written, or what the filter makes of
//! that; what was found once does not come back in another form; and no snapshot ever changes.

use crate::filters::{decision, filtered, open, rules};
use esker_api::FilterDecision;
use esker_base::Rng;
use esker_lsm::{Db, Keyspace, Shape, Snapshot};
use esker_storage::MemoryStorage;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Value = Option<Vec<u8>>;
type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u8 = 12;

fn after_filter(value: &Value) -> Value {
    let value = value.as_ref()?;
    match decision(value) {
        FilterDecision::Keep => Some(value.clone()),
        FilterDecision::Drop => None,
        FilterDecision::Replace(new) => Some(new),
    }
}

/// What a key may be: its base as written or filtered, and operands since, with a filter between any two.
#[derive(Clone, Default, Debug)]
struct Key {
    possible: BTreeSet<Value>,
    has_operands: bool,
}

impl Key {
    fn put(&mut self, value: Value) {
        *self = Key { possible: [value].into(), has_operands: false };
        self.filter();
    }

    fn merge(&mut self, operand: &[u8]) {
        let merged = |value: &Value| Some([value.as_deref().unwrap_or_default(), operand].concat());
        self.possible = self.possible.iter().map(merged).collect();
        self.has_operands = true;
        self.filter();
    }

    fn filter(&mut self) {
        let filtered: Vec<_> = self.possible.iter().map(after_filter).collect();
        self.possible.extend(filtered);
    }

    /// Checks what a reader at present found. Without operands it is that, or filtered, from now on.
    #[track_caller]
    fn see(&mut self, found: Value) {
        assert!(self.possible.contains(&found), "{found:?} is none of {:?}", self.possible);
        if !self.has_operands {
            self.put(found);
        }
    }
}

fn contents(keyspace: &Keyspace, at: &Snapshot) -> Contents {
    let scanned = keyspace.range_at(at);
    let by_get = (0..KEYS).filter_map(|key| {
        let value = at.get(keyspace, [key]).unwrap()?;
        Some((vec![key], value.to_vec()))
    });
    assert_eq!(by_get.collect::<Contents>(), scanned);
    scanned
}

trait RangeAt {
    fn range_at(&self, at: &Snapshot) -> Contents;
}

impl RangeAt for Keyspace {
    fn range_at(&self, at: &Snapshot) -> Contents {
        let entry = |entry: esker_base::Result<(esker_api::Value, esker_api::Value)>| {
            let (key, value) = entry.unwrap();
            (key.to_vec(), value.to_vec())
        };
        at.range(self, ..).map(entry).collect()
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let start: &[u8] = [&b"drop"[..], b"old", b"keep", b"ol", b"dr"][rng.below(5) as usize];
    [start, &rng.below(10_000).to_le_bytes()[..3]].concat()
}

struct Store {
    db: Db,
    plain: Keyspace,
    merging: Keyspace,
}

fn open_store(storage: &Arc<MemoryStorage>, seed: u64, with_filter: bool) -> Store {
    let (_, settings) = rules();
    let settings = match with_filter {
        true => settings,
        false => crate::support::small(),
    };
    let db = open(storage, settings.segment_bytes(64 << 10));
    let shaped = match seed % 2 {
        0 => filtered(),
        _ => filtered().shape(Shape::Tiered { runs: 3 }),
    };
    let shaped = shaped.separation_threshold((seed % 4 > 1).then_some(1));
    let plain = db.keyspace("plain", shaped).unwrap();
    let merging = db.keyspace("merging", shaped.merge("append")).unwrap();
    Store { db, plain, merging }
}

#[test]
fn readers_see_a_filter_s_decision_at_once_and_permanently_and_snapshots_never() {
    let (mut dropped, mut replaced) = (0, 0);
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let storage = Arc::new(MemoryStorage::new());
        let mut store = open_store(&storage, seed, true);
        let mut models = [vec![Key::default(); KEYS.into()], vec![Key::default(); KEYS.into()]];
        models.iter_mut().flatten().for_each(|key| key.put(None));
        let mut snapshots: Vec<(Snapshot, [Contents; 2])> = Vec::new();
        for _ in 0..250 {
            let key = rng.below(KEYS.into()) as u8;
            match rng.below(24) {
                0..=6 => {
                    let value = value(&mut rng);
                    store.plain.put([key], &value).unwrap();
                    models[0][usize::from(key)].put(Some(value));
                }
                7..=8 => {
                    let value = value(&mut rng);
                    store.merging.put([key], &value).unwrap();
                    models[1][usize::from(key)].put(Some(value));
                }
                9..=11 => {
                    let operand: &[u8] = [&b"op"[..], b"d", b"+"][rng.below(3) as usize];
                    store.merging.merge([key], operand).unwrap();
                    models[1][usize::from(key)].merge(operand);
                }
                12 => {
                    store.plain.delete([key]).unwrap();
                    models[0][usize::from(key)].put(None);
                }
                13 => {
                    let to = (key + 3).min(KEYS);
                    store.merging.delete_range([key]..[to]).unwrap();
                    let gone = &mut models[1][usize::from(key)..usize::from(to)];
                    gone.iter_mut().for_each(|key| key.put(None));
                }
                14..=16 => store.db.flush().unwrap(),
                17 => _ = store.db.run_background_job(),
                18 => store.db.wait_for_compactions().unwrap(),
                19 => store.db.compact().unwrap(),
                20..=21 if snapshots.len() < 5 => {
                    let at = store.db.snapshot();
                    let seen = [contents(&store.plain, &at), contents(&store.merging, &at)];
                    snapshots.push((at, seen));
                }
                20..=22 => {
                    snapshots.truncate(rng.below(snapshots.len() as u64 + 1) as usize);
                }
                _ => {
                    snapshots.clear();
                    let stats = store.db.stats().filters;
                    (dropped, replaced) = (dropped + stats.dropped, replaced + stats.replaced);
                    store.db.close().unwrap();
                    store = open_store(&storage, seed, !rng.one_in(3));
                }
            }
            for (keyspace, model) in [&store.plain, &store.merging].into_iter().zip(&mut models) {
                for (key, model) in (0..).zip(model) {
                    let key: u8 = key;
                    model.see(keyspace.get([key]).unwrap().map(|value| value.to_vec()));
                }
            }
            for (at, seen) in &snapshots {
                assert_eq!(contents(&store.plain, at), seen[0], "seed {seed}");
                assert_eq!(contents(&store.merging, at), seen[1], "seed {seed}");
            }
        }
    }
    assert!(dropped > 100 && replaced > 100, "{dropped} were dropped, {replaced} replaced");
}
