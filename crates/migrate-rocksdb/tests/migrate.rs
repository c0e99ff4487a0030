//! Databases that RocksDB wrote, copied by the program.

use esker::{Db, KeyspaceSettings, Settings};
use rocksdb::{DB, Options};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    fn rocks(&self) -> PathBuf {
        self.dir.path().join("rocks")
    }

    fn new_path(&self) -> PathBuf {
        self.dir.path().join("new")
    }

    /// A database with two column families and these entries in each.
    fn with_entries(entries: &[(&[u8], &[u8])]) -> Place {
        let place = Place::new();
        let db = create(&place.rocks(), &Options::default());
        let users = db.cf_handle("users").unwrap();
        for (key, value) in entries {
            db.put(key, value).unwrap();
            db.put_cf(&users, key, [b"user ", *value].concat()).unwrap();
        }
        place
    }

    fn migrate(&self, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_esker-migrate-rocksdb"));
        command.arg(self.rocks()).arg(self.new_path()).args(more).output().unwrap()
    }

    /// The names of all files next to the source.
    fn neighbours(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.dir.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != "rocks").collect();
        names.sort();
        names
    }
}

fn create(dir: &Path, options: &Options) -> DB {
    let mut options = options.clone();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    DB::open_cf(&options, dir, ["default", "users"]).unwrap()
}

fn all(dir: &Path, keyspace: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let db = Db::open(dir, Settings::default()).unwrap();
    let keyspace = db.keyspace(keyspace, KeyspaceSettings::default()).unwrap();
    let entries = keyspace.range(..).map(|entry| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    });
    entries.collect()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", errors(output));
}

#[test]
fn each_column_family_becomes_a_keyspace_with_its_entries() {
    let place = Place::with_entries(&[(b"a", b"1"), (b"b\x00\xff", b""), (b"c", &[7; 100_000])]);
    let output = place.migrate(&[]);
    succeeds(&output);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("copied and compared 6 entries"), "{said}");
    let expected = [(b"a".to_vec(), b"1".to_vec()), (b"b\x00\xff".to_vec(), vec![])];
    assert_eq!(all(&place.new_path(), "default")[..2], expected);
    let users = all(&place.new_path(), "users");
    assert_eq!(users.len(), 3);
    assert_eq!(users[0].1, b"user 1");
    assert_eq!(place.neighbours(), ["new"]);
}

#[test]
fn deleted_and_overwritten_entries_are_not_copied() {
    let place = Place::with_entries(&[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]);
    let db = create(&place.rocks(), &Options::default());
    db.flush().unwrap();
    db.delete(b"a").unwrap();
    db.put(b"b", b"new").unwrap();
    db.delete_range_cf(&db.cf_handle("users").unwrap(), b"a", b"c").unwrap();
    drop(db);
    succeeds(&place.migrate(&[]));
    let expected = [(b"b".to_vec(), b"new".to_vec()), (b"c".to_vec(), b"3".to_vec())];
    assert_eq!(all(&place.new_path(), "default"), expected);
    assert_eq!(all(&place.new_path(), "users").len(), 1);
}

#[test]
fn a_database_that_a_program_has_open_is_copied_too() {
    let place = Place::with_entries(&[(b"a", b"1")]);
    let db = create(&place.rocks(), &Options::default());
    db.put(b"b", b"2").unwrap();
    succeeds(&place.migrate(&[]));
    assert_eq!(all(&place.new_path(), "default").len(), 2);
}

#[test]
fn only_the_families_that_are_named_are_copied() {
    let place = Place::with_entries(&[(b"a", b"1")]);
    succeeds(&place.migrate(&["--family", "users"]));
    assert_eq!(all(&place.new_path(), "users").len(), 1);
    assert!(all(&place.new_path(), "default").is_empty());
}

