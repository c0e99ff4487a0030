//! One file a command.

pub mod bench;
pub mod check;
pub mod checkpoint;
pub mod compact;
pub mod delete;
pub mod drop_keyspace;
pub mod dump;
pub mod experiment;
pub mod export;
pub mod flash;
pub mod get;
pub mod hash;
pub mod import;
pub mod keyspaces;
pub mod levels;
pub mod nvme;
pub mod pmem;
pub mod put;
pub mod repair;
pub mod scan;
pub mod serve;
pub mod stats;

use crate::failure::Outcome;
use std::io::Write;

/// Standard output, buffered.
fn stdout() -> std::io::BufWriter<std::io::StdoutLock<'static>> {
    std::io::BufWriter::new(std::io::stdout().lock())
}

/// Prints a JSON value on a line.
fn print_json(value: &impl serde::Serialize) -> Outcome {
    let mut out = stdout();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}
