//! What it is worth to know how long a table lives: the tables that the engine writes and removes are written again on a device of
//! large chunks, with lifetimes estimated in several ways. What is moved to make space shows how well they are grouped.
//!
//! `cargo run --release -p esker-flash --example lifetimes [FILL] [CHUNK_MIB]`
//!
//! * `alike`: all tables are of one lifetime;
//! * `level`: the engine's hint;
//! * `learnt`: the level, and in addition what the engine records of tables of the same database and level, in bytes that all
//!   databases wrote;
//! * `seen`: by the mean of what these lived so far, in place of the level;
//! * `known`: by how long the table will live, which is unknown in practice: the most that a hint of lifetime can give.
//!
//! Nothing takes time, and one thread does everything, so that runs are the same each time.

use esker_base::background::Stepped;
use esker_base::{Clock, FileKind, Result, Rng, WriteHint};
use esker_flash::chunk_device::MemoryChunkDevice;
use esker_flash::{FlashStorage, Geometry};
use esker_lsm::version::table_lifetimes::LifetimeEstimator;
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Log, Settings, Shape};
use esker_storage::{FileSystemWrapper, MemoryStorage, Storage, WritableFile};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SEGMENT_BYTES: usize = 256 << 10;
const VALUE_BYTES: usize = 1_000;
/// Classes that tables have: levels 0 to 6.
const CLASSES: usize = 7;

/// A table that came or went: the database, its name there.
#[derive(Clone)]
enum Event {
    Written { table: (usize, String), level: u8, bytes: u64 },
    Removed { table: (usize, String) },
}

type Trace = Arc<Mutex<Vec<Event>>>;

/// A storage that notes tables.
struct Noted {
    below: MemoryStorage,
    database: usize,
    trace: Trace,
}

struct Writer {
    below: Box<dyn WritableFile>,
    table: (usize, String),
    level: u8,
    trace: Trace,
}

impl FileSystemWrapper for Noted {
    fn below(&self) -> &dyn Storage {
        &self.below
    }

    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let below = self.below.create(name, hint)?;
        if hint.kind != FileKind::Table {
            return Ok(below);
        }
        let (table, trace) = ((self.database, name.to_owned()), self.trace.clone());
        Ok(Box::new(Writer { below, table, level: hint.level, trace }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let table = (self.database, name.to_owned());
        self.trace.lock().expect("nobody panicked").push(Event::Removed { table });
        self.below.remove(name)
    }
}

impl WritableFile for Writer {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.below.append(bytes)
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn sync(&mut self) -> Result<()> {
        self.below.sync()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let (table, level, bytes) = (self.table.clone(), self.level, self.below.len());
        self.trace.lock().expect("nobody panicked").push(Event::Written { table, level, bytes });
    }
}

struct Standing;

impl Clock for Standing {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) {}
}

/// One database of a load: its records, its part of a hundred updates, and how its tables are arranged.
struct Part {
    records: u64,
    percent: u64,
    shape: Shape,
}

fn open(database: usize, shape: Shape, trace: &Trace) -> (Db, Keyspace) {
    let storage = Noted { below: MemoryStorage::new(), database, trace: trace.clone() };
    let env = Env::over(Arc::new(storage))
        .clock(Arc::new(Standing))
        .background(Arc::new(Stepped))
        .seed(1);
    let settings = Settings::default().log(Log::None).segment_bytes(SEGMENT_BYTES);
    let db = Db::open_with(env, settings).expect("it is new");
    let keyspace = KeyspaceSettings::default().shape(shape);
    let keyspace = db.keyspace("load", keyspace).expect("it is new");
    (db, keyspace)
}

/// Fills databases, and updates records at random.
fn trace(parts: &[Part], updates: u64) -> Vec<Event> {
    let (trace, mut rng) = (Trace::default(), Rng::new(1));
    let number = |(number, part): (usize, &Part)| open(number, part.shape, &trace);
    let databases: Vec<(Db, Keyspace)> = parts.iter().enumerate().map(number).collect();
    let put = |database: usize, record: u64, rng: &mut Rng| {
        let mut value = [0; VALUE_BYTES];
        rng.fill(&mut value);
        let (db, keyspace) = &databases[database];
        let key = record.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        db.put(keyspace, key, value).expect("memory does not fail");
        while db.run_background_job() {}
    };
    for (database, part) in parts.iter().enumerate() {
        (0..part.records).for_each(|record| put(database, record, &mut rng));
    }
    for _ in 0..updates {
        let mut percent = rng.below(100);
        let database = parts.iter().position(|part| {
            let is_it = percent < part.percent;
            percent = percent.saturating_sub(part.percent);
            is_it
        });
        let database = database.expect("the parts are a hundred percent");
        put(database, rng.below(parts[database].records), &mut rng);
    }
    drop(databases);
    Arc::try_unwrap(trace).ok().expect("the databases are closed").into_inner().expect("no panic")
}

/// How lifetimes are estimated.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    Alike,
    Level,
    Learnt,
    Seen,
    Known,
}

/// The bytes that are written while a table lives, by its name; those that live on have none.
fn lives(events: &[Event]) -> BTreeMap<(usize, String), u64> {
    let (mut born, mut lives, mut now) = (BTreeMap::new(), BTreeMap::new(), 0);
    for event in events {
        match event {
            Event::Written { table, bytes, .. } => {
                now += bytes;
                born.insert(table.clone(), now);
            }
            Event::Removed { table } => {
                let life = born.get(table).map(|born| now - born);
                lives.extend(life.map(|life| (table.clone(), life)));
            }
        }
    }
    lives
}

