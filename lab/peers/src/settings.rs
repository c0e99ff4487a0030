//! What a run asks of every peer alike.

use esker_base::{Error, Result};

/// How blocks are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// The settings that all engines of a run share. The rest of a peer's options are chosen for it
/// from its own documentation: see [`Peer::configuration`](crate::Peer::configuration).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerSettings {
    /// The memory that the engine may use: write buffers and block cache, indexes and filters
    /// included where the peer can keep them there. Default 1 GiB.
    pub memory_bytes: usize,
    /// The size at which a write buffer is flushed. Default 64 MiB.
    pub write_buffer_bytes: usize,
    /// How many write buffers may be in memory at once, full ones that wait for their flush
    /// included. A peer with a fixed number, and a tight memory budget, use fewer. Default 4.
    pub write_buffers: usize,
    /// The size of the block cache. `None`: all that the write buffers leave of the memory.
    pub cache_bytes: Option<usize>,
    /// Threads for flush and compaction. Default 2.
    pub background_threads: usize,
    /// How blocks are compressed. Default not at all.
    pub compression: Compression,
    /// Filter bits a key; 0 is no filter. Default 10.
    pub filter_bits: u8,
    /// Whether indexes and filters are in parts, each of which the cache may have or not. Of
    /// RocksDB; other peers choose it themselves. Default no.
    pub has_parts: bool,
    /// Values of so many bytes and more are stored outside the tree, by peers that can: RocksDB,
    /// fjall. Default none.
    pub separation_threshold: Option<u32>,
}

impl Default for PeerSettings {
    fn default() -> Self {
        PeerSettings {
            memory_bytes: 1 << 30,
            write_buffer_bytes: 64 << 20,
            write_buffers: 4,
            cache_bytes: None,
            background_threads: 2,
            compression: Compression::None,
            filter_bits: 10,
            has_parts: false,
            separation_threshold: None,
        }
    }
}

/// Below this a table would be a few blocks.
const LEAST_WRITE_BUFFER_BYTES: usize = 64 << 10;

impl PeerSettings {
    /// Checks every setting's range.
    pub fn validate(&self) -> Result<()> {
        within("write_buffer_bytes", self.write_buffer_bytes, LEAST_WRITE_BUFFER_BYTES, 1 << 30)?;
        within("write_buffers", self.write_buffers, 2, 64)?;
        within("background_threads", self.background_threads, 1, 64)?;
        within("filter_bits", usize::from(self.filter_bits), 0, 32)?;
        // Two buffers and as much again for the cache.
        let least = self.write_buffer_bytes * 3;
        if self.memory_bytes < least {
            return Err(invalid(
                "memory_bytes",
                self.memory_bytes,
                format!(
                    "with write buffers of {} bytes it must be at least {least}: one buffer being \
                     written, one being flushed, and a cache",
                    self.write_buffer_bytes
                ),
            ));
        }
        Ok(())
    }

    /// How many write buffers fit next to a cache of at least one buffer's size, `most` at most.
    #[cfg(any(test, feature = "rocksdb", feature = "tidesdb"))]
    pub(crate) fn write_buffers_of(&self, most: usize) -> usize {
        (self.memory_bytes / self.write_buffer_bytes).saturating_sub(1).clamp(2, most.max(2))
    }

    /// The block cache next to `write_buffers` buffers.
    #[cfg(any(test, feature = "rocksdb", feature = "leveldb", feature = "tidesdb"))]
    pub(crate) fn cache_beside(&self, write_buffers: usize) -> usize {
        let left = self.memory_bytes.saturating_sub(write_buffers * self.write_buffer_bytes);
        self.cache_bytes.unwrap_or(left)
    }
}

pub(crate) fn invalid(setting: &'static str, value: impl ToString, reason: String) -> Error {
    Error::InvalidSetting { setting, value: value.to_string(), reason }
}

/// Refuses compression, for `engine`, which has none.
#[cfg(any(range_peer, feature = "bf-tree", feature = "tidesdb"))]
pub(crate) fn uncompressed(engine: &str, settings: &PeerSettings) -> Result<()> {
    if settings.compression == Compression::None {
        return Ok(());
    }
    let value = format!("{:?}", settings.compression).to_lowercase();
    let reason = format!("{engine} has no compression here; run it without");
    Err(invalid("compression", value, reason))
}

fn within(setting: &'static str, value: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(invalid(setting, value, format!("it must be between {least} and {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_and_cache_share_the_memory() {
        let settings = PeerSettings::default();
        settings.validate().unwrap();
        assert_eq!(settings.write_buffers_of(settings.write_buffers), 4);
        assert_eq!(settings.cache_beside(4), (1 << 30) - (256 << 20));
        let named = PeerSettings { cache_bytes: Some(5), ..PeerSettings::default() };
        assert_eq!(named.cache_beside(4), 5);
    }

    #[test]
    fn a_tight_budget_has_fewer_buffers_and_still_a_cache() {
        let tight = PeerSettings { memory_bytes: 192 << 20, ..PeerSettings::default() };
        tight.validate().unwrap();
        let buffers = tight.write_buffers_of(tight.write_buffers);
        assert_eq!((buffers, tight.cache_beside(buffers)), (2, 64 << 20));
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let default = PeerSettings::default();
        for (bad, name) in [
            (PeerSettings { memory_bytes: 128 << 20, ..default.clone() }, "memory_bytes"),
            (PeerSettings { write_buffer_bytes: 1, ..default.clone() }, "write_buffer_bytes"),
            (PeerSettings { write_buffers: 1, ..default.clone() }, "write_buffers"),
            (PeerSettings { background_threads: 0, ..default.clone() }, "background_threads"),
            (PeerSettings { filter_bits: 33, ..default.clone() }, "filter_bits"),
        ] {
            assert!(bad.validate().unwrap_err().to_string().contains(name), "{name}");
        }
    }
}
