//! The file `LOG` of a database: what opened it, and with which options.

use crate::knobs::{self, HasKnobs, Knob};
use crate::options::{Options, TableOptions};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The options of column families, by how their names begin; all others are options of databases. The
/// database's lines do not repeat them, as RocksDB's do not: programs count the lines.
const OF_FAMILIES: [&str; 54] = [
    "arena_block_size",
    "blob_compaction_readahead_size",
    "blob_compression_type",
    "blob_direct_write_partitions",
    "blob_file_",
    "blob_gc_",
    "block_protection_bytes_per_key",
    "bloom_locality",
    "bottommost_",
    "cf_allow_ingest_behind",
    "compaction_pri",
    "compaction_style",
    "compression",
    "default_temperature",
    "default_write_temperature",
    "disable_auto_compactions",
    "disallow_memtable_writes",
    "enable_blob_direct_write",
    "enable_blob_files",
    "enable_blob_gc",
    "experimental_mempurge_threshold",
    "force_consistency_checks",
    "hard_pending_compaction_bytes_limit",
    "hash_link_list_rep",
    "inplace_update_",
    "last_level_temperature",
    "level0_",
    "level_compaction_dynamic_level_bytes",
    "max_bytes_for_level_",
    "max_compaction_bytes",
    "max_sequential_skip_in_iterations",
    "max_successive_merges",
    "max_write_buffer_",
    "memtable_",
    "min_",
    "num_levels",
    "optimize_filters_for_hits",
    "paranoid_file_checks",
    "paranoid_memory_checks",
    "periodic_compaction_seconds",
    "persist_user_defined_timestamps",
    "preclude_last_level_data_seconds",
    "prepopulate_blob_cache",
    "preserve_internal_time_seconds",
    "read_triggered_compaction_threshold",
    "report_bg_io_stats",
    "sample_for_compression",
    "soft_pending_compaction_bytes_limit",
    "strict_max_successive_merges",
    "target_file_size_",
    "ttl",
    "uncache_aggressiveness",
    "verify_output_flags",
    "write_buffer_size",
];

/// The options that name a compression.
const COMPRESSIONS: [&str; 4] =
    ["blob_compression_type", "bottommost_compression", "compression", "wal_compression"];

/// Writes the file `LOG` of a database that was opened: what it is, and the options that were given.
pub fn begin<'a>(
    path: &str,
    options: &Options,
    families: impl Iterator<Item = (&'a str, &'a Options)>,
) {
    let crc32 = match cfg!(target_feature = "sse4.2") {
        true => "Supported",
        false => "Not supported",
    };
    // RocksDB's line is about the processor that the library is compiled for.
    let mut text = format!(
        "Esker {}, opened through the C interface of RocksDB\n\
         Fast CRC32 supported: {crc32} on x86\n\
         CRC32 is chosen at run time, whatever the library is compiled for\n\
         Jemalloc supported: 0\n",
        env!("CARGO_PKG_VERSION")
    );
    show(&mut text, options, false);
    for (name, options) in families {
        show_family(&mut text, name, options);
    }
    write(path, options, &text, File::create);
}

/// Adds a column family that was created, to the log of the database that `options` opened.
pub fn add(path: &str, options: &Options, name: &str, family: &Options) {
    let mut text = String::new();
    show_family(&mut text, name, family);
    write(path, options, &text, |path| File::options().append(true).open(path));
}

fn write(
    path: &str,
    options: &Options,
    text: &str,
    open: impl FnOnce(PathBuf) -> std::io::Result<File>,
) {
    match options.logger.as_ref() {
        Some(logger) => text.lines().for_each(|line| logger.log(line)),
        None if options.environment.as_ref().is_some_and(|env| env.is_in_memory()) => {}
        None => {
            // A database works without it.
            let written = open(Path::new(path).join("LOG"));
            let _ = written.and_then(|mut log| log.write_all(text.as_bytes()));
        }
    }
}

fn show_family(text: &mut String, name: &str, options: &Options) {
    let _ = writeln!(text, "Options for column family [{name}]:");
    show(text, options, true);
    let (_, tables) = knobs::shown();
    let defaults = TableOptions::default();
    for knob in tables {
        let table = options.table.as_ref().unwrap_or(&defaults);
        let _ = writeln!(text, "  {}: {}", knob.name, (knob.text)(table.knobs()));
    }
    if let Some(cache) = options.table.as_ref().and_then(|table| table.cache.as_ref()) {
        let _ = writeln!(text, "  block_cache_options:\n    capacity : {}", cache.capacity());
    }
}

/// Shows the numbers of a column family, or those of a database.
fn show(text: &mut String, options: &Options, of_family: bool) {
    let (all, _) = knobs::shown();
    let is_wanted =
        |knob: &&Knob| OF_FAMILIES.iter().any(|start| knob.name.starts_with(start)) == of_family;
    for knob in all.filter(is_wanted) {
        let value = (knob.text)(options.knobs());
        let value = match COMPRESSIONS.contains(&knob.name) {
            true => compression(&value).to_owned(),
            false => value,
        };
        let _ = writeln!(text, "Options.{}: {value}", knob.name);
    }
    for note in &options.notes {
        let _ = writeln!(text, "{note}");
    }
}

/// The name that RocksDB's `LOG` has for the number of a compression.
fn compression(number: &str) -> &str {
    match number {
        "0" => "NoCompression",
        "1" => "Snappy",
        "2" => "Zlib",
        "3" => "BZip2",
        "4" => "LZ4",
        "5" => "LZ4HC",
        "6" => "Xpress",
        "7" => "ZSTD",
        "255" => "Disabled",
        other => other,
    }
}
