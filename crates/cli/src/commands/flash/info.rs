//! `esker flash info`: what a device is and holds.

use crate::failure::Outcome;
use crate::output::stdout;
use crate::units;
use esker_flash::device::fdp::Statistics;
use esker_flash::storage::{Erases, Lost, look};
use esker_flash::zones::Placement;
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
    let Erases { least, mean, most } = content.erases;
    writeln!(out, "chunks were erased {mean:.1} times on average, {least} to {most}")?;
    if let Some(how) = zones.written_by() {
        writeln!(out, "zones are written by {how}")?;
    }
    for lost in &content.lost {
        writeln!(out, "{}", not_whole(lost))?;
    }
    if let Some(doubt) = &content.doubt {
        writeln!(out, "it can only be read, and what is found may be older: {doubt}")?;
    }
    if let Some(placement) = zones.placement()? {
        writeln!(out, "{}", describe(&placement))?;
    }
    Ok(out.flush()?)
}

/// What is missing of a file, and what follows from that.
fn not_whole(lost: &Lost) -> String {
    let places: Vec<String> = lost.chunks.iter().map(u32::to_string).collect();
    let (name, bytes, places) = (&lost.name, units::bytes(lost.bytes), places.join(", "));
    match lost.is_log {
        true => format!(
            "{name} may have lost what was acknowledged last, and the device can't be used without it; chunks gone bad: \
             {places}"
        ),
        false => format!(
            "{name} has lost {bytes}; what else is in it, and other files, can be read; chunks gone bad: {places}"
        ),
    }
}

/// The identifiers of a disk, and what it wrote to its medium for what hosts wrote to it.
fn describe(placement: &Placement) -> String {
    let Statistics { host_bytes, media_bytes } = placement.statistics;
    let bytes = |bytes: u128| units::bytes(bytes.try_into().unwrap_or(u64::MAX));
    let ratio = match host_bytes {
        0 => String::new(),
        _ => format!(", {:.3} times that", media_bytes as f64 / host_bytes as f64),
    };
    format!(
        "{}, reclaim units of {}; since the disk was made hosts wrote {}, and it wrote {} to its medium{ratio}",
        units::counted(placement.identifiers as u64, "placement identifier"),
        units::bytes(placement.reclaim_unit_bytes),
        bytes(host_bytes),
        bytes(media_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_whole_is_told_with_what_it_lost_and_where() {
        let mut lost = Lost {
            name: "00000007.tables".to_owned(),
            is_log: false,
            chunks: vec![9, 12],
            bytes: 2 << 20,
        };
        let told = not_whole(&lost);
        assert!(told.starts_with("00000007.tables has lost 2.00 MiB;"), "{told}");
        assert!(told.ends_with("chunks gone bad: 9, 12"), "{told}");
        lost.is_log = true;
        let told = not_whole(&lost);
        assert!(told.contains("the device can't be used without it"), "{told}");
    }
}
