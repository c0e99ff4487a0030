//! A database on a device of which a chunk goes bad that holds a part of a live table: it opens, what was there is an error
//! that says so, and nothing else is missing.

use esker_base::background::Stepped;
use esker_base::{Clock, Error, Result};
use esker_flash::chunk_device::{ChunkDevice, MemoryChunkDevice};
use esker_flash::storage::look;
use esker_flash::{FlashStorage, Geometry};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Log, Settings, Shape, SyncPolicy};
use esker_table::Compression;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const JOURNAL_CHUNKS: usize = 4;
const CHUNKS: usize = 96;
const CHUNK_BYTES: u32 = 64 << 10;
/// Of each of two tables, which are on some chunks each.
const KEYS: u32 = 300;
const VALUE_BYTES: usize = 512;
/// Keys that may have a part of a block, besides those that are whole in another one.
const KEYS_OF_BLOCK: usize = 10;

struct Standing;

impl Clock for Standing {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) {}
}

/// Their files, the older one first.
const TABLES: [&str; 2] = ["00000003.tables", "00000005.tables"];
/// A key behind those of the tables.
const NEW: u32 = 2 * KEYS;

/// Nothing is done in the background but by [`Db::run_background_job`].
fn open(device: &MemoryChunkDevice) -> Result<Db> {
    let env = Env::over(Arc::new(FlashStorage::open(Arc::new(device.clone()))?))
        .clock(Arc::new(Standing))
        .background(Arc::new(Stepped))
        .seed(1);
    let log = Log::File { dir: None, sync: SyncPolicy::Always };
    let settings = Settings::default().log(log).segment_bytes(256 << 10).sealed_segments(1);
    Db::open_with(env, settings)
}

/// Two runs in level 0 are due to be merged.
fn keyspace(db: &Db) -> Keyspace {
    let (shape, compression) = (Shape::Tiered { runs: 2 }, Compression::None);
    db.keyspace("one", KeyspaceSettings::default().shape(shape).compression(compression)).unwrap()
}

/// Says in every place which key it is of.
fn value(key: u32) -> Vec<u8> {
    let mark = [b"mark".as_slice(), &key.to_le_bytes()].concat();
    mark.repeat(VALUE_BYTES / mark.len())
}

/// The keys of a table: every second one, so that tables have to be merged.
fn keys_of(table: u32) -> impl Iterator<Item = u32> {
    (table..2 * KEYS).step_by(2)
}

/// A device with a database of two tables.
fn device() -> MemoryChunkDevice {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, CHUNKS as u16, CHUNK_BYTES));
    let db = open(&device).unwrap();
    let one = keyspace(&db);
    for table in 0..2 {
        for key in keys_of(table) {
            db.put(&one, key.to_be_bytes(), value(key)).unwrap();
        }
        db.flush().unwrap();
    }
    drop(one);
    db.close().unwrap();
    device
}

/// The keys of which a value, or a part of one, is in a chunk.
fn keys_in(device: &MemoryChunkDevice, place: usize) -> BTreeSet<u32> {
    let chunk = device.geometry().chunk(place);
    let mut bytes = vec![0; device.written(chunk).unwrap() as usize];
    device.read(chunk, 0, &mut bytes).unwrap();
    let marks = bytes.windows(8).filter(|window| window.starts_with(b"mark"));
    let keys = marks.map(|mark| u32::from_le_bytes(mark[4..].try_into().unwrap()));
    keys.filter(|key| *key < 2 * KEYS).collect()
}

/// A chunk goes bad. Says which tables' files have lost something.
fn lose(device: &MemoryChunkDevice, place: usize) -> Vec<String> {
    let chunk = device.geometry().chunk(place);
    device.reset(chunk).unwrap();
    device.break_chunk(chunk);
    let lost = look(device).unwrap().lost.into_iter().map(|lost| lost.name);
    lost.filter(|name| name.ends_with(".tables")).collect()
}

fn assert_lost(error: &Error, files: &[String]) {
    let told = error.to_string();
    assert!(error.is_lost() && files.iter().any(|file| told.contains(file)), "{files:?}: {told}");
}

/// The keys that can't be read. All others have their values.
fn lost_keys(db: &Db, files: &[String]) -> BTreeSet<u32> {
    let one = keyspace(db);
    let is_lost = |key: &u32| match db.get(&one, key.to_be_bytes()) {
        Ok(found) => {
            assert!(found.is_some_and(|found| found[..] == value(*key)[..]), "{key}");
            false
        }
        Err(error) => {
            assert_lost(&error, files);
            true
        }
    };
    (0..2 * KEYS).filter(is_lost).collect()
}

fn assert_told(db: &Db, files: &[String]) {
    assert_lost(&db.background_error().expect("it stands still"), files);
    let told = db.stats().background_error.unwrap();
    assert!(files.iter().any(|file| told.contains(file)), "{told}");
}

/// The keys of which it is unknown whether they are in a table whose end is lost, where its keys are reported: those of the first
/// table, or all that the second, which is newer, may have.
fn unknown(told: Option<&str>) -> BTreeSet<u32> {
    match told {
        None => BTreeSet::new(),
        Some(told) if told.contains(TABLES[0]) => keys_of(0).collect(),
        Some(told) => {
            assert!(told.contains(TABLES[1]), "{told}");
            (1..2 * KEYS).collect()
        }
    }
}

/// Each chunk of the device in turn goes bad that has a part of a table.
#[test]
fn of_tables_with_a_bad_chunk_what_lay_there_is_lost_and_nothing_else() {
    let (mut chunks, mut ends) = (0, 0);
    for place in JOURNAL_CHUNKS..CHUNKS {
        let device = device();
        let there = keys_in(&device, place);
        let files = lose(&device, place);
        if files.is_empty() {
            continue;
        }
        let db = open(&device).unwrap_or_else(|error| panic!("chunk {place}: {error}"));
        let unknown = unknown(db.stats().background_error.as_deref());
        (chunks, ends) = (chunks + 1, ends + u32::from(!unknown.is_empty()));
        let lost = lost_keys(&db, &files);
        assert!(there.is_subset(&lost) && unknown.is_subset(&lost), "chunk {place}: {lost:?}");
        // Blocks at the chunk's beginning and end are there in part.
        let most = there.difference(&unknown).count() + 2 * KEYS_OF_BLOCK;
        assert!(lost.difference(&unknown).count() <= most, "chunk {place}: {there:?}, {lost:?}");
        // A merge would meet it now, if the open has not.
        (0..20).for_each(|_| _ = db.run_background_job());
        assert_told(&db, &files);
        assert_eq!(lost_keys(&db, &files), lost, "chunk {place}");
        // It is written on, and no later open finds more or less.
        db.put(&keyspace(&db), NEW.to_be_bytes(), value(NEW)).unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        let db = open(&device).unwrap();
        assert_eq!(lost_keys(&db, &files), lost, "chunk {place}");
        let found = db.get(&keyspace(&db), NEW.to_be_bytes()).unwrap().unwrap();
        assert!(found[..] == value(NEW)[..]);
    }
    assert!(chunks == 5 && ends == 2, "{chunks} chunks with parts of tables, and {ends} with ends");
}
