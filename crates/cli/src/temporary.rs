//! Temporary directories that are gone when the program is, whether it ends or is interrupted; and what an
//! interrupted program says of a directory that it keeps.

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::tell_error;
use esker_base::{Background, Clock, Priority, SystemClock, Threads};
use std::path::Path;
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
    /// A new directory among the system's temporary ones, its name beginning with `prefix`.
    pub fn create(prefix: &str) -> Outcome<Self> {
        Self::create_in(&std::env::temp_dir(), prefix)
    }

    /// A new directory in `parent`, its name beginning with `prefix`.
    pub fn create_in(parent: &Path, prefix: &str) -> Outcome<Self> {
        let failed = |error| {
            let what = format!("a temporary directory in {}", parent.display());
            Failure::io("create", what, error)
        };
        // First of all, so that no interrupt finds a directory and no listener.
        let interrupt = listen()?;
        let dir = tempfile::Builder::new().prefix(prefix).tempdir_in(parent).map_err(failed)?;
        let path = dir.path().to_owned();
        end_when_interrupted(interrupt, move || {
            remove(&path);
            "interrupted".to_owned()
        })?;
        Ok(Temporary(dir))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

fn listen() -> Outcome<Interrupt> {
    Interrupt::listen().map_err(|error| Failure::io("listen for", "interrupts", error))
}

/// From now on an interrupt ends the program with status 130 and the message that `last` returns.
pub fn end_with(last: impl FnOnce() -> String + Send + 'static) -> Outcome {
    end_when_interrupted(listen()?, last)
}

fn end_when_interrupted(
    interrupt: Interrupt,
    last: impl FnOnce() -> String + Send + 'static,
) -> Outcome {
    let body = Box::new(move || {
        let clock = SystemClock::new();
        while !interrupt.is_set() {
            clock.sleep(GLANCE);
        }
        tell_error("interrupted", &last(), 130);
        exit(130);
    });
    // Never joined: it ends with the process.
    drop(Threads.spawn("esker-interrupt", Priority::Normal, body)?);
    Ok(())
}

fn remove(dir: &Path) {
    let clock = SystemClock::new();
    for _ in 0..TRIES {
        if std::fs::remove_dir_all(dir).is_ok() || !dir.exists() {
            break;
        }
        clock.sleep(GLANCE);
    }
}
