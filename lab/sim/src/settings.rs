//! The settings that a simulated database is opened with, drawn at random.

use esker_base::Rng;
use esker_lsm::{
    Dedup, Forwarding, KeyspaceSettings, Log, Ratio, Settings, Shape, SyncPolicy, TableLimits,
};
use esker_table::{Compression, PartLimits};
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
    /// In the machine's pool of persistent memory.
    Pmem,
    /// No log.
    None,
}

impl LogMode {
    /// Whether what one mode leaves in its log is found by the other.
    pub fn finds_logs_of(self, other: LogMode) -> bool {
        (self == LogMode::Pmem) == (other == LogMode::Pmem)
    }
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
    /// The DRAMTable's share of the memory, if it is not left to the engine.
    pub dram_bytes: Option<usize>,
    /// When writes reach the DRAMTable.
    pub forwarding: Forwarding,
}

impl OpenSettings {
    /// Draws settings.
    pub fn draw(rng: &mut Rng) -> Self {
        let log = match rng.below(12) {
            0..=2 => LogMode::Always,
            3 => LogMode::Every(1 + rng.below(50)),
            4..=7 => LogMode::Os,
            8..=10 => LogMode::Pmem,
            _ => LogMode::None,
        };
        let segment_kib = [64, 64, 96, 128, 256][rng.below(5) as usize];
        let sealed = 1 + rng.below(4) as usize;
        let dram_bytes = [None, Some(0), Some(6 << 10), Some(60 << 10)][rng.below(4) as usize];
        let forwarding = [Forwarding::OnFlush, Forwarding::Always, Forwarding::Adaptive];
        let forwarding = forwarding[rng.below(3) as usize];
        OpenSettings { log, segment_kib, sealed, dram_bytes, forwarding }
    }

    /// The same, for a machine whose disks are encrypted or not. What is encrypted has no pool.
    pub fn if_encrypted(self, is_encrypted: bool) -> Self {
        match self.log {
            LogMode::Pmem if is_encrypted => OpenSettings { log: LogMode::Always, ..self },
            _ => self,
        }
    }

    /// Half of the processes have a part of the index for every two blocks of a table, and a cache for a few of
    /// both, so that most reads evict what the one before has read.
    fn table_limits(&self) -> TableLimits {
        match self.sealed > 2 {
            true => TableLimits {
                parts: Some(PartLimits { bytes: 1, blocks_min: 2, whole_bytes_max: 0 }),
                cache_bytes_max: 12 << 10,
            },
            false => TableLimits::default(),
        }
    }

    /// As the engine takes them. The log directory and the pool are the machine's, not the settings'.
    pub fn settings(&self) -> Settings {
        let file = |sync| Log::File { dir: None, sync };
        Settings::default()
            .log(match self.log {
                LogMode::Always => file(SyncPolicy::Always),
                LogMode::Every(interval_ms) => {
                    file(SyncPolicy::Every(Duration::from_millis(interval_ms)))
                }
                LogMode::Os => file(SyncPolicy::Os),
                LogMode::Pmem => Log::Pmem { pool: "the pool".into(), emulated: true },
                LogMode::None => Log::None,
            })
            .segment_bytes(self.segment_kib << 10)
            .sealed_segments(self.sealed)
            .memory_bytes(4 << 20)
            .dram_table_bytes(self.dram_bytes)
            .forwarding(self.forwarding)
            .background_threads(1)
            // Half of the processes close files at every step.
            .max_open_files(self.sealed.is_multiple_of(2).then_some(3))
            .table_limits(self.table_limits())
    }
}

/// Draws a keyspace's settings.
pub fn draw_keyspace(rng: &mut Rng) -> KeyspaceSettings {
    let shape = match rng.below(3) {
        0 => Shape::Leveled { ratio: 2 + rng.below(9) as u32 },
        _ => Shape::Tiered { runs: 2 + rng.below(4) as u32 },
    };
    let ratio = Ratio::of_hundredths(105 + rng.below(80) as u32);
    let dedup = match (shape, rng.below(3)) {
        (Shape::Leveled { .. }, _) | (_, 0) => Dedup::None,
        (_, 1) => Dedup::PerLevel { threshold: ratio },
        _ => Dedup::SpaceGoal { amp: ratio },
    };
    // Drawn apart: the draws that follow stay what they were, and none of them depends on this.
    let mut aside = Rng::new(rng.clone().next_u64() ^ 0x7661_6c75_6573);
    let separates = aside.one_in(3) && !matches!(dedup, Dedup::SpaceGoal { .. });
    let threshold = [1, 1, 1, 100, 1_500][aside.below(5) as usize];
    KeyspaceSettings::default()
        .separation_threshold(separates.then_some(threshold))
        .shape(shape)
        .dedup(dedup)
        .compression(match rng.below(3) {
            0 => Compression::None,
            1 => Compression::Lz4,
            _ => Compression::Zstd,
        })
        .filter_bits([0, 4, 10, 20][rng.below(4) as usize])
}

/// The window of keyspaces that have one: as short as it may be.
pub const WINDOW: Duration = Duration::from_secs(60);

/// `settings` for a keyspace that appends by merges, or that has a window.
pub fn like(
    settings: KeyspaceSettings,
    merges: bool,
    window: Option<Duration>,
) -> KeyspaceSettings {
    let settings = if merges { settings.merge("append") } else { settings };
    match window {
        Some(window) => settings.dedup(Dedup::None).window(window, None),
        None => settings,
    }
}
