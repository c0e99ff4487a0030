//! `esker hash check` and `esker hash scrub`: verify a store.

use crate::failure::{Failure, Outcome};
use crate::output::show;
use crate::progress::Progress;
use crate::units;
use esker_base::{Clock, SystemClock};
use esker_hashstore::check::{Report, check, scrub};
use esker_hashstore::device::FileDevice;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Read what an open of the store reads, and report every problem
///
/// Reads the superblock, and each partition's journal and the records after it. Changes nothing. Exit
/// status 1 if anything is wrong.
#[derive(clap::Args)]
pub struct Check {
    /// The store's file or block device
    path: PathBuf,
}

/// Read all of a store, values included, and report every problem
///
/// Exit status 1 if anything is wrong.
#[derive(clap::Args)]
pub struct Scrub {
    /// The store's file or block device
    path: PathBuf,
}

impl Check {
    pub fn run(self) -> Outcome {
        run(&self.path, false)
    }
}

impl Scrub {
    pub fn run(self) -> Outcome {
        run(&self.path, true)
    }
}

fn run(path: &Path, with_values: bool) -> Outcome {
    let device = FileDevice::open(path)?;
    let clock = SystemClock::new();
    let began = clock.now();
    let report =
        Progress::during("reading", || if with_values { scrub(&device) } else { check(&device) })
            .map_err(Failure::of_check)?;
    // With values it took longer than that.
    let recovery = (!with_values).then(|| clock.now() - began);
    let shown = show(|| json(&report, recovery), || text(&report, recovery));
    let verdict = Failure::of_problems(path.display(), report.problems.len(), "");
    Failure::after_output(shown, verdict)
}

/// Memory of the indexes for each key. `None` without keys.
fn a_key(report: &Report) -> Option<f64> {
    (report.keys > 0).then(|| report.index_bytes as f64 / report.keys as f64)
}

/// Bytes in use for each byte of keys and values. `None` if those were not read, or not all are sound.
fn a_stored_byte(report: &Report) -> Option<f64> {
    let is_known = report.problems.is_empty() && report.sound_bytes > 0;
    is_known.then(|| report.used_bytes as f64 / report.sound_bytes as f64)
}

/// `recovery` is at [`text`].
fn json(report: &Report, recovery: Option<Duration>) -> Json {
    let are_values_read = recovery.is_none();
    json!({
        "partitions": report.partitions,
        "keys": report.keys,
        "replayed": report.replayed,
        "index_bytes": report.index_bytes,
        "index_bytes_a_key": a_key(report),
        "recovery_bytes": report.recovery_bytes,
        "recovery_seconds": recovery.map(|time| time.as_secs_f64()),
        "used_bytes": report.used_bytes,
        "data_bytes": report.data_bytes,
        "torn_writes": report.torn.len(),
        "sound_values": are_values_read.then_some(report.sound_values),
        "sound_bytes": are_values_read.then_some(report.sound_bytes),
        "device_bytes_a_stored_byte": a_stored_byte(report),
        "problems": report.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// `recovery` is the time that it took to find the keys, if nothing else was read.
fn text(report: &Report, recovery: Option<Duration>) -> String {
    let mut text: String = report.problems.iter().map(|problem| format!("{problem}\n")).collect();
    text += &format!(
        "{} in {}, {} of {} in use, {} behind the last checkpoints\n",
        units::counted(report.keys, "key"),
        units::counted(u64::from(report.partitions), "partition"),
        units::bytes(report.used_bytes),
        units::bytes(report.data_bytes),
        units::counted(report.replayed, "write"),
    );
    for torn in &report.torn {
        text += &format!(
            "incomplete last write ignored: key {}, offset {}\n",
            torn.key.escape_ascii(),
            torn.offset
        );
    }
    let index = units::bytes(report.index_bytes);
    let each = a_key(report).map_or(String::new(), |bytes| format!(", {bytes:.1} bytes a key"));
    text += &format!("the index takes {index} of memory{each}\n");
    let read = units::bytes(report.recovery_bytes);
    match recovery {
        Some(time) => text += &format!("recovered in {time:.1?}: {read} read\n"),
        None => {
            let values = units::counted(report.sound_values, "value");
            text += &format!("recovery reads {read}; {values} read and sound\n");
        }
    }
    if let Some(ratio) = a_stored_byte(report) {
        text += &format!("{ratio:.2} bytes in use a byte of keys and values\n");
    }
    text
}
