//! Random histories next to an ordered map: writes, batches, transactions, flushes, compactions,
//! restarts, power losses, indexes that are dropped, created and rebuilt.

use crate::support::*;
use esker_base::Rng;
use esker_lsm::{Db, Index, IndexSettings, Keyspace};
use esker_storage::FaultStorage;
use std::collections::BTreeSet;

const KEYS: u64 = 40;

struct World {
    disk: FaultStorage,
    db: Db,
    users: Keyspace,
    model: Rows,
    by_word: Index,
    by_word_function: Function,
    by_word_version: u32,
    unique: Index,
    refused: u32,
}

fn key(rng: &mut Rng) -> Vec<u8> {
    format!("row{}", rng.below(KEYS)).into_bytes()
}

fn unique_value(rng: &mut Rng) -> Vec<u8> {
    let mut value = random_value(rng);
    value.splice(0..0, format!("id{} ", rng.below(60)).into_bytes());
    value
}

impl World {
    fn new(seed: u64) -> World {
        let disk = FaultStorage::new(Rng::new(seed));
        let db = open(&disk);
        let users = users(&db);
        if seed.is_multiple_of(2) {
            db.set(&"users.separation_threshold=1".parse().unwrap()).unwrap();
        }
        let (by_word, unique) = indexes(&users, words, 1);
        World {
            disk,
            db,
            users,
            model: Rows::new(),
            by_word,
            by_word_function: words,
            by_word_version: 1,
            unique,
            refused: 0,
        }
    }

    /// What the changes make of the model, unless two rows have the same first word.
    fn after(&self, changes: &[(Vec<u8>, Option<Vec<u8>>)]) -> Option<Rows> {
        let mut after = self.model.clone();
        for (key, value) in changes {
            match value {
                Some(value) => _ = after.insert(key.clone(), value.clone()),
                None => _ = after.remove(key),
            }
        }
        let mut seen = BTreeSet::new();
        let mut keys = after.iter().flat_map(|(key, value)| keys_of(first_word, key, value));
        keys.all(|key| seen.insert(key)).then_some(after)
    }

    fn write(&mut self, rng: &mut Rng) {
        let count = if rng.one_in(2) { 1 } else { 1 + rng.below(8) };
        let change = |rng: &mut Rng| (key(rng), (!rng.one_in(3)).then(|| unique_value(rng)));
        let changes: Vec<_> = (0..count).map(|_| change(rng)).collect();
        let after = self.after(&changes);
        let written = if rng.one_in(4) {
            self.db.transact(|transaction| {
                changes.iter().try_for_each(|(key, value)| match value {
                    Some(value) => transaction.put(&self.users, key, value),
                    None => transaction.delete(&self.users, key),
                })
            })
        } else {
            let mut batch = self.db.batch();
            for (key, value) in &changes {
                match value {
                    Some(value) => batch.put(&self.users, key, value),
                    None => batch.delete(&self.users, key),
                }
            }
            self.db.write(&batch)
        };
        assert_eq!(written.is_ok(), after.is_some(), "{written:?} {changes:?}");
        self.refused += u32::from(after.is_none());
        self.model = after.unwrap_or_else(|| std::mem::take(&mut self.model));
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(40) {
            0..=29 => self.write(rng),
            30 => self.db.flush().unwrap(),
            31 if rng.one_in(3) => self.db.compact().unwrap(),
            32..=33 => _ = (0..rng.below(20)).take_while(|_| self.db.run_background_job()).count(),
            34 => self.restart(rng.one_in(2)),
            35 => {
                self.by_word_version += 1;
                self.by_word_function =
                    if self.by_word_version.is_multiple_of(2) { first_word } else { words };
                self.register();
            }
            36 => {
                self.users.drop_index("by_word").unwrap();
                (0..rng.below(5)).for_each(|_| self.write(rng));
                self.register();
            }
            37 => self.delete_ranges(rng),
            _ => self.check(),
        }
    }

    /// Puts, range deletes and puts in one batch.
    fn delete_ranges(&mut self, rng: &mut Rng) {
        let mut batch = self.db.batch();
        let mut after = self.model.clone();
        for _ in 0..1 + rng.below(3) {
            let (a, b) = (key(rng), key(rng));
            if rng.one_in(2) {
                // Other first words than those of other rows.
                let value = format!("only{} w", String::from_utf8_lossy(&a)).into_bytes();
                batch.put(&self.users, &a, &value);
                after.insert(a, value);
            } else if rng.one_in(6) {
                batch.delete_range(&self.users, ..);
                after.clear();
            } else if a < b {
                batch.delete_range(&self.users, a.clone()..b.clone());
                after.retain(|key, _| *key < a || *key >= b);
            }
        }
        self.db.write(&batch).unwrap();
        self.model = after;
    }

    fn register(&mut self) {
        (self.by_word, self.unique) =
            indexes(&self.users, self.by_word_function, self.by_word_version);
    }

    fn restart(&mut self, loses_power: bool) {
        if loses_power {
            self.disk = self.disk.crash();
        } else {
            self.db.clone().close().unwrap();
        }
        self.db = open(&self.disk);
        self.users = users(&self.db);
        assert!(self.users.put("x", "").is_err());
        self.register();
    }

    fn check(&self) {
        assert!(rows(&self.users) == self.model);
        for (index, function) in
            [(&self.by_word, self.by_word_function), (&self.unique, first_word as Function)]
        {
            index.wait_ready().unwrap();
            verify(&self.db, index, &self.model, function);
        }
    }
}

fn indexes(users: &Keyspace, function: Function, version: u32) -> (Index, Index) {
    let by_word = users.index(IndexSettings::new("by_word").version(version), function).unwrap();
    let unique = users.index(IndexSettings::new("unique").unique(true), first_word).unwrap();
    // Before it is ready, it may let a second row have a key, and report that later.
    unique.wait_ready().unwrap();
    (by_word, unique)
}

#[test]
fn an_index_is_what_the_rows_make_of_it() {
    let mut refused = 0;
    for seed in 0..60 {
        let told = scopeguard::guard(seed, |seed| {
            if std::thread::panicking() {
                eprintln!("in seed {seed}");
            }
        });
        let mut rng = Rng::new(seed);
        let mut world = World::new(seed);
        (0..300).for_each(|_| world.step(&mut rng));
        world.check();
        refused += world.refused;
        scopeguard::ScopeGuard::into_inner(told);
    }
    assert!(refused > 100);
}
