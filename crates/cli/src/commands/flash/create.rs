//! `esker flash create`: a new, empty device.

use super::info;
use crate::failure::{Failure, Outcome};
use crate::output::tell;
use crate::units;
use esker::Settings;
use esker_flash::{
    ChunkDevice, FdpDevice, FileChunkDevice, FlashStorage, Geometry, ZnsDevice, chunk_device,
};
use std::path::PathBuf;
use std::sync::Arc;

/// Make a flash device in an empty directory, or format a block device with zones or placement (FDP)
#[derive(clap::Args)]
pub struct Create {
    /// A directory, empty or missing, or a block device
    path: PathBuf,
    /// The size of the device; it uses only the space that is written
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    bytes: Option<usize>,
    /// The size of a chunk, which is written in order and erased as a whole [default: 4MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    chunk: Option<usize>,
    /// The number of units, such as dies, that chunks are distributed over [default: 16]
    #[arg(long, value_name = "NUMBER")]
    units: Option<u16>,
    /// Use a block device that holds data. All of it is lost
    #[arg(long)]
    overwrite: bool,
}

const CHUNK_BYTES: usize = 4 << 20;
const UNITS: u16 = 16;
/// Chunks that a device has at the least: half of them are the journal's.
const CHUNKS_MIN: usize = 8;

impl Create {
    pub fn run(self) -> Outcome {
        let zones = match chunk_device::is_disk(&self.path) {
            true => self.on_disk()?,
            false => self.in_directory()?,
        };
        let storage = FlashStorage::open(zones.clone())?;
        let (good_bytes, chunk_bytes) = (storage.usage().good_bytes, zones.geometry().chunk_bytes);
        drop(storage);
        info::print(&*zones)?;
        let needed = needed_bytes(Settings::default().segment_bytes as u64, chunk_bytes.into());
        if good_bytes < needed {
            tell(format_args!(
                "{} is too small for a database with default settings, which needs {} that can be used, most of \
                 it for its log; a directory is made larger by --bytes",
                self.path.display(),
                units::bytes(needed)
            ));
        }
        Ok(())
    }

    /// A zoned disk has zones of its own, and one with placement its reclaim units.
    fn on_disk(&self) -> Outcome<Arc<dyn ChunkDevice>> {
        if self.bytes.is_some() || self.chunk.is_some() || self.units.is_some() {
            let reason = "a block device has its own size and chunks: leave out --bytes, --chunk and --units";
            return Err(Failure::Usage(reason.to_owned()));
        }
        if !chunk_device::has_zones(&self.path)? {
            let open = if self.overwrite { FdpDevice::create } else { FdpDevice::open };
            return Ok(Arc::new(open(&self.path)?));
        }
        let disk = ZnsDevice::open(&self.path)?;
        if self.overwrite {
            disk.erase()?;
        }
        Ok(Arc::new(disk))
    }

    fn in_directory(&self) -> Outcome<Arc<dyn ChunkDevice>> {
        let usage = |reason: &str| Failure::Usage(reason.to_owned());
        if self.overwrite {
            return Err(usage("--overwrite is for block devices: remove the directory instead"));
        }
        let bytes = self.bytes.ok_or_else(|| usage("a directory needs a size: --bytes"))?;
        let (chunk, dies) = (self.chunk.unwrap_or(CHUNK_BYTES), self.units.unwrap_or(UNITS));
        let chunks = bytes / usize::from(dies.max(1)) / chunk.max(1);
        if chunks * usize::from(dies) < CHUNKS_MIN {
            return Err(Failure::Usage(format!(
                "a device has at least {CHUNKS_MIN} chunks, and these would be {chunks} of {} on each of {}: choose a \
                 larger --bytes, or a smaller --chunk or --units",
                units::bytes(chunk as u64),
                units::counted(dies.into(), "unit"),
            )));
        }
        let chunks =
            u16::try_from(chunks).map_err(|_| usage("--chunk is too small for --bytes"))?;
        let chunk = u32::try_from(chunk).map_err(|_| usage("--chunk is at most 4 GiB"))?;
        let geometry = Geometry::of_blocks(1, dies, chunks, chunk);
        Ok(Arc::new(FileChunkDevice::create(&self.path, geometry)?))
    }
}

/// What a database needs that is to hold something: two segments of its log, in whole chunks, the one that is written and
/// the next; what is kept free in addition for tables that they become, and for one segment more to delete something; and
/// about two for tables.
fn needed_bytes(segment_bytes: u64, chunk_bytes: u64) -> u64 {
    (6 * segment_bytes.div_ceil(chunk_bytes) + 1) * chunk_bytes
}
