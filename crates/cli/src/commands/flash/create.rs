//! `esker flash create`: a new, empty device.

use super::info;
use crate::failure::{Failure, Outcome};
use crate::units;
use esker_flash::{FileZones, FlashStorage, Geometry};
use std::path::PathBuf;
use std::sync::Arc;

/// Make a device of chunks in an empty directory
#[derive(clap::Args)]
pub struct Create {
    /// The directory, empty or not there yet
    dir: PathBuf,
    /// The size of the device; it takes as much space as is written
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    bytes: usize,
    /// The size of a chunk, which is written from the beginning and reset as a whole
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = units::parse_bytes)]
    chunk: usize,
    /// The units that chunks are spread over, as dies of a device
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    units: u16,
}

impl Create {
    pub fn run(self) -> Outcome {
        let units = usize::from(self.units.max(1));
        let chunks = self.bytes / units / self.chunk.max(1);
        let usage = |reason: &str| Failure::Usage(reason.to_owned());
        let chunks =
            u16::try_from(chunks).map_err(|_| usage("--chunk is too small for --bytes"))?;
        let chunk = u32::try_from(self.chunk).map_err(|_| usage("--chunk is at most 4 GiB"))?;
        let zones =
            FileZones::create(&self.dir, Geometry::of_blocks(1, self.units, chunks, chunk))?;
        let zones = Arc::new(zones);
        drop(FlashStorage::open(zones.clone())?);
        info::print(&*zones)
    }
}
