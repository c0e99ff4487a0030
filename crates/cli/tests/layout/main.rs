//! The rules that hold the code base together, checked on its manifests and sources:
//!
//! * crates depend only on crates above them in [`rules::LAYERS`], and none in `crates/` on `lab/`;
//! * crates in `bindings/` and `integrations/` depend on `esker` alone, and no other crate on them;
//! * `unsafe` stands only where [`rules::may_hold_unsafe`] says, each time with its reason, and every
//!   other crate forbids it;
//! * the engine knows nothing of flash, of NVMe, or of the PMEM simulator;
//! * compaction pickers do no I/O;
//! * time, threads and chance come in only through `base`;
//! * byte order is explicit;
//! * the checks that run before a change are the ones the README names.
//!
//! The checkers are pure functions on text, and are themselves tested on samples that must fail.

mod circles;
mod five_tasks;
mod manifest;
mod prose;
mod rooms;
mod rules;
mod source;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The crates by name, without `esker-`, each with its folder.
fn crates() -> Vec<(String, String)> {
    fn collect(folder: &str, found: &mut Vec<(String, String)>) {
        for entry in root().join(folder).read_dir().unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let inner = format!("{folder}/{name}");
            let manifest = root().join(&inner).join("Cargo.toml");
            if manifest.is_file() {
                found.push((manifest::name(&read(&manifest)).unwrap(), inner));
            } else if root().join(&inner).is_dir() {
                collect(&inner, found);
            }
        }
    }
    let mut found = Vec::new();
    for building in rules::BUILDINGS {
        collect(building, &mut found);
    }
    found.sort();
    found
}

/// All Rust sources of the workspace.
fn all_sources() -> Vec<(String, String)> {
    rules::BUILDINGS.into_iter().flat_map(sources).collect()
}

/// All Rust sources under `folder`, with their paths from the root.
fn sources(folder: &str) -> Vec<(String, String)> {
    fn collect(dir: &Path, out: &mut Vec<PathBuf>) {
        for entry in dir.read_dir().into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, out);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                out.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    collect(&root().join(folder), &mut paths);
    paths.sort();
    let name = |path: &Path| path.strip_prefix(root()).unwrap().display().to_string();
    paths.iter().map(|path| (name(path), read(path))).collect()
}

#[track_caller]
fn expect_none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn the_walk_sees_the_code() {
    let seen = all_sources();
    assert!(seen.len() > 80 && crates().len() >= 10);
    for file in [
        "crates/engine/base/src/clock.rs",
        "crates/engine/lsm/src/db/mod.rs",
        "crates/cli/tests/layout/main.rs",
    ] {
        assert!(seen.iter().any(|(path, _)| path == file), "{file}");
    }
}

#[test]
fn arrows_point_up() {
    let problems = crates().into_iter().flat_map(|(name, folder)| {
        let manifest = read(&root().join(folder).join("Cargo.toml"));
        rules::arrows(&name, &manifest::dependencies(&manifest))
    });
    expect_none(problems.collect());
}

#[test]
fn the_product_does_not_depend_on_the_laboratory() {
    let (lab, product): (Vec<_>, Vec<_>) =
        crates().into_iter().partition(|(_, folder)| folder.starts_with("lab/"));
    let lab: Vec<_> = lab.into_iter().map(|(name, _)| name).collect();
    assert!(lab.len() >= 5, "the laboratory has moved: {lab:?}");
    let problems = product.into_iter().flat_map(|(name, folder)| {
        let manifest = read(&root().join(folder).join("Cargo.toml"));
        rules::depends_on_laboratory(&name, &manifest::dependencies(&manifest), &lab)
    });
    expect_none(problems.collect());
}

#[test]
fn bindings_and_integrations_know_the_facade_alone() {
    let folders = ["bindings/", "integrations/"];
    let (bindings, others): (Vec<_>, Vec<_>) = crates()
        .into_iter()
        .partition(|(_, folder)| folders.iter().any(|outer| folder.starts_with(outer)));
    for outer in folders {
        assert!(bindings.iter().any(|(_, folder)| folder.starts_with(outer)), "{outer} has moved");
    }
    let names: Vec<_> = bindings.iter().map(|(name, _)| name.clone()).collect();
    let problems = bindings.into_iter().chain(others).flat_map(|(name, folder)| {
        let manifest = read(&root().join(folder).join("Cargo.toml"));
        rules::depends_past_the_facade(&name, &manifest::dependencies(&manifest), &names)
    });
    expect_none(problems.collect());
}

