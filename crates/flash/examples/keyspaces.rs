//! What it is worth that the engine says how long it expects tables to live: one database with a hot and a cold keyspace on
//! a device of large chunks, with hints and without, and what is moved to make space.
//!
//! `cargo run --release -p esker-flash --example keyspaces [FILL] [CHUNK_MIB] [SEEDS] [ACTIVE]`
//!
//! `FILL` of the device is alive at the most; `ACTIVE` chunks may be written in part at a time, as on zoned disks. Nothing
//! takes time, and one thread does everything: what differs between two runs of a seed is the hints.

use esker_base::background::Stepped;
use esker_base::{Clock, Result, Rng, WriteHint};
use esker_flash::chunk_device::MemoryChunkDevice;
use esker_flash::{FlashStorage, Geometry};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Log, Settings};
use esker_storage::{FileSystemWrapper, MemoryStorage, Storage, WritableFile};
use std::sync::Arc;
use std::time::Duration;

const SEGMENT_BYTES: usize = 256 << 10;
const VALUE_BYTES: usize = 1_000;
const UPDATES: u64 = 180_000;
const UNITS: u16 = 8;

/// A keyspace of a load: its records, and its part of a hundred updates.
struct Part {
    records: u64,
    percent: u64,
}

/// Passes on the engine's hints, or leaves out what it expects.
struct Told {
    below: Arc<dyn Storage>,
    is_told: bool,
}

impl FileSystemWrapper for Told {
    fn below(&self) -> &dyn Storage {
        &*self.below
    }

    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let expected = hint.expected_lifetime.filter(|_| self.is_told);
        self.below.create(name, hint.living(expected))
    }
}

struct Standing;

impl Clock for Standing {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) {}
}

/// Fills the keyspaces and updates records at random. Returns the most bytes that tables took.
fn load(storage: Arc<dyn Storage>, parts: &[Part], seed: u64) -> Result<u64> {
    let env = Env::over(storage).clock(Arc::new(Standing)).background(Arc::new(Stepped)).seed(seed);
    let settings = Settings::default().log(Log::None).segment_bytes(SEGMENT_BYTES);
    let db = Db::open_with(env, settings)?;
    let keyspace = |n: usize| db.keyspace(&format!("part {n}"), KeyspaceSettings::default());
    let keyspaces: Vec<Keyspace> = (0..parts.len()).map(keyspace).collect::<Result<_>>()?;
    let mut rng = Rng::new(seed);
    let put = |part: usize, record: u64, rng: &mut Rng| -> Result<()> {
        let mut value = [0; VALUE_BYTES];
        rng.fill(&mut value);
        let key = record.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        db.put(&keyspaces[part], key, value)?;
        while db.run_background_job() {}
        Ok(())
    };
    for (number, part) in parts.iter().enumerate() {
        (0..part.records).try_for_each(|record| put(number, record, &mut rng))?;
    }
    for _ in 0..UPDATES {
        let mut percent = rng.below(100);
        let is_it = |part: &Part| {
            let is_it = percent < part.percent;
            percent = percent.saturating_sub(part.percent);
            is_it
        };
        let number = parts.iter().position(is_it).expect("the parts are a hundred percent");
        let record = rng.below(parts[number].records);
        put(number, record, &mut rng)?;
    }
    match db.background_error() {
        Some(error) => Err(error),
        None => Ok(db.stats().table_file_bytes_peak),
    }
}

/// Bytes that a load made a device move, and all that were written, for each byte that the engine wrote.
fn run(
    parts: &[Part],
    geometry: Geometry,
    active: Option<usize>,
    is_told: bool,
    seed: u64,
) -> Result<(f64, f64)> {
    let zones = MemoryChunkDevice::new(geometry);
    active.into_iter().for_each(|most| zones.limit_active(most));
    let flash = Arc::new(FlashStorage::open(Arc::new(zones))?);
    let below: Arc<dyn Storage> = flash.clone();
    load(Arc::new(Told { below, is_told }), parts, seed)?;
    let usage = flash.usage();
    Ok((usage.moved_bytes as f64 / usage.host_bytes as f64, usage.media_over_host()))
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        |otherwise: f64| arguments.next().map_or(otherwise, |text| text.parse().expect("a number"));
    let (fill, chunk_mib, seeds, active) = (number(0.85), number(2.0), number(3.0), number(0.0));
    let chunk_bytes = (chunk_mib * f64::from(1 << 20)) as u32;
    let active = (active > 0.0).then_some(active as usize);
    let part = |records, percent| Part { records, percent };
    for (name, parts) in [
        ("one", vec![part(60_000, 100)]),
        ("a hot and a cold one", vec![part(12_000, 95), part(48_000, 5)]),
        ("one that is hardly written", vec![part(12_000, 99), part(48_000, 1)]),
        ("three", vec![part(4_000, 80), part(16_000, 18), part(40_000, 2)]),
    ] {
        for seed in 1..=seeds as u64 {
            let most = load(Arc::new(MemoryStorage::new()), &parts, seed)? as f64;
            let chunks = (most / fill / f64::from(chunk_bytes) / f64::from(UNITS)).ceil() as u16;
            let geometry = Geometry::of_blocks(4, UNITS / 4, chunks, chunk_bytes);
            for is_told in [false, true] {
                let told = if is_told { "told" } else { "by level" };
                match run(&parts, geometry, active, is_told, seed) {
                    Ok((moved, media)) => {
                        println!("{name}, seed {seed}, {told}: moved {moved:.4}, media {media:.4}")
                    }
                    Err(error) => println!("{name}, seed {seed}, {told}: {error}"),
                }
            }
        }
    }
    Ok(())
}