/// The most bytes that are alive at a time, and those that are at the end.
fn peak(events: &[Event]) -> (u64, u64) {
    let (mut sizes, mut live, mut most) = (BTreeMap::new(), 0, 0);
    for event in events {
        match event {
            Event::Written { table, bytes, .. } => {
                live += bytes;
                sizes.insert(table, *bytes);
            }
            Event::Removed { table } => live -= sizes.remove(table).unwrap_or(0),
        }
        most = most.max(live);
    }
    (most, live)
}

/// Each class is of lives four times as long as the one before; the longest is as if it never ended.
fn class(life: u64) -> u8 {
    let times = (life / SEGMENT_BYTES as u64).max(1).ilog(4);
    (times as usize).min(CLASSES - 1) as u8
}

/// Writes a trace's tables on a device of which `fill` is alive at most. Returns bytes that were moved, and all that were
/// written, for each byte of tables; `None` if there was no space.
fn replay(events: &[Event], told: Told, fill: f64, chunk_bytes: u32) -> Option<(f64, f64)> {
    const UNITS: u16 = 8;
    let bytes = peak(events).0 as f64 / fill;
    let chunks = (bytes / f64::from(chunk_bytes) / f64::from(UNITS)).ceil() as u16;
    let zones = MemoryChunkDevice::new(Geometry::of_blocks(4, UNITS / 4, chunks, chunk_bytes));
    let storage = FlashStorage::open(Arc::new(zones.clone())).expect("it is empty");
    let known = lives(events);
    let (mut seen, mut born, mut now) = (BTreeMap::new(), BTreeMap::new(), 0u64);
    let mut learnt: BTreeMap<(usize, u8), LifetimeEstimator> = BTreeMap::new();
    for event in events {
        match event {
            Event::Written { table, level, bytes } => {
                let group = (table.0, *level);
                let lives = learnt.entry(group).or_default();
                let alive = born.values().filter(|(_, other)| *other == group);
                let guess = lives.expected(alive.map(|(at, _)| *at), now);
                let life = known.get(table).copied();
                let hint = match told {
                    Told::Alike => WriteHint::table(0),
                    Told::Level => WriteHint::table(*level),
                    Told::Learnt => WriteHint::table(*level).living(guess),
                    Told::Seen => WriteHint::table(
                        seen.get(&group).map_or(*level, |life: &f64| class(*life as u64)),
                    ),
                    Told::Known => WriteHint::table(life.map_or(CLASSES as u8 - 1, class)),
                };
                let name = format!("{}-{}", table.0, table.1);
                let mut file = storage.create(&name, hint).ok()?;
                file.append(&vec![1; *bytes as usize]).and_then(|()| file.sync()).ok()?;
                now += bytes;
                born.insert(table.clone(), (now, group));
            }
            Event::Removed { table } => {
                let Some((since, group)) = born.remove(table) else { continue };
                let life = (now - since) as f64;
                let mean = seen.entry(group).or_insert(life);
                *mean += (life - *mean) / 16.0;
                learnt.entry(group).or_default().note(vec![since], now);
                storage.remove(&format!("{}-{}", table.0, table.1)).ok()?;
            }
        }
    }
    let usage = storage.usage();
    let of_host = |bytes: u64| bytes as f64 / usage.host_bytes as f64;
    Some((of_host(usage.moved_bytes), of_host(zones.written_in_all())))
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        |otherwise: f64| arguments.next().map_or(otherwise, |text| text.parse().expect("a number"));
    let (fill, chunk_bytes) = (number(0.85), (number(2.0) * f64::from(1 << 20)) as u32);
    let (leveled, tiered) = (Shape::Leveled { ratio: 10 }, Shape::Tiered { runs: 4 });
    let part = |records, percent, shape| Part { records, percent, shape };
    for (name, parts, updates) in [
        ("one, leveled", vec![part(60_000, 100, leveled)], 180_000),
        ("one, tiered", vec![part(60_000, 100, tiered)], 180_000),
        (
            "a hot and a cold one",
            vec![part(12_000, 95, leveled), part(48_000, 5, leveled)],
            180_000,
        ),
        (
            "three of each a temperature",
            vec![part(4_000, 80, leveled), part(16_000, 18, leveled), part(40_000, 2, leveled)],
            180_000,
        ),
    ] {
        let events = trace(&parts, updates);
        let (most, end) = peak(&events);
        let written = events.iter().filter(|event| matches!(event, Event::Written { .. })).count();
        println!(
            "{name}: {written} tables, {} MiB alive at the most, {} at the end",
            most >> 20,
            end >> 20
        );
        for (told, way) in [
            (Told::Alike, "alike"),
            (Told::Level, "level"),
            (Told::Learnt, "learnt"),
            (Told::Seen, "seen"),
            (Told::Known, "known"),
        ] {
            match replay(&events, told, fill, chunk_bytes) {
                Some((moved, media)) => println!("  {way:>6}: moved {moved:.4}, media {media:.4}"),
                None => println!("  {way:>6}: no room"),
            }
        }
    }
}