#[test]
fn unsafe_stands_only_where_it_may_and_says_why() {
    expect_none(
        all_sources().iter().flat_map(|(path, text)| rules::unsafe_use(path, text)).collect(),
    );
}

#[test]
fn every_other_crate_forbids_unsafe() {
    let problems = crates().into_iter().flat_map(|(name, folder)| {
        let src = root().join(folder).join("src");
        let roots = ["lib.rs", "main.rs"].map(|file| src.join(file));
        let roots: Vec<_> = roots.into_iter().filter(|path| path.is_file()).collect();
        assert!(!roots.is_empty(), "{name} has no root file");
        roots.into_iter().flat_map(move |path| rules::forbids_unsafe(&name, &read(&path)))
    });
    expect_none(problems.collect());
}

#[test]
fn the_engine_knows_no_device() {
    let sources = sources("crates/engine/lsm/src");
    assert!(!sources.is_empty());
    expect_none(sources.iter().flat_map(|(path, text)| rules::knows_device(path, text)).collect());
}

#[test]
fn rooms_use_only_what_they_may() {
    let mut problems = rooms::circles();
    for building in &rooms::BUILDINGS {
        let sources = sources(building.folder);
        let is_code = |path: &str| !path.contains("/tests/") && !path.contains("/testing");
        let code = sources.iter().filter(|(path, _)| is_code(path));
        let strays = |(path, text): &(String, String)| {
            rooms::strays(building, path, rules::without_tests(text))
        };
        problems.extend(code.flat_map(strays));
        let paths: Vec<_> = sources.iter().map(|(path, _)| path.clone()).collect();
        problems.extend(rooms::missing(building, &paths));
    }
    expect_none(problems);
}

#[test]
fn files_are_short() {
    let sources = all_sources();
    let is_long = |(_, text): &&(String, String)| text.lines().count() > rules::LINES;
    let longest = sources.iter().filter(is_long);
    let problem = |(path, text): &(String, String)| {
        let lines = text.lines().count();
        format!("{path}: {lines} lines, more than {}: split it by subject", rules::LINES)
    };
    expect_none(longest.map(problem).collect());
}

#[test]
fn files_make_no_long_circles() {
    let mut problems = Vec::new();
    for folder in crates().iter().map(|(_, folder)| format!("{folder}/src")) {
        let is_code = |path: &str| {
            !path.contains("/tests/") && !path.contains("/testing") && !path.contains("test.rs")
        };
        let code = sources(&folder).into_iter().filter(|(path, _)| is_code(path));
        let inside = |path: &str| path[folder.len() + 1..].to_owned();
        let code = code.map(|(path, text)| (inside(&path), rules::without_tests(&text).to_owned()));
        let found = circles::over(&code.collect::<Vec<_>>(), circles::FILES);
        problems.extend(found.into_iter().map(|circle| format!("{folder}: {circle}")));
    }
    expect_none(problems);
}

#[test]
fn pickers_are_pure() {
    let files: Vec<_> = sources("crates/engine/lsm/src/compaction")
        .into_iter()
        .filter(|(path, _)| rules::is_picker(path))
        .collect();
    assert!(files.len() >= 3, "the pickers have moved: {files:?}");
    expect_none(files.iter().flat_map(|(path, text)| rules::does_io(path, text)).collect());
}

#[test]
fn time_threads_and_chance_come_in_through_base() {
    let others = crates().into_iter().filter(|(name, _)| name != "base");
    let problems = others.flat_map(|(_, folder)| {
        let sources = sources(&format!("{folder}/src"));
        sources.into_iter().flat_map(|(path, text)| rules::ambient(&path, &text))
    });
    expect_none(problems.collect());
}

#[test]
fn byte_order_is_explicit() {
    expect_none(
        all_sources().iter().flat_map(|(path, text)| rules::byte_order(path, text)).collect(),
    );
}

#[test]
fn the_readme_and_the_checks_name_the_same_test_command() {
    let readme = read(&root().join("README.md"));
    let checks = read(&root().join(".ci/run"));
    let command = rules::test_command(&readme).expect("the README names a test command");
    assert_eq!(rules::last_command(&checks), Some(command));
}