#[test]
fn a_family_that_is_not_there_is_an_error_that_lists_the_others() {
    let place = Place::with_entries(&[(b"a", b"1")]);
    let output = place.migrate(&["--family", "user"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("it has default, users"), "{}", errors(&output));
}

#[test]
fn the_times_of_a_database_with_a_time_to_live_are_removed() {
    let place = Place::new();
    let mut options = Options::default();
    options.create_if_missing(true);
    let day = std::time::Duration::from_secs(86_400);
    let db = DB::open_with_ttl(&options, place.rocks(), day).unwrap();
    db.put(b"a", b"value").unwrap();
    drop(db);
    succeeds(&place.migrate(&["--ttl"]));
    assert_eq!(all(&place.new_path(), "default"), [(b"a".to_vec(), b"value".to_vec())]);
}

#[test]
fn an_entry_that_cannot_be_held_ends_the_copy_and_nothing_is_left() {
    let place = Place::with_entries(&[(b"a", b"1"), (&[9; 70_000], b"")]);
    let output = place.migrate(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("--skip-unfit"), "{}", errors(&output));
    assert!(place.neighbours().is_empty(), "{:?}", place.neighbours());
}

#[test]
fn entries_that_cannot_be_held_may_be_left_out() {
    let place =
        Place::with_entries(&[(b"", b"of the empty key"), (b"a", b"1"), (&[9; 70_000], b"")]);
    let output = place.migrate(&["--skip-unfit"]);
    succeeds(&output);
    assert!(errors(&output).contains("default: left 1 entry out"), "{}", errors(&output));
    let kept = all(&place.new_path(), "default");
    assert_eq!(kept[0], (b"".to_vec(), b"of the empty key".to_vec()));
    assert_eq!(kept.len(), 2);
}

#[test]
fn operands_of_a_merge_operator_are_refused_with_advice() {
    for flushed in [false, true] {
        let place = Place::new();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_merge_operator_associative("concatenate", |_, old, operands| {
            let parts = old.into_iter().chain(operands);
            Some(parts.flatten().copied().collect())
        });
        let db = DB::open(&options, place.rocks()).unwrap();
        db.merge(b"a", b"1").unwrap();
        if flushed {
            db.flush().unwrap();
        }
        drop(db);
        let output = place.migrate(&[]);
        assert_eq!(output.status.code(), Some(2), "{flushed}: {output:?}");
        assert!(errors(&output).contains("compact the database"), "{}", errors(&output));
        assert!(place.neighbours().is_empty(), "{:?}", place.neighbours());
    }
}

#[test]
fn another_order_of_keys_is_refused() {
    let place = Place::new();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_comparator("backwards", Box::new(|one, other| other.cmp(one)));
    drop(DB::open(&options, place.rocks()).unwrap());
    let output = place.migrate(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("orders keys by their bytes"), "{}", errors(&output));
}

#[test]
fn a_damaged_table_ends_the_copy_and_nothing_is_left() {
    let place = Place::with_entries(&[(b"a", &[1; 5_000]), (b"b", &[2; 5_000])]);
    let db = create(&place.rocks(), &Options::default());
    db.flush().unwrap();
    drop(db);
    let mut files = std::fs::read_dir(place.rocks()).unwrap().map(|file| file.unwrap().path());
    let table = files.find(|path| path.extension().is_some_and(|end| end == "sst"));
    let mut bytes = std::fs::read(table.as_ref().unwrap()).unwrap();
    bytes[100] ^= 1;
    std::fs::write(table.unwrap(), bytes).unwrap();
    let output = place.migrate(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("orruption"), "{}", errors(&output));
    assert!(place.neighbours().is_empty(), "{:?}", place.neighbours());
}

#[test]
fn a_directory_that_is_no_database_and_a_place_that_is_taken_are_refused() {
    let place = Place::new();
    std::fs::create_dir(place.rocks()).unwrap();
    let output = place.migrate(&[]);
    assert!(errors(&output).contains("is not a database of RocksDB"), "{}", errors(&output));
    std::fs::create_dir(place.new_path()).unwrap();
    std::fs::write(place.new_path().join("file"), b"mine").unwrap();
    let output = place.migrate(&[]);
    assert!(errors(&output).contains("is not empty"), "{}", errors(&output));
    assert_eq!(std::fs::read(place.new_path().join("file")).unwrap(), b"mine");
}

#[test]
fn the_facts_are_printed_as_json() {
    let place = Place::with_entries(&[(b"a", b"1")]);
    let output = place.migrate(&["--json"]);
    succeeds(&output);
    let facts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(facts["compared"], true);
    assert_eq!(facts["keyspaces"][1]["keyspace"], "users");
    assert_eq!(facts["keyspaces"][1]["bytes"], 7);
}
