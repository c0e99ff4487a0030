//! A load that says what was acknowledged, and a check of it: for tests that kill the load, or the machine under it.
//!
//! ```text
//! acknowledged load PLACE FROM [POOL]     puts numbered keys, each put durable, from FROM on, and prints every one
//! acknowledged check PLACE COUNT [POOL]   all before COUNT are there, and what is there is whole; prints how many there are
//! ```
//!
//! PLACE is a device that was laid out by `esker flash create`, or a directory, which is made if there is none; with a POOL
//! of persistent memory that has the log, a directory.
//!
//! Two keys of three are overwritten by later ones, so that flushes and compactions are in progress all the time. It goes
//! on until it is killed, or something fails.

use esker_base::{Rng, SystemClock, Threads};
use esker_flash::{FlashStorage, chunk_device};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Log, Settings, SyncPolicy};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

const SEGMENT_BYTES: usize = 1 << 20;
/// Numbers of puts that go to one key, and how far apart they are.
const VERSIONS: u64 = 3;
const APART: u64 = 500;
/// Lines that a serial port's buffer, a page, has taken and that were not seen when the machine is reset.
const UNSEEN_MAX: u64 = 4096 / "acknowledged 0\n".len() as u64;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, place, number, pool @ ..] = &arguments[..] else {
        return Err("three arguments, or four".into());
    };
    let number: u64 = number.parse()?;
    let place = Place { path: Path::new(place), pool: pool.first().map(Path::new) };
    match &what[..] {
        "load" => {
            let db = place.open()?;
            let keyspace = db.keyspace("load", KeyspaceSettings::default())?;
            load(&db, &keyspace, number)
        }
        // A full device has no room for another log.
        "check" => {
            let db = place.open_read_only()?;
            check(&db, &db.open_keyspace("load")?, number)
        }
        _ => Err("load or check".into()),
    }
}

/// Where the database is.
struct Place<'a> {
    path: &'a Path,
    /// Then `path` is a directory, as it may be without.
    pool: Option<&'a Path>,
}

impl Place<'_> {
    fn open(&self) -> Result<Db, Box<dyn Error>> {
        Ok(match self.is_directory() {
            true => Db::open(self.path, self.settings())?,
            false => Db::open_with(self.device()?, self.settings())?,
        })
    }

    fn open_read_only(&self) -> Result<Db, Box<dyn Error>> {
        Ok(match self.is_directory() {
            true => Db::open_read_only(self.path, self.settings())?,
            false => Db::open_read_only_with(self.device()?, self.settings())?,
        })
    }

    fn is_directory(&self) -> bool {
        self.pool.is_some() || self.path.is_dir() || !self.path.exists()
    }

    fn device(&self) -> Result<Env, Box<dyn Error>> {
        Ok(Env::over(Arc::new(FlashStorage::open(chunk_device::open(self.path)?)?))
            .clock(Arc::new(SystemClock::new()))
            .background(Arc::new(Threads))
            .seed(1))
    }

    fn settings(&self) -> Settings {
        let log = match self.pool {
            Some(pool) => Log::Pmem { pool: pool.to_owned(), emulated: false },
            None => Log::File { dir: None, sync: SyncPolicy::Always },
        };
        Settings::default().log(log).segment_bytes(SEGMENT_BYTES)
    }
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
        db.put(keyspace, key(number).to_be_bytes(), value(number))?;
        println!("acknowledged {number}");
    }
    Ok(())
}

fn check(db: &Db, keyspace: &Keyspace, count: u64) -> Result<(), Box<dyn Error>> {
    // What was on its way may be there, too: the next number, or another attempt at it.
    let mut last = 0;
    for number in 0..count + VERSIONS * APART {
        let found = db.get(keyspace, key(number).to_be_bytes())?;
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
        if stored > count + UNSEEN_MAX {
            return Err(format!("{stored} is there, after {count} that were acknowledged").into());
        }
        last = last.max(stored);
    }
    println!("{} are there", last + 1);
    Ok(())
}
