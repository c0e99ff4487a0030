//! Another directory, or another database, in the place of the one that was opened.

use crate::support::*;
use esker_base::{ChangesError, Error};
use esker_lsm::{Db, Log, Settings, SyncPolicy};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory with the database `db`, the one that is followed.
struct Place(TempDir);

impl Place {
    fn new() -> (Place, Db) {
        let place = Place(tempfile::tempdir().unwrap());
        let writer = Db::open(place.path("db"), settings()).unwrap();
        (place, writer)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn follow(&self) -> Db {
        Db::open_follower(self.path("db"), settings(), None).unwrap()
    }

    /// Copies the files of the database to a directory `copy`.
    fn copy_out(&self) {
        std::fs::create_dir(self.path("copy")).unwrap();
        copy_files(&self.path("db"), &self.path("copy"));
    }

    fn remove_files(&self) {
        for entry in std::fs::read_dir(self.path("db")).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }

    /// Removes the files of the database, and copies those of `copy` into its directory.
    fn copy_back(&self) {
        self.remove_files();
        copy_files(&self.path("copy"), &self.path("db"));
    }

    /// Gives the directory `name` the place of the database, which gets the name `before`.
    fn put_in_place(&self, name: &str) {
        replace(&self.path("db"), &self.path("before"), &self.path(name));
    }
}

fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn replace(place: &Path, before: &Path, by: &Path) {
    std::fs::rename(place, before).unwrap();
    std::fs::rename(by, place).unwrap();
}

fn manifests(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    names.filter(|name| name.ends_with(".manifest")).collect()
}

fn put(db: &Db, key: &str, value: &str) {
    db.default_keyspace().put(key, value).unwrap();
}

fn get(db: &Db, key: &str) -> Option<String> {
    let value = db.default_keyspace().get(key).unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn replaced(follower: &Db) -> String {
    let error = follower.catch_up().unwrap_err();
    let Error::Changes(error) = &error else { panic!("{error}") };
    assert!(matches!(**error, ChangesError::Replaced { .. }), "{error}");
    error.to_string()
}

#[test]
fn a_restored_database_in_its_place_is_followed_from_anew() {
    let (place, writer) = Place::new();
    put(&writer, "a", "backed up");
    writer.checkpoint(place.path("copy")).unwrap();
    put(&writer, "a", "a mistake");
    put(&writer, "b", "a mistake");
    let follower = place.follow();
    let (keyspace, before) = (follower.default_keyspace(), follower.snapshot());
    writer.close().unwrap();
    place.put_in_place("copy");
    let caught_up = follower.catch_up().unwrap();
    assert!(caught_up.began_anew && follower.background_error().is_none());
    assert_eq!(follower.follower_stats().unwrap().new_beginnings, 1);
    assert_eq!((get(&follower, "a").as_deref(), get(&follower, "b")), (Some("backed up"), None));
    assert_eq!(before.get(&keyspace, "b").unwrap().as_deref(), Some(&b"a mistake"[..]));
    // The next process that writes to it begins anew, too, and from then on it is followed as before.
    let writer = Db::open(place.path("db"), settings()).unwrap();
    assert_eq!(follower.identity(), writer.identity());
    put(&writer, "b", "later");
    assert!(follower.catch_up().unwrap().began_anew);
    put(&writer, "c", "and more");
    assert!(!follower.catch_up().unwrap().began_anew);
    assert_eq!(Mirror::of(&follower), Mirror::of(&writer));
    assert_eq!(before.get(&keyspace, "a").unwrap().as_deref(), Some(&b"a mistake"[..]));
}

/// The copy gives the ids of files that it does not have to files of its own.
#[test]
fn blocks_of_files_with_the_same_ids_are_not_mixed_up() {
    let (place, writer) = Place::new();
    let follower = place.follow();
    let rounds = |db: &Db, value: &str, look: &dyn Fn()| {
        for round in 0..30 {
            put(db, "a", &format!("{value} {round:02}"));
            db.flush().unwrap();
            look();
        }
    };
    put(&writer, "a", "backed up");
    writer.checkpoint(place.path("copy")).unwrap();
    // Each newest table is read, and its block cached.
    rounds(&writer, "old", &|| {
        follower.catch_up().unwrap();
        assert_eq!(get(&follower, "a"), get(&writer, "a"));
    });
    let (keyspace, before) = (follower.default_keyspace(), follower.snapshot());
    writer.close().unwrap();
    place.put_in_place("copy");
    let writer = Db::open(place.path("db"), settings()).unwrap();
    rounds(&writer, "new", &|| {
        follower.catch_up().unwrap();
        assert_eq!(get(&follower, "a"), get(&writer, "a"));
    });
    assert_eq!(before.get(&keyspace, "a").unwrap().as_deref(), Some(&b"old 29"[..]));
}

/// Such as a restore into the directory after its files were removed.
#[test]
fn a_restored_database_in_the_same_directory_is_followed_from_anew() {
    let (place, writer) = Place::new();
    put(&writer, "a", "backed up");
    writer.checkpoint(place.path("copy")).unwrap();
    put(&writer, "a", "a mistake");
    let follower = place.follow();
    writer.close().unwrap();
    place.remove_files();
    follower.catch_up().unwrap_err();
    assert_eq!(get(&follower, "a").as_deref(), Some("a mistake"));
    for entry in std::fs::read_dir(place.path("copy")).unwrap() {
        let entry = entry.unwrap();
        std::fs::rename(entry.path(), place.path("db").join(entry.file_name())).unwrap();
    }
    assert!(follower.catch_up().unwrap().began_anew);
    assert_eq!(get(&follower, "a").as_deref(), Some("backed up"));
}

#[test]
fn files_that_were_put_back_from_an_earlier_copy_are_followed_from_anew() {
    let (place, writer) = Place::new();
    put(&writer, "a", "copied");
    writer.close().unwrap();
    place.copy_out();
    let writer = Db::open(place.path("db"), settings()).unwrap();
    put(&writer, "a", "later");
    let follower = place.follow();
    writer.close().unwrap();
    place.put_in_place("copy");
    assert!(follower.catch_up().unwrap().began_anew);
    assert_eq!(get(&follower, "a").as_deref(), Some("copied"));
}

/// The next process gives its manifest the name that the last one gave.
#[test]
fn files_that_were_put_back_into_the_directory_are_followed_from_anew() {
    let (place, writer) = Place::new();
    put(&writer, "a", "copied");
    writer.close().unwrap();
    place.copy_out();
    let writer = Db::open(place.path("db"), settings()).unwrap();
    put(&writer, "a", "a mistake");
    put(&writer, "b", "a mistake");
    let follower = place.follow();
    let manifest = manifests(&place.path("db"));
    writer.close().unwrap();
    place.copy_back();
    let writer = Db::open(place.path("db"), settings()).unwrap();
    assert_eq!(manifests(&place.path("db")), manifest);
    put(&writer, "c", "later");
    assert!(follower.catch_up().unwrap().began_anew);
    assert_eq!(get(&follower, "a").as_deref(), Some("copied"));
    assert_eq!(Mirror::of(&follower), Mirror::of(&writer));
    put(&writer, "d", "and more");
    assert!(!follower.catch_up().unwrap().began_anew);
    assert_eq!(Mirror::of(&follower), Mirror::of(&writer));
}

/// The process after that is further than the last one was, and has given ids of its files to other files.
#[test]
fn blocks_of_files_that_were_there_before_others_were_put_back_are_not_mixed_up() {
    let (place, writer) = Place::new();
    writer.close().unwrap();
    place.copy_out();
    let write = |value: &str, rounds: u32| {
        let writer = Db::open(place.path("db"), settings()).unwrap();
        for round in 0..rounds {
            put(&writer, &format!("{round}"), &format!("{value} {round}"));
            writer.flush().unwrap();
        }
        writer
    };
    let writer = write("old", 3);
    let follower = place.follow();
    assert_eq!(Mirror::of(&follower), Mirror::of(&writer));
    writer.close().unwrap();
    place.copy_back();
    let writer = write("new", 6);
    assert!(follower.catch_up().unwrap().began_anew);
    assert_eq!(Mirror::of(&follower), Mirror::of(&writer));
}

#[test]
fn one_copy_after_another_is_followed() {
    let (place, writer) = Place::new();
    put(&writer, "a", "first");
    writer.checkpoint(place.path("first")).unwrap();
    put(&writer, "a", "second");
    writer.checkpoint(place.path("second")).unwrap();
    let follower = place.follow();
    writer.close().unwrap();
    replace(&place.path("db"), &place.path("original"), &place.path("second"));
    follower.catch_up().unwrap();
    assert_eq!(get(&follower, "a").as_deref(), Some("second"));
    place.put_in_place("first");
    follower.catch_up().unwrap();
    assert_eq!(get(&follower, "a").as_deref(), Some("first"));
    replace(&place.path("db"), &place.path("first"), &place.path("original"));
    assert!(follower.catch_up().unwrap().began_anew);
    assert_eq!(get(&follower, "a").as_deref(), Some("second"));
}

#[test]
fn a_database_that_is_no_copy_is_named_and_not_followed() {
    let (place, writer) = Place::new();
    put(&writer, "a", "ours");
    let other = Db::open(place.path("other"), settings()).unwrap();
    put(&other, "a", "theirs");
    let follower = place.follow();
    place.put_in_place("other");
    let told = replaced(&follower);
    for identity in [writer.identity(), other.identity()] {
        assert!(told.contains(&format!("{identity:016x}")), "{told}");
    }
    assert!(follower.background_error().is_some());
    // It still has what it had.
    assert_eq!(get(&follower, "a").as_deref(), Some("ours"));
    assert_eq!(follower.follower_stats().unwrap().new_beginnings, 0);
    replace(&place.path("db"), &place.path("other"), &place.path("before"));
    put(&writer, "a", "ours again");
    follower.catch_up().unwrap();
    assert_eq!(get(&follower, "a").as_deref(), Some("ours again"));
}

/// A handle is of a keyspace id.
#[test]
fn a_copy_whose_keyspace_has_the_id_of_another_one_is_not_followed() {
    let (place, writer) = Place::new();
    writer.checkpoint(place.path("copy")).unwrap();
    writer.keyspace("users", appending()).unwrap().put("ada", "analyst").unwrap();
    let follower = place.follow();
    let users = follower.open_keyspace("users").unwrap();
    writer.close().unwrap();
    place.put_in_place("copy");
    assert!(follower.catch_up().unwrap().began_anew);
    assert!(matches!(users.get("ada"), Err(Error::UnknownKeyspace { .. })));
    let writer = Db::open(place.path("db"), settings()).unwrap();
    let orders = writer.keyspace("orders", appending()).unwrap();
    orders.put("ada", "a pen").unwrap();
    assert_eq!(orders.id(), users.id());
    let told = replaced(&follower);
    assert!(told.contains("\"orders\"") && told.contains("\"users\""), "{told}");
    assert!(matches!(users.get("ada"), Err(Error::UnknownKeyspace { .. })));
}

#[test]
fn a_restored_database_with_logs_elsewhere_is_followed_from_anew() {
    let place = Place(tempfile::tempdir().unwrap());
    let settings = || -> Settings {
        let log = Log::File { dir: Some(place.path("logs")), sync: SyncPolicy::Always };
        settings().log(log)
    };
    let open = || Db::open(place.path("db"), settings()).unwrap();
    let writer = open();
    put(&writer, "a", "backed up");
    writer.checkpoint(place.path("copy")).unwrap();
    put(&writer, "a", "a mistake");
    let follower = Db::open_follower(place.path("db"), settings(), None).unwrap();
    writer.close().unwrap();
    place.put_in_place("copy");
    assert!(follower.catch_up().unwrap().began_anew);
    assert_eq!(get(&follower, "a").as_deref(), Some("backed up"));
    // The logs of the original stay its own.
    std::fs::create_dir(place.path("new")).unwrap();
    replace(&place.path("logs"), &place.path("logs before"), &place.path("new"));
    let writer = open();
    put(&writer, "b", "only in the log");
    assert!(follower.catch_up().unwrap().began_anew);
    assert_eq!(Mirror::of(&follower), Mirror::of(&writer));
    put(&writer, "c", "and more");
    assert!(!follower.catch_up().unwrap().began_anew);
    assert_eq!(Mirror::of(&follower), Mirror::of(&writer));
}

/// Logs that were moved to another disk.
#[test]
fn logs_in_another_directory_at_the_same_path_are_found() {
    let place = Place(tempfile::tempdir().unwrap());
    let settings = || -> Settings {
        let log = Log::File { dir: Some(place.path("logs")), sync: SyncPolicy::Always };
        settings().log(log)
    };
    let writer = Db::open(place.path("db"), settings()).unwrap();
    let follower = Db::open_follower(place.path("db"), settings(), None).unwrap();
    put(&writer, "a", "1");
    std::fs::create_dir(place.path("disk")).unwrap();
    // The writer keeps the directory that it has opened.
    replace(&place.path("logs"), &place.path("logs before"), &place.path("disk"));
    put(&writer, "a", "2");
    follower.catch_up().unwrap();
    assert_eq!(get(&follower, "a").as_deref(), Some("2"));
    writer.close().unwrap();
    for entry in std::fs::read_dir(place.path("logs before")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), place.path("logs").join(entry.file_name())).unwrap();
    }
    let writer = Db::open(place.path("db"), settings()).unwrap();
    put(&writer, "a", "3");
    assert!(follower.catch_up().unwrap().began_anew);
    assert_eq!(get(&follower, "a").as_deref(), Some("3"));
}
