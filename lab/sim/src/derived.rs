//! Indexes and compaction filters on a machine that loses power.
//!
//! One client writes rows of a keyspace with two indexes, and entries of a keyspace with a filter. It
//! drops indexes and builds them again, flushes, and compacts. A power loss strikes at some call of a
//! disk, or at some store or fence in persistent memory: in a write, a build, a drop, a compaction, or
//! while the database is opened. Whatever the next process finds:
//!
//! * An index that says that it has all rows has exactly their keys, and a unique one lets no second
//!   row have a key.
//! * The filter has changed the newest version of a key, or has not. It never shows an older one, what
//!   it has once changed stays so while the process lasts, and a snapshot sees none of it.

use crate::machine::Machine;
use crate::power_loss::End;
use crate::settings::{LogMode, OpenSettings};
use esker_api::{CompactionFilter, FilterDecision, FilterError};
use esker_base::{Error, IndexError, Rng};
use esker_lsm::{
    Db, Forwarding, Index, IndexKeys, IndexSettings, Keyspace, KeyspaceSettings, Settings, Snapshot,
};
use std::collections::{BTreeMap, BTreeSet};

/// Keys that the client uses, by number.
const KEYS: u16 = 60;
/// Calls of a process that no power loss has struck.
const STEPS: u64 = 80;

/// What happened, to see that it was worth it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Power losses.
    pub crashes: u64,
    /// Those of them that struck while the database was opened.
    pub at_open: u64,
    /// Writes that were refused because of a unique key.
    pub refused: u64,
    /// Indexes that were dropped, to be built again.
    pub dropped: u64,
    /// Comparisons of an index that was ready.
    pub compared: u64,
    /// Indexes that a process found not ready.
    pub unready: u64,
    /// Entries that the filter had dropped when they were compared.
    pub filtered_out: u64,
    /// Entries that it had replaced.
    pub replaced: u64,
    /// Calls that a power loss struck, and that were done.
    pub done: u64,
    /// Those that were not.
    pub undone: u64,
    /// Flushes.
    pub flushes: u64,
    /// Compactions.
    pub compactions: u64,
}

/// The stamps of values, by key.
type Stamps = BTreeMap<u16, u32>;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Write {
    Put(u16, u32),
    Delete(u16),
    /// From a key up to, not including, another.
    DeleteRange(u16, u16),
}

/// A write whose end is not known, in rows or in entries with a filter.
#[derive(Clone)]
struct Call {
    of_rows: bool,
    writes: Vec<Write>,
}