/// The pages that prose rules hold for, by their paths from the root.
fn pages() -> Vec<(String, String)> {
    fn collect(dir: &Path, out: &mut Vec<PathBuf>) {
        for entry in dir.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, out);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                out.push(path);
            }
        }
    }
    let mut paths: Vec<_> = PAGES.iter().map(|page| root().join(page)).collect();
    collect(&root().join("docs"), &mut paths);
    paths.sort();
    let name = |path: &Path| path.strip_prefix(root()).unwrap().display().to_string();
    paths.iter().map(|path| (name(path), read(path))).collect()
}

/// Pages outside of the book.
const PAGES: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "lab/sim/README.md",
];

#[test]
fn pages_use_standard_words() {
    expect_none(pages().iter().flat_map(|(path, text)| prose::page(path, text)).collect());
}

#[test]
fn the_first_pages_are_short() {
    let lines_of = |page: &str| read(&root().join(page)).lines().count();
    let pages = [("README.md", 110), ("CHANGELOG.md", 60)].into_iter();
    let long = pages.filter(|&(page, limit)| lines_of(page) > limit);
    expect_none(long.map(|(page, limit)| format!("{page}: more than {limit} lines")).collect());
}

#[test]
fn lines_of_pages_fit() {
    expect_none(pages().iter().flat_map(|(path, text)| prose::long_lines(path, text)).collect());
}

#[test]
fn links_of_pages_lead_somewhere() {
    let read = |path: &Path| match root().join(path) {
        path if path.is_dir() => Some(String::new()),
        // A picture has no headings that a link could name.
        path => Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned()),
    };
    let problems =
        pages().into_iter().flat_map(|(path, text)| prose::dead_links(&path, &text, read));
    expect_none(problems.collect());
}

#[test]
fn the_book_lists_every_page() {
    let contents = read(&root().join("docs/SUMMARY.md"));
    let pages = pages().into_iter();
    let pages: Vec<_> =
        pages.filter_map(|(path, _)| path.strip_prefix("docs/").map(str::to_owned)).collect();
    assert!(pages.len() > 20);
    expect_none(prose::unlisted(&contents, &pages));
}

/// mdBook makes `index.html` of `README.md`.
#[test]
fn no_page_replaces_the_first_one_of_its_folder() {
    let paths = pages().into_iter().map(|(path, _)| path);
    let wrong = paths.filter(|path| path.ends_with("/index.md"));
    expect_none(wrong.map(|path| format!("{path}: name it by its subject")).collect());
}

#[test]
fn the_five_tasks_are_compiled_and_counted() {
    let page = read(&root().join("docs/guide/migrating.md"));
    assert_eq!(five_tasks::tasks(&page).len(), 5);
    expect_none(five_tasks::problems(&page, |source| read(&root().join(source))));
}

#[test]
fn sources_name_pages_that_exist() {
    let mut problems = Vec::new();
    for (path, text) in all_sources().into_iter().filter(|(path, _)| !path.contains("tests/layout"))
    {
        for (line, page) in prose::named_pages(&text) {
            if !root().join(&page).is_file() {
                problems.push(format!("{path}:{line}: there is no {page}"));
            }
        }
    }
    expect_none(problems);
}

#[test]
fn rustdoc_uses_standard_words() {
    let sources = all_sources();
    let documented = sources.iter().filter(|(path, _)| !path.contains("tests/layout"));
    expect_none(documented.flat_map(|(path, text)| prose::rustdoc(path, text)).collect());
}

#[test]
fn messages_use_plain_words() {
    let is_test = |path: &str| path.contains("/tests") || path.ends_with("_test.rs");
    let mut problems = Vec::new();
    let mut sources = 0;
    for (path, text) in all_sources() {
        // The messages of `bindings/rocksdb` are those of RocksDB.
        let is_product = path.starts_with("crates/") || path.starts_with("bindings/c/");
        if is_product && path.contains("/src/") && !is_test(&path) {
            problems.extend(prose::messages(&path, &text));
            sources += 1;
        }
    }
    assert!(sources > 300, "the walk sees {sources} sources");
    expect_none(problems);
}
