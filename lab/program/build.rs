//! Gives the program the commit that it is built from, for reports of experiments.

use std::path::Path;
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The commit, with `-dirty` behind it if files were changed since; `None` outside of this repository, such as in an
/// archive of it, which may be unpacked inside another one.
fn commit() -> Option<String> {
    let root = git(&["rev-parse", "--show-toplevel"])?;
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().ok()?;
    if Path::new(&root).canonicalize().ok()? != own {
        return None;
    }
    git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
}

fn main() {
    println!("cargo:rustc-env=ESKER_COMMIT={}", commit().unwrap_or_else(|| "unknown".to_owned()));
    println!("cargo:rerun-if-changed=build.rs");
    // A file that is edited makes the tree another one than the commit's.
    for path in ["../../crates", "../../lab", "../../Cargo.lock"] {
        println!("cargo:rerun-if-changed={path}");
    }
    for path in ["logs/HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--git-path", path]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
}
