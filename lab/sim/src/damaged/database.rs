//! Databases in the campaign: in files, with the log in a pool, or on a flash device.

use super::image::{Image, Kind, Place, Recorder, Span, copy};
use super::judge::History;
use crate::clock::SimClock;
use esker_base::background::Stepped;
use esker_base::{Error, Result};
use esker_flash::chunk_device::FileChunkDevice;
use esker_flash::{FlashStorage, Geometry};
use esker_lsm::inspect::Inspector;
use esker_lsm::{Db, Env, KeyspaceSettings, Log, Settings, SyncPolicy};
use esker_pmem::{Accept, Pool};
use esker_storage::{PosixStorage, Storage};
use esker_table::Compression;
use std::path::Path;
use std::sync::Arc;

/// Below an image's directory: the database's directory or device, and the pool of its log.
pub const DATABASE: &str = "database";
const POOL: &str = "pool";
/// The keyspaces that are there, and the one that was dropped.
pub const KEYSPACES: [&str; 2] = ["default", "another"];
pub const DROPPED: &str = "dropped";
const POOL_BYTES: u64 = (8 << 10) + 6 * (64 << 10);

pub fn text(error: Error) -> String {
    error.to_string()
}

fn geometry() -> Geometry {
    Geometry::of_blocks(1, 1, 60, 64 << 10)
}

fn storage(dir: &Path, place: Place) -> Result<Arc<dyn Storage>> {
    let dir = dir.join(DATABASE);
    Ok(match place {
        Place::Flash => Arc::new(FlashStorage::open(Arc::new(FileChunkDevice::open(&dir)?))?),
        Place::Files | Place::Pool => Arc::new(PosixStorage::open(dir)?),
    })
}

pub fn open(dir: &Path, place: Place) -> Result<Db> {
    let (env, settings) = world(dir, place, true)?;
    Db::open_with(env, settings)
}

pub fn open_read_only(dir: &Path, place: Place) -> Result<Db> {
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
        _ => Log::File { dir: None, sync: SyncPolicy::Always },
    };
    let mut env = Env::over(storage(dir, place)?)
        .clock(Arc::new(SimClock::default()))
        .background(Arc::new(Stepped))
        .seed(1);
    env.pool = pool;
    let settings = Settings::default()
        .log(log)
        .segment_bytes(64 << 10)
        .sealed_segments(2)
        .memory_bytes(4 << 20)
        .background_threads(1);
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
        Place::Flash => {
            drop(FileChunkDevice::create(&live.join(DATABASE), geometry()).map_err(text)?)
        }
    }
    let db = open(&live, place).map_err(text)?;
    let mut history = History::default();
    make_tables(&db, &mut history).map_err(text)?;
    history.flushed = history.writes.len();
    let (mut recorder, mut stored) = (Recorder::new(&live).map_err(io)?, Vec::new());
    for (key, value) in round_of(3) {
        write(&db, &key, value.as_deref()).map_err(text)?;
        stored.push(recorder.spans_of(split(&key).1).map_err(io)?);
        history.writes.push((key, value));
    }
    if stored.contains(&Vec::new()) {
        return Err("no file has the bytes of a write".into());
    }
    if is_closed {
        db.clone().close().map_err(text)?;
        (history, stored) = (history.all_flushed(), Vec::new());
    }
    if place == Place::Flash {
        let end = journal_end(&live).map_err(io)?;
        stored.iter_mut().for_each(|spans| spans.push(end.clone()));
    }
    copy(&live, &dir).map_err(io)?;
    drop(db);
    std::fs::remove_dir_all(&live).map_err(io)?;
    let how = if is_closed { "closed" } else { "killed" };
    let name = format!("a database ({place:?}) that was {how}");
    Ok(Image { name, kind: Kind::Database(place), dir, history, stored })
}

/// The last block of a flash device's journal. Zeros in its place look like a journal that ends before it, and so may lack the
/// edit that gave the log its chunks.
fn journal_end(dir: &Path) -> std::io::Result<Span> {
    let (mut end, mut newest) = (Span { file: "".into(), bytes: 0..0 }, 0);
    for number in 0..4 {
        let file = Path::new(DATABASE).join(format!("zone-{number:05}"));
        let bytes = match std::fs::read(dir.join(&file)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            found => found?,
        };
        let generation =
            bytes.get(24..32).map_or(0, |it| u64::from_le_bytes(it.try_into().expect("8 bytes")));
        if generation > newest {
            let bytes = bytes.len().saturating_sub(4096)..bytes.len();
            (end, newest) = (Span { file, bytes }, generation);
        }
    }
    Ok(end)
}

/// Three rounds of writes in tables, one of them compacted. One keyspace has its values in value files.
fn make_tables(db: &Db, history: &mut History) -> Result<()> {
    let settings = KeyspaceSettings::default();
    let separating = settings.separation_threshold(1).compression(Compression::None);
    db.keyspace(KEYSPACES[1], separating)?;
    let dropped = db.keyspace(DROPPED, settings)?;
    for round in 0..3 {
        for (key, value) in round_of(round) {
            write(db, &key, value.as_deref())?;
            history.writes.push((key, value));
        }
        match round {
            2 => db.drop_keyspace(&dropped)?,
            _ => db.put(&dropped, b"key", [round])?,
        }
        db.flush()?;
        if round == 0 {
            db.compact()?;
        }
    }
    Ok(())
}

/// A write of each key: keyspace and key, and its value or `None`.
fn round_of(round: u8) -> impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)> {
    (0..60u8).map(move |number| {
        let key = format!("{}/key {number:03}", KEYSPACES[usize::from(number % 2)]);
        let length = 100 + usize::from(number) * 5;
        (key.into_bytes(), (number % 11 != round).then(|| vec![number ^ round << 6; length]))
    })
}

pub fn write(db: &Db, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    let (keyspace, key) = split(key);
    let keyspace = db.open_keyspace(keyspace)?;
    match value {
        Some(value) => db.put(&keyspace, key, value),
        None => db.delete(&keyspace, key),
    }
}

pub fn inspector(dir: &Path, place: Place) -> Result<Inspector> {
    match place {
        Place::Pool => Inspector::open_with_pool(dir.join(DATABASE), &dir.join(POOL), true),
        _ => {
            let storage = storage(dir, place)?;
            Ok(Inspector::of(storage.clone(), storage))
        }
    }
}

/// A keyspace's name and a key.
pub fn split(key: &[u8]) -> (&str, &[u8]) {
    let at = key.iter().position(|byte| *byte == b'/').expect("made so");
    (std::str::from_utf8(&key[..at]).expect("made so"), &key[at + 1..])
}
