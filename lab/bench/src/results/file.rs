//! Results in a directory: `results.json`, always whole.
//!
//! A new version is written next to the old one and renamed onto it, so any reader, and whatever
//! interrupts the writer, finds one that can be read.

use super::Results;
use esker_base::{Error, Result};
use std::fs;
use std::path::Path;

/// The name of the file.
pub const FILE_NAME: &str = "results.json";

/// What the file is called until it is whole.
const PARTIAL_NAME: &str = "results.json.partial";

/// Writes the results to directory `dir`, which is there.
pub fn write(dir: &Path, results: &Results) -> Result<()> {
    let (partial, whole) = (dir.join(PARTIAL_NAME), dir.join(FILE_NAME));
    let failed = |action| {
        let path = whole.display().to_string();
        move |error| Error::io(action, path, error)
    };
    fs::write(&partial, results.to_json()).map_err(failed("write to"))?;
    fs::rename(&partial, &whole).map_err(failed("replace"))
}

/// The results in directory `dir`.
pub fn read(dir: &Path) -> Result<Results> {
    let path = dir.join(FILE_NAME);
    let name = path.display().to_string();
    let text = fs::read_to_string(&path).map_err(|error| Error::io("read", &name, error))?;
    Results::from_json(&text).map_err(|error| {
        let reason = std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string());
        Error::io("understand", name, reason)
    })
}
