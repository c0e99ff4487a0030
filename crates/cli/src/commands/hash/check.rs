//! `esker hash check` and `esker hash scrub`: does everything in a store hold?

use crate::commands::{print_json, stdout};
use crate::failure::{Failure, Outcome};
use crate::progress::Progress;
use crate::units;
use esker_hashstore::check::{Report, check, scrub};
use esker_hashstore::device::FileDevice;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Read what opening a store reads, and report whatever does not hold
///
/// Reads the superblock, and each partition's journal and the records behind it. Changes nothing. Exit
/// status 1 if anything is wrong.
#[derive(clap::Args)]
pub struct Check {
    /// The store's file or block device
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Read all of a store, every value too, and report whatever does not hold
///
/// Exit status 1 if anything is wrong.
#[derive(clap::Args)]
pub struct Scrub {
    /// The store's file or block device
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn run(self) -> Outcome {
        show(&self.path, self.json, false)
    }
}

impl Scrub {
    pub fn run(self) -> Outcome {
        show(&self.path, self.json, true)
    }
}

fn show(path: &std::path::Path, as_json: bool, with_values: bool) -> Outcome {
    let device = FileDevice::open(path)?;
    let report =
        Progress::during("reading", || if with_values { scrub(&device) } else { check(&device) })?;
    if as_json {
        print_json(&json!({
            "partitions": report.partitions,
            "keys": report.keys,
            "replayed": report.replayed,
            "used_bytes": report.used_bytes,
            "data_bytes": report.data_bytes,
            "sound_values": with_values.then_some(report.sound_values),
            "problems": report.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }))?;
    } else {
        let mut out = stdout();
        out.write_all(text(&report, with_values).as_bytes())?;
        out.flush()?;
    }
    match report.problems.len() as u64 {
        0 => Ok(()),
        number => {
            let problems = units::counted(number, "problem");
            Err(Failure::new(format!("{} has {problems}", path.display())))
        }
    }
}

fn text(report: &Report, with_values: bool) -> String {
    let mut text: String = report.problems.iter().map(|problem| format!("{problem}\n")).collect();
    text += &format!(
        "{} in {}, {} of {} in use, {} behind the last checkpoints\n",
        units::counted(report.keys, "key"),
        units::counted(u64::from(report.partitions), "partition"),
        units::bytes(report.used_bytes),
        units::bytes(report.data_bytes),
        units::counted(report.replayed, "write"),
    );
    if with_values {
        text += &format!("{} read and sound\n", units::counted(report.sound_values, "value"));
    }
    text
}
