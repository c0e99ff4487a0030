//! The file `LOG` of a database: what opened it, and with which options.

use crate::knobs::{self, HasKnobs};
use crate::options::{Options, TableOptions};
use std::fmt::Write as _;

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
        let _ = writeln!(text, "column family {name}");
        show(&mut text, options);
    }
    match options.logger.as_ref() {
        Some(logger) => text.lines().for_each(|line| logger.log(line)),
        None if options.environment.as_ref().is_some_and(|env| env.is_in_memory()) => {}
        // A database works without it.
        None => drop(std::fs::write(std::path::Path::new(path).join("LOG"), text)),
    }
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
}
