//! The rules. Each takes a file's path and text, and gives the places that break it.

use crate::source::{code_of, lines_with_word};

/// The folders that hold crates: the product, what carries it to other languages and into other
/// systems, and the laboratory.
pub const BUILDINGS: [&str; 4] = ["crates", "bindings", "integrations", "lab"];

/// The most lines of a source.
pub const LINES: usize = 600;

/// The crates, from the top. A crate depends only on crates before it.
pub const LAYERS: [&str; 36] = [
    "base",
    "api",
    "uring",
    "storage",
    "encryption",
    "pmem",
    "memtable",
    "table",
    "txn",
    "lsm",
    "backup",
    "flash",
    "hashstore",
    "nvme",
    "tls",
    "target",
    "initiator",
    "node",
    "replication",
    "esker",
    "tokio",
    "object-store",
    "c",
    "rocksdb",
    "python",
    "js",
    "java",
    "openraft",
    "workload",
    "bench",
    "novelsm",
    "peers",
    "sim",
    "cli",
    "migrate-rocksdb",
    "lab",
];

/// Crates that measure or serve any store, and so must not know ours.
const KNOW_ONLY_TRAITS: [(&str, &[&str]); 4] = [
    ("api", &["base"]),
    ("workload", &["base", "api"]),
    ("bench", &["base", "api", "workload"]),
    ("target", &["base", "api", "nvme", "tls", "uring"]),
];

/// Crates that may hold unsafe code somewhere.
const MAY_HOLD_UNSAFE: [&str; 8] =
    ["base", "pmem", "memtable", "uring", "flash", "tls", "rocksdb", "peers"];

/// Crates in which unsafe code is everywhere: each function of a C library is exported, and so are
/// those of a module of Python and the native methods of Java, by macros.
const FULL_OF_UNSAFE: [&str; 7] = ["uring", "peers", "c", "rocksdb", "python", "java", "js"];

/// The places, as beginnings of paths.
const UNSAFE_PLACES: [&str; 11] = [
    "crates/engine/base/src/prefetch.rs",
    "crates/engine/pmem/",
    "crates/engine/memtable/src/segment.rs",
    "crates/engine/memtable/src/segment/",
    "crates/engine/memtable/src/hash_index.rs",
    "crates/node/uring/",
    "crates/flash/src/device/",
    "crates/node/tls/src/s2n/pipes.rs",
    // A test that sees system calls, which no safe interface offers.
    "crates/engine/lsm/tests/power_cut/ptrace.rs",
    "bindings/",
    "lab/peers/",
];

/// How many lines above its `unsafe` a reason may begin.
const REASON_WITHIN_LINES: usize = 8;

fn place(path: &str, line: usize, what: &str) -> String {
    format!("{path}:{line}: {what}")
}

/// Dependencies of `name` that do not point up.
pub fn arrows(name: &str, dependencies: &[String]) -> Vec<String> {
    let layer = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let Some(own) = layer(name) else {
        return vec![format!("crate {name} has no place in the list of layers")];
    };
    let mut problems = Vec::new();
    for dependency in dependencies {
        if layer(dependency).is_none_or(|theirs| theirs >= own) {
            problems.push(format!("crate {name} depends on {dependency}, which is not above it"));
        }
    }
    for (only, allowed) in KNOW_ONLY_TRAITS {
        for dependency in dependencies {
            if name == only && !allowed.contains(&&dependency[..]) {
                problems.push(format!("crate {name} knows {dependency}; it may know {allowed:?}"));
            }
        }
    }
    problems
}

/// Dependencies of a crate of the product that are in the laboratory.
pub fn depends_on_laboratory(name: &str, dependencies: &[String], lab: &[String]) -> Vec<String> {
    let found = dependencies.iter().filter(|dependency| lab.contains(dependency));
    found.map(|found| format!("crate {name} depends on {found}, which is in lab/")).collect()
}

/// Dependencies of a crate in `bindings/` or `integrations/` other than the façade, and arrows to such
/// a crate.
pub fn depends_past_the_facade(
    name: &str,
    dependencies: &[String],
    bindings: &[String],
) -> Vec<String> {
    let is_binding = bindings.iter().any(|binding| binding == name);
    let is_wrong = |to: &&String| match is_binding {
        true => *to != "esker",
        false => bindings.contains(to),
    };
    let wrong = dependencies.iter().filter(is_wrong);
    wrong
        .map(|to| {
            format!("crate {name} depends on {to}: bindings and integrations know `esker` alone")
        })
        .collect()
}

