//! The table of functions agrees with the library and with `FUNCTIONS.md`.
//!
//! `ESKER_REWRITE=1 cargo test -p esker-rocksdb --test functions` writes the page anew.

// The bindings depend on the façade alone, which does not export what tests share.
#[path = "../../../crates/engine/base/src/skipped.rs"]
mod skipped;

use rocksdb::{Decision, functions};
use skipped::skipped;
use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// How many functions `c.h` of RocksDB 11.8 declares.
const DECLARED: usize = 1745;

/// Those of older versions, which programs for these still call.
const OLDER: [&str; 2] = [
    "rocksdb_options_set_access_hint_on_compaction_start",
    "rocksdb_options_set_skip_checking_sst_file_sizes_on_db_open",
];

#[test]
fn every_function_is_decided_once() {
    let all = functions();
    let twice: Vec<_> = all.windows(2).filter(|two| two[0].name == two[1].name).collect();
    assert!(twice.is_empty(), "{twice:?}");
    for older in OLDER {
        assert!(all.iter().any(|function| function.name == older), "{older}");
    }
    assert_eq!(all.len(), DECLARED + OLDER.len());
    for function in &all {
        assert_eq!(
            function.reason.is_empty(),
            function.decision == Decision::Works,
            "{function:?}"
        );
    }
}

/// The page that lists the functions.
fn page() -> String {
    let all = functions();
    let count = |decision| all.iter().filter(|function| function.decision == decision).count();
    let mut page = format!(
        "# Functions\n\nWhat becomes of the {DECLARED} functions that `rocksdb/c.h` of RocksDB 11.8 declares, \
         and of {}\nthat older versions have. This page is made from the code: see \
         `tests/functions.rs`.\n\n\
         | decision | functions | meaning |\n|---|---|---|\n\
         | works | {} | does what RocksDB does, as far as `README.md` does not say otherwise |\n\
         | accepted | {} | succeeds, and changes nothing but what the program reads back |\n\
         | refused | {} | fails with an error, or returns null or zero if it has no error |\n\n",
        OLDER.len(),
        count(Decision::Works),
        count(Decision::Accepted),
        count(Decision::Refused),
    );
    let mut reasons: Vec<_> = all.iter().map(|function| function.reason).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let _ = writeln!(page, "Why functions are accepted or refused:\n");
    let numbered: Vec<_> = reasons.into_iter().filter(|reason| !reason.is_empty()).collect();
    for (number, reason) in numbered.iter().enumerate() {
        let _ = writeln!(page, "{}. {reason}", number + 1);
    }
    let _ = write!(page, "\n| function | decision | why |\n|---|---|---|\n");
    for function in &all {
        let decision = match function.decision {
            Decision::Works => "works",
            Decision::Accepted => "accepted",
            Decision::Refused => "refused",
        };
        let why = numbered.iter().position(|reason| *reason == function.reason);
        let why = why.map(|number| (number + 1).to_string()).unwrap_or_default();
        let _ = writeln!(page, "| `{}` | {decision} | {why} |", function.name);
    }
    page
}

#[test]
fn the_page_lists_what_the_code_decides() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("FUNCTIONS.md");
    if std::env::var_os("ESKER_REWRITE").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == page(), "FUNCTIONS.md is out of date: run this test with ESKER_REWRITE=1");
}

// SAFETY: these are the functions of the C library, with its signatures.
unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The shared library, next to this program.
fn library() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let mut places = program.ancestors().skip(1).take(2).map(|dir| dir.join("librocksdb.so"));
    places.find(|path| path.is_file())
}

/// The functions of the shared library, by their names. `None` if it is not there.
fn addresses() -> Option<Vec<(&'static str, *mut c_void)>> {
    const RTLD_NOW: c_int = 2;
    let Some(path) = library() else {
        skipped("the shared library", "`cargo build -p esker-rocksdb` builds it");
        return None;
    };
    let path = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the path is a text that a zero ends. The library runs nothing when it is loaded.
    let library = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
    assert!(!library.is_null(), "{path:?} cannot be loaded");
    let address = |name: &str| {
        let name = CString::new(name).unwrap();
        // SAFETY: the library is open, and the name is a text that a zero ends.
        unsafe { dlsym(library, name.as_ptr()) }
    };
    Some(functions().iter().map(|function| (function.name, address(function.name))).collect())
}

#[test]
fn the_shared_library_has_every_function() {
    let Some(all) = addresses() else { return };
    let missing: Vec<_> = all.iter().filter(|(_, address)| address.is_null()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The name of the variable with which the test below is run in a process of its own.
const IS_CHILD: &str = "ESKER_CALLS_WITH_NULL";

/// Null where a handle, bytes, a text, an array or a place for a result should be ends no process.
#[test]
#[cfg(target_arch = "x86_64")]
fn every_function_takes_null() {
    type N = usize;
    /// More integers and pointers than any function has. A caller in C removes the arguments, so it may
    /// give too many. Numbers with a fraction are in other registers.
    type Any =
        extern "C" fn(N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N) -> N;

    if std::env::var_os(IS_CHILD).is_some() {
        for (name, address) in addresses().unwrap_or_default() {
            println!("calls {name}");
            // SAFETY: it is a function of C, whose arguments all may be zero: that is what is tested.
            let function: Any = unsafe { std::mem::transmute(address) };
            function(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        }
        return;
    }
    if addresses().is_none() {
        return;
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["every_function_takes_null", "--exact", "--nocapture"])
        .env(IS_CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let last = said.lines().rfind(|line| line.starts_with("calls ")).unwrap_or_default();
    assert!(child.status.success(), "{last}: {}", child.status);
    assert_eq!(said.matches("calls rocksdb_").count(), functions().len());
}
