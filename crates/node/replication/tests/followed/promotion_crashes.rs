//! Crashes in a promotion, at every call of the follower's storage.

use crate::support::{Contents, contents, last};
use esker_base::background::Stepped;
use esker_base::{ChangesError, Error, FileKind, Result, Rng, WriteHint};
use esker_lsm::{
    Db, Env, FOLLOWS, Log, Replica, Settings, StagedCopy, SyncPolicy, promote, settle_staged_copy,
};
use esker_storage::{FaultStorage, MemoryStorage, Storage};
use std::sync::Arc;

fn settings() -> Settings {
    let log = Log::File { dir: None, sync: SyncPolicy::Always };
    crate::support::settings().memory_bytes(8 << 20).log(log)
}

fn env(storage: impl Storage) -> Env {
    Env::over(Arc::new(storage)).background(Arc::new(Stepped))
}

fn primary() -> Db {
    let db = Db::open_with(env(MemoryStorage::new()), settings()).unwrap();
    db.lineage().unwrap();
    put(&db, 0..10);
    db
}

fn put(db: &Db, keys: std::ops::Range<u8>) {
    keys.for_each(|key| db.default_keyspace().put([key], [key; 2_000]).unwrap());
}

/// Copies `primary` into `disk`, as its follower does, up to the point where the copy counts.
fn receive_base(primary: &Db, disk: &FaultStorage, is_complete: bool) {
    let files = primary.live_files().unwrap();
    let staged = StagedCopy::begin(disk, primary.identity()).unwrap();
    let names = files.tables().into_iter().chain(files.manifest().map(str::to_owned));
    for name in names {
        let file = files.open(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        let hint = WriteHint::of(FileKind::Table);
        let mut copy = disk.create(&staged.name_of(&name), hint).unwrap();
        copy.append(&bytes).unwrap();
        copy.sync().unwrap();
    }
    if is_complete {
        staged.commit(primary.lineage().unwrap().origin()).unwrap();
    }
}

/// What the follower was doing when it was stopped.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Staged {
    Nothing,
    /// A newer copy had not arrived as a whole.
    Part,
    /// A newer copy had arrived, and did not replace the older one yet.
    Whole,
}

/// The disk of a follower that was stopped, and what it has applied.
fn follower(staged: Staged, seed: u64) -> (FaultStorage, Contents, u64) {
    let (primary, disk) = (primary(), FaultStorage::new(Rng::new(seed)));
    receive_base(&primary, &disk, true);
    settle_staged_copy(&disk).unwrap();
    let mut replica = Replica::open_with(env(disk.clone()), settings()).unwrap();
    put(&primary, 5..60);
    let mut pieces = primary.log_pieces(replica.applied() + 1).unwrap();
    while let Some(piece) = pieces.try_next().unwrap() {
        replica.apply(&piece.header, &piece.bytes).unwrap();
    }
    assert_eq!(replica.applied(), last(&primary));
    let mut expected = (contents(&primary), last(&primary));
    if staged != Staged::Nothing {
        put(&primary, 50..80);
        receive_base(&primary, &disk, staged == Staged::Whole);
    }
    if staged == Staged::Whole {
        expected = (contents(&primary), last(&primary));
    }
    // The process was killed.
    let disk = disk.kill();
    drop(replica);
    (disk, expected.0, expected.1)
}

/// Promotes, and writes. Returns whether the promotion was acknowledged, and the writes that were.
fn run(disk: &FaultStorage) -> (bool, u8) {
    let mut written = 0;
    let is_promoted = promote(disk).is_ok();
    let mut write = || -> Result<()> {
        let db = Db::open_existing_with(env(disk.clone()), settings())?;
        for key in 100..104 {
            db.default_keyspace().put([key], "after")?;
            written += 1;
        }
        db.flush()?;
        db.close()
    };
    let _ = is_promoted.then(&mut write);
    (is_promoted, written)
}

/// Goes on after a crash, and checks that nothing is lost.
fn go_on(
    disk: &FaultStorage,
    expected: &Contents,
    through: u64,
    (was_promoted, written): (bool, u8),
) {
    match promote(disk) {
        Ok(_) => assert!(!was_promoted, "it follows again"),
        Err(Error::Changes(error)) => {
            assert!(matches!(*error, ChangesError::NoCopy { .. }), "{error}");
        }
        Err(error) => panic!("{error}"),
    }
    assert!(disk.read_all(FOLLOWS).is_none());
    let db = Db::open_existing_with(env(disk.clone()), settings()).unwrap();
    let mut found = contents(&db);
    let there = (100..104_u8).filter(|key| found["default"].contains_key(&vec![*key])).count();
    assert!(there >= usize::from(written), "{there} of {written}");
    found.get_mut("default").unwrap().retain(|key, _| key[0] < 100);
    assert_eq!(found, *expected);
    assert_eq!(last(&db), through + there as u64);
    db.default_keyspace().put("more", "1").unwrap();
    db.close().unwrap();
    let db = Db::open_existing_with(env(disk.clone()), settings()).unwrap();
    assert_eq!(db.default_keyspace().get("more").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_crash_in_a_promotion_loses_nothing_that_was_applied_and_the_next_goes_on() {
    for staged in [Staged::Nothing, Staged::Part, Staged::Whole] {
        let (whole, ..) = follower(staged, 1);
        let before = whole.operations();
        assert_eq!(run(&whole), (true, 4));
        let (mut followed, mut promoted) = (0, 0);
        for call in 0..whole.operations() - before {
            let (disk, expected, through) = follower(staged, call);
            disk.crash_after(call);
            let done = run(&disk);
            let disk = disk.crash();
            let is_promoted = disk.read_all(FOLLOWS).is_none();
            followed += u32::from(!is_promoted);
            promoted += u32::from(is_promoted);
            go_on(&disk, &expected, through, done);
        }
        assert!(followed > 0 && promoted > 20, "{staged:?}: {followed} and {promoted}");
    }
}
