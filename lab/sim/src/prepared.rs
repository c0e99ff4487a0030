//! Two-phase commits on a machine that loses power.
//!
//! One client prepares transactions and decides them later, perhaps in a later process. A power loss
//! strikes at some call of a disk, or at some store or fence in persistent memory: in the middle of a
//! prepare, a commit or a rollback, between them, or while the database is opened. The next process
//! must find each transaction prepared, with its locks, or decided as the client asked, as a whole.
//! Both are right only for the one that the power loss struck.

use crate::machine::Machine;
use crate::power_loss::End;
use crate::settings::{LogMode, OpenSettings};
use esker_api::{Concurrency, Isolation, TransactionOptions};
use esker_base::{Error, Rng};
use esker_lsm::{Db, Forwarding};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Keys that the client uses, by number.
const KEYS: u16 = 40;
/// Ids that it uses.
const IDS: u8 = 8;
/// Calls of a process that no power loss has struck.
const STEPS: u64 = 60;

/// What happened, to see that it was worth it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Power losses.
    pub crashes: u64,
    /// Those of them that struck while the database was opened.
    pub at_open: u64,
    /// Transactions that were prepared.
    pub prepared: u64,
    /// Decisions.
    pub decided: u64,
    /// Transactions that a process found prepared.
    pub found: u64,
    /// Calls that a power loss struck, and that were done.
    pub done: u64,
    /// Those that were not.
    pub undone: u64,
    /// Flushes.
    pub flushes: u64,
}

/// Puts, by their stamps, and deletes.
type Writes = BTreeMap<u16, Option<u32>>;

#[derive(Clone)]
struct Prepared {
    writes: Writes,
    /// Keys that were read for update.
    read: BTreeSet<u16>,
}

/// A call whose end is not known.
#[derive(Clone)]
enum Call {
    Prepare(u8, Prepared),
    Commit(u8),
    Rollback(u8),
    Write(Writes),
}

/// Loses power so often. The error says what was wrong.
pub fn run(seed: u64, log: LogMode, crashes: u64) -> Result<Outcome, String> {
    let (dram_bytes, forwarding) = (None, Forwarding::OnFlush);
    let mut client = Client {
        machine: Machine::new(seed, seed.is_multiple_of(2), 5),
        settings: OpenSettings { log, segment_kib: 64, sealed: 2, dram_bytes, forwarding },
        rng: Rng::new(seed),
        values: BTreeMap::new(),
        prepared: BTreeMap::new(),
        unsure: None,
        stamp: 0,
        outcome: Outcome::default(),
    };
    while client.outcome.crashes < crashes {
        if let Err(End::Wrong(what)) = client.process() {
            return Err(format!("seed {seed}, crash {}: {what}", client.outcome.crashes));
        }
        client.outcome.crashes += 1;
    }
    Ok(client.outcome)
}

struct Client {
    machine: Machine,
    settings: OpenSettings,
    rng: Rng,
    /// The stamps of the values that are committed.
    values: BTreeMap<u16, u32>,
    prepared: BTreeMap<u8, Prepared>,
    unsure: Option<Call>,
    stamp: u32,
    outcome: Outcome,
}

impl Client {
    /// Opens, checks, works, and loses power.
    fn process(&mut self) -> Result<(), End> {
        if self.rng.one_in(3) {
            self.machine.plan_power_loss(self.settings.log, &mut self.rng, 30);
        }
        let opened = Db::open_with(self.machine.env(), self.settings.settings());
        let ended = match &opened {
            Err(error) => Err(self.machine.end("opening", error)),
            Ok(db) => self.work(db),
        };
        self.outcome.at_open += u64::from(opened.is_err());
        if let Ok(db) = &opened {
            self.outcome.flushes += db.stats().flushes;
        }
        self.machine.lose_power();
        match ended {
            Err(End::Power) | Ok(()) => Ok(()),
            wrong => wrong,
        }
    }