/// Loses power so often. The error says what was wrong.
pub fn run(seed: u64, log: LogMode, crashes: u64) -> Result<Outcome, String> {
    let (dram_bytes, forwarding) = (Some(60 << 10), Forwarding::Adaptive);
    let mut client = Client {
        machine: Machine::new(seed, seed.is_multiple_of(2), 5).settling_after(seed % 3 * 40),
        settings: OpenSettings { log, segment_kib: 64, sealed: 2, dram_bytes, forwarding },
        threshold: (seed % 2 == 1).then_some(1),
        rng: Rng::new(seed),
        rows: Stamps::new(),
        pairs: Stamps::new(),
        unsure: None,
        version: 1,
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
    /// The length from which on values are separated: in every other client.
    threshold: Option<u32>,
    rng: Rng,
    rows: Stamps,
    pairs: Stamps,
    unsure: Option<Call>,
    /// Of the index that is not unique.
    version: u32,
    stamp: u32,
    outcome: Outcome,
}

/// The database of a process.
struct Opened {
    db: Db,
    rows: Keyspace,
    pairs: Keyspace,
    by_stamp: Index,
    by_remainders: Index,
    /// Entries that were seen as the filter makes them, and have not been written since.
    seen: BTreeSet<u16>,
    /// With what it shows of the entries.
    snapshot: Option<(Snapshot, Vec<Option<Vec<u8>>>)>,
}

impl Client {
    /// Opens, checks, works, and loses power.
    fn process(&mut self) -> Result<(), End> {
        if self.rng.one_in(3) {
            self.machine.plan_power_loss(self.settings.log, &mut self.rng, 40);
        }
        let opened = self.open();
        self.outcome.at_open += u64::from(opened.is_err());
        let ended = opened.and_then(|mut opened| {
            let worked = self.work(&mut opened);
            let stats = opened.db.stats();
            self.outcome.flushes += stats.flushes;
            self.outcome.compactions += stats.compactions;
            // The power goes before the database is closed.
            self.machine.lose_power();
            worked
        });
        if self.machine.is_over() {
            self.machine.lose_power();
        }
        match ended {
            Err(End::Power) | Ok(()) => Ok(()),
            wrong => wrong,
        }
    }

    fn open(&mut self) -> Result<Opened, End> {
        let settings: Settings = self.settings.settings().compaction_filter(ByStamp);
        let opened = (|| {
            let db = Db::open_with(self.machine.env(), settings)?;
            let plain = KeyspaceSettings::default().separation_threshold(self.threshold);
            let rows = db.keyspace("rows", plain)?;
            let filtered = plain.compaction_filter(ByStamp.name());
            let pairs = db.keyspace("pairs", filtered)?;
            let unique = IndexSettings::new("by_stamp").unique(true);
            let by_stamp = rows.index(unique, |_, value, keys| keys.add(&value[..4]))?;
            let by_remainders = by_remainders(&rows, self.version)?;
            let (seen, snapshot) = (BTreeSet::new(), None);
            Ok(Opened { db, rows, pairs, by_stamp, by_remainders, seen, snapshot })
        })();
        match opened {
            Ok(opened) if !self.machine.is_over() => Ok(opened),
            Ok(_) => Err(End::Power),
            Err(error) => Err(self.machine.end("opening", &error)),
        }
    }

    fn work(&mut self, opened: &mut Opened) -> Result<(), End> {
        self.check(opened)?;
        for index in [&opened.by_stamp, &opened.by_remainders] {
            self.outcome.unready += u64::from(!index.is_ready());
        }
        self.machine.plan_power_loss(self.settings.log, &mut self.rng, 300);
        for _ in 0..STEPS {
            let stepped = self.step(opened);
            let background = self.rng.below(4);
            let _ = (0..background).take_while(|_| opened.db.run_background_job()).count();
            if self.machine.is_over() {
                // The call may have returned after the end.
                return Err(End::Power);
            }
            stepped?;
            if let Some(call) = self.unsure.take() {
                self.done(&call, opened);
            }
        }
        self.check(opened)
    }

    fn step(&mut self, opened: &mut Opened) -> Result<(), End> {
        let stepped = match self.rng.below(16) {
            0 => opened.db.flush(),
            1 => opened.db.compact(),
            2 => self.build(opened),
            3 => self.drop_index(opened),
            4 => {
                let snapshot = opened.db.snapshot();
                let shown = shown_by(&snapshot, &opened.pairs);
                opened.snapshot = None;
                shown.map(|shown| opened.snapshot = Some((snapshot, shown)))
            }
            5 => return self.check(opened),
            6 | 7 => return self.take_a_key(opened),
            8..=11 => self.write(opened, true),
            _ => self.write(opened, false),
        };
        stepped.map_err(|error| self.machine.end("a call", &error))
    }

    fn build(&mut self, opened: &Opened) -> Result<(), Error> {
        opened.by_stamp.wait_ready()?;
        opened.by_remainders.wait_ready()
    }

    /// Drops an index, which is built again: with another function, or whenever the build gets to it.
    fn drop_index(&mut self, opened: &mut Opened) -> Result<(), Error> {
        self.version += 1;
        if self.rng.one_in(2) {
            opened.rows.drop_index("by_remainders")?;
            self.outcome.dropped += 1;
        }
        opened.by_remainders = by_remainders(&opened.rows, self.version)?;
        Ok(())
    }

    /// Puts a row with the key of another row in the unique index.
    fn take_a_key(&mut self, opened: &Opened) -> Result<(), End> {
        let rows: Vec<(u16, u32)> = self.rows.iter().map(|(key, stamp)| (*key, *stamp)).collect();
        if rows.len() < 2 || !opened.by_stamp.is_ready() {
            return Ok(());
        }
        let (from, stamp) = rows[self.rng.below(rows.len() as u64) as usize];
        let to = (from + 1 + self.rng.below(u64::from(KEYS) - 1) as u16) % KEYS;
        match opened.rows.put(key_bytes(to), value(stamp)) {
            Err(Error::Index(cause)) if matches!(*cause, IndexError::NotUnique { .. }) => {
                self.outcome.refused += 1;
                Ok(())
            }
            Err(error) => Err(self.machine.end("a row with the key of another", &error)),
            Ok(()) => Err(wrong(format!("rows {from} and {to} have the key of stamp {stamp}"))),
        }
    }

    fn write(&mut self, opened: &Opened, of_rows: bool) -> Result<(), Error> {
        let writes = self.draw(of_rows);
        let keyspace = if of_rows { &opened.rows } else { &opened.pairs };
        let mut batch = opened.db.batch();
        for write in &writes {
            match *write {
                Write::Put(key, stamp) => batch.put(keyspace, key_bytes(key), value(stamp)),
                Write::Delete(key) => batch.delete(keyspace, key_bytes(key)),
                Write::DeleteRange(start, end) => {
                    batch.delete_range(keyspace, key_bytes(start)..key_bytes(end));
                }
            }
        }
        batch.set_sync(true);
        self.unsure = Some(Call { of_rows, writes });
        opened.db.write(&batch)
    }

    fn draw(&mut self, of_rows: bool) -> Vec<Write> {
        let count = 1 + self.rng.below(5);
        let mut writes = Vec::new();
        for _ in 0..count {
            let key = self.rng.below(u64::from(KEYS)) as u16;
            match self.rng.below(16) {
                0 if key + 1 < KEYS => {
                    let end = key + 1 + self.rng.below(u64::from(KEYS - key - 1)) as u16;
                    writes.push(Write::DeleteRange(key, end));
                }
                1..=2 => writes.push(Write::Delete(key)),
                // A row gets what another gives up.
                3 if of_rows && writes.is_empty() => {
                    let Some((&from, &stamp)) = self.rows.iter().next_back() else { continue };
                    writes = vec![Write::Put(key, stamp)];
                    if from != key {
                        writes.push(Write::Delete(from));
                    }
                    return writes;
                }
                _ => {
                    self.stamp += 1;
                    writes.push(Write::Put(key, self.stamp));
                }
            }
        }
        if writes.is_empty() { vec![Write::Delete(0)] } else { writes }
    }

    /// The call was done.
    fn done(&mut self, call: &Call, opened: &mut Opened) {
        let stamps = if call.of_rows { &mut self.rows } else { &mut self.pairs };
        apply(stamps, &call.writes);
        if !call.of_rows {
            // Written anew, or the next check sees that they are not there.
            opened.seen.clear();
        }
    }

    /// All that must hold at any time. Finds out whether the write that the power loss struck was done.
    fn check(&mut self, opened: &mut Opened) -> Result<(), End> {
        let checked = self.check_all(opened);
        match checked {
            Err(error) => Err(self.machine.end("a check", &error)),
            // What was read after the end counts for nothing.
            Ok(_) if self.machine.is_over() => Err(End::Power),
            Ok(Some(what)) => Err(wrong(what)),
            Ok(None) => Ok(()),
        }
    }

    /// What is wrong, if anything is.
    fn check_all(&mut self, opened: &mut Opened) -> Result<Option<String>, Error> {
        let read = |keyspace: &Keyspace| -> Result<Vec<Option<Vec<u8>>>, Error> {
            let value = |key| Ok(keyspace.get(key_bytes(key))?.map(|value| value.to_vec()));
            (0..KEYS).map(value).collect()
        };
        let (rows, pairs) = (read(&opened.rows)?, read(&opened.pairs)?);
        if self.machine.is_over() {
            return Ok(None);
        }
        if let Some(call) = self.unsure.take() {
            let (found, before) =
                if call.of_rows { (&rows, &self.rows) } else { (&pairs, &self.pairs) };
            let mut after = before.clone();
            apply(&mut after, &call.writes);
            let shows = |stamps: &Stamps| differs(found, stamps, !call.of_rows).is_none();
            // If both fit, nothing can tell them apart, now or later.
            match shows(&after) {
                true => {
                    self.outcome.done += 1;
                    self.done(&call, opened);
                }
                false => self.outcome.undone += 1,
            }
        }
        if let Some(what) = differs(&rows, &self.rows, false) {
            return Ok(Some(format!("rows: {what}")));
        }
        if let Some(what) = differs(&pairs, &self.pairs, true) {
            return Ok(Some(format!("pairs: {what}")));
        }
        Ok(match self.check_filter(opened, &pairs)? {
            Some(what) => Some(what),
            None => self.check_indexes(opened)?,
        })
    }

    fn check_filter(
        &mut self,
        opened: &mut Opened,
        pairs: &[Option<Vec<u8>>],
    ) -> Result<Option<String>, Error> {
        for (&key, &stamp) in &self.pairs {
            let found = pairs[usize::from(key)].as_deref();
            let is_changed = found != Some(&value(stamp)[..]);
            self.outcome.filtered_out += u64::from(found.is_none());
            self.outcome.replaced += u64::from(is_changed && found.is_some());
            if is_changed {
                opened.seen.insert(key);
            } else if opened.seen.contains(&key) {
                return Ok(Some(format!("pair {key} is again what the filter had changed")));
            }
        }
        let Some((snapshot, shown)) = &opened.snapshot else { return Ok(None) };
        let now = shown_by(snapshot, &opened.pairs)?;
        let changed = (0..KEYS).find(|key| now[usize::from(*key)] != shown[usize::from(*key)]);
        Ok(changed.map(|key| format!("pair {key} has changed at a snapshot")))
    }

    fn check_indexes(&mut self, opened: &Opened) -> Result<Option<String>, Error> {
        let remainders = self.version;
        let by_stamp = |stamp: u32| vec![stamp.to_be_bytes().to_vec()];
        let by_remainders = |stamp| remainders_of(stamp, remainders);
        let indexes: [(&Index, &KeysOf<'_>); 2] =
            [(&opened.by_stamp, &by_stamp), (&opened.by_remainders, &by_remainders)];
        for (index, keys_of) in indexes {
            if !index.is_ready() {
                continue;
            }
            let of_row = |(key, stamp): (&u16, &u32)| {
                let key = key_bytes(*key);
                keys_of(*stamp).into_iter().map(move |index_key| (index_key, key.clone()))
            };
            let expected: BTreeSet<_> = self.rows.iter().flat_map(of_row).collect();
            let mut found = Vec::new();
            for entry in index.entries(..) {
                let (index_key, key) = entry?;
                found.push((index_key.to_vec(), key.to_vec()));
            }
            self.outcome.compared += 1;
            if !found.iter().eq(&expected) {
                let name = index.name();
                return Ok(Some(format!("{name} has {found:?}, and should have {expected:?}")));
            }
        }
        Ok(None)
    }
}

/// The keys of a row in an index, by its stamp.
type KeysOf<'a> = dyn Fn(u32) -> Vec<Vec<u8>> + 'a;

/// The index of the remainders of stamps, with the function of `version`.
fn by_remainders(rows: &Keyspace, version: u32) -> Result<Index, Error> {
    let settings = IndexSettings::new("by_remainders").version(version);
    rows.index(settings, move |_, value, keys: &mut IndexKeys| {
        let stamp = u32::from_be_bytes(value[..4].try_into().expect("values are longer"));
        remainders_of(stamp, version).iter().for_each(|key| keys.add(key));
    })
}

/// None, one or two keys.
fn remainders_of(stamp: u32, version: u32) -> Vec<Vec<u8>> {
    if stamp.is_multiple_of(13) {
        return Vec::new();
    }
    // Bytes that an entry escapes are among them.
    vec![vec![(stamp % (3 + version % 5)) as u8], vec![1, (stamp % 11) as u8]]
}

/// Drops the values of some stamps, and replaces those of others.
struct ByStamp;

/// What a replaced value begins with, as no stamp does.
const REPLACED: u8 = 0xff;

impl CompactionFilter for ByStamp {
    fn name(&self) -> &str {
        "by_stamp"
    }

    fn filter(&self, _: &[u8], bytes: &[u8]) -> Result<FilterDecision, FilterError> {
        if bytes[0] == REPLACED {
            return Ok(FilterDecision::Keep);
        }
        let stamp = u32::from_be_bytes(bytes[..4].try_into().expect("values are longer"));
        Ok(match stamp % 4 {
            0 => FilterDecision::Drop,
            1 => FilterDecision::Replace(replaced(stamp)),
            _ => FilterDecision::Keep,
        })
    }
}

fn replaced(stamp: u32) -> Vec<u8> {
    [&[REPLACED][..], &stamp.to_be_bytes()].concat()
}

/// How `found` differs from `stamps`, in which a filter may have changed values.
fn differs(found: &[Option<Vec<u8>>], stamps: &Stamps, is_filtered: bool) -> Option<String> {
    for (key, found) in (0..KEYS).zip(found) {
        let stamp = stamps.get(&key).copied();
        let may_be = match (found, stamp) {
            (None, None) => true,
            (None, Some(stamp)) => is_filtered && stamp % 4 == 0,
            (Some(_), None) => false,
            (Some(found), Some(stamp)) => {
                *found == value(stamp) || is_filtered && stamp % 4 == 1 && *found == replaced(stamp)
            }
        };
        if !may_be {
            let head = found.as_ref().map(|found| found[..5].to_vec());
            return Some(format!("key {key} has {head:?} where stamp {stamp:?} should be"));
        }
    }
    None
}

fn shown_by(snapshot: &Snapshot, pairs: &Keyspace) -> Result<Vec<Option<Vec<u8>>>, Error> {
    let value = |key| Ok(snapshot.get(pairs, key_bytes(key))?.map(|value| value.to_vec()));
    (0..KEYS).map(value).collect()
}

fn apply(stamps: &mut Stamps, writes: &[Write]) {
    for write in writes {
        match *write {
            Write::Put(key, stamp) => drop(stamps.insert(key, stamp)),
            Write::Delete(key) => drop(stamps.remove(&key)),
            Write::DeleteRange(start, end) => stamps.retain(|key, _| !(start..end).contains(key)),
        }
    }
}

fn wrong(what: String) -> End {
    End::Wrong(what)
}

/// In the order of their numbers.
fn key_bytes(key: u16) -> Vec<u8> {
    let mut bytes = key.to_be_bytes().to_vec();
    bytes.resize(2 + usize::from(key % 7) * 3, b'k');
    bytes
}

/// Up to 3 KB, so that segments rotate and tables are written.
fn value(stamp: u32) -> Vec<u8> {
    stamp.to_be_bytes().repeat(2 + stamp as usize * 37 % 750)
}
