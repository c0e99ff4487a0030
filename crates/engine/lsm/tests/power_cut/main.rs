//! Power cuts under a real program on a real directory.
//!
//! The test runs a child that uses databases as any program does, lists its system calls by ptrace,
//! and replays them on a model of a disk that keeps only what was synced. At every point in time at which the
//! child acknowledges something, and whenever a sync has ended, it opens what a power cut would leave
//! there: all that was acknowledged must be found. So no sync of a log, a table, a manifest or a
//! directory can be left out: killing processes shows nothing of that, as the page cache survives.
//!
//! Without ptrace, as in some sandboxes, the test can't run; it says so, and `ESKER_NEED_EVERY_TEST`
//! makes that a failure.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod child;
mod disk;
mod ptrace;
mod tracer;

use child::{Acknowledged, check};
use disk::{Cut, Disk};
use esker_base::Rng;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use tracer::{Call, Refused, trace};

/// Power cuts that keep some of what is not synced, for each point in time inspected.
const CUTS_WITH_CHANCE: u64 = 1;

/// So many points in time at which a sync has ended and nothing was acknowledged are passed over.
const MOMENTS_APART: u64 = 3;

/// A directory for what is left: opening it syncs, which on a disk takes most of the test's time.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn run(script: &str) {
    let place = tempfile::tempdir().unwrap();
    let found = std::fs::metadata(place.path()).unwrap();
    let mut disk = Disk::new((found.dev(), found.ino()));
    let mut acknowledged = Acknowledged::default();
    let (mut cuts, mut moments) = (0, 0);
    let mut report = |call: Call| {
        let said = match &call {
            Call::Said(line) => Some(line.clone()),
            _ => None,
        };
        let survives = disk.replay(call);
        let is_promise = said.is_some_and(|line| acknowledged.hear(&line));
        moments += u64::from(survives);
        let is_looked_at = survives && moments % MOMENTS_APART == 0;
        if !(is_promise || is_looked_at) {
            return;
        }
        let chances = if disk.has_unsynced() { CUTS_WITH_CHANCE } else { 0 };
        let first = cuts;
        let some = (0..chances).map(|seed| Cut::Some(Rng::new(first + seed)));
        for mut cut in std::iter::once(Cut::Least).chain(some) {
            let left = in_memory();
            disk.cut(left.path(), &mut cut);
            check(left.path(), &acknowledged);
            cuts += 1;
        }
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child::traced", "--nocapture", "--test-threads=1"]);
    command.env(child::SCRIPT, script).env(child::PLACE, place.path());
    match trace(&mut command, &mut report) {
        Ok(()) => {
            assert!(acknowledged.is_finished(), "the child's last words were not heard");
            assert!(cuts > 20, "{cuts} power cuts");
        }
        Err(Refused::NoPtrace(why)) => {
            esker_base::skipped(
                &format!("power_cut, {script}"),
                format_args!("no ptrace here: {why}"),
            );
        }
    }
}

/// The one test, as a tracer waits for all children of its process.
#[test]
fn what_is_acknowledged_survives_a_power_cut_at_any_moment() {
    for script in child::SCRIPTS {
        run(script.name);
    }
}
