//! How fjall is configured: by the comments on its options in `DatabaseBuilder` and
//! `KeyspaceCreateOptions`, which are its documentation. What they leave alone is left alone.

use crate::configuration::Configuration;
use crate::settings::{Compression, PeerSettings, invalid};
use ::fjall::compaction::Leveled;
use ::fjall::config::{
    BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use ::fjall::{CompressionType, KeyspaceCreateOptions, KvSeparationOptions};
use esker_base::Result;
use std::sync::Arc;

/// Writers wait when four full write buffers wait for their flush, and there is one being written.
const WRITE_BUFFERS: usize = 5;
/// The filter that fjall has unless configured otherwise.
const DEFAULT_FILTER_BITS: u8 = 10;
/// fjall's own limit of all journals.
const DEFAULT_JOURNAL_BYTES: u64 = 512 << 20;
/// The size of its tables and of its write buffers unless configured otherwise; its first level holds four.
const DEFAULT_TABLE_BYTES: u64 = 64 << 20;

/// The compression in fjall's own terms, if it has it.
pub(super) fn compression(settings: &PeerSettings) -> Result<CompressionType> {
    match settings.compression {
        Compression::None => Ok(CompressionType::None),
        Compression::Lz4 => Ok(CompressionType::Lz4),
        Compression::Zstd => {
            let reason = "fjall knows no compression but lz4; run it with that or without";
            Err(invalid("compression", "zstd", reason.to_owned()))
        }
    }
}

/// What is chosen of a database.
pub(super) struct Chosen {
    pub(super) cache_bytes: u64,
    pub(super) journal_bytes: u64,
    pub(super) worker_threads: usize,
    pub(super) compression: CompressionType,
    pub(super) write_buffer_bytes: u64,
    table_bytes: u64,
    filter_bits: u8,
    separation_threshold: Option<u32>,
}

impl Chosen {
    pub(super) fn new(settings: &PeerSettings, configuration: &mut Configuration) -> Result<Self> {
        let compression = compression(settings)?;
        // The number of buffers can't be chosen, so that in a tight budget they must be smaller.
        let most = settings.memory_bytes / (WRITE_BUFFERS + 1);
        let write_buffer = settings.write_buffer_bytes.min(most);
        let beside = settings.memory_bytes - WRITE_BUFFERS * write_buffer;
        let chosen = Chosen {
            write_buffer_bytes: configuration.note(
                "max_memtable_size",
                write_buffer as u64,
                "the run's, or a sixth of the memory; advised are 8 to 64 MiB",
            ),
            table_bytes: configuration.note(
                "table_target_size",
                DEFAULT_TABLE_BYTES.min(write_buffer as u64),
                "the write buffer's, as both are 64 MiB by default: levels are as many, and no table is larger",
            ),
            cache_bytes: configuration.note(
                "cache_size",
                settings.cache_bytes.unwrap_or(beside) as u64,
                "what five write buffers leave of the memory: writers wait at four full ones",
            ),
            journal_bytes: configuration.note(
                "max_journaling_size",
                DEFAULT_JOURNAL_BYTES.max(2 * (WRITE_BUFFERS * write_buffer) as u64),
                "the default, or twice the write buffers, so that the journal is not what brings \
                 about a flush",
            ),
            worker_threads: configuration.note(
                "worker_threads",
                settings.background_threads,
                "the run's, the same for all engines",
            ),
            filter_bits: configuration.note(
                "filter_policy bits per key",
                settings.filter_bits,
                "the run's; at 10 it is fjall's default, a finer filter in level 0 included",
            ),
            separation_threshold: settings.separation_threshold,
            compression,
        };
        if let Some(bytes) = settings.separation_threshold {
            let why = "the run's; the other options of key-value separation by default";
            configuration.note("separation_threshold", bytes, why);
        }
        let name = format!("{:?}", settings.compression);
        configuration.note("compression", name, "the run's, the same for all engines");
        let why = "as the blocks; touches values from 4 KiB on only";
        configuration.note("journal_compression", format!("{:?}", settings.compression), why);
        configuration.note("manual_journal_persist", "default, off", "each write reaches the file");
        configuration.note("data_block_size", "default, 4 KiB", "advised for point reads");
        let why = "for loads whose gets find their keys; these have others too";
        configuration.note("expect_point_read_hits", "default, off", why);
        Ok(chosen)
    }

    pub(super) fn keyspace(&self) -> KeyspaceCreateOptions {
        let options = KeyspaceCreateOptions::default()
            .max_memtable_size(self.write_buffer_bytes)
            .compaction_strategy(Arc::new(
                Leveled::default().with_table_target_size(self.table_bytes),
            ))
            .data_block_compression_policy(CompressionPolicy::all(self.compression));
        let separation = self.separation_threshold.map(|bytes| {
            let options = KvSeparationOptions::default().separation_threshold(bytes);
            options.compression(self.compression)
        });
        let options = options.with_kv_separation(separation);
        match self.filter_bits {
            DEFAULT_FILTER_BITS => options,
            0 => options.filter_policy(FilterPolicy::all(FilterPolicyEntry::None)),
            bits => {
                let bits = BloomConstructionPolicy::BitsPerKey(f32::from(bits));
                options.filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(bits)))
            }
        }
    }
}
