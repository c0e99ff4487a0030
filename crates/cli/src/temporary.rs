//! Temporary directories that are gone when the program is, whether it ends or is interrupted.

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::tell;
use esker_base::{Background, Clock, Priority, SystemClock, Threads};
use std::path::{Path, PathBuf};
use std::process::exit;
use std::time::Duration;

/// How often the listener looks whether the program was interrupted.
const GLANCE: Duration = Duration::from_millis(50);

/// How often a directory is removed in which threads that do not know of it yet make new files.
const TRIES: u32 = 20;

/// A directory that is removed when this is dropped, or at SIGINT, SIGTERM and SIGHUP. These end the program
/// with status 130; whatever it was doing in the directory is of no use to anybody.
pub struct Temporary(tempfile::TempDir);

impl Temporary {
    /// A new directory, its name beginning with `prefix`.
    pub fn create(prefix: &str) -> Outcome<Self> {
        let failed = |error| Failure::io("create", "a temporary directory", error);
        // First of all, so that no interrupt finds a directory and no listener.
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::io("listen for", "interrupts", error))?;
        let dir = tempfile::Builder::new().prefix(prefix).tempdir().map_err(failed)?;
        let path = dir.path().to_owned();
        let body = Box::new(move || remove_when_interrupted(&interrupt, path));
        // Never joined: it ends with the process.
        drop(Threads.spawn("esker-interrupt", Priority::Normal, body)?);
        Ok(Temporary(dir))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

fn remove_when_interrupted(interrupt: &Interrupt, dir: PathBuf) {
    let clock = SystemClock::new();
    while !interrupt.is_set() {
        clock.sleep(GLANCE);
    }
    for _ in 0..TRIES {
        if std::fs::remove_dir_all(&dir).is_ok() || !dir.exists() {
            break;
        }
        clock.sleep(GLANCE);
    }
    tell("esker: interrupted");
    exit(130);
}
