//! How a test says that it cannot run here.

use std::io::Write;

/// Makes tests fail that cannot run here, if it is set.
pub const NEED_EVERY_TEST: &str = "ESKER_NEED_EVERY_TEST";

/// Says on standard error that `test` does not run here, and `why`: one line that begins with `SKIPPED`. `.ci/run`
/// counts these lines.
///
/// Only tests call this. `cargo test` hides what passing tests print by macros; it does not hide this.
///
/// # Panics
///
/// Where [`NEED_EVERY_TEST`] is set in the environment.
#[track_caller]
pub fn skipped(test: &str, why: impl std::fmt::Display) {
    let line = format!("SKIPPED {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    assert!(
        std::env::var_os(NEED_EVERY_TEST).is_none(),
        "every test must run, not this one: {why}"
    );
}
