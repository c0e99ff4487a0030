//! Power losses at any call, also while keys are rotated.

use crate::spy::Spy;
use crate::{Seeded, keys, small};
use esker_base::background::Stepped;
use esker_base::{Result, Rng};
use esker_encryption::EncryptedStorage;
use esker_lsm::{Db, Env, Keyspace};
use esker_storage::FaultStorage;
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct Run {
    rng: Rng,
    disk: FaultStorage,
    spy: Spy,
    /// The key for new files. All before it are there.
    key: u8,
    /// What was acknowledged.
    model: Model,
    /// A write that failed, and may be there.
    open: Option<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Rng::new(seed);
        let disk = FaultStorage::new(Rng::new(rng.next_u64()));
        Run { rng, disk, spy: Spy::default(), key: 1, model: Model::new(), open: None }
    }

    fn open(&mut self) -> Result<Db> {
        let all: Vec<u8> = (1..=self.key).rev().collect();
        let salts = Arc::new(Seeded(parking_lot::Mutex::new(Rng::new(self.rng.next_u64()))));
        let below = Arc::new(self.spy.over(self.disk.clone()));
        let storage = EncryptedStorage::new(below, keys(&all).entropy(salts));
        let env =
            Env::over(Arc::new(storage)).background(Arc::new(Stepped)).seed(self.rng.next_u64());
        Db::open_with(env, small())
    }

    fn write(&mut self, rows: &Keyspace) -> Result<()> {
        let key = format!("{:03}", self.rng.below(300)).into_bytes();
        let value = (!self.rng.one_in(5)).then(|| {
            let mut value = vec![0; self.rng.below(400) as usize];
            self.rng.fill(&mut value);
            value
        });
        self.open = Some((key.clone(), value.clone()));
        match &value {
            Some(value) => rows.put(&key, value)?,
            None => rows.delete(&key)?,
        }
        self.settle(value.is_some());
        Ok(())
    }

    /// Takes the write that may be there into the model.
    fn settle(&mut self, is_put: bool) {
        let Some((key, value)) = self.open.take() else { return };
        assert_eq!(is_put, value.is_some());
        match value {
            Some(value) => self.model.insert(key, value),
            None => self.model.remove(&key),
        };
    }

    /// Uses the database until something fails.
    fn use_it(&mut self, db: &Db) -> Result<()> {
        let rows = db.default_keyspace();
        loop {
            match self.rng.below(200) {
                0 => db.flush()?,
                1 => db.compact()?,
                2..20 => drop(db.run_background_job()),
                _ => self.write(&rows)?,
            }
        }
    }

    fn check(&mut self, db: &Db) {
        let rows = db.default_keyspace();
        let found: Model = rows
            .iter()
            .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
            .collect::<Result<_>>()
            .unwrap();
        if found != self.model
            && let Some((_, value)) = &self.open
        {
            let is_put = value.is_some();
            self.settle(is_put);
        }
        self.open = None;
        assert!(found == self.model, "{} entries, not {}", found.len(), self.model.len());
    }
}

#[test]
fn what_was_acknowledged_survives() {
    for seed in 0..60 {
        let mut run = Run::new(seed);
        for _ in 0..12 {
            // An open fails only if the power does.
            let most = if run.rng.one_in(3) { 40 } else { 900 };
            let calls = run.rng.below(most);
            run.disk.crash_after(calls);
            match run.open() {
                Ok(db) => {
                    // What a power loss strikes in an open may be what it tries only.
                    if !run.disk.has_lost_power() {
                        run.check(&db);
                        run.use_it(&db).unwrap_err();
                    }
                    assert!(run.disk.has_lost_power());
                    let image = run.disk.crash();
                    drop(db);
                    run.disk = image;
                }
                Err(error) => {
                    assert!(run.disk.has_lost_power(), "seed {seed}: {error}");
                    run.disk = run.disk.crash();
                }
            }
            // Keys are rotated at any time.
            if run.rng.one_in(4) {
                run.key += 1;
            }
        }
        let db = run.open().unwrap();
        run.check(&db);
        db.compact().unwrap();
        run.check(&db);
    }
}
