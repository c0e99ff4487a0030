//! migrate.

use crate::Scratch;
use crate::scratch::Done;

#[test]
fn a_migration_without_its_program_says_how_to_get_it() {
    let scratch = Scratch::new();
    let mut command = scratch.command(&["migrate", "rocksdb", "old", "new"]);
    let output = command.env("PATH", scratch.path(".")).output().unwrap();
    let advice = "cargo install --path crates/migrate-rocksdb";
    Done::of(output).expect_failure(2, advice);
    scratch.run(&["migrate", "leveldb", "old", "new"]).expect_failure(2, "rocksdb");
}

/// The program of the engine is a shell here. A script that was just written might be open for writing in
/// a child of another test, and could not be started then; a shell only reads it.
#[test]
fn a_migration_gives_its_arguments_to_the_program_of_the_engine() {
    let scratch = Scratch::new();
    std::os::unix::fs::symlink("/bin/sh", scratch.path("esker-migrate-rocksdb")).unwrap();
    let script = scratch.file("old", b"printf '%s\\n' \"$@\"; exit 7");
    let mut command = scratch.command(&["migrate", "rocksdb", &script, "new", "--ttl", "--json"]);
    let output = command.env("PATH", scratch.path(".")).output().unwrap();
    assert_eq!(Done::of(output).expect_status(7).text(), "new\n--ttl\n--json\n");
}
