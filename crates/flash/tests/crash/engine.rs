//! The engine on a device with a buffer that is lost with the power: what it acknowledged is there all the same, in the
//! middle of flushes and compactions.

use super::histories::Device;
use super::open_channel::OpenChannel;
use esker_base::background::Stepped;
use esker_base::{Clock, Result, Rng};
use esker_lsm::{Db, Env, KeyspaceSettings, Log, Settings, SyncPolicy};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const KEYS: usize = 100;

struct Standing;

impl Clock for Standing {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) {}
}

fn open(device: &impl Device) -> Result<Db> {
    let env = Env::over(Arc::new(device.open()?))
        .clock(Arc::new(Standing))
        .background(Arc::new(Stepped))
        .seed(1);
    let settings = Settings::default()
        .log(Log::File { dir: None, sync: SyncPolicy::Always })
        .segment_bytes(64 << 10)
        .sealed_segments(1);
    Db::open_with(env, settings)
}

/// What each key may have: what was acknowledged last, and what was put since then and not acknowledged.
type Known = BTreeMap<u64, Vec<Vec<u8>>>;

/// Overwrites keys at random until the device fails, or often enough. Returns how many puts were acknowledged.
fn load(device: &impl Device, rng: &mut Rng, known: &mut Known) -> Result<u64> {
    let db = open(device)?;
    let keyspace = db.keyspace("load", KeyspaceSettings::default())?;
    let mut acknowledged = 0;
    for _ in 0..600 {
        // Every key has a value that was acknowledged before power is lost.
        let is_first = known.len() < KEYS;
        let key = if is_first { known.len() as u64 } else { rng.below(KEYS as u64) };
        let value = vec![rng.below(256) as u8; 500];
        known.entry(key).or_default().push(value.clone());
        if db.put(&keyspace, key.to_be_bytes(), &value).is_err() {
            break;
        }
        acknowledged += 1;
        known.insert(key, vec![value]);
        while db.run_background_job() {}
    }
    Ok(acknowledged)
}

/// What was found is what counts from then on.
fn check(device: &impl Device, known: &mut Known, context: &str) {
    let db = open(device).unwrap_or_else(|error| panic!("{context}: {error}"));
    let keyspace = db.keyspace("load", KeyspaceSettings::default()).unwrap();
    for (key, values) in known {
        let found = db.get(&keyspace, key.to_be_bytes()).unwrap();
        let found = found.unwrap_or_else(|| panic!("{context}: key {key} is gone")).to_vec();
        assert!(values.contains(&found), "{context}: key {key}");
        *values = vec![found];
    }
}

#[test]
fn acknowledged_writes_are_there_when_the_devices_buffer_is_lost() {
    let device = OpenChannel::buffered();
    let (mut rng, mut known) = (Rng::new(7), Known::new());
    load(&device, &mut rng, &mut known).unwrap();
    let mut acknowledged = 0;
    for round in 0..60 {
        // Loads take some 1,500 calls of the device.
        device.fail_after(rng.below(1_500));
        acknowledged += load(&device, &mut rng, &mut known).unwrap_or(0);
        device.lose_power(&mut rng);
        check(&device, &mut known, &format!("round {round}"));
    }
    let seen = device.seen();
    println!("{acknowledged} puts, {seen:?}");
    assert!(acknowledged > 5_000 && seen.in_buffer > 30, "{acknowledged} puts, {seen:?}");
}
