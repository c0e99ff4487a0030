//! Where a log ends in a frame that is invalid, or is cut short, that is reported.

use crate::killed;
use esker_base::background::Stepped;
use esker_base::{Error, Result};
use esker_lsm::inspect::Inspector;
use esker_lsm::inspect::repair::MissingLogPolicy;
use esker_lsm::{Db, Env, Recovery, Settings};
use esker_memtable::{SEGMENT_HEADER_BYTES, SegmentHeader, scan};
use esker_storage::PosixStorage;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn open(dir: &Path) -> Db {
    try_open(dir, Recovery::Prefix).unwrap()
}

fn try_open(dir: &Path, recovery: Recovery) -> Result<Db> {
    let env = Env::over(Arc::new(PosixStorage::open(dir).unwrap())).background(Arc::new(Stepped));
    let settings =
        Settings::default().recovery(recovery).segment_bytes(256 << 10).memory_bytes(8 << 20);
    Db::open_with(env, settings)
}

/// What a process leaves that was killed after it wrote `0..100` in frames of one entry each.
fn killed_after_100() -> tempfile::TempDir {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let db = open(dir.path());
    for number in 0..100u8 {
        db.put(&db.default_keyspace(), [number], [number; 50]).unwrap();
    }
    killed::copy_files(dir.path(), copy.path());
    copy
}

/// The log that the writes are in.
fn only_log(dir: &Path) -> PathBuf {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let logs = files.filter(|path| path.extension().is_some_and(|e| e == "log"));
    logs.min().expect("there is a log")
}

/// Where the frames in a log start, and where the last ends.
fn frames(log: &Path) -> Vec<u64> {
    let bytes = std::fs::read(log).unwrap();
    let header = SegmentHeader::decode(&bytes, "log").unwrap();
    let found = scan(&bytes, &header, None);
    found.frames.iter().map(|frame| frame.offset).chain([found.end]).collect()
}

/// How many of the writes are there: a prefix of them.
fn prefix(db: &Db) -> usize {
    let range = db.range(&db.default_keyspace(), ..);
    let keys: Vec<_> = range.into_iter().map(|pair| pair.unwrap().0).collect();
    assert!(keys.iter().zip(0..).all(|(key, number)| key[..] == [number]), "{keys:?}");
    keys.len()
}

/// The names of the files, and what is in them.
fn content(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap());
    let content = files.map(|file| {
        let name = file.file_name().into_string().unwrap();
        (name, std::fs::read(file.path()).unwrap())
    });
    content.filter(|(name, _)| name != "LOCK").collect()
}

#[test]
fn a_strict_open_refuses_whole_frames_behind_a_bad_one_and_changes_nothing() {
    let dir = killed_after_100();
    let log = only_log(dir.path());
    let mut bytes = std::fs::read(&log).unwrap();
    let bad = frames(&log)[60];
    bytes[bad as usize + 40] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let before = content(dir.path());
    match try_open(dir.path(), Recovery::Strict) {
        Err(Error::TornLog { offset, first_seqno, what, .. }) => {
            assert_eq!((offset, first_seqno), (bad, 61));
            assert!(what.contains("39 whole frames follow"), "{what}");
        }
        other => panic!("{:?}", other.map(|_| "it opens")),
    }
    assert_eq!(content(dir.path()), before);
}

#[test]
fn a_strict_open_accepts_a_log_that_ends_in_a_bad_frame() {
    let dir = killed_after_100();
    let log = only_log(dir.path());
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[frames(&log)[99] as usize + 40] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let db = try_open(dir.path(), Recovery::Strict).unwrap();
    assert_eq!(prefix(&db), 99);
    assert_eq!(db.torn_tail().unwrap().later, None);
}

#[test]
fn what_an_open_rejects_is_kept_aside() {
    let dir = killed_after_100();
    let log = only_log(dir.path());
    let mut bytes = std::fs::read(&log).unwrap();
    let frames = frames(&log);
    bytes[frames[60] as usize + 40] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let name = log.file_name().unwrap().to_str().unwrap();
    let lost = format!("lost-{name}");
    let db = open(dir.path());
    let torn = db.torn_tail().expect("writes are rejected");
    assert_eq!((torn.offset, torn.first_seqno), (frames[60], 61));
    let later = torn.later.as_ref().expect("whole frames follow");
    assert_eq!((later.offset, later.frames), (frames[61], 39));
    assert_eq!(torn.kept_in, std::slice::from_ref(&lost));
    assert_eq!(prefix(&db), 60);
    drop(db);
    let db = open(dir.path());
    assert_eq!((prefix(&db), db.torn_tail()), (60, None));
    db.close().unwrap();
    assert_eq!(content(dir.path())[&lost], bytes[..frames[100] as usize], "nothing removes it");
}

fn lost_in(dir: &Path) -> Vec<String> {
    content(dir).into_keys().filter(|name| name.starts_with("lost-")).collect()
}

