//! How the memory budget of a database is divided.

use super::settings::{Log, Settings};
use super::sizes::segments_ahead;
use crate::resources::Resources;
use esker_storage::FileCache;
use esker_table::BlockCache;

impl Settings {
    /// The resources that the settings name, or those of one database alone.
    pub(crate) fn resources_or_own(&self) -> Resources {
        let own = || {
            let taken = segments_at_most(self) + dram_table_bytes(self);
            let cache_bytes_max = self.table_limits.cache_bytes_max;
            let left = self.memory_bytes.saturating_sub(taken);
            let cache = BlockCache::new(left.min(cache_bytes_max));
            let files =
                FileCache::new(self.max_open_files.unwrap_or_else(FileCache::default_limit));
            Resources::own(
                self.memory_bytes,
                self.background_threads,
                (cache, cache_bytes_max),
                files,
            )
        };
        self.resources.clone().unwrap_or_else(own)
    }
}

impl Settings {
    /// The settings as a database with its [`Settings::resources`] takes them.
    pub(crate) fn with_resources(mut self) -> Self {
        if let Some(resources) = &self.resources {
            self.memory_bytes = resources.memory_bytes();
            self.background_threads = resources.background_threads();
            self.max_open_files = Some(resources.max_open_files());
        }
        self
    }

    /// What the buffers of wide reads may take of the memory budget.
    pub(crate) fn wide_read_bytes(&self) -> usize {
        (self.memory_bytes / WIDE_READ_SHARE).min(WIDE_READ_BYTES_MAX)
    }
}

/// A 16th of the budget, but no more than keeps a fast device busy.
const WIDE_READ_SHARE: usize = 16;
const WIDE_READ_BYTES_MAX: usize = 16 << 20;

/// What the segments of a database by itself may take of its memory budget.
pub(crate) fn segments_at_most(settings: &Settings) -> usize {
    // The active segment, the sealed ones and those prepared, each with about a third of its size in
    // index; but never more than half of the budget, most of which is idle memory at rest. Segments
    // in persistent memory take only the index.
    let index = settings.segment_bytes / 3;
    let (segment, prepared) = match settings.log {
        // Of as many extents as the settings were made of, or one more.
        Log::Pmem { .. } => (index, segments_ahead(settings.sealed_segments + 5)),
        _ => (index * 4, 1),
    };
    let segments = segment * (1 + settings.sealed_segments + prepared);
    segments.min(settings.memory_bytes / 2)
}

/// The DRAMTable's share of the memory budget.
pub(crate) fn dram_table_bytes(settings: &Settings) -> usize {
    settings.dram_table_bytes.unwrap_or(settings.memory_bytes / DRAM_TABLE_SHARE)
}

/// An eighth of the budget, if the user does not say otherwise.
const DRAM_TABLE_SHARE: usize = 8;