/// Whether the file may hold unsafe code.
pub fn may_hold_unsafe(path: &str) -> bool {
    UNSAFE_PLACES.iter().any(|place| path.starts_with(place))
}

/// Unsafe code where there may be none, or without a reason.
pub fn unsafe_use(path: &str, text: &str) -> Vec<String> {
    let code = code_of(text);
    let lines: Vec<_> = text.lines().collect();
    let mut problems = Vec::new();
    let is_binding = path.starts_with("bindings/");
    for number in lines_with_word(&code, "unsafe") {
        if !may_hold_unsafe(path) {
            problems.push(place(path, number, "unsafe code has no place here"));
            continue;
        }
        let line = code.lines().nth(number - 1).unwrap_or_default();
        // The header of the library has the contract of all its functions.
        let is_function = line.contains("pub unsafe extern") && line.contains(" fn ");
        let is_exported = is_function || line.contains("unsafe(no_mangle)");
        if is_type_of_callback(line) || (is_binding && is_exported) {
            continue;
        }
        let declares = line.contains("unsafe fn") || line.contains("unsafe trait");
        let before = &lines[number.saturating_sub(1 + REASON_WITHIN_LINES)..number];
        let reason = if declares { "# Safety" } else { "SAFETY:" };
        let has_reason = before.iter().any(|line| line.contains(reason))
            || has_contract(declares, &lines, number)
            || (declares && implements_a_trait(&lines, number));
        if !has_reason {
            problems.push(place(path, number, &format!("no `{reason}` says why this is sound")));
        }
    }
    problems
}

/// Whether a line names the type of a function of C, and does nothing.
fn is_type_of_callback(line: &str) -> bool {
    line.split_once("unsafe extern ").is_some_and(|(_, rest)| rest.contains("fn("))
}

/// Whether the documentation above a declaration, however long, has its contract.
fn has_contract(declares: bool, lines: &[&str], number: usize) -> bool {
    let above = lines[..number - 1].iter().rev();
    let is_about = |line: &&&str| {
        let line = line.trim_start();
        line.starts_with("///") || line.starts_with("#[")
    };
    declares && above.take_while(is_about).any(|line| line.contains("# Safety"))
}

/// Whether a method belongs to an implementation of a trait, which has the contract.
fn implements_a_trait(lines: &[&str], number: usize) -> bool {
    let outer = lines[..number - 1]
        .iter()
        .rev()
        .find(|line| line.starts_with(|first: char| first.is_ascii_alphabetic()));
    lines[number - 1].starts_with("    unsafe fn")
        && outer.is_some_and(|line| line.contains("impl") && line.contains(" for "))
}

/// A crate root that leaves unsafe code possible without need.
pub fn forbids_unsafe(name: &str, root: &str) -> Vec<String> {
    let level = if MAY_HOLD_UNSAFE.contains(&name) { "deny" } else { "forbid" };
    let code = code_of(root);
    let says = |level: &str| code.contains(&format!("#![{level}(unsafe_code)]"));
    if says(level) || says("forbid") || FULL_OF_UNSAFE.contains(&name) {
        return Vec::new();
    }
    vec![format!("crate {name} does not say #![{level}(unsafe_code)]")]
}

/// Engine code that knows what it runs on.
pub fn knows_device(path: &str, text: &str) -> Vec<String> {
    any_of(
        path,
        text,
        &["esker_flash", "flash", "esker_nvme", "nvme", "pmem::sim", "esker_pmem::sim"],
        "the engine knows",
    )
}

/// Whether the file of the compaction folder is one of those that decide: all but those that carry
/// out, and tests.
pub fn is_picker(path: &str) -> bool {
    let carries_out = path.contains("/compaction/execute/");
    let tests = path.contains("/tests/") || path.ends_with("/tests.rs");
    !carries_out && !tests && !path.ends_with("/testing.rs")
}

/// A picker that touches storage or a table's content. Sketches are statistics: those it may use.
pub fn does_io(path: &str, text: &str) -> Vec<String> {
    let words = [
        "esker_storage",
        "Storage",
        "Table",
        "TableWriter",
        "TableCursor",
        "BlockCache",
        "reader",
        "opened",
        "cursor",
        "fs",
        "File",
        "io",
    ];
    any_of(path, without_tests(text), &words, "a picker uses")
}

