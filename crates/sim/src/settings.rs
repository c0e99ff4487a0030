//! The settings that a simulated database is opened with, drawn at random.

use esker_base::Rng;
use esker_lsm::{KeyspaceSettings, Log, Settings, Shape, Sync};
use esker_table::Compression;
use std::time::Duration;

/// Which promise the log gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogMode {
    /// Synced before each acknowledgement.
    Always,
    /// Synced at this interval, in milliseconds.
    Every(u64),
    /// Never synced unless asked.
    Os,
    /// No log.
    None,
}

/// How a database is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenSettings {
    /// The log's mode.
    pub log: LogMode,
    /// The size of a segment, in KiB.
    pub segment_kib: usize,
    /// How many sealed segments are tolerable.
    pub sealed: usize,
}

impl OpenSettings {
    /// Draws settings.
    pub fn draw(rng: &mut Rng) -> Self {
        let log = match rng.below(8) {
            0..=2 => LogMode::Always,
            3 => LogMode::Every(1 + rng.below(50)),
            4..=6 => LogMode::Os,
            _ => LogMode::None,
        };
        let segment_kib = [64, 64, 96, 128, 256][rng.below(5) as usize];
        OpenSettings { log, segment_kib, sealed: 1 + rng.below(4) as usize }
    }

    /// As the engine takes them. The log directory is the machine's, not the settings'.
    pub fn settings(&self) -> Settings {
        let file = |sync| Log::File { dir: None, sync };
        Settings {
            log: match self.log {
                LogMode::Always => file(Sync::Always),
                LogMode::Every(interval_ms) => {
                    file(Sync::Every(Duration::from_millis(interval_ms)))
                }
                LogMode::Os => file(Sync::Os),
                LogMode::None => Log::None,
            },
            segment_bytes: self.segment_kib << 10,
            sealed_segments: self.sealed,
            memory_bytes: 4 << 20,
            background_threads: 1,
        }
    }
}

/// Draws a keyspace's settings.
pub fn draw_keyspace(rng: &mut Rng) -> KeyspaceSettings {
    KeyspaceSettings {
        shape: match rng.below(2) {
            0 => Shape::Leveled { ratio: 2 + rng.below(9) as u32 },
            _ => Shape::Tiered { runs: 2 + rng.below(4) as u32 },
        },
        compression: match rng.below(3) {
            0 => Compression::None,
            1 => Compression::Lz4,
            _ => Compression::Zstd,
        },
        filter_bits: [0, 4, 10, 20][rng.below(4) as usize],
    }
}
