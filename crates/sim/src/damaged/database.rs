//! Databases in the campaign: in files, with the log in a pool, or on a flash device.

use super::image::{Image, Kind, Outcome, copy};
use crate::clock::SimClock;
use esker_api::KeyRange;
use esker_base::background::Stepped;
use esker_base::{Error, Result};
use esker_flash::storage::repair;
use esker_flash::zones::FileZones;
use esker_flash::{FlashStorage, Geometry};
use esker_lsm::inspect::{Inspector, MissingLogs};
use esker_lsm::{Db, Env, KeyspaceSettings, Log, Settings, Sync};
use esker_pmem::{Accept, Pool};
use esker_storage::{PosixStorage, Storage};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Where a database is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Files,
    Pool,
    Flash,
}

/// Below an image's directory: the database's directory or device, and the pool of its log.
const DATABASE: &str = "database";
const POOL: &str = "pool";
const POOL_BYTES: u64 = (8 << 10) + 6 * (64 << 10);

fn text(error: Error) -> String {
    error.to_string()
}

fn geometry() -> Geometry {
    Geometry::of_blocks(1, 1, 60, 64 << 10)
}

fn storage(dir: &Path, place: Place) -> Result<Arc<dyn Storage>> {
    let dir = dir.join(DATABASE);
    Ok(match place {
        Place::Flash => Arc::new(FlashStorage::open(Arc::new(FileZones::open(&dir)?))?),
        Place::Files | Place::Pool => Arc::new(PosixStorage::open(dir)?),
    })
}

fn open(dir: &Path, place: Place) -> Result<Db> {
    let (env, settings) = world(dir, place, true)?;
    Db::open_with(env, settings)
}

fn open_read_only(dir: &Path, place: Place) -> Result<Db> {
    let (env, settings) = world(dir, place, false)?;
    Db::open_read_only_with(env, settings)
}

fn world(dir: &Path, place: Place, is_writer: bool) -> Result<(Env, Settings)> {
    let pool = match place {
        Place::Pool if is_writer => Some(Pool::open(dir.join(POOL), Accept::Emulated)?),
        Place::Pool => Some(Pool::open_read_only(dir.join(POOL), Accept::Emulated)?),
        _ => None,
    };
    let log = match place {
        Place::Pool => Log::Pmem { pool: dir.join(POOL), emulated: true },
        _ => Log::File { dir: None, sync: Sync::Always },
    };
    let env = Env {
        storage: storage(dir, place)?,
        log_storage: None,
        pool,
        clock: Arc::new(SimClock::default()),
        background: Arc::new(Stepped),
        seed: 1,
    };
    let settings = Settings {
        log,
        segment_bytes: 64 << 10,
        sealed_segments: 2,
        memory_bytes: 4 << 20,
        background_threads: 1,
        ..Settings::default()
    };
    Ok((env, settings))
}

/// A database of two keyspaces, and of one that was dropped. It has tables of two levels, and a log with writes that no table
/// has, unless it was closed.
pub fn make(scratch: &Path, place: Place, is_closed: bool) -> std::result::Result<Image, String> {
    let io = |error: std::io::Error| error.to_string();
    let (live, dir) = (scratch.join("live"), scratch.join(format!("{place:?}-{is_closed}")));
    std::fs::create_dir_all(live.join(DATABASE)).map_err(io)?;
    match place {
        Place::Files => {}
        Place::Pool => {
            drop(Pool::create(live.join(POOL), POOL_BYTES, Accept::Emulated).map_err(text)?)
        }
        Place::Flash => drop(FileZones::create(&live.join(DATABASE), geometry()).map_err(text)?),
    }
    let db = open(&live, place).map_err(text)?;
    let keyspace = |name: &'static str| {
        let made = db.keyspace(name, KeyspaceSettings::default()).map_err(text)?;
        Ok::<_, String>((made, name))
    };
    let keyspaces = [(db.default_keyspace(), "default"), keyspace("another")?];
    let (dropped, _) = keyspace("dropped")?;
    let mut history = Vec::new();
    for round in 0..4u8 {
        for number in 0..60u8 {
            let (keyspace, name) = &keyspaces[usize::from(number % 2)];
            let key = format!("key {number:03}");
            let value = (number % 11 != round)
                .then(|| vec![number ^ round << 6; 100 + usize::from(number) * 5]);
            match &value {
                Some(value) => db.put(keyspace, key.as_bytes(), value).map_err(text)?,
                None => db.delete(keyspace, key.as_bytes()).map_err(text)?,
            }
            history.push((format!("{name}/{key}").into_bytes(), value));
        }
        match round {
            0 => {
                db.put(&dropped, b"key", b"value").map_err(text)?;
                db.flush().and_then(|()| db.compact()).map_err(text)?;
            }
            1 => {
                db.put(&dropped, b"key", b"newer").map_err(text)?;
                db.flush().map_err(text)?;
            }
            2 => {
                db.drop_keyspace("dropped").map_err(text)?;
                db.flush().map_err(text)?;
            }
            _ => {}
        }
    }
    if is_closed {
        db.clone().close().map_err(text)?;
    }
    copy(&live, &dir).map_err(io)?;
    drop(db);
    std::fs::remove_dir_all(&live).map_err(io)?;
    let how = if is_closed { "closed" } else { "killed" };
    let name = format!("a database ({place:?}) that was {how}");
    Ok(Image { name, kind: Kind::Database(place), dir, history })
}

