//! The engine on a flash device: what it acknowledged is there after power loss, in the middle of flushes and
//! compactions, and after a clean close.

use esker_base::background::Stepped;
use esker_base::{Clock, Rng};
use esker_flash::chunk_device::{ChunkDevice, MemoryChunkDevice};
use esker_flash::storage::look;
use esker_flash::{FlashStorage, Geometry};
use esker_lsm::{Db, Env, KeyspaceSettings, Log, Settings, Shape, SyncPolicy};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

struct Standing;

impl Clock for Standing {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) {}
}

fn open(device: &MemoryChunkDevice) -> esker_base::Result<Db> {
    open_with(device, 64 << 10)
}

fn open_with(device: &MemoryChunkDevice, segment_bytes: usize) -> esker_base::Result<Db> {
    let env = Env::over(Arc::new(FlashStorage::open(Arc::new(device.clone()))?))
        .clock(Arc::new(Standing))
        .background(Arc::new(Stepped))
        .seed(1);
    let settings = Settings::default()
        .log(Log::File { dir: None, sync: SyncPolicy::Always })
        .segment_bytes(segment_bytes)
        .sealed_segments(1);
    Db::open_with(env, settings)
}

/// Overwrites keys at random until the device fails. Returns whether it did.
fn load(
    device: &MemoryChunkDevice,
    rng: &mut Rng,
    known: &mut BTreeMap<u64, Vec<Vec<u8>>>,
) -> bool {
    let Ok(db) = open(device) else { return true };
    let Ok(keyspace) = db.keyspace("load", KeyspaceSettings::default()) else { return true };
    for _ in 0..600 {
        let (key, value) = (rng.below(100), vec![rng.below(256) as u8; 500]);
        // It may or may not be there, if this fails.
        known.entry(key).or_default().push(value.clone());
        if db.put(&keyspace, key.to_be_bytes(), &value).is_err() {
            return true;
        }
        known.insert(key, vec![value]);
        while db.run_background_job() {}
    }
    false
}

fn check(device: &MemoryChunkDevice, known: &BTreeMap<u64, Vec<Vec<u8>>>, context: &str) {
    let db = open(device).unwrap_or_else(|error| panic!("{context}: {error}"));
    let keyspace = db.keyspace("load", KeyspaceSettings::default()).unwrap();
    for (key, values) in known {
        let found = db.get(&keyspace, key.to_be_bytes()).unwrap();
        let is_one =
            found.as_ref().is_some_and(|found| values.iter().any(|value| value[..] == found[..]));

        assert!(is_one, "{context}: key {key}");
    }
}

#[test]
fn acknowledged_writes_are_there_after_power_loss_and_after_a_close() {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(2, 4, 32, 128 << 10));
    let (mut rng, mut known) = (Rng::new(3), BTreeMap::new());
    assert!(!load(&device, &mut rng, &mut known));
    check(&device, &known, "after a close");
    let mut losses = 0;
    for round in 0..12 {
        // Loads take some 1,500 calls of the device.
        device.fail_after(rng.below(1_500));
        losses += u32::from(load(&device, &mut rng, &mut known));
        device.lose_power(&mut rng);
        check(&device, &known, &format!("round {round}"));
        // What was found is what counts from now on.
        let db = open(&device).unwrap();
        let keyspace = db.keyspace("load", KeyspaceSettings::default()).unwrap();
        for (key, values) in &mut known {
            *values = vec![db.get(&keyspace, key.to_be_bytes()).unwrap().unwrap().to_vec()];
        }
    }
    assert!(losses >= 6, "{losses}");
}

/// A device of 64 units, on which much is in units that are written, and a tree of many levels.
fn deep() -> (MemoryChunkDevice, KeyspaceSettings) {
    let shape = Shape::Leveled { ratio: 2 };
    let settings = KeyspaceSettings::default().shape(shape);
    (MemoryChunkDevice::new(Geometry::of_blocks(8, 8, 32, 64 << 10)), settings)
}

