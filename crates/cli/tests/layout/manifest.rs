//! What a crate depends on, out of its manifest.

/// The crates of this workspace that `manifest` depends on to build the crate itself, by folder name.
/// What only tests use may point anywhere.
pub fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut in_own_section = false;
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            let (before, name) = split_section(section);
            inside = before && name.is_empty();
            // A dependency may have a section of its own.
            found.extend(before.then(|| folder(name)).flatten());
            in_own_section = before && !name.is_empty();
        } else if inside {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            // A dependency may be called otherwise here than its package is.
            found.extend(folder(package(line).unwrap_or(name)));
        } else if in_own_section && line.starts_with("package") {
            found.extend(package(line).and_then(folder));
        }
    }
    found
}

/// The package's name, without `esker-`.
pub fn name(manifest: &str) -> Option<String> {
    let name = manifest.lines().find_map(|line| line.trim().strip_prefix("name = \""))?;
    folder(name.trim_end_matches('"'))
}

/// Whether a section lists what the crate itself needs, or one such thing, and then its name.
fn split_section(section: &str) -> (bool, &str) {
    let of_target = section.starts_with("target.");
    for kind in ["dependencies", "build-dependencies"] {
        // A target's condition may hold dots and quotes, so what comes last counts.
        let found = match of_target {
            false => section.strip_prefix(kind),
            true => section.rsplit_once(&format!(".{kind}")).map(|(_, rest)| rest),
        };
        match found {
            Some("") => return (true, ""),
            Some(rest) if rest.starts_with('.') => return (true, &rest[1..]),
            _ => {}
        }
    }
    (false, "")
}

/// The value of `package = "…"` in a line, if it has one.
fn package(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("package")?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
    rest.split('"').next()
}

fn folder(package: &str) -> Option<String> {
    match package.trim_matches('"') {
        "esker" => Some("esker".to_owned()),
        name => name.strip_prefix("esker-").map(str::to_owned),
    }
}

#[test]
fn dependencies_are_found_in_every_spelling() {
    let manifest = "
        [package]
        name = \"esker-x\"
        [dependencies]
        esker-base.workspace = true
        esker = { path = \"../esker\" }
        serde.workspace = true
        [dependencies.esker-table]
        path = \"../table\"
        [target.'cfg(unix)'.dependencies]
        esker-storage = { workspace = true }
        store = { package = \"esker-lsm\", path = \"../lsm\" }
        [target.'cfg(target_os = \"linux\")'.dependencies.ring]
        package = \"esker-uring\"
        [target.x86_64-unknown-linux-gnu.build-dependencies]
        esker-txn.workspace = true
        [dependencies.other]
        package = \"esker-api\"
        [target.'cfg(unix)'.dev-dependencies]
        esker-sim.workspace = true
        [dev-dependencies]
        esker-cli.workspace = true
    ";
    assert_eq!(
        dependencies(manifest),
        ["base", "esker", "table", "storage", "lsm", "uring", "txn", "api"]
    );
}
