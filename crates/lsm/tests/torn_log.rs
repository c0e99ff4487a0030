//! Where a log ends in a frame that does not hold, it is told.

mod killed;

use esker_base::background::Stepped;
use esker_lsm::{Db, Env, Settings};
use esker_memtable::SEGMENT_HEADER_BYTES;
use esker_storage::PosixStorage;
use std::path::Path;
use std::sync::Arc;

fn open(dir: &Path) -> Db {
    let env = Env {
        background: Arc::new(Stepped),
        ..Env::over(Arc::new(PosixStorage::open(dir).unwrap()))
    };
    let settings =
        Settings { segment_bytes: 256 << 10, memory_bytes: 8 << 20, ..Settings::default() };
    Db::open_with(env, settings).unwrap()
}

/// Flips a bit in the first frame of the last log that has any.
fn damage_last_log(dir: &Path) {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let mut logs: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    logs.sort();
    for log in logs.iter().rev() {
        let mut bytes = std::fs::read(log).unwrap();
        let frames = &mut bytes[SEGMENT_HEADER_BYTES..];
        if let Some(first) = frames.iter().position(|&byte| byte != 0) {
            frames[first + 100] ^= 1;
            return std::fs::write(log, bytes).unwrap();
        }
    }
    panic!("no log has a frame");
}

#[test]
fn the_only_frame_of_a_segment_after_a_full_one_is_missed() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    // Four fill a segment, the fifth begins another.
    for number in 0..5u8 {
        db.put(&keyspace, &[number], &[number | 1; 60_000]).unwrap();
    }
    db.sync().unwrap();
    killed::copy_files(dir.path(), copy.path());
    let whole = open(copy.path());
    assert_eq!((whole.torn_log(), whole.stats().visible_seqno), (None, 5));
    drop(whole);

    let copy = tempfile::tempdir().unwrap();
    killed::copy_files(dir.path(), copy.path());
    damage_last_log(copy.path());
    let torn = open(copy.path());
    let told = torn.torn_log().expect("a write is gone");
    assert_eq!((told.first_seqno, &told.later), (5, &None), "{told}");
}