#[test]
fn deep_merges_come_into_force_when_others_have_followed_and_nothing_is_lost_at_any_moment() {
    let ((device, settings), mut rng) = (deep(), Rng::new(5));
    let mut known: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    let (mut lost, mut settled) = (0, 0);
    for round in 0..8 {
        let db = open(&device).unwrap();
        let keyspace = db.keyspace("load", settings).unwrap();
        for (key, values) in &mut known {
            let found = db.get(&keyspace, key.to_be_bytes()).unwrap().expect("it was written");
            assert!(values.iter().any(|value| value[..] == found[..]), "round {round}: {key}");
            *values = vec![found.to_vec()];
        }
        let (mut deferred, until) = (0, 1_500 + rng.below(2_500));
        for number in 0..until {
            if number + 50 == until {
                device.fail_after(rng.below(50));
            }
            let (key, mut value) = (rng.below(6_000), vec![0; 900]);
            rng.fill(&mut value);
            known.entry(key).or_default().push(value.clone());
            if db.put(&keyspace, key.to_be_bytes(), &value).is_err() {
                break;
            }
            known.insert(key, vec![value]);
            while db.run_background_job() {}
            let now = db.stats().compactions_deferred;
            settled += u64::from(now < deferred);
            deferred = now;
        }
        lost += u64::from(deferred > 0);
        drop((keyspace, db));
        device.lose_power(&mut rng);
    }
    assert!(lost > 2 && settled > 10, "{lost} with deferred merges, {settled} came into force");
}

/// Large values, so that a log takes hardly more than its size.
fn put_large(db: &Db, number: u64) -> esker_base::Result<()> {
    let keyspace = db.keyspace("load", KeyspaceSettings::default())?;
    db.put(&keyspace, number.to_be_bytes(), [number as u8; 12_000])?;
    while db.run_background_job() {}
    Ok(())
}

#[test]
fn a_database_on_a_full_device_opens_and_what_is_deleted_makes_room() {
    const SEGMENT_BYTES: usize = 128 << 10;
    let device = MemoryChunkDevice::new(Geometry::of_blocks(4, 4, 16, 128 << 10));
    let mut held = 0;
    let full = {
        let db = open_with(&device, SEGMENT_BYTES).unwrap();
        loop {
            match put_large(&db, held) {
                Ok(()) => held += 1,
                Err(error) => break error,
            }
        }
    };
    assert!(full.is_out_of_space() && full.to_string().contains("find space"), "{full}");
    assert!(held > 1_800, "{held} of the 2,700 that there are bytes for");
    let db = open_with(&device, SEGMENT_BYTES).unwrap();
    let keyspace = db.keyspace("load", KeyspaceSettings::default()).unwrap();
    for number in 0..held {
        let found = db.get(&keyspace, number.to_be_bytes()).unwrap();
        assert_eq!(found.as_deref(), Some(&[number as u8; 12_000][..]), "{number}");
    }
    let mut batch = db.batch();
    batch.delete_range(&keyspace, 0u64.to_be_bytes()..(held / 2).to_be_bytes());
    db.write(&batch).unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    (held..held + 300).for_each(|number| put_large(&db, number).unwrap());
}

const SEGMENT_OF_SMALLEST: usize = 512 << 10;
const VALUE_BYTES: usize = 8_000;

/// The smallest device on which `esker flash create` finds nothing wrong: six segments and a chunk, in addition to the journal.
/// A segment is sixteen chunks, as by default.
fn smallest() -> MemoryChunkDevice {
    MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 4 + 6 * 16 + 1, 32 << 10))
}

/// Bytes that can't be compressed.
fn value(number: u64) -> Vec<u8> {
    let mut value = vec![0; VALUE_BYTES];
    Rng::new(number).fill(&mut value);
    value
}

