//! What a process leaves that is killed, as copies of files.
#![allow(dead_code, reason = "each test uses some of it")]

use esker_lsm::Db;
use std::io::ErrorKind;
use std::path::Path;

/// Waits until no file of `db` changes any more without a write: nothing is left to flush or merge, and one
/// log at least is there to be written to. To be called after a write, and of a database with a log.
pub fn rest(db: &Db) {
    db.wait_for_compactions().unwrap();
    while db.stats().logs < 1 {
        assert!(db.background_error().is_none(), "{:?}", db.background_error());
        std::thread::yield_now();
    }
}

/// Copies the files of a database that rests.
pub fn copy_files(from: &Path, to: &Path) {
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        if file.file_name() == "LOCK" {
            continue;
        }
        match std::fs::copy(file.path(), to.join(file.file_name())) {
            // A merged table goes when the last reader lets its view go: nothing needs it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            copied => drop(copied.unwrap()),
        }
    }
}
