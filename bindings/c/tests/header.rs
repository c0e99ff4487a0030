//! `include/esker.h` is what the sources say.

use std::fs;
use std::path::{Path, PathBuf};

/// The sources with public items, in the order of the header.
const SOURCES: [&str; 17] = [
    "version",
    "status",
    "error",
    "bytes",
    "settings",
    "open",
    "database",
    "keyspace",
    "batch",
    "snapshot",
    "reader",
    "cursor",
    "transaction",
    "prepared",
    "stats",
    "backup",
    "repair",
];

const REWRITE: &str = "REWRITE_HEADER=1 cargo test -p esker-c --test header";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn generated() -> String {
    let config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(folder().join(format!("src/{source}.rs")));
    }
    let mut header = Vec::new();
    builder.generate().expect("the sources are understood").write(&mut header);
    String::from_utf8(header).unwrap()
}

#[test]
fn the_header_is_that_of_the_sources() {
    let path = folder().join("include/esker.h");
    let generated = generated();
    if std::env::var_os("REWRITE_HEADER").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(generated.lines()).position(|(kept, new)| kept != new);
    let line = differs.unwrap_or(kept.lines().count().min(generated.lines().count())) + 1;
    assert!(
        kept == generated,
        "include/esker.h differs from the sources at line {line}; rewrite it with\n{REWRITE}"
    );
}

/// Each exported function is in the header: none is in a source that the list lacks.
#[test]
fn the_header_has_every_function() {
    let header = generated();
    let mut functions = 0;
    for entry in fs::read_dir(folder().join("src")).unwrap() {
        let source = fs::read_to_string(entry.unwrap().path()).unwrap();
        for (_, rest) in
            source.match_indices("extern \"C\" fn ").map(|(at, it)| source.split_at(at + it.len()))
        {
            let name = &rest[..rest.find('(').unwrap()];
            assert!(header.contains(&format!("{name}(")), "{name} is not in esker.h");
            functions += 1;
        }
    }
    assert!(functions > 70, "{functions}");
}

/// A comment says of each function what it does.
#[test]
fn each_function_of_the_header_has_a_comment() {
    let header = generated();
    let lines: Vec<_> = header.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let declares = line.contains(" esker_") || line.contains("*esker_");
        if declares && line.contains('(') && !line.starts_with([' ', '/']) {
            assert!(lines[at - 1].starts_with("//"), "no comment: {line}");
        }
    }
}