fn inspector(dir: &Path, place: Place) -> Result<Inspector> {
    match place {
        Place::Pool => Inspector::open_with_pool(dir.join(DATABASE), &dir.join(POOL), true),
        _ => {
            let storage = storage(dir, place)?;
            Ok(Inspector::of(storage.clone(), storage))
        }
    }
}

/// Whether `check` finds anything.
fn is_found_by_check(dir: &Path, place: Place) -> bool {
    let mut problems = 0;
    let checked = inspector(dir, place).and_then(|it| it.check(&mut |_| problems += 1));
    checked.is_err() || problems > 0
}

fn read(db: &Db, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let (keyspace, key) = split(key);
    Ok(db.get(&db.existing_keyspace(keyspace)?, key)?.map(|value| value.to_vec()))
}

/// A keyspace's name and a key.
fn split(key: &[u8]) -> (&str, &[u8]) {
    let at = key.iter().position(|byte| *byte == b'/').expect("made so");
    (std::str::from_utf8(&key[..at]).expect("made so"), &key[at + 1..])
}

/// What each way of using the database finds. None may rest on what another reports.
pub fn use_damaged(
    dir: &Path,
    place: Place,
    image: &Image,
) -> std::result::Result<Vec<Outcome>, String> {
    let mut checked = Outcome::of("check");
    checked.is_reported = is_found_by_check(dir, place);
    Ok(vec![
        checked,
        read_only(dir, place, image)?,
        around(dir, place, image)?,
        write(dir, place, image)?,
    ])
}

fn read_only(dir: &Path, place: Place, image: &Image) -> std::result::Result<Outcome, String> {
    let mut outcome = Outcome::of("an open to read");
    let Ok(db) = open_read_only(dir, place) else { return Ok(outcome.failed()) };
    outcome.is_reported = db.torn_log().is_some();
    outcome.add(&image.compare(|key| read(&db, key))?);
    Ok(outcome)
}

fn around(dir: &Path, place: Place, image: &Image) -> std::result::Result<Outcome, String> {
    let mut outcome = Outcome::of("a reading around damage");
    let Ok(inspector) = inspector(dir, place) else { return Ok(outcome.failed()) };
    let (mut pairs, mut is_skipped) = (BTreeMap::new(), false);
    for keyspace in ["default", "another"] {
        let mut visit = |key: &[u8], value: &[u8]| {
            pairs.insert([keyspace.as_bytes(), b"/", key].concat(), value.to_vec());
            Ok::<_, Error>(true)
        };
        let all = KeyRange::all();
        let read = inspector.read_around(keyspace, &all, &mut visit, &mut |_| is_skipped = true);
        outcome.is_reported |= read.is_err();
    }
    outcome.is_reported |= is_skipped;
    if !outcome.is_reported {
        outcome.add(&image.compare(|key| Ok(pairs.get(key).cloned()))?);
    }
    Ok(outcome)
}

fn write(dir: &Path, place: Place, image: &Image) -> std::result::Result<Outcome, String> {
    let mut outcome = Outcome::of("an open to write");
    for round in 0..2 {
        let Ok(db) = open(dir, place) else {
            outcome.is_open = round > 0;
            return Ok(outcome.failed());
        };
        outcome.is_reported |= db.torn_log().is_some();
        outcome.add(&image.compare(|key| read(&db, key))?);
        for step in [Db::flush, Db::compact] {
            outcome.is_reported |= step(&db).is_err();
            outcome.add(&image.compare(|key| read(&db, key))?);
        }
        outcome.is_reported |= db.background_error().is_some();
        outcome.is_reported |= db.close().is_err();
    }
    Ok(outcome)
}

/// Repairs and reopens. `false` if the repair refused. Whatever is gone after a repair must be told by it, and of a database
/// whose tables and logs are whole nothing may be gone.
pub fn repair_damaged(
    dir: &Path,
    place: Place,
    image: &Image,
    is_manifest: bool,
) -> std::result::Result<bool, String> {
    let mut is_told = false;
    if place == Place::Flash {
        let device = dir.join(DATABASE);
        if FileZones::restore_geometry(&device).is_err() {
            return Ok(false);
        }
        let zones =
            FileZones::open(&device).map_err(|error| format!("after its repair: {error}"))?;
        match repair(Arc::new(zones)) {
            // What the device gave up is in its own report; the database's repair sees its files without it.
            Ok(_) => is_told = true,
            Err(_) => return Ok(false),
        }
    }
    let Ok(inspector) = inspector(dir, place) else { return Ok(false) };
    let Ok(repaired) = inspector.repair(MissingLogs::GiveUp) else { return Ok(false) };
    is_told |= !(repaired.lost_tables.is_empty() && repaired.cut_logs.is_empty());
    is_told |= repaired.torn_log.is_some() || !repaired.rebuilt.is_empty();
    is_told |= !repaired.given_up_manifests.is_empty();
    drop(inspector);
    let db = open(dir, place).map_err(|error| format!("after the repair: {error}"))?;
    let found = image.compare(|key| read(&db, key))?;
    let lost = found.old + found.errors;
    if lost > 0 && (is_manifest || !is_told) {
        return Err(format!("the repair lost {lost} keys: {repaired:?}"));
    }
    db.close().map_err(|error| format!("after the repair, at the close: {error}"))?;
    Ok(true)
}
