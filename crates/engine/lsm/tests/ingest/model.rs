//! Random histories next to an ordered map: puts, deletes, range deletes, ingests, snapshots,
//! flushes, compactions, steps of the background, restarts and power losses, in each shape.

use crate::support::*;
use esker_base::Rng;
use esker_lsm::{Db, Dedup, Keyspace, KeyspaceSettings, Ratio, Settings, Shape, Snapshot};
use esker_storage::FaultStorage;

const KEYS: u64 = 400;

struct World {
    disk: FaultStorage,
    settings: Settings,
    shape: KeyspaceSettings,
    db: Db,
    keyspace: Keyspace,
    model: Pairs,
    snapshots: Vec<(Snapshot, Pairs)>,
    ingests: u32,
}

impl World {
    fn new(seed: u64, shape: KeyspaceSettings) -> World {
        let disk = FaultStorage::new(Rng::new(seed));
        let settings = logged().dram_table_bytes(Some(32 << 10));
        let db = open(&disk, settings.clone());
        let keyspace = db.keyspace("k", shape).unwrap();
        let (model, snapshots) = Default::default();
        World { disk, settings, shape, db, keyspace, model, snapshots, ingests: 0 }
    }

    fn step(&mut self, rng: &mut Rng) {
        let number = || rng.clone().below(KEYS) as u32;
        let first = number();
        rng.next_u64();
        let bytes = if rng.one_in(10) { 3_000 } else { 20 };
        match rng.below(40) {
            0..=11 => {
                let value = vec![rng.next_u64() as u8; bytes];
                self.keyspace.put(key(first), &value).unwrap();
                self.model.insert(key(first), value);
            }
            12..=14 => {
                self.keyspace.delete(key(first)).unwrap();
                self.model.remove(&key(first));
            }
            15 => {
                let end = key(first + 1 + rng.below(60) as u32);
                self.keyspace.delete_range(key(first)..end.clone()).unwrap();
                self.model.retain(|key_, _| *key_ < key(first) || *key_ >= end);
            }
            16..=21 => {
                let count = 1 + rng.below(80) as u32;
                let step = 1 + rng.below(3) as u32;
                let fill = rng.next_u64() as u8;
                let all = (0..count).map(|n| (key(first + n * step), vec![fill; bytes]));
                let all: Vec<_> = all.collect();
                self.ingests += 1;
                let ingested = self.keyspace.ingest(all.iter().map(|(k, v)| (k, v))).unwrap();
                assert_eq!(ingested.entries, u64::from(count));
                self.model.extend(all);
            }
            22..=24 => {
                if self.snapshots.len() > 3 {
                    drop(self.snapshots.remove(rng.below(4) as usize));
                }
                self.snapshots.push((self.db.snapshot(), self.model.clone()));
            }
            25 => self.db.flush().unwrap(),
            26 if rng.one_in(3) => self.db.compact().unwrap(),
            27..=29 => _ = (0..rng.below(20)).take_while(|_| self.db.run_background_job()).count(),
            30 if rng.one_in(3) => self.restart(false),
            31 if rng.one_in(3) => self.restart(true),
            32..=34 => self.check(),
            _ => {
                let found = self.keyspace.get(key(first)).unwrap();
                assert_eq!(found.as_deref(), self.model.get(&key(first)).map(|value| &value[..]));
            }
        }
    }

    fn restart(&mut self, loses_power: bool) {
        self.snapshots.clear();
        if loses_power {
            self.disk = self.disk.crash();
        } else {
            self.db.clone().close().unwrap();
        }
        self.db = open(&self.disk, self.settings.clone());
        self.keyspace = self.db.keyspace("k", self.shape).unwrap();
    }

    fn check(&self) {
        assert!(content(&self.keyspace) == self.model);
        for (snapshot, model) in &self.snapshots {
            let pairs = snapshot.range(&self.keyspace, ..).map(|pair| pair.unwrap());
            let found: Vec<_> =
                pairs.map(|(key, value)| (key.into_vec(), value.into_vec())).collect();
            assert!(found.iter().map(|(key, value)| (key, value)).eq(model));
            let back =
                snapshot.range(&self.keyspace, ..).rev().map(|pair| pair.unwrap().0.into_vec());
            assert!(back.eq(model.keys().rev().cloned()));
            for number in (0..KEYS as u32).step_by(7) {
                let found = snapshot.get(&self.keyspace, key(number)).unwrap();
                assert_eq!(found.as_deref(), model.get(&key(number)).map(|value| &value[..]));
            }
        }
    }
}

fn run(shape: KeyspaceSettings, seeds: std::ops::Range<u64>) {
    let mut ingests = 0;
    for seed in seeds {
        let told = scopeguard::guard(seed, |seed| {
            if std::thread::panicking() {
                eprintln!("in seed {seed}");
            }
        });
        let mut rng = Rng::new(seed);
        let mut world = World::new(seed, shape);
        (0..400).for_each(|_| world.step(&mut rng));
        world.check();
        ingests += world.ingests;
        scopeguard::ScopeGuard::into_inner(told);
    }
    assert!(ingests > 0);
}

#[test]
fn leveled() {
    run(KeyspaceSettings::default(), 0..40);
}

#[test]
fn tiered() {
    run(KeyspaceSettings::default().shape(Shape::Tiered { runs: 3 }), 100..120);
}

#[test]
fn per_level() {
    let dedup = Dedup::PerLevel { threshold: Ratio::of_hundredths(130) };
    run(KeyspaceSettings::default().shape(Shape::Tiered { runs: 4 }).dedup(dedup), 200..220);
}

#[test]
fn space_goal() {
    let dedup = Dedup::SpaceGoal { amp: Ratio::of_hundredths(150) };
    run(KeyspaceSettings::default().shape(Shape::Tiered { runs: 4 }).dedup(dedup), 300..320);
}
