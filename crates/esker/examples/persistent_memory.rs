//! The log in a pool of persistent memory. Here the pool is emulated, in an ordinary file.
//!
//! cargo run -p esker --example persistent_memory

use esker::pmem::{Accept, Pool};
use esker::{Db, Log, Settings};
use std::path::Path;

/// A pool is a file. With persistent memory it lies on a file system mounted with DAX, and is made with
/// `Accept::Persistent`. An emulated one wants a file system in memory.
fn settings(file: &Path) -> Settings {
    Settings { log: Log::Pmem { pool: file.to_owned(), emulated: true }, ..Settings::default() }
}

/// Runs the example in temporary directories.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let memory = if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
    let memory = tempfile::tempdir_in(memory)?;
    let file = memory.path().join("pool");
    drop(Pool::create(&file, 16 << 20, Accept::Emulated)?);

    let db = Db::open(dir.path().join("data"), settings(&file))?;
    let keyspace = db.default_keyspace();
    // No log file is written, and nothing is synced: the write is durable where it is stored.
    db.put(&keyspace, b"key", b"value")?;
    println!("{}", db.stats().pool_domain.expect("the log is in a pool"));
    db.close()?;

    let db = Db::open(dir.path().join("data"), settings(&file))?;
    assert_eq!(db.get(&keyspace_of(&db), b"key")?.as_deref(), Some(&b"value"[..]));
    db.close()?;
    Ok(())
}

/// A handle belongs to the open that gave it.
fn keyspace_of(db: &Db) -> esker::Keyspace {
    db.default_keyspace()
}
