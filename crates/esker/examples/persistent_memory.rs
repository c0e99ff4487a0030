//! The log in a pool of persistent memory. Here the pool is emulated, in a file on tmpfs.
//!
//! cargo run -p esker --example persistent_memory

use esker::pmem::{Accept, Pool};
use esker::{Db, Log, Settings};
use std::path::Path;

/// A pool is a file. With persistent memory it is on a file system mounted with DAX, and is made with
/// `Accept::Persistent`. An emulated one wants a file system in memory.
fn settings(file: &Path) -> Settings {
    Settings::default().log(Log::Pmem { pool: file.to_owned(), emulated: true })
}

/// Runs the example in temporary directories.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let tmpfs = Path::new("/dev/shm");
    if !tmpfs.is_dir() {
        eprintln!("SKIPPED persistent_memory: there is no /dev/shm");
        return Ok(());
    }
    let memory = tempfile::tempdir_in(tmpfs)?;
    let file = memory.path().join("pool");
    drop(Pool::create(&file, 16 << 20, Accept::Emulated)?);

    let db = Db::open(dir.path().join("data"), settings(&file))?;
    let keyspace = db.default_keyspace();
    // No log file is written. In real persistent memory the write is durable when `put` returns; this emulation
    // survives the process only.
    db.put(&keyspace, b"key", b"value")?;
    println!("{}", db.stats().pool_domain.expect("the log is in a pool"));
    db.close()?;

    let db = Db::open(dir.path().join("data"), settings(&file))?;
    // A handle belongs to the open that gave it.
    let keyspace = db.default_keyspace();
    assert_eq!(db.get(&keyspace, b"key")?.as_deref(), Some(&b"value"[..]));
    db.close()?;
    Ok(())
}
