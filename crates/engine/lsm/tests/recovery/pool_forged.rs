//! Values made of log frames by an attacker who knows the format.

use crate::killed;
use crate::pool_place::{Place, assert_all, put_all};
use esker_base::background::Stepped;
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::{Entry, KeyspaceId, Kind};
use esker_lsm::{Db, Env, Log, Settings, SyncPolicy};
use esker_storage::PosixStorage;
use std::path::Path;
use std::sync::Arc;

/// With the header of the frame and of the entry that they are in, values start at multiples of 64.
const KEY: [u8; 26] = [b'k'; 26];

/// More epochs than the tests use.
const EPOCHS: u32 = 1_500;

/// A frame of 64 bytes that is valid in a segment of version 1 with this epoch, and shows that all that
/// is missing there was durable.
fn frame_of(epoch: u32) -> Vec<u8> {
    const DURABLE: u64 = (1 << 40) - 1;
    let mut entries = Vec::new();
    let keyspace = KeyspaceId::DEFAULT;
    Entry { keyspace, kind: Kind::Put, key: b"forged", value: &[7; 22] }.encode(&mut entries);
    let numbers = [entries.len() as u32, 1].map(u32::to_le_bytes).concat();
    let seqnos = [DURABLE + 1, DURABLE].map(u64::to_le_bytes).concat();
    let epoch = epoch.to_le_bytes();
    let covered = [&epoch[..], &numbers, &seqnos].concat();
    let checksum = crc32c_append(crc32c(&covered), &entries).to_le_bytes();
    let frame = [&epoch[..], &checksum, &numbers, &seqnos, &entries].concat();
    assert_eq!(frame.len(), 64);
    frame
}

/// Fills a segment after the other with frames of all epochs that may come.
fn forge(db: &Db) {
    let value: Vec<u8> = (1..=EPOCHS).flat_map(frame_of).collect();
    for _ in 0..100 {
        db.put(&db.default_keyspace(), KEY, &value).unwrap();
    }
    assert!(db.stats().flushes > 2, "segments are used again");
}

#[test]
fn a_value_made_of_frames_keeps_no_database_with_a_pool_from_opening() {
    let place = Place::new();
    let db = place.open().unwrap();
    forge(&db);
    db.close().unwrap();
    let db = place.open().unwrap();
    put_all(&db, 0..10);
    let place = place.after_kill(db);
    assert_all(&place.open().unwrap(), 0..10);
}

#[test]
fn a_value_made_of_frames_keeps_no_database_with_log_files_from_opening() {
    let settings = Settings::default()
        .log(Log::File { dir: None, sync: SyncPolicy::Os })
        .segment_bytes(1 << 20)
        .memory_bytes(8 << 20);
    let open = |dir: &Path| {
        let storage = Arc::new(PosixStorage::open(dir).unwrap());
        let env = Env::over(storage).background(Arc::new(Stepped));
        Db::open_with(env, settings.clone())
    };
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path()).unwrap();
    forge(&db);
    // From here on in a file that was used before.
    db.flush().unwrap();
    put_all(&db, 0..10);
    db.sync().unwrap();
    let copy = tempfile::tempdir().unwrap();
    killed::copy_files(dir.path(), copy.path());
    drop(db);
    assert_all(&open(copy.path()).unwrap(), 0..10);
}
