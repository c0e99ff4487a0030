//! How RocksDB is configured.
//!
//! The page that RocksDB's wiki gives to its users, "Setup Options and Basic Tuning", is
//! followed where it says something; what it leaves alone is left alone, unless the page on that very
//! subject, or the comment on the option in `include/rocksdb`, advises otherwise for such a run. The
//! reasons are next to the options, and in the report.
//!
//! What is not plain from the documentation was measured, for RocksDB's good: 100,000 records of 1,000
//! bytes, as many operations, 16 MiB write buffers in 512 MiB, the median of five rounds in turn.
//! Processor time, which shows small differences on a machine that others use better than throughput
//! does, by that of what is set here; less is better:
//!
//! | | C: reads | E: scans, 5% inserts |
//! |---|---|---|
//! | blocks of 16 KiB | 1 | 1 |
//! | blocks of 4 KiB | 1.24 | 1.26 |
//! | a hash index in data blocks | 1.02 | 0.99 |
//! | that, and a filter over the memtable's keys | 1.05 | 1.03 |
//! | statistics on, tickers only | 1.05 | 1.03 |
//!
//! The hash index and the memtable's filter are what `OptimizeForPointLookup` sets, which `options.h`
//! gives to those who never use an iterator; these loads do, and without them nothing is lost.

use super::Variant;
use crate::configuration::Configuration;
use crate::settings::{Compression, PeerSettings};
use ::rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DBCompactionStyle, DBCompressionType, Options,
    UniversalCompactOptions,
};

const BASIC_TUNING: &str = "wiki: Setup Options and Basic Tuning";

/// In bytes: 16 KiB, the wiki's advice, "to save memory"; the default, 4 KiB, takes a quarter more
/// processor time for reads and for scans.
const BLOCK_BYTES: usize = 16 << 10;
/// In bytes: the wiki's advice, so that writeback is spread out.
const SYNC_EVERY_BYTES: u64 = 1 << 20;
/// RocksDB's default.
const LEVEL_RATIO: u32 = 10;
/// RocksDB's default.
const SPACE_PERCENT: u32 = 200;

pub(super) fn options(
    variant: Variant,
    settings: &PeerSettings,
    configuration: &mut Configuration,
) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    let buffers = settings.write_buffers_of(settings.write_buffers);
    memory(&mut options, buffers, settings, configuration);
    let cache = settings.cache_beside(buffers);
    options.set_block_based_table_factory(&table(cache, settings, configuration));
    separation(&mut options, settings, configuration);
    shape(&mut options, variant, settings, configuration);
    background(&mut options, settings, configuration);
    log(&mut options, variant, buffers, configuration);
    configuration.note(
        "statistics",
        "default, off",
        "they count while it is measured; measured: 3 to 5% of processor time",
    );
    configuration.note(
        "unordered_write, enable_pipelined_write",
        "default, off",
        "wiki: unordered_write gives up immutable snapshots, which the loads rely on; Pipelined \
         Write is for many concurrent writers, and the basic setup leaves it off",
    );
    options
}

/// Options of a store of transactions, its column families included, leveled.
pub(super) fn transactional(
    has_log: bool,
    settings: &PeerSettings,
    configuration: &mut Configuration,
) -> Options {
    let variant = if has_log { Variant::WalSync } else { Variant::NoLog };
    let mut options = options(variant, settings, configuration);
    let buffers = settings.write_buffers_of(settings.write_buffers);
    options.set_db_write_buffer_size(configuration.note(
        "db_write_buffer_size",
        buffers * settings.write_buffer_bytes,
        "what the write buffers of all column families may take together, the run's",
    ));
    configuration.note(
        "TransactionDB",
        "write committed, snapshots set, deadlocks detected",
        "the default policy; wiki: Transactions",
    );
    options
}

