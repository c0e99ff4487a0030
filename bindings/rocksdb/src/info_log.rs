//! The file `LOG` of a database: what opened it, and with which options.

use crate::knobs::{self, HasKnobs};
use crate::options::{Options, TableOptions};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

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
    show(&mut text, options);
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
    show(text, options);
}

fn show(text: &mut String, options: &Options) {
    let (databases, tables) = knobs::shown();
    for knob in databases {
        let _ = writeln!(text, "Options.{}: {}", knob.name, (knob.text)(options.knobs()));
    }
    for note in &options.notes {
        let _ = writeln!(text, "{note}");
    }
    let defaults = TableOptions::default();
    for knob in tables {
        let table = options.table.as_ref().unwrap_or(&defaults);
        let _ = writeln!(text, "  {}: {}", knob.name, (knob.text)(table.knobs()));
    }
    if let Some(cache) = options.table.as_ref().and_then(|table| table.cache.as_ref()) {
        let _ = writeln!(text, "  block_cache_options:\n    capacity : {}", cache.capacity());
    }
}
