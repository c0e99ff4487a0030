//! A pool, or a directory, that is named as the place of the logs while they are next to the tables: what
//! they hold was acknowledged, and is neither dropped nor removed.
#![cfg(target_os = "linux")]

use crate::killed;
use crate::pool_place::{Place, assert_all, put_all};
use esker_base::Error;
use esker_lsm::inspect::Inspector;
use esker_lsm::inspect::repair::MissingLogPolicy;
use esker_lsm::{Db, Log, Settings, SyncPolicy};
use std::path::Path;

fn files(dir: Option<&Path>) -> Settings {
    let log = Log::File { dir: dir.map(Path::to_owned), sync: SyncPolicy::Always };
    Settings::default().log(log).segment_bytes(256 << 10).memory_bytes(8 << 20)
}

/// A database that had its logs elsewhere, as `first` says, and was killed with log files next to its tables.
fn moved(first: impl FnOnce(&Place) -> Settings) -> Place {
    let place = Place::new();
    let db = Db::open(place.dir(), first(&place)).unwrap();
    put_all(&db, 0..100);
    db.close().unwrap();
    let db = Db::open(place.dir(), files(None)).unwrap();
    put_all(&db, 100..200);
    place.after_kill(db)
}

fn logs_of(place: &Place) -> Vec<String> {
    let names = place.dir().read_dir().unwrap();
    let names = names.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.contains(".log")).collect();
    names.sort();
    names
}

/// Whatever is done with `settings` and `inspector` says that `option` is to be left out, and nothing is
/// lost.
#[track_caller]
fn expect_refusals(place: &Place, settings: Settings, inspector: &Inspector, option: &str) {
    let before = logs_of(place);
    assert!(!before.is_empty());
    let refusals = [
        Db::open(place.dir(), settings.clone()).err(),
        Db::open_read_only(place.dir(), settings).err(),
        inspector.repair(MissingLogPolicy::Refuse).err(),
        inspector.repair(MissingLogPolicy::GiveUp).err(),
        inspector.check(&mut |_| {}).err(),
    ];
    for (number, refused) in refusals.into_iter().enumerate() {
        let refused = refused.unwrap_or_else(|| panic!("number {number} is not refused"));
        assert!(!refused.is_corruption(), "{number}: {refused}");
        let text = refused.to_string();
        assert!(text.contains(&format!("leave {option} out")), "{number}: {text}");
        assert!(text.contains(&format!("{}/0", place.dir().display())), "{number}: {text}");
    }
    assert_eq!(logs_of(place), before);
    assert_all(&Db::open(place.dir(), files(None)).unwrap(), 0..200);
}

#[test]
fn a_pool_is_left_out_while_the_logs_lie_beside_the_tables() {
    let place = moved(Place::settings);
    let inspector = Inspector::open_with_pool(place.dir(), &place.pool(), true).unwrap();
    expect_refusals(&place, place.settings(), &inspector, "--pool");
}

#[test]
fn a_log_directory_is_left_out_while_the_logs_lie_beside_the_tables() {
    let logs = tempfile::tempdir().unwrap();
    let place = moved(|_| files(Some(logs.path())));
    let inspector = Inspector::open(place.dir(), Some(logs.path())).unwrap();
    expect_refusals(&place, files(Some(logs.path())), &inspector, "--log-dir");
}

#[test]
fn a_new_pool_is_left_out_while_the_logs_lie_beside_the_tables() {
    let place = moved(|_| files(None));
    let refused = place.open().err().unwrap();
    assert!(matches!(refused, Error::PoolRefused { .. }), "{refused}");
    assert!(refused.to_string().contains("leave --pool out"), "{refused}");
}

/// The edit that listed the log is lost: then nothing but its writes says that it counts.
#[test]
fn a_log_beside_the_tables_that_no_whole_edit_lists_is_not_given_up_for_a_pool() {
    let place = moved(Place::settings);
    let manifest = Inspector::open(place.dir(), None).unwrap().manifest().unwrap();
    let path = place.dir().join(&manifest.name);
    let lists = |offset: u64| {
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..offset as usize + 5]).unwrap();
        !Inspector::open(place.dir(), None).unwrap().logs().unwrap().is_empty()
    };
    // From the last edit back, until none is left that lists a log.
    let mut offsets = manifest.records.iter().map(|record| record.offset).rev();
    assert!(offsets.any(|offset| !lists(offset)));

    let before = logs_of(&place);
    let inspector = Inspector::open_with_pool(place.dir(), &place.pool(), true).unwrap();
    let refused = inspector.repair(MissingLogPolicy::GiveUp).unwrap_err();
    assert!(refused.to_string().contains("leave --pool out"), "{refused}");
    let refused = place.open().err().unwrap();
    assert!(refused.to_string().contains("no edit accounts for"), "{refused}");
    assert_eq!(logs_of(&place), before);
}

#[test]
fn a_log_beside_the_tables_that_is_younger_than_the_manifest_is_not_removed_for_a_pool() {
    let place = Place::new();
    place.open().unwrap().close().unwrap();
    let older = place.copy();
    let db = Db::open(place.dir(), files(None)).unwrap();
    put_all(&db, 0..100);
    killed::rest(&db);
    for name in logs_of(&place) {
        std::fs::copy(place.dir().join(&name), older.dir().join(&name)).unwrap();
    }
    let before = logs_of(&older);
    for open in [Db::open, Db::open_read_only] {
        let refused = open(older.dir(), older.settings()).err().unwrap();
        assert!(refused.to_string().contains("older copy"), "{refused}");
    }
    assert_eq!(logs_of(&older), before);
}
