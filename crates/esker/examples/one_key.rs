//! Opens a database with default settings, puts one key and closes it. Prints what that took.
//!
//! `cargo run --release -p esker --example one_key [DIR]`

use esker::{Db, Settings};
use esker_base::{Clock, SystemClock};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).map_or_else(|| scratch.path().join("db"), Into::into);
    let clock = SystemClock::new();
    let started = clock.now();
    let db = Db::open(&dir, Settings::default())?;
    db.put(&db.default_keyspace(), b"key", b"value")?;
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    db.close()?;
    println!("open, put, close: {:?}, {threads} threads", clock.now() - started);
    println!("{}", peak_memory()?);
    Ok(())
}

/// The line of the most resident memory that the process has had.
fn peak_memory() -> std::io::Result<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    Ok(line.unwrap_or("no peak is known").to_owned())
}