/// Puts keys from `first` on until that fails for want of space. Returns the first that is not there.
fn fill(db: &Db, first: u64) -> u64 {
    let keyspace = db.keyspace("load", KeyspaceSettings::default()).unwrap();
    for number in first.. {
        if let Err(full) = db.put(&keyspace, number.to_be_bytes(), value(number)) {
            assert!(full.is_out_of_space(), "{full}");
            return number;
        }
        while db.run_background_job() {}
    }
    unreachable!("a device has an end")
}

/// Whether a key is of those that are left when others are deleted.
fn is_kept(number: u64) -> bool {
    number.is_multiple_of(3)
}

#[test]
fn the_smallest_device_is_filled_and_goes_on_after_something_is_deleted_again_and_again() {
    for opens_again in [false, true] {
        let device = smallest();
        let mut db = open_with(&device, SEGMENT_OF_SMALLEST).unwrap();
        let mut from = 0;
        for round in 0..4 {
            let context = format!("round {round}, {opens_again}");
            let to = fill(&db, from);
            let put_bytes = (to - from) as usize * VALUE_BYTES;
            assert!(put_bytes > 2 * SEGMENT_OF_SMALLEST, "{context}: {put_bytes}");
            if opens_again {
                drop(db);
                db = open_with(&device, SEGMENT_OF_SMALLEST).unwrap();
            } else {
                db.flush().unwrap();
            }
            let keyspace = db.keyspace("load", KeyspaceSettings::default()).unwrap();
            for number in from..to {
                let found = db.get(&keyspace, number.to_be_bytes()).unwrap();
                assert_eq!(found.as_deref(), Some(&value(number)[..]), "{context}: {number}");
            }
            let mut batch = db.batch();
            let deleted = (from..to).filter(|number| !is_kept(*number));
            deleted.for_each(|number| batch.delete(&keyspace, number.to_be_bytes()));
            db.write(&batch).unwrap();
            db.compact().unwrap();
            for number in from..to {
                let found = db.get(&keyspace, number.to_be_bytes()).unwrap();
                assert_eq!(found.is_some(), is_kept(number), "{context}: {number}");
            }
            db.delete_range(&keyspace, 0u64.to_be_bytes()..to.to_be_bytes()).unwrap();
            db.compact().unwrap();
            from = to;
        }
    }
}

/// A log of small writes takes many times its size. What it may not take is the space of tables.
#[test]
fn small_writes_that_fill_a_device_can_be_flushed_and_deleted() {
    let device = smallest();
    for round in 0..3u64 {
        let db = open_with(&device, SEGMENT_OF_SMALLEST).unwrap();
        let keyspace = db.keyspace("load", KeyspaceSettings::default()).unwrap();
        let key = |number: u64| (number << 8 | round).to_be_bytes();
        let mut number = 0;
        // No step: the log goes on until there is no room for it.
        let full = loop {
            match db.put(&keyspace, key(number), [7; 100]) {
                Ok(()) => number += 1,
                Err(full) => break full,
            }
            assert!(number < 10_000, "the device is not full");
        };
        assert!(full.is_out_of_space() && number > 100, "{number}: {full}");
        // A handle to a keyspace keeps the storage, and that keeps the device.
        drop((db, keyspace));
        let db = open_with(&device, SEGMENT_OF_SMALLEST).unwrap();
        let keyspace = db.open_keyspace("load").unwrap();
        db.flush().unwrap();
        for number in 0..number {
            assert!(db.get(&keyspace, key(number)).unwrap().is_some(), "round {round}: {number}");
        }
        db.delete_range(&keyspace, key(0)..key(number)).unwrap();
        db.compact().unwrap();
    }
}