#[test]
fn a_log_of_which_nothing_is_accepted_is_kept_once() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let db = open(dir.path());
    // Four fill a segment.
    for number in 0..9u8 {
        db.put(&db.default_keyspace(), [number], [number | 1; 60_000]).unwrap();
    }
    db.sync().unwrap();
    killed::copy_files(dir.path(), copy.path());
    let first = content(copy.path()).into_keys().find(|name| name.ends_with(".log")).unwrap();
    let mut bytes = std::fs::read(copy.path().join(&first)).unwrap();
    bytes[SEGMENT_HEADER_BYTES + 60_100] ^= 1;
    std::fs::write(copy.path().join(&first), bytes).unwrap();
    let to_repair = tempfile::tempdir().unwrap();
    killed::copy_files(copy.path(), to_repair.path());
    let inspector = Inspector::open(to_repair.path(), None).unwrap();
    let repaired = inspector.repair(MissingLogPolicy::Refuse).unwrap();
    assert_eq!(repaired.kept_logs, [format!("lost-{first}")]);
    assert!(!repaired.set_aside.is_empty(), "{repaired:?}");
    assert_eq!(prefix(&open(to_repair.path())), 1);
    assert_eq!(lost_in(to_repair.path()), repaired.kept_logs);

    let db = open(copy.path());
    assert_eq!(prefix(&db), 1);
    let torn = db.torn_tail().expect("writes are rejected");
    let lost = lost_in(copy.path());
    assert!(lost.len() >= 3, "{lost:?}");
    assert!(!lost.iter().any(|name| name.starts_with("lost-2-")), "{lost:?}");
    let mut kept_in = torn.kept_in.clone();
    kept_in.sort();
    assert_eq!(kept_in, lost);
}

#[test]
fn what_was_set_aside_stays_however_large_it_is() {
    let dir = killed_after_100();
    for name in ["lost-00000900.tables", "lost-00000901.tables"] {
        let file = std::fs::File::create(dir.path().join(name)).unwrap();
        // A hole: it takes no space.
        file.set_len((1 << 30) + 1).unwrap();
    }
    (0..2).for_each(|_| open(dir.path()).close().unwrap());
    let lost = open(dir.path()).lost_files().unwrap();
    assert_eq!(lost.len(), 2, "{lost:?}");
}

#[test]
fn a_repair_settles_a_log_that_a_strict_open_refuses() {
    let dir = killed_after_100();
    let log = only_log(dir.path());
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[frames(&log)[60] as usize + 40] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let inspector = Inspector::open(dir.path(), None).unwrap();
    let mut problems = Vec::new();
    inspector.check(&mut |problem| problems.push(problem)).unwrap();
    assert!(matches!(&problems[..], [Error::TornLog { .. }]), "{problems:?}");
    let repaired = inspector.repair(MissingLogPolicy::Refuse).unwrap();
    assert_eq!((repaired.log_entries, repaired.kept_logs.len()), (60, 1));
    assert_eq!(inspector.check(&mut |problem| panic!("{problem}")).unwrap().problems, 0);
    assert_eq!(prefix(&try_open(dir.path(), Recovery::Strict).unwrap()), 60);
}

/// No crash shortens a log, so an open does not take that for its end. A repair keeps what is left.
#[test]
fn a_log_that_is_cut_short_is_damage_and_repair_keeps_its_prefix() {
    let whole = killed_after_100();
    let frames = frames(&only_log(whole.path()));
    let cuts =
        [63, 64, frames[1], frames[40] - 8, frames[40], frames[40] + 8, frames[100], 200_000];
    for cut in cuts {
        let dir = tempfile::tempdir().unwrap();
        killed::copy_files(whole.path(), dir.path());
        let log = only_log(dir.path());
        std::fs::File::options().write(true).open(&log).unwrap().set_len(cut).unwrap();
        let before = content(dir.path());
        for recovery in [Recovery::Prefix, Recovery::Strict] {
            let refused = try_open(dir.path(), recovery).expect_err("it is damaged");
            assert!(refused.is_corruption(), "{cut} bytes: {refused}");
            assert!(cut < 64 || refused.to_string().contains("cut short"), "{refused}");
        }
        let inspector = Inspector::open(dir.path(), None).unwrap();
        assert!(inspector.check(&mut |_| {}).unwrap().problems > 0, "{cut} bytes");
        assert_eq!(content(dir.path()), before, "nothing is changed");

        let left = frames[1..].iter().filter(|&&end| end <= cut).count();
        let repaired = inspector.repair(MissingLogPolicy::Refuse).unwrap();
        assert_eq!((repaired.log_entries, repaired.cut_logs.len()), (left as u64, 1), "{cut}");
        assert_eq!(inspector.check(&mut |problem| panic!("{problem}")).unwrap().problems, 0);
        let db = try_open(dir.path(), Recovery::Strict).unwrap();
        assert_eq!(prefix(&db), left, "{cut} bytes");
        db.put(&db.default_keyspace(), [left as u8], b"new").unwrap();
        db.close().unwrap();
        assert_eq!(prefix(&open(dir.path())), left + 1);
    }
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
        db.put(&keyspace, [number], [number | 1; 60_000]).unwrap();
    }
    db.sync().unwrap();
    killed::copy_files(dir.path(), copy.path());
    let whole = open(copy.path());
    assert_eq!((whole.torn_tail(), whole.stats().visible_seqno), (None, 5));
    drop(whole);

    let copy = tempfile::tempdir().unwrap();
    killed::copy_files(dir.path(), copy.path());
    damage_last_log(copy.path());
    let torn = open(copy.path());
    let told = torn.torn_tail().expect("a write is gone");
    assert_eq!((told.first_seqno, &told.later), (5, &None), "{told}");
}