/// What comes from the world without being passed in.
pub fn ambient(path: &str, text: &str) -> Vec<String> {
    let words = [
        "Instant::now",
        "SystemTime::now",
        "UNIX_EPOCH",
        "thread::spawn",
        "thread::sleep",
        "thread::Builder",
        "thread_rng",
        "getrandom",
        "RandomState",
    ];
    any_of(path, without_tests(text), &words, "ambient")
}

/// Bytes in whatever order the machine has.
pub fn byte_order(path: &str, text: &str) -> Vec<String> {
    any_of(path, text, &["to_ne_bytes", "from_ne_bytes"], "byte order is left open by")
}

/// The text up to the first module of tests. They come last in a file, and may start threads and
/// build what they test on.
pub fn without_tests(text: &str) -> &str {
    let mut at = 0;
    let mut after_condition = false;
    for line in text.split_inclusive('\n') {
        let module = line.strip_prefix("pub(crate) ").unwrap_or(line);
        if after_condition && module.starts_with("mod ") && line.trim_end().ends_with('{') {
            return &text[..at];
        }
        after_condition = line.starts_with("#[cfg(") && line.contains("test");
        at += line.len();
    }
    text
}

fn any_of(path: &str, text: &str, words: &[&str], what: &str) -> Vec<String> {
    let code = code_of(text);
    let found = words.iter().flat_map(|word| {
        lines_with_word(&code, word).map(move |line| place(path, line, &format!("{what} {word}")))
    });
    found.collect()
}

/// The command that the README says runs the tests: the first line of code that begins so.
pub fn test_command(readme: &str) -> Option<&str> {
    readme.lines().map(str::trim).find(|line| line.starts_with("cargo test"))
}

