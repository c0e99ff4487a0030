//! `esker hash repair`: keeps what is sound of a damaged store.

use crate::failure::{Failure, Outcome};
use crate::output::show;
use crate::progress::Progress;
use crate::units;
use esker_base::Error;
use esker_hashstore::device::{Device, FileDevice};
use esker_hashstore::repair::{RepairReport, repair};
use esker_hashstore::{Unreadable, store_file};
use serde_json::{Value as Json, json};
use std::path::PathBuf;

/// Keep the intact part of a damaged store; report and drop the rest
///
/// Reads everything. Drops keys whose values are damaged, and reports each. If a partition's journal
/// is damaged, its keys are recovered from the records: then a deleted key may return, or have an older
/// value. A truncated file gets its length back. Writes nothing to intact partitions. No other process
/// may have the store open.
///
/// A read error is not damage: the block may become readable, so the repair stops. With
/// --give-up-unreadable it drops such blocks.
#[derive(clap::Args)]
pub struct Repair {
    /// The store's file or block device
    path: PathBuf,
    /// Overwrite blocks that cannot be read with zeros, and drop the keys in them
    #[arg(long)]
    give_up_unreadable: bool,
}

impl Repair {
    pub fn run(self) -> Outcome {
        let mut device = FileDevice::open(&self.path)?;
        let layout = store_file::layout_of_any_size(&device)?;
        let shortened = store_file::shortened(&device, &layout);
        if shortened.is_some() {
            let bytes = layout.device_bytes;
            Progress::during("lengthening", || device.lengthen(bytes))?;
        }
        let unreadable = match self.give_up_unreadable {
            true => Unreadable::GiveUp,
            false => Unreadable::Fail,
        };
        let mut repaired = Progress::during("repairing", || repair(&device, unreadable))
            .map_err(|error| with_advice(error, unreadable))?;
        repaired.problems.splice(0..0, shortened);
        show(|| json(&repaired), || text(device.name(), &repaired))
    }
}

/// A read error with what to do about it.
fn with_advice(error: Error, unreadable: Unreadable) -> Failure {
    let is_read = matches!(error, Error::Io { action: "read", .. });
    let failure = Failure::from(error);
    match is_read && unreadable == Unreadable::Fail {
        true => failure.and("; check the device and try again, or add --give-up-unreadable"),
        false => failure,
    }
}

fn json(repaired: &RepairReport) -> Json {
    json!({
        "keys": repaired.keys,
        "dropped": repaired.dropped,
        "mended": repaired.mended,
        "partitions": repaired.partitions,
        "written_partitions": repaired.written,
        "problems": repaired.problems.iter().map(|it| it.fact()).collect::<Vec<_>>(),
    })
}

fn text(name: &str, repaired: &RepairReport) -> String {
    let mut text: String =
        repaired.problems.iter().map(|problem| format!("{}\n", problem.fact())).collect();
    if repaired.problems.is_empty() && repaired.mended == 0 {
        return format!("{name}: no problems found, nothing changed\n");
    }
    text += &format!(
        "kept {}, dropped {}, mended {}; wrote {} of {}\n",
        units::counted(repaired.keys, "key"),
        units::count(repaired.dropped),
        units::counted(repaired.mended, "header"),
        units::count(u64::from(repaired.written)),
        units::counted(u64::from(repaired.partitions), "partition"),
    );
    text
}
