//! `esker flash repair`: keeps what is sound of a damaged device.

use crate::failure::Outcome;
use crate::output::show;
use crate::progress::Progress;
use crate::units;
use esker_flash::chunk_device::{self, FileChunkDevice};
use esker_flash::storage::{RepairReport, repair};
use serde_json::json;
use std::path::PathBuf;

/// Keep the files of a damaged device whose places are known, and report what is lost
///
/// Rebuilds the device's journal from its intact edits, and a directory's `GEOMETRY` from the journal.
/// A file whose name is lost is called `lost-` and its number. Moves no data, and changes nothing if
/// nothing is damaged. Then open the database on the device, or repair it with `esker repair`. No other
/// process may have the device open.
#[derive(clap::Args)]
pub struct Repair {
    /// The device: a directory or a block device
    path: PathBuf,
}

impl Repair {
    pub fn run(self) -> Outcome {
        let is_restored =
            !chunk_device::is_disk(&self.path) && FileChunkDevice::restore_geometry(&self.path)?;
        let zones = chunk_device::open(&self.path)?;
        let name = zones.describe();
        let mut repaired = Progress::during("repairing", || repair(zones))?;
        if is_restored {
            repaired.is_changed = true;
            let what = "GEOMETRY was missing or damaged, and is written again".to_owned();
            repaired.problems.insert(0, what);
        }
        let facts = json!({
            "files": repaired.names,
            "problems": repaired.problems,
            "changed": repaired.is_changed,
        });
        show(|| facts, || text(&name, &repaired))
    }
}

fn text(name: &str, repaired: &RepairReport) -> String {
    let mut text: String = repaired.problems.iter().map(|problem| format!("{problem}\n")).collect();
    let files = units::counted(repaired.names.len() as u64, "file");
    text += &match repaired.is_changed {
        true => format!("{name}: kept {files}\n"),
        false if repaired.problems.is_empty() => {
            format!("{name}: no problems found, nothing changed\n")
        }
        false => format!("{name}: {files}, nothing changed\n"),
    };
    text
}