    fn work(&mut self, db: &Db) -> Result<(), End> {
        self.check(db)?;
        self.outcome.found += self.prepared.len() as u64;
        self.machine.plan_power_loss(self.settings.log, &mut self.rng, 200);
        for _ in 0..STEPS {
            if let Some(call) = self.draw() {
                self.unsure = Some(call.clone());
                self.make(db, &call).map_err(|error| self.machine.end("a call", &error))?;
            }
            let background = self.rng.below(4);
            let _ = (0..background).take_while(|_| db.run_background_job()).count();
            if self.machine.is_over() {
                // The call may have returned after the end.
                return Err(End::Power);
            }
            if let Some(call) = self.unsure.take() {
                self.count(&call);
                self.done(call);
            }
        }
        self.check(db)
    }

    /// What the client does next.
    fn draw(&mut self) -> Option<Call> {
        let ids: Vec<u8> = self.prepared.keys().copied().collect();
        let free = (0..IDS).find(|id| !ids.contains(id));
        let any = (!ids.is_empty()).then(|| ids[self.rng.below(ids.len() as u64) as usize]);
        Some(match self.rng.below(8) {
            0..=2 => {
                let prepared = Prepared { writes: self.writes()?, read: self.draw_keys(2) };
                Call::Prepare(free?, prepared)
            }
            3..=4 => Call::Commit(any?),
            5 => Call::Rollback(any?),
            _ => Call::Write(self.writes()?),
        })
    }

    /// Keys that no prepared transaction has.
    fn draw_keys(&mut self, most: u64) -> BTreeSet<u16> {
        let count = self.rng.below(most + 1);
        let keys = (0..count).map(|_| self.rng.below(u64::from(KEYS)) as u16);
        keys.collect::<BTreeSet<_>>().into_iter().filter(|key| !self.is_locked(*key)).collect()
    }

    fn writes(&mut self) -> Option<Writes> {
        let keys = self.draw_keys(4);
        let write = |key| {
            self.stamp += 1;
            (key, (!self.rng.one_in(4)).then_some(self.stamp))
        };
        let writes: Writes = keys.into_iter().map(write).collect();
        (!writes.is_empty()).then_some(writes)
    }

    fn is_locked(&self, key: u16) -> bool {
        let has = |one: &Prepared| one.writes.contains_key(&key) || one.read.contains(&key);
        self.prepared.values().any(has)
    }

    fn make(&mut self, db: &Db, call: &Call) -> Result<(), Error> {
        let keyspace = db.default_keyspace();
        match call {
            Call::Prepare(id, prepared) => {
                let level = Isolation::ALL[self.rng.below(3) as usize];
                let way = [Concurrency::Pessimistic, Concurrency::Optimistic];
                let way = way[self.rng.below(2) as usize];
                let mut tx = db.transaction_with(impatient().isolation(level).concurrency(way))?;
                for key in &prepared.read {
                    tx.get_for_update(&keyspace, key_bytes(*key))?;
                }
                for (key, stamp) in &prepared.writes {
                    match stamp {
                        Some(stamp) => tx.put(&keyspace, key_bytes(*key), value(*stamp))?,
                        None => tx.delete(&keyspace, key_bytes(*key))?,
                    }
                }
                tx.prepare([*id])
            }
            Call::Commit(id) => db.commit_prepared([*id]),
            Call::Rollback(id) => db.rollback_prepared([*id]),
            Call::Write(writes) => {
                let mut batch = db.batch();
                for (key, stamp) in writes {
                    match stamp {
                        Some(stamp) => batch.put(&keyspace, key_bytes(*key), value(*stamp)),
                        None => batch.delete(&keyspace, key_bytes(*key)),
                    }
                }
                batch.set_sync(true);
                db.write(&batch)
            }
        }
    }

    fn count(&mut self, call: &Call) {
        match call {
            Call::Prepare(..) => self.outcome.prepared += 1,
            Call::Commit(_) | Call::Rollback(_) => self.outcome.decided += 1,
            Call::Write(_) => (),
        }
    }