/// The last line of a script that is no comment.
pub fn last_command(script: &str) -> Option<&str> {
    script.lines().map(str::trim).rfind(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_that_points_down_is_found() {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(arrows("lsm", &names(&["base", "api", "memtable", "table"])).is_empty());
        assert_eq!(arrows("table", &names(&["lsm"])).len(), 1);
        assert_eq!(arrows("lsm", &names(&["flash"])).len(), 1);
        assert_eq!(arrows("lsm", &names(&["lsm"])).len(), 1);
        assert_eq!(arrows("workload", &names(&["lsm"])).len(), 1);
        assert_eq!(arrows("base", &names(&["unknown"])).len(), 1);
        assert_eq!(arrows("newcomer", &[]).len(), 1);
    }

    #[test]
    fn a_product_that_needs_the_laboratory_is_found() {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let lab = names(&["bench", "sim"]);
        assert!(depends_on_laboratory("cli", &names(&["base", "lsm"]), &lab).is_empty());
        assert_eq!(depends_on_laboratory("cli", &names(&["base", "bench"]), &lab).len(), 1);
    }

    #[test]
    fn a_binding_that_reaches_around_the_facade_is_found() {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let found = |name: &str, dependencies: &[&str]| {
            depends_past_the_facade(name, &names(dependencies), &names(&["c"])).len()
        };
        assert_eq!(found("c", &["esker"]), 0);
        assert_eq!(found("c", &["esker", "lsm", "base"]), 2);
        assert_eq!(found("cli", &["esker", "lsm"]), 0);
        assert_eq!(found("cli", &["c"]), 1);
    }

    #[test]
    fn unsafe_code_is_found_where_it_may_not_be() {
        let block = "// SAFETY: always.\nunsafe { x() }";
        assert!(unsafe_use("crates/engine/memtable/src/segment.rs", block).is_empty());
        for path in [
            "crates/engine/lsm/src/db/mod.rs",
            "crates/engine/memtable/src/sorted_index.rs",
            "crates/cli/tests/a.rs",
        ] {
            assert_eq!(unsafe_use(path, block).len(), 1, "{path}");
        }
        assert!(unsafe_use("crates/engine/lsm/src/db/mod.rs", "// unsafe { x() }").is_empty());
    }

    #[test]
    fn unsafe_code_without_a_reason_is_found() {
        let path = "crates/engine/pmem/src/map.rs";
        assert_eq!(unsafe_use(path, "unsafe { x() }").len(), 1);
        assert_eq!(unsafe_use(path, "unsafe impl Send for X {}").len(), 1);
        assert!(unsafe_use(path, "type F = unsafe extern \"C\" fn(u8);").is_empty());
        assert_eq!(unsafe_use(path, "unsafe extern \"C\" { fn x(); }").len(), 1);
        assert_eq!(unsafe_use(path, "/// Does.\nunsafe fn x() {}").len(), 1);
        assert!(unsafe_use(path, "/// # Safety\n/// Never.\nunsafe fn x() {}").is_empty());
        let method = "    unsafe fn x() {}";
        let implementation = |of: &str| {
            let reason = "// SAFETY: it keeps the trait's promises.\n";
            format!("{reason}unsafe impl {of} {{\n{}{method}\n}}", "    y\n".repeat(9))
        };
        assert!(unsafe_use(path, &implementation("Region for Mapped")).is_empty());
        assert_eq!(unsafe_use(path, &implementation("Mapped")).len(), 1);
        let exported = "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn x() {}";
        assert!(unsafe_use("bindings/c/src/lib.rs", exported).is_empty());
        assert_eq!(unsafe_use(path, exported).len(), 2);
        assert_eq!(unsafe_use("bindings/c/src/lib.rs", "unsafe { x() }").len(), 1);
        let far = format!("// SAFETY: of something else.\n{}unsafe {{ x() }}", "y();\n".repeat(9));
        assert_eq!(unsafe_use(path, &far).len(), 1);
    }

    #[test]
    fn a_crate_that_does_not_forbid_unsafe_is_found() {
        assert!(forbids_unsafe("lsm", "#![forbid(unsafe_code)]").is_empty());
        assert_eq!(forbids_unsafe("lsm", "#![deny(unsafe_code)]").len(), 1);
        assert_eq!(forbids_unsafe("lsm", "// #![forbid(unsafe_code)]").len(), 1);
        assert!(forbids_unsafe("memtable", "#![deny(unsafe_code)]").is_empty());
        assert_eq!(forbids_unsafe("memtable", "").len(), 1);
    }

    #[test]
    fn forbidden_words_are_found_in_code_only() {
        assert_eq!(knows_device("f", "use esker_flash::Zone;").len(), 1);
        assert_eq!(knows_device("f", "let pool = esker_pmem::sim::pool();").len(), 1);
        assert!(knows_device("f", "// flash would do\nlet flashy = 1;").is_empty());
        assert_eq!(does_io("f", "let table = handle.reader(cache)?;").len(), 1);
        assert_eq!(does_io("f", "std::fs::read(path)").len(), 1);
        assert!(does_io("f", "fn pick() {}\n#[cfg(test)]\nmod tests {\nfs()\n}\n").is_empty());
        assert!(does_io("f", "let tables = run.overlapping(a, b);").is_empty());
        assert_eq!(ambient("f", "let now = Instant::now();").len(), 1);
        assert_eq!(ambient("f", "std::thread::spawn(f)").len(), 1);
        assert!(ambient("f", "std::thread::scope(|scope| scope.spawn(f))").is_empty());
        assert_eq!(ambient("f", "RandomState::new()").len(), 1);
        let tests = "#[cfg(all(test, loom))]\nmod model {\nthread::spawn(f)\n}\n";
        assert!(ambient("f", tests).is_empty());
        assert_eq!(ambient("f", &format!("{tests}\n").replace("test", "unix")).len(), 1);
        assert_eq!(ambient("f", "#[cfg(test)]\nmod tests;\nfn f() { thread::spawn(f) }").len(), 1);
        assert_eq!(byte_order("f", "x.to_ne_bytes()").len(), 1);
        assert!(byte_order("f", "x.to_le_bytes()").is_empty());
    }

    #[test]
    fn whoever_does_not_carry_out_a_compaction_is_a_picker() {
        let is_picker = |file: &str| is_picker(&format!("crates/engine/lsm/src/compaction/{file}"));
        for file in
            ["pick/mod.rs", "pick/leveled.rs", "space/search.rs", "plan.rs", "new.rs", "deep/er.rs"]
        {
            assert!(is_picker(file), "{file}");
        }
        for file in ["execute/job.rs", "execute/mod.rs", "tests/golden.rs", "testing.rs"] {
            assert!(!is_picker(file), "{file}");
        }
    }

    #[test]
    fn commands_are_found_in_texts() {
        assert_eq!(
            test_command("# X\n```\n cargo test --all\n```\ncargo test"),
            Some("cargo test --all")
        );
        assert_eq!(last_command("a\nb --c\n\n# end\n"), Some("b --c"));
    }
}
