//! Esker's settings for RocksDB's options.

use crate::border::{Result, Status};
use crate::knobs::Knobs;
use crate::options::Options;
use esker::options::{BackgroundWriteRate, Compression, Recovery, Shape};
use esker::{KeyspaceSettings, Log, Settings, SyncPolicy};
use std::time::Duration;

/// RocksDB's default size of a memtable, and the smallest segment that is used for one: a value may have a
/// quarter of a segment.
const BUFFER: u64 = 64 << 20;
const SEGMENT_MIN: u64 = 16 << 20;
const SEGMENT_MAX: u64 = 1 << 30;

/// The smallest budget of memory. A batch may have a quarter of it.
const MEMORY_MIN: u64 = 512 << 20;

/// RocksDB's default cache.
const CACHE: usize = 32 << 20;

/// The settings of a database.
///
/// # Errors
/// If the meaning of an option cannot be kept.
pub fn settings(options: &Options, path: &str) -> Result<Settings> {
    let knobs = &options.knobs;
    let buffer = knobs.number("write_buffer_size", BUFFER).clamp(SEGMENT_MIN, SEGMENT_MAX);
    let buffers =
        u64::try_from(knobs.number("max_write_buffer_number", 2)).unwrap_or(2).clamp(2, 8);
    let cache = options.table.as_ref().and_then(|table| table.cache.as_ref());
    let cache = cache.map_or(CACHE, |cache| cache.capacity()) as u64;
    let memory = (buffer * (buffers + 2)).saturating_add(cache).clamp(MEMORY_MIN, 1 << 40);
    let threads = knobs.number("max_background_jobs", 2).clamp(1, 64);
    let settings = Settings::default()
        .log(Log::File { dir: options.log_dir(path), sync: SyncPolicy::Os })
        .segment_bytes(buffer as usize)
        .memory_bytes(memory as usize)
        .background_threads(threads as usize)
        .recovery(recovery(knobs)?)
        .direct_reads(knobs.is_on("use_direct_reads"));
    Ok(match options.write_rate {
        Some(rate) => {
            let rate = rate.max(BackgroundWriteRate::LEAST);
            settings.background_write_rate(BackgroundWriteRate::Fixed(rate))
        }
        None => settings,
    })
}

/// What an open does with a log whose end is torn.
fn recovery(knobs: &Knobs) -> Result<Recovery> {
    const ABSOLUTE_CONSISTENCY: i32 = 1;
    const SKIP_ANY_CORRUPTION: i32 = 3;
    match knobs.number("wal_recovery_mode", 2) {
        ABSOLUTE_CONSISTENCY => Ok(Recovery::Strict),
        SKIP_ANY_CORRUPTION => Err(Status::unsupported(
            "wal_recovery_mode 3: Esker applies no write after a damaged one; use mode 2, or `esker repair`",
        )),
        _ => Ok(Recovery::Prefix),
    }
}

/// The settings of a new column family.
pub fn keyspace_settings(options: &Options) -> KeyspaceSettings {
    let knobs = &options.knobs;
    let compression = match knobs.number("compression", 1) {
        0 => Compression::None,
        // Zstd, and what RocksDB called it first.
        7 | 0x40 => Compression::Zstd,
        _ => Compression::Lz4,
    };
    let settings = KeyspaceSettings::default().compression(compression);
    let settings = match options.table.as_ref().and_then(|table| table.filter_bits) {
        Some(bits) => settings.filter_bits(bits.clamp(0.0, 32.0) as u8),
        None => settings,
    };
    if options.is_fifo() {
        return fifo(settings, options);
    }
    // Universal compaction is Esker's tiered shape.
    match knobs.number("compaction_style", 0) {
        1 => {
            let runs = knobs.number("level0_file_num_compaction_trigger", 4).clamp(2, 100);
            settings.shape(Shape::Tiered { runs: runs as _ })
        }
        _ => settings,
    }
}

/// FIFO compaction is a shape of windows: tables leave whole, the oldest first.
fn fifo(settings: KeyspaceSettings, options: &Options) -> KeyspaceSettings {
    const MOST: u64 = 1 << 30;
    const LEAST: u64 = 1 << 20;
    const HOUR: u64 = 3600;
    // What RocksDB puts in the place of its default, and a number that ends never.
    const MONTH: u64 = 30 * 24 * 3600;
    const ENDLESS: u64 = 1 << 32;
    const DEFAULT: u64 = u64::MAX - 1;
    let fifo = options.fifo.clone().unwrap_or_default();
    let of_data = fifo.number("max_data_files_size", 0);
    let most = if of_data > 0 { of_data } else { fifo.number("max_table_files_size", MOST) };
    let ttl = match options.knobs.number("ttl", DEFAULT) {
        DEFAULT => Some(MONTH),
        0 | ENDLESS.. => None,
        ttl => Some(ttl),
    };
    // A table with entries of a whole window leaves when its last one expires.
    let window = Duration::from_secs(ttl.map_or(HOUR, |ttl| (ttl / 8).clamp(60, HOUR)));
    let settings = settings.shape(Shape::Windowed { window, max_bytes: Some(most.max(LEAST)) });
    ttl.map_or(settings, |ttl| settings.ttl(Duration::from_secs(ttl)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_options_give_valid_settings() {
        let mut options = Options::default();
        settings(&options, "db").unwrap().validate().unwrap();
        for (buffer, number, jobs) in [(0_u64, 0, 0), (u64::MAX, i32::MAX, i32::MAX), (1, -1, -1)] {
            options.knobs.set("write_buffer_size", buffer);
            options.knobs.set("max_write_buffer_number", number);
            options.knobs.set("max_background_jobs", jobs);
            options.knobs.set("compaction_style", 1);
            options.knobs.set("level0_file_num_compaction_trigger", number);
            options.write_rate = Some(1);
            settings(&options, "db").unwrap().validate().unwrap();
            keyspace_settings(&options).validate().unwrap();
        }
    }

    #[test]
    fn fifo_compaction_gives_windows_with_a_limit() {
        let mut options = Options::default();
        options.knobs.set("compaction_style", 2);
        let shape = |options: &Options| {
            let settings = keyspace_settings(options);
            settings.validate().unwrap();
            (settings.shape.to_string(), settings.ttl)
        };
        let month = Some(Duration::from_secs(30 * 24 * 3600));
        assert_eq!(shape(&options), ("windowed:3600s:1073741824".into(), month));
        options.knobs.set("ttl", 0_u64);
        assert_eq!(shape(&options), ("windowed:3600s:1073741824".into(), None));
        let mut fifo = Knobs::default();
        fifo.set("max_table_files_size", 4096_u64);
        options.fifo = Some(fifo);
        options.knobs.set("ttl", 800_u64);
        let ttl = Some(Duration::from_secs(800));
        assert_eq!(shape(&options), ("windowed:100s:1048576".into(), ttl));
        options.fifo.as_mut().unwrap().set("max_data_files_size", 5_u64 << 20);
        options.knobs.set("ttl", u64::MAX - 2);
        assert_eq!(shape(&options).0, "windowed:3600s:5242880");
    }

    #[test]
    fn a_batch_of_100_mb_fits() {
        let settings = settings(&Options::default(), "db").unwrap();
        assert!(settings.max_batch_bytes() > 100 << 20);
    }
}