    /// The call was done.
    fn done(&mut self, call: Call) {
        let writes = match call {
            Call::Prepare(id, prepared) => {
                self.prepared.insert(id, prepared);
                return;
            }
            Call::Rollback(id) => {
                self.prepared.remove(&id);
                return;
            }
            Call::Commit(id) => self.prepared.remove(&id).expect("it was prepared").writes,
            Call::Write(writes) => writes,
        };
        for (key, stamp) in writes {
            match stamp {
                Some(stamp) => self.values.insert(key, stamp),
                None => self.values.remove(&key),
            };
        }
    }

    /// All that must hold whenever a process has recovered. Finds out whether the call that the power
    /// loss struck was done.
    fn check(&mut self, db: &Db) -> Result<(), End> {
        let failed = |error: Error| self.machine.end("the check", &error);
        let mut ids = BTreeSet::new();
        for one in db.prepared().map_err(failed)? {
            let [id] = one.id[..] else {
                return Err(wrong(format!("there is an id {:?}", one.id)));
            };
            ids.insert(id);
        }
        let keyspace = db.default_keyspace();
        let mut values = BTreeMap::new();
        for key in 0..KEYS {
            if let Some(bytes) = keyspace.get(key_bytes(key)).map_err(failed)? {
                let stamp = u32::from_be_bytes(bytes[..4].try_into().expect("values are longer"));
                values.insert(key, stamp);
                if bytes[..] != value(stamp)[..] {
                    return Err(wrong(format!("the value of key {key} is none of the client's")));
                }
            }
        }
        if self.machine.is_over() {
            return Err(End::Power);
        }
        if let Some(call) = self.unsure.take() {
            let is_done = match &call {
                Call::Prepare(id, _) => ids.contains(id),
                Call::Commit(id) | Call::Rollback(id) => !ids.contains(id),
                Call::Write(writes) => writes.iter().any(|(key, stamp)| {
                    let stamp = stamp.as_ref();
                    values.get(key) == stamp && self.values.get(key) != stamp
                }),
            };
            match is_done {
                true => {
                    self.outcome.done += 1;
                    self.done(call);
                }
                false => self.outcome.undone += 1,
            }
        }
        if !ids.iter().eq(self.prepared.keys()) {
            let expected: Vec<_> = self.prepared.keys().collect();
            return Err(wrong(format!("{ids:?} are prepared, and should be {expected:?}")));
        }
        if values != self.values {
            return Err(wrong(format!("{values:?} should be {:?}", self.values)));
        }
        self.check_locks(db)
    }

    fn check_locks(&self, db: &Db) -> Result<(), End> {
        for key in 0..KEYS {
            let failed = |error: Error| self.machine.end("the check of locks", &error);
            let mut tx = db.transaction_with(impatient()).map_err(failed)?;
            let read = tx.get_for_update(&db.default_keyspace(), key_bytes(key));
            let is_locked = match read {
                Ok(_) => false,
                Err(Error::LockTimeout { .. }) => true,
                Err(error) => return Err(failed(error)),
            };
            if is_locked != self.is_locked(key) {
                return Err(wrong(format!("key {key} is locked: {is_locked}")));
            }
        }
        Ok(())
    }
}

fn wrong(what: String) -> End {
    End::Wrong(what)
}

fn impatient() -> TransactionOptions {
    TransactionOptions::default().lock_timeout(Duration::ZERO)
}

fn key_bytes(key: u16) -> Vec<u8> {
    match key {
        // Keys that are stored with one byte more.
        0 => Vec::new(),
        1 => vec![0xff; 20],
        _ => key.to_be_bytes().repeat(1 + usize::from(key % 4)),
    }
}

/// Up to 3 KB, so that segments rotate and tables are written.
fn value(stamp: u32) -> Vec<u8> {
    stamp.to_be_bytes().repeat(1 + stamp as usize * 37 % 750)
}
