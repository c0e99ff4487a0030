//! The file `OPTIONS-esker` of a database: the numbers that its last open was given.

use crate::border::{Array, Code, Handle, Out, Result, Status, Text, c_api, memory};
use crate::column_families::{free_texts, give_texts};
use crate::options::Options;
use crate::texts::{set, shown};
use std::ffi::{c_char, c_void};
use std::fmt::Write as _;
use std::path::Path;

/// The name of the file.
pub const NAME: &str = "OPTIONS-esker";

/// Writes the file. A database works without it, so an error is ignored.
pub fn write<'a>(
    path: &str,
    options: &Options,
    families: impl Iterator<Item = (&'a str, &'a Options)>,
) {
    if options.environment.as_ref().is_some_and(|env| env.is_in_memory()) {
        return;
    }
    let mut text = String::from("[database]\n");
    add(&mut text, options);
    for (name, options) in families {
        let _ = writeln!(text, "[family {name}]");
        add(&mut text, options);
    }
    let _ = std::fs::write(Path::new(path).join(NAME), text);
}

fn add(text: &mut String, options: &Options) {
    for (name, value) in options.knobs.texts() {
        let _ = writeln!(text, "{name}={}", shown(name, value));
    }
}

/// The options of a database, and those of its families.
type Read = (Options, Vec<(String, Options)>);

/// Reads the text of a file. `ignores` unknown numbers.
fn parse(text: &str, ignores: bool) -> Result<Read> {
    let (mut database, mut families) = (Options::default(), Vec::<(String, Options)>::new());
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("[family ").and_then(|it| it.strip_suffix(']')) {
            families.push((name.to_owned(), Options::default()));
        } else if let Some((name, value)) = line.split_once('=') {
            let options = families.last_mut().map_or(&mut database, |(_, options)| options);
            let done = set(&mut options.knobs, name, value);
            if !ignores {
                done?;
            }
        }
    }
    Ok((database, families))
}

c_api! {
    /// Only numbers are stored: merge operators and the like have to be set again.
    try fn rocksdb_load_latest_options(
        path: Text,
        _env: *mut c_void,
        ignore_unknown: bool,
        _cache: *mut c_void,
        database: Out<Handle<Options>>,
        count: Out<usize>,
        names: Out<*mut *mut c_char>,
        families: Out<*mut Handle<Options>>,
    ) {
        let path = path.get()?;
        let read = std::fs::read_to_string(Path::new(path).join(NAME));
        let missing = |_| Status::new(Code::NotFound, format!("{path}/{NAME}: No such file"));
        let (options, all) = parse(&read.map_err(missing)?, ignore_unknown)?;
        database.set(Handle::new(options));
        count.set(all.len());
        names.set(give_texts(all.iter().map(|(name, _)| &name[..])));
        let all: Vec<_> = all.into_iter().map(|(_, options)| Handle::new(options)).collect();
        families.set(memory::copy(&all));
        Ok(())
    }

    fn rocksdb_load_latest_options_destroy(
        database: Handle<Options>,
        names: Array<*mut c_char>,
        families: Array<Handle<Options>>,
        count: usize,
    ) {
        drop(database.take());
        families.of(count).iter().for_each(|options| drop(options.take()));
        families.free();
        free_texts(names, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.knobs.set("compaction_pri", 4);
        options.knobs.set("write_buffer_size", 1_u64 << 20);
        let path = dir.path().to_str().unwrap();
        write(path, &options, [("default", &Options::default()), ("a b", &options)].into_iter());
        let text = std::fs::read_to_string(dir.path().join(NAME)).unwrap();
        assert!(text.contains("compaction_pri=kRoundRobin\n"), "{text}");
        let (database, families) = parse(&text, false).unwrap();
        assert_eq!(database.knobs.number("write_buffer_size", 0_u64), 1 << 20);
        let names: Vec<_> = families.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["default", "a b"]);
        assert_eq!(families[1].1.knobs.number("compaction_pri", 0), 4);
        assert!(parse("no_such=1\n", false).is_err() && parse("no_such=1\n", true).is_ok());
    }
}
