//! The file `LOG` of a database: what opened it, and with which options.

use crate::knobs::HasKnobs;
use crate::options::Options;
use std::fmt::Write as _;

/// Writes the file `LOG` of a database that was opened: what it is, and the options that were given.
pub fn begin<'a>(
    path: &str,
    options: &Options,
    families: impl Iterator<Item = (&'a str, &'a Options)>,
) {
    let mut text = format!(
        "Esker {}, opened through the C interface of RocksDB\nFast CRC32 supported: decided at run time\n\
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
    let table = options.table.as_ref().map(|table| table.knobs());
    for (name, value) in
        [Some(options.knobs()), table].into_iter().flatten().flat_map(|it| it.texts())
    {
        let _ = writeln!(text, "  {name}: {value}");
    }
}
