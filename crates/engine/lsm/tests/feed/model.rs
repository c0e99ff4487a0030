//! Random writes, flushes, restarts, kills and power losses, with a consumer that reads in between.

use crate::support::*;
use esker_base::{Rng, Seqno};
use esker_lsm::{ChangeConsumer, ChangeEvent, Db};
use esker_storage::FaultStorage;
use std::collections::BTreeMap;
use std::time::Duration;

const NAME: &str = "mirror";

struct World {
    rng: Rng,
    disk: FaultStorage,
    db: Option<Db>,
    consumer: Option<ChangeConsumer>,
    /// The database after each write, by its last seqno.
    expected: BTreeMap<Seqno, Mirror>,
    /// What the consumer has applied and acknowledged.
    durable: (Seqno, Mirror),
    /// What it has applied.
    applied: (Seqno, Mirror),
    reads: u64,
    kept: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let disk = FaultStorage::new(Rng::new(seed));
        let db = open(&disk);
        let consumer = db.change_consumer(NAME, 1 << 30).unwrap();
        World {
            rng: Rng::new(seed ^ 0xfeed),
            disk,
            db: Some(db),
            consumer: Some(consumer),
            expected: [(0, Mirror::new())].into(),
            durable: (0, Mirror::new()),
            applied: (0, Mirror::new()),
            reads: 0,
            kept: 0,
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn key(&mut self) -> Vec<u8> {
        match self.rng.below(30) {
            0 => Vec::new(),
            1 => vec![0],
            2 => vec![0xff; 17],
            number => format!("key{number:02}").into_bytes(),
        }
    }

    fn write(&mut self) {
        let db = self.db().clone();
        let names: Vec<_> = db.keyspaces().into_iter().map(|info| info.name).collect();
        let name = &names[self.rng.below(names.len() as u64) as usize];
        let keyspace = db.open_keyspace(name).unwrap();
        let mut batch = db.batch();
        let entries = if self.rng.one_in(40) { 600 } else { 1 + self.rng.below(4) };
        for _ in 0..entries {
            let (key, other) = (self.key(), self.key());
            let value = vec![self.rng.below(256) as u8; self.rng.below(300) as usize];
            match self.rng.below(12) {
                0 => batch.delete(&keyspace, key),
                1 if key < other && entries < 100 => batch.delete_range(&keyspace, key..other),
                2 if name != "default" => batch.merge(&keyspace, key, &value[..value.len() / 8]),
                3 => batch.put_with_ttl(&keyspace, key, value, Duration::from_secs(1 << 30)),
                4 => batch.put(&db.default_keyspace(), key, value),
                _ => batch.put(&keyspace, key, value),
            }
        }
        if !batch.is_empty() {
            db.write(&batch).unwrap();
        }
        self.expect();
    }

    fn expect(&mut self) {
        let (seqno, now) = (last_seqno(self.db()), Mirror::of(self.db()));
        self.expected.insert(seqno, now);
    }

    fn change_keyspaces(&mut self) {
        let name = format!("space{}", self.rng.below(3));
        match self.db().open_keyspace(&name) {
            Ok(keyspace) => self.db().drop_keyspace(&keyspace).unwrap(),
            Err(_) => drop(self.db().keyspace(&name, appending()).unwrap()),
        }
        self.expect();
    }

    fn read(&mut self) {
        let events = self.rng.below(40);
        for _ in 0..events {
            let Some(event) = self.consumer.as_mut().unwrap().try_next().unwrap() else { break };
            if let ChangeEvent::Batch(batch) = &event {
                if self.expected.contains_key(&self.applied.0) {
                    self.compare();
                }
                assert_eq!(batch.first_seqno(), self.applied.0 + 1, "no gap, and nothing twice");
                self.reads += 1;
            }
            self.applied.0 = self.applied.0.max(event.seqno());
            self.applied.1.apply(&event);
        }
        if self.rng.one_in(3) {
            self.consumer.as_ref().unwrap().acknowledge(self.applied.0).unwrap();
            self.durable = self.applied.clone();
        }
    }

    /// Compares what was applied with what there was, all changes of keyspaces at that place included.
    fn compare(&self) {
        assert_eq!(self.applied.1, self.expected[&self.applied.0], "at {}", self.applied.0);
    }

    fn close(&mut self) {
        self.consumer = None;
        self.kept += self.db().change_consumers()[0].kept_bytes;
        self.db.take().unwrap().close().unwrap();
    }

    fn restart(&mut self) {
        match self.rng.below(3) {
            0 => self.close(),
            1 => self.disk = self.disk.kill(),
            _ => self.disk = self.disk.crash(),
        }
        self.consumer = None;
        self.db = None;
        self.db = Some(open(&self.disk));
        // What was in flight is kept or not; here nothing was.
        assert_eq!(Mirror::of(self.db()), *self.expected.last_key_value().unwrap().1);
        self.consumer = Some(self.db().open_change_consumer(NAME).unwrap());
        self.applied = self.durable.clone();
    }
}

fn run(seed: u64) -> (u64, u64) {
    let mut world = World::new(seed);
    for _ in 0..250 {
        match world.rng.below(24) {
            0 => world.restart(),
            1 => world.change_keyspaces(),
            2 => world.db().flush().unwrap(),
            3..=7 => world.read(),
            _ => world.write(),
        }
    }
    loop {
        let before = world.applied.0;
        world.read();
        if world.applied.0 == before
            && world.consumer.as_mut().unwrap().try_next().unwrap().is_none()
        {
            break;
        }
    }
    world.compare();
    assert_eq!(world.applied.0, last_seqno(world.db()));
    (world.reads, world.kept)
}

#[test]
fn a_feed_replayed_is_the_database_at_every_seqno() {
    let (mut reads, mut kept) = (0, 0);
    for seed in 0..12 {
        let (batches, bytes) = run(seed);
        reads += batches;
        kept += bytes;
    }
    assert!(reads > 1_000 && kept > 0, "{reads} {kept}");
}
