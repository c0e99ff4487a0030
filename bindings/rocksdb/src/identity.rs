//! The identity of a database, which its checkpoints share.
//!
//! A checkpoint of Esker is a database of its own. RocksDB's checkpoints have the identity of their
//! original, so a checkpoint that this library makes stores that in a file.

use crate::database::Open;
use std::path::Path;

/// The name of the file.
pub const NAME: &str = "IDENTITY";

/// The identity: that of the file, or that of Esker.
pub fn of(open: &Open) -> String {
    let stored = std::fs::read_to_string(Path::new(&open.path).join(NAME)).ok();
    let stored = stored.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    stored.unwrap_or_else(|| format!("{:016x}", open.db.identity()))
}

/// Gives a checkpoint in `dir` the identity of its original.
///
/// # Errors
/// If the file cannot be written.
pub fn give(open: &Open, dir: &str) -> std::io::Result<()> {
    std::fs::write(Path::new(dir).join(NAME), of(open))
}
