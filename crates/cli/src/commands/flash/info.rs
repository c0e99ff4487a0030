//! `esker flash info`: what a device is and holds.

use crate::failure::Outcome;
use crate::output::show;
use crate::units;
use esker_flash::chunk_device::Placement;
use esker_flash::device::fdp::Statistics;
use esker_flash::storage::{Content, EraseCounts, LostFile, look};
use esker_flash::{ChunkDevice, chunk_device};
use serde_json::{Value as Json, json};
use std::path::PathBuf;

/// Show the geometry of a flash device, its files and its free space
#[derive(clap::Args)]
pub struct Info {
    /// The device: a directory or a block device
    path: PathBuf,
}

impl Info {
    pub fn run(self) -> Outcome {
        print(&*chunk_device::open_to_look(&self.path)?)
    }
}

/// Prints what a device is and holds.
pub fn print(zones: &dyn ChunkDevice) -> Outcome {
    let (content, placement) = (look(zones)?, zones.placement()?);
    show(|| json(zones, &content, &placement), || text(zones, &content, &placement))
}

fn json(zones: &dyn ChunkDevice, content: &Content, placement: &Option<Placement>) -> Json {
    let geometry = zones.geometry();
    let lost = |lost: &LostFile| {
        json!({
            "file": lost.name, "is_log": lost.is_log, "bytes": lost.bytes, "chunks": lost.chunks,
        })
    };
    // Counters of 128 bits, which JSON's readers may not have.
    let placement = placement.as_ref().map(|placement| {
        json!({
            "identifiers": placement.identifiers,
            "reclaim_unit_bytes": placement.reclaim_unit_bytes,
            "host_bytes": to_u64(placement.statistics.host_bytes),
            "media_bytes": to_u64(placement.statistics.media_bytes),
        })
    });
    json!({
        "device": zones.describe(),
        "units": geometry.units(),
        "chunks_per_unit": geometry.chunks_per_unit,
        "chunk_bytes": geometry.chunk_bytes,
        "files": content.names.len(),
        "live_bytes": content.live_bytes,
        "good_bytes": content.good_bytes,
        "free_chunks": content.free_chunks,
        "erases_min": content.erases.least,
        "erases_mean": content.erases.mean,
        "erases_max": content.erases.most,
        "written_by": zones.written_by(),
        "lost": content.lost.iter().map(lost).collect::<Vec<_>>(),
        "doubt": content.doubt,
        "placement": placement,
    })
}

fn text(zones: &dyn ChunkDevice, content: &Content, placement: &Option<Placement>) -> String {
    let geometry = zones.geometry();
    let mut out = format!(
        "{}: {} of {} chunks each, of {}\n",
        zones.describe(),
        units::counted(geometry.units() as u64, "unit"),
        geometry.chunks_per_unit,
        units::bytes(u64::from(geometry.chunk_bytes)),
    );
    out += &format!(
        "{} in {}, of {} that can be used; {} free\n",
        units::bytes(content.live_bytes),
        units::counted(content.names.len() as u64, "file"),
        units::bytes(content.good_bytes),
        units::counted(u64::from(content.free_chunks), "chunk"),
    );
    let EraseCounts { least, mean, most } = content.erases;
    out += &format!("chunks were erased {mean:.1} times on average, {least} to {most}\n");
    if let Some(how) = zones.written_by() {
        out += &format!("zones are written by {how}\n");
    }
    for lost in &content.lost {
        out += &format!("{}\n", not_whole(lost));
    }
    if let Some(doubt) = &content.doubt {
        out += &format!("it can only be read, and what is found may be older: {doubt}\n");
    }
    if let Some(placement) = placement {
        out += &format!("{}\n", describe(placement));
    }
    out
}

fn to_u64(bytes: u128) -> u64 {
    bytes.try_into().unwrap_or(u64::MAX)
}

/// What is missing of a file, and what follows from that.
fn not_whole(lost: &LostFile) -> String {
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
    let bytes = |bytes: u128| units::bytes(to_u64(bytes));
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
        let mut lost = LostFile {
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
