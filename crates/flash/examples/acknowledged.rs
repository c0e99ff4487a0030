//! A load that says what was acknowledged, and a check of it: for tests that kill the load, or the machine under it.
//!
//! ```text
//! acknowledged load DEVICE FROM     puts numbered keys, each put durable, from FROM on, and prints every one
//! acknowledged check DEVICE COUNT   all before COUNT are there, and what is there is whole; prints how many there are
//! ```
//!
//! Two keys of three are overwritten by later ones, so that flushes and compactions are under way all the time. It goes
//! on until it is killed, or something fails.

use esker_base::{Clock, Rng, SystemClock, Threads};
use esker_flash::{FlashStorage, zones};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Log, Settings, Sync};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

const SEGMENT_BYTES: usize = 1 << 20;
/// Numbers of puts that go to one key, and how far apart they are.
const VERSIONS: u64 = 3;
const APART: u64 = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let [what, device, number]: [String; 3] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "three arguments")?;
    let number: u64 = number.parse()?;
    let (env, settings) = world(Path::new(&device))?;
    match &what[..] {
        "load" => {
            let db = Db::open_with(env, settings)?;
            let keyspace = db.keyspace("load", KeyspaceSettings::default())?;
            load(&db, &keyspace, number)
        }
        // A full device has no room for another log.
        "check" => {
            let db = Db::open_read_only_with(env, settings)?;
            check(&db, &db.existing_keyspace("load")?, number)
        }
        _ => Err("load or check".into()),
    }
}

fn world(device: &Path) -> Result<(Env, Settings), Box<dyn Error>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let env = Env {
        storage: Arc::new(FlashStorage::open(zones::open(device)?)?),
        log_storage: None,
        pool: None,
        clock,
        background: Arc::new(Threads),
        seed: 1,
    };
    let log = Log::File { dir: None, sync: Sync::Always };
    let settings = Settings { log, segment_bytes: SEGMENT_BYTES, ..Settings::default() };
    Ok((env, settings))
}

/// The key that a put goes to.
fn key(number: u64) -> u64 {
    let round = number / (VERSIONS * APART);
    round * APART + number % APART
}

/// Lengths and bytes follow from the number, which comes first.
fn value(number: u64) -> Vec<u8> {
    let mut rng = Rng::new(number);
    let mut value = vec![0; 8 + rng.below(8_000) as usize];
    rng.fill(&mut value[8..]);
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

fn load(db: &Db, keyspace: &Keyspace, from: u64) -> Result<(), Box<dyn Error>> {
    for number in from.. {
        db.put(keyspace, &key(number).to_be_bytes(), &value(number))?;
        println!("acknowledged {number}");
    }
    Ok(())
}

fn check(db: &Db, keyspace: &Keyspace, count: u64) -> Result<(), Box<dyn Error>> {
    // What was on its way may be there, too: the next number, or another attempt at it.
    let mut last = 0;
    for number in 0..count + VERSIONS * APART {
        let found = db.get(keyspace, &key(number).to_be_bytes())?;
        let Some(found) = found else {
            if number < count {
                return Err(format!("{number} was acknowledged, and is not there").into());
            }
            continue;
        };
        let stored = u64::from_le_bytes(found[..8].try_into()?);
        if key(stored) != key(number) || value(stored)[..] != found[..] {
            return Err(format!("the value of {number} is damaged").into());
        }
        if stored < number && number < count {
            return Err(format!("{number} was acknowledged, and {stored} is there").into());
        }
        if stored > count {
            return Err(format!("{stored} is there, {} was never written", count + 1).into());
        }
        last = last.max(stored);
    }
    println!("{} are there", last + 1);
    Ok(())
}
