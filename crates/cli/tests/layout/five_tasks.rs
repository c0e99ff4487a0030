//! The five tasks of `docs/guide/migrating.md`: the page shows code that the tests compile and run, counts its
//! lines, and Esker's is never the longest way.

/// The engines of the table, in its order, each as blocks of the page name it and with the source that
/// compiles its code. RocksDB's is compiled nowhere: it needs a C++ build of many minutes.
pub const ENGINES: [(&str, Option<&str>); 4] = [
    ("Esker", Some("crates/esker/examples/five_tasks.rs")),
    ("fjall", Some("lab/peers/tests/five_tasks/fjall.rs")),
    ("redb", Some("lab/peers/tests/five_tasks/redb.rs")),
    ("RocksDB", None),
];

/// A task of the page: its title and the code of each of [`ENGINES`].
pub struct Task {
    title: String,
    codes: Vec<Vec<String>>,
}

/// The tasks below the heading "Five tasks".
pub fn tasks(page: &str) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    let mut engine = None;
    let below = page.split_once("\n## Five tasks\n").map_or("", |(_, below)| below);
    for line in below.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            let codes = vec![Vec::new(); ENGINES.len()];
            tasks.push(Task { title: title.to_owned(), codes });
        } else if let Some(comment) = line.strip_prefix("// ") {
            engine = ENGINES.iter().position(|(name, _)| comment.starts_with(name));
        } else if line == "```" {
            engine = None;
        } else if let (Some(engine), Some(task)) = (engine, tasks.last_mut()) {
            task.codes[engine].push(line.to_owned());
        }
    }
    tasks
}

/// What the page says that is not so. `read` gives the text of a source.
pub fn problems(page: &str, read: impl Fn(&str) -> String) -> Vec<String> {
    let mut problems = Vec::new();
    for Task { title, codes } in tasks(page) {
        let lines: Vec<usize> = codes.iter().map(Vec::len).collect();
        let row = format!("| {} | {} |", title.to_lowercase(), joined(&lines));
        if !page.lines().any(|line| line == row) {
            problems.push(format!("{title}: the table has no row {row}"));
        }
        if lines.contains(&0) {
            problems.push(format!("{title}: the code of an engine is missing"));
        }
        if lines[1..].iter().any(|other| lines[0] > *other) {
            problems.push(format!("{title}: {} lines, longer than another engine's", lines[0]));
        }
        for ((engine, source), code) in ENGINES.iter().zip(&codes) {
            let Some(source) = source else { continue };
            if let Some(line) = missing(code, &read(source)) {
                problems.push(format!("{title}, {engine}: {source} has no such line: {line}"));
            }
        }
    }
    problems
}

fn joined(lines: &[usize]) -> String {
    lines.iter().map(usize::to_string).collect::<Vec<_>>().join(" | ")
}

/// The first line of `code` that `source` does not have after the lines before it. Indentation and the paths
/// of databases differ.
fn missing<'a>(code: &'a [String], source: &str) -> Option<&'a str> {
    let mut lines = source.lines().map(str::trim);
    let plain =
        |line: &str| line.trim().replace("\"data\"", "data").replace("\"data.redb\"", "data");
    let is_missing = |line: &&String| !lines.any(|other| other == plain(line));
    code.iter().find(is_missing).map(|line| line.as_str())
}

#[cfg(test)]
const SAMPLE: &str = "\
# Page

## Five tasks

| open | 1 | 2 | 1 | 1 |

### Open

```rust
// Esker
let db = open(\"data\");
```

```rust
// fjall: a comment
let db = {
    \"data\" };
```

```rust
// redb
x
```

```rust
// RocksDB
y
```
";

#[test]
fn what_the_page_says_is_compared_with_the_sources() {
    let read = |source: &str| {
        let text = match source {
            source if source.contains("esker") => "fn main() {\n    let db = open(data);\n}\n",
            source if source.contains("fjall") => "    let db = {\n    between\n data };\n",
            _ => "    x\n",
        };
        text.to_owned()
    };
    assert_eq!(problems(SAMPLE, read), [""; 0]);
    let count = |from: &str, to: &str| problems(&SAMPLE.replace(from, to), read).len();
    assert_eq!(count("| open | 1 | 2 |", "| open | 1 | 3 |"), 1);
    assert_eq!(count("x\n", "z\n"), 1);
    assert_eq!(count("let db = {\n", "let db = {\nlet db = {\n"), 2);
    // One line more of Esker's: its count, its length, and no such line.
    assert_eq!(count("// Esker\n", "// Esker\nlet a = 1;\n"), 3);
}
