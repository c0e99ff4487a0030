//! `esker flash info`: what a device is and holds.

use crate::commands::stdout;
use crate::failure::Outcome;
use crate::units;
use esker_flash::storage::look;
use esker_flash::{Zones, zones};
use std::io::Write;
use std::path::PathBuf;

/// Show what a device of chunks is made of, and how full it is
#[derive(clap::Args)]
pub struct Info {
    /// The device: a directory, or a block device
    path: PathBuf,
}

impl Info {
    pub fn run(self) -> Outcome {
        print(&*zones::open_to_look(&self.path)?)
    }
}

pub fn print(zones: &dyn Zones) -> Outcome {
    let (geometry, content) = (zones.geometry(), look(zones)?);
    let mut out = stdout();
    writeln!(
        out,
        "{}: {} of {} chunks each, of {}",
        zones.describe(),
        units::counted(geometry.units() as u64, "unit"),
        geometry.chunks_per_unit,
        units::bytes(u64::from(geometry.chunk_bytes)),
    )?;
    writeln!(
        out,
        "{} in {}, of {} that can be used; {} free",
        units::bytes(content.live_bytes),
        units::counted(content.names.len() as u64, "file"),
        units::bytes(content.good_bytes),
        units::counted(u64::from(content.free_chunks), "chunk"),
    )?;
    Ok(out.flush()?)
}