fn memory(
    options: &mut Options,
    buffers: usize,
    settings: &PeerSettings,
    configuration: &mut Configuration,
) {
    options.set_write_buffer_size(configuration.note(
        "write_buffer_size",
        settings.write_buffer_bytes,
        "the run's",
    ));
    options.set_max_write_buffer_number(configuration.note(
        "max_write_buffer_number",
        buffers as i32,
        "as many as Esker's MemTables may be, if the memory allows; wiki: RocksDB Tuning Guide, \
         Write buffers",
    ));
    configuration.note("memtable", "default, skip list", BASIC_TUNING);
}

fn table(
    cache_bytes: usize,
    settings: &PeerSettings,
    configuration: &mut Configuration,
) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    let why = "HyperClockCache of what the write buffers leave of the memory; cache.h: generally \
               recommended over LRUCache, its charge not estimated";
    let cache_bytes = configuration.note("block_cache", cache_bytes, why);
    table.set_block_cache(&Cache::new_hyper_clock_cache(cache_bytes, 0));
    let why = "wiki: Setup Options and Basic Tuning; measured: 4 KiB, the default, takes a quarter \
               more processor time for reads and for scans";
    table.set_block_size(configuration.note("block_size", BLOCK_BYTES, why));
    configuration.note(
        "data_block_index_type, memtable_whole_key_filtering",
        "default, binary search and off",
        "options.h, OptimizeForPointLookup: for stores that are never iterated; measured: they save \
         reads no processor time here",
    );
    table.set_cache_index_and_filter_blocks(configuration.note(
        "cache_index_and_filter_blocks",
        true,
        "wiki: Setup Options and Basic Tuning; keeps them within the memory budget",
    ));
    if settings.has_parts {
        parts(&mut table, configuration);
    }
    table.set_pin_l0_filter_and_index_blocks_in_cache(configuration.note(
        "pin_l0_filter_and_index_blocks_in_cache",
        true,
        BASIC_TUNING,
    ));
    let why = "the run's, full Bloom filters; wiki: Setup Options and Basic Tuning, Bloom Filters";
    match configuration.note("filter_policy bits per key", settings.filter_bits, why) {
        0 => {}
        bits => table.set_bloom_filter(f64::from(bits), false),
    }
    configuration.note(
        "format_version",
        "default, the newest that is proven",
        "table.h: using the default setting is strongly recommended",
    );
    configuration.note("checksum", "default, XXH3", "include/rocksdb/table.h");
    table
}

/// Indexes and filters in parts. Their blocks have the default size, 4 KiB, and the top of each is
/// pinned, which is the default, too.
fn parts(table: &mut BlockBasedOptions, configuration: &mut Configuration) {
    const PARTS: &str = "wiki: Partitioned Index Filters; for stores larger than memory";
    table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    configuration.note("index_type", "kTwoLevelIndexSearch", PARTS);
    table.set_partition_filters(configuration.note("partition_filters", true, PARTS));
    table.set_pin_top_level_index_and_filter(configuration.note(
        "pin_top_level_index_and_filter",
        true,
        PARTS,
    ));
}

/// BlobDB, if the run separates values.
fn separation(options: &mut Options, settings: &PeerSettings, configuration: &mut Configuration) {
    const BLOBS: &str = "wiki: BlobDB";
    let Some(threshold) = settings.separation_threshold else { return };
    options.set_enable_blob_files(configuration.note("enable_blob_files", true, BLOBS));
    options.set_min_blob_size(configuration.note("min_blob_size", threshold, "the run's").into());
    options.set_enable_blob_gc(configuration.note(
        "enable_blob_garbage_collection",
        true,
        "wiki: BlobDB; its age cutoff and threshold by default",
    ));
    configuration.note("blob_cache", "default, none", "the page cache has the values");
}

