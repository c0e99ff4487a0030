//! A C program is linked to the shared library, and runs.

// The bindings depend on the façade alone, which does not export what tests share.
#[path = "../../../crates/engine/base/src/skipped.rs"]
mod skipped;

use skipped::skipped;
use std::path::PathBuf;
use std::process::Command;
// So that Cargo builds the library before this test.
use rocksdb as _;

#[test]
fn a_c_program_runs_on_the_library() {
    let program = std::env::current_exe().unwrap();
    let mut places = program.ancestors().skip(1).take(2).map(|dir| dir.join("librocksdb.so"));
    let Some(library) = places.find(|path| path.is_file()) else {
        return skipped("the C program", "`cargo build -p esker-rocksdb` builds its library");
    };
    let dir = tempfile::tempdir().unwrap();
    let binary = dir.path().join("program");
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/program.c");
    let compiled = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&binary, &source, &library])
        .output();
    let Ok(compiled) = compiled else {
        return skipped("the C program", "there is no `cc`; `apt-get install gcc` gets one");
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&binary)
        .arg(dir.path().join("db"))
        .env("LD_LIBRARY_PATH", library.parent().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && ran.stdout == b"done\n", "{said}");
}
