//! How much of a device files can have: tables that are overwritten, and then added to until there is no space.

use super::{SEED, row};
use crate::experiment::rows::Rows;
use crate::failure::Outcome;
use esker_bench::Row;
use esker_flash::Geometry;
use esker_flash::chunk_device::MemoryChunkDevice;
use esker_flash::interference::{FillResult, Overwrite};
use esker_flash::placement::{AllUnits, Balanced, PlacementPolicy, Rotating};
use esker_flash::storage::LIFETIMES;

/// What cases begin with.
pub(super) const PREFIX: &str = "capacity";

// 1,024 chunks.
const GROUPS: u16 = 4;
const UNITS_PER_GROUP: u16 = 4;
const CHUNKS_PER_UNIT: u16 = 64;
const CHUNK_BYTES: u32 = 1 << 20;
/// The same for a quick run.
const QUICK_CHUNK_BYTES: u32 = 256 << 10;
/// How much of the device is alive while tables are overwritten, and how often all of them are.
const KEPT: f64 = 0.85;
const TIMES: usize = 5;
/// A table is so many chunks or a little less. Of larger ones, fewer chunks hold parts of two.
const CHUNKS_OF_TABLE: [u32; 2] = [4, 8];

pub(super) const METRICS: [&str; 5] = [
    "live_percent",
    "media_over_host_bytes",
    "moved_over_host_bytes",
    "erases_least",
    "erases_most",
];

pub(super) const ABOUT: &str = "\
    Tables of so many chunks, in memory on 1,024 chunks in 16 units, without time. 85% of the device is \
    filled with them, and as much as that is written five times more, each table in place of another that \
    is chosen at random; then tables are added until there is no room. Live are the bytes that files have \
    then, of those of chunks that are good and not the journal's; media over host bytes is what the device \
    was asked to write in all of that for what was written to files.";

fn geometry(is_quick: bool) -> Geometry {
    let chunk_bytes = if is_quick { QUICK_CHUNK_BYTES } else { CHUNK_BYTES };
    Geometry::of_blocks(GROUPS, UNITS_PER_GROUP, CHUNKS_PER_UNIT, chunk_bytes)
}

pub(super) fn settings(is_quick: bool) -> Vec<(&'static str, String)> {
    let geometry = geometry(is_quick);
    vec![
        ("capacity_units", geometry.units().to_string()),
        ("capacity_chunks", geometry.chunks().to_string()),
        ("capacity_chunk_bytes", geometry.chunk_bytes.to_string()),
        ("capacity_chunks_a_table", format!("{CHUNKS_OF_TABLE:?}")),
        ("capacity_kept", KEPT.to_string()),
        ("capacity_overwritten_times", TIMES.to_string()),
    ]
}

pub(super) fn run(is_quick: bool, rows: &mut Rows<'_>) -> Outcome {
    let geometry = geometry(is_quick);
    for chunks in CHUNKS_OF_TABLE {
        let table_bytes = (chunks * geometry.chunk_bytes) as usize;
        let overwrite = Overwrite { table_bytes, kept: KEPT, times: TIMES, seed: SEED };
        let case = format!("{PREFIX}/{chunks}-chunks-a-table");
        let rotating = Rotating::new(LIFETIMES, false, UNITS_PER_GROUP.into());
        let policies: [Box<dyn PlacementPolicy + Send>; 3] =
            [Box::new(AllUnits), Box::new(rotating), Box::new(Balanced)];
        for policy in policies {
            let name = policy.name();
            let filled = overwrite.run(&MemoryChunkDevice::new(geometry), policy)?;
            rows.add(of_one(name, &case, &filled));
        }
    }
    Ok(())
}

fn of_one(policy: &str, case: &str, filled: &FillResult) -> Vec<Row> {
    let row = |metric, value, unit| row(policy, case, metric, value, unit);
    vec![
        row("live_percent", filled.live * 100.0, "%"),
        row("media_over_host_bytes", filled.media_over_host, "ratio"),
        row("moved_over_host_bytes", filled.moved_over_host, "ratio"),
        row("erases_least", filled.erases.least.into(), "erases"),
        row("erases_most", filled.erases.most.into(), "erases"),
    ]
}