fn shape(
    options: &mut Options,
    variant: Variant,
    settings: &PeerSettings,
    configuration: &mut Configuration,
) {
    let write_buffer = settings.write_buffer_bytes as u64;
    if matches!(variant, Variant::Universal | Variant::UniversalWithin { .. }) {
        options.set_compaction_style(DBCompactionStyle::Universal);
        let why = "the variant's; its size ratio 1 and width from 2 by default; wiki: Universal \
                   Compaction";
        configuration.note("compaction_style", "universal", why);
        universal(options, variant, configuration);
    } else {
        let ratio = match variant {
            Variant::Leveled { ratio } => ratio,
            _ => LEVEL_RATIO,
        };
        options.set_max_bytes_for_level_multiplier(f64::from(configuration.note(
            "max_bytes_for_level_multiplier",
            ratio,
            "the variant's; the default is 10",
        )));
        configuration.note("compaction_style", "default, leveled", BASIC_TUNING);
        options.set_level_compaction_dynamic_level_bytes(configuration.note(
            "level_compaction_dynamic_level_bytes",
            true,
            BASIC_TUNING,
        ));
        options.set_max_bytes_for_level_base(configuration.note(
            "max_bytes_for_level_base",
            4 * write_buffer,
            "wiki: RocksDB Tuning Guide: as large as level 0 when it is compacted, 4 files of a \
             write buffer; the default at 64 MiB",
        ));
    }
    options.set_target_file_size_base(configuration.note(
        "target_file_size_base",
        write_buffer,
        "in proportion to the write buffer; the default at 64 MiB",
    ));
    let compression = match settings.compression {
        Compression::None => DBCompressionType::None,
        Compression::Lz4 => DBCompressionType::Lz4,
        Compression::Zstd => DBCompressionType::Zstd,
    };
    let name = format!("{:?}", settings.compression);
    configuration.note("compression", name, "the run's, the same for all engines");
    options.set_compression_type(compression);
    configuration.note("compaction_pri", "default, kMinOverlappingRatio", BASIC_TUNING);
    configuration.note(
        "optimize_filters_for_hits",
        "default, off",
        "advanced_options.h: for loads whose gets find their keys; these have others too",
    );
}

/// What a variant of the universal style says of space.
fn universal(options: &mut Options, variant: Variant, configuration: &mut Configuration) {
    let percent = match variant {
        Variant::UniversalWithin { percent } => percent,
        _ => SPACE_PERCENT,
    };
    let mut universal = UniversalCompactOptions::default();
    universal.set_max_size_amplification_percent(configuration.note(
        "max_size_amplification_percent",
        percent as i32,
        "the variant's; the default is 200",
    ));
    options.set_universal_compaction_options(&universal);
}

fn background(options: &mut Options, settings: &PeerSettings, configuration: &mut Configuration) {
    let threads = settings.background_threads as i32;
    options.set_max_background_jobs(configuration.note(
        "max_background_jobs",
        threads,
        "the run's, the same for all engines; options.h: the default is 2",
    ));
    options.set_bytes_per_sync(configuration.note(
        "bytes_per_sync",
        SYNC_EVERY_BYTES,
        BASIC_TUNING,
    ));
}

fn log(options: &mut Options, variant: Variant, buffers: usize, configuration: &mut Configuration) {
    let (log, sync) = match variant {
        Variant::WalSync => (true, true),
        Variant::NoLog => (false, false),
        _ => (true, false),
    };
    configuration.note("disableWAL", !log, "the variant's");
    configuration.note("sync", sync, "the variant's");
    if sync {
        // A log that is written over does not grow, so a sync need not write its size.
        options.set_recycle_log_file_num(configuration.note(
            "recycle_log_file_num",
            buffers,
            "wiki: WAL Performance, Sync Mode: saves the I/O for metadata",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_counted_while_it_is_timed() {
        let (settings, mut configuration) = (PeerSettings::default(), Configuration::default());
        let options = options(Variant::Wal, &settings, &mut configuration);
        assert_eq!(options.get_statistics(), None);
    }
}