/// Space differs with each chunk: for whole segments, for the tables that they become, and for what remains. Nothing is done in the
/// background before a writer waits for it, so that as much is in logs as can.
#[test]
fn devices_of_40_to_64_chunks_that_are_full_open_again_and_take_deletes() {
    const SEGMENT_BYTES: usize = 128 << 10;
    for chunks in 40..=64 {
        let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, chunks, 32 << 10));
        let mut from = 0u64;
        for round in 0..3 {
            let context = format!("{chunks} chunks, round {round}");
            let db = open_with(&device, SEGMENT_BYTES)
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            let keyspace = db.keyspace("load", KeyspaceSettings::default()).unwrap();
            let mut to = from;
            let full = loop {
                match db.put(&keyspace, to.to_be_bytes(), value(to)) {
                    Ok(()) => to += 1,
                    Err(full) => break full,
                }
            };
            assert!(full.is_out_of_space(), "{context}: {full}");
            assert!(
                (to - from) as usize * VALUE_BYTES > SEGMENT_BYTES,
                "{context}: {from} to {to}"
            );
            drop((keyspace, db));
            let db = open_with(&device, SEGMENT_BYTES)
                .unwrap_or_else(|error| panic!("{context}, full: {error}"));
            let keyspace = db.keyspace("load", KeyspaceSettings::default()).unwrap();
            for number in from..to {
                let found = db.get(&keyspace, number.to_be_bytes()).unwrap();
                assert_eq!(found.as_deref(), Some(&value(number)[..]), "{context}: {number}");
            }
            let deleted = db.delete_range(&keyspace, 0u64.to_be_bytes()..to.to_be_bytes());
            deleted.unwrap_or_else(|error| panic!("{context}: {error}"));
            db.compact().unwrap_or_else(|error| panic!("{context}: {error}"));
            from = to;
        }
    }
}

const KEYS: u64 = 12_000;

const SEGMENT_BYTES: usize = 2 << 20;

fn random_value(key: u64) -> Vec<u8> {
    let mut rng = Rng::new(key);
    (0..500).map(|_| rng.below(256) as u8).collect()
}

/// A device with a database of which everything is in tables of eight chunks.
fn with_tables() -> MemoryChunkDevice {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(2, 4, 32, 256 << 10));
    let db = open_with(&device, SEGMENT_BYTES).unwrap();
    let keyspace = db.keyspace("load", KeyspaceSettings::default()).unwrap();
    for key in 0..KEYS {
        db.put(&keyspace, key.to_be_bytes(), random_value(key)).unwrap();
        while db.run_background_job() {}
    }
    db.flush().unwrap();
    while db.run_background_job() {}
    device
}

/// Where the end of a table is lost, or an index, the engine refuses the database, not the device.
#[test]
fn a_chunk_that_went_bad_costs_the_keys_that_lay_there_and_no_others() {
    // Chunks that are full, of which one is taken that a table has, and far from its end.
    let full = |device: &MemoryChunkDevice, place: usize| {
        let chunk = device.geometry().chunk(place);
        (device.written(chunk).unwrap() == 256 << 10).then_some(chunk)
    };
    let damaged = (4..256).find_map(|place| {
        let device = with_tables();
        let chunk = full(&device, place)?;
        device.reset(chunk).unwrap();
        device.break_chunk(chunk);
        let lost = look(&device).unwrap().lost;
        let is_table = lost.len() == 1 && lost[0].name.ends_with(".tables");
        is_table.then_some((place, device))
    });
    let (place, device) = damaged.unwrap();
    let db = open_with(&device, SEGMENT_BYTES).unwrap();
    let keyspace = db.keyspace("load", KeyspaceSettings::default()).unwrap();
    let (mut found, mut failed) = (0, 0);
    for key in 0..KEYS {
        match db.get(&keyspace, key.to_be_bytes()) {
            Ok(value) => {
                assert!(value.unwrap()[..] == random_value(key)[..], "key {key}");
                found += 1;
            }
            Err(error) => {
                let told = format!("chunk {place} of a device in memory has gone bad");
                assert!(error.to_string().contains(&told), "key {key}: {error}");
                failed += 1;
            }
        }
    }
    assert!(failed > 100 && found > 10 * failed, "{found}, {failed}");
}
