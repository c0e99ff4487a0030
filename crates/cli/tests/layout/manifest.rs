//! What a crate depends on, out of its manifest.

/// The crates of this workspace that `manifest` depends on to build the crate itself, by folder name.
/// What only tests use may point anywhere.
pub fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            inside = section == "dependencies"
                || section == "build-dependencies"
                || (section.starts_with("target.") && section.ends_with(".dependencies"));
            // A dependency may have a section of its own.
            found.extend(section.strip_prefix("dependencies.").and_then(folder));
        } else if inside {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            found.extend(folder(name));
        }
    }
    found
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
        [dev-dependencies]
        esker-cli.workspace = true
    ";
    assert_eq!(dependencies(manifest), ["base", "esker", "table", "storage"]);
}
