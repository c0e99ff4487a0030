//! How long an open takes after a crash and after a clean close, with the log in a pool.
//!
//! `cargo run --release -p esker-lsm --example recovery_speed -- [PUTS] [VALUE_BYTES] [POOL_MIB]`
//!
//! A process of this program writes and then dies without closing; this one opens what it left,
//! reads one key, closes, and opens again. The pool is on tmpfs: emulated. A table is about as large as one of
//! the pool's extents, so a small pool makes many tables, of which the opens need some.

use esker_base::{Clock, Rng, SystemClock};
use esker_lsm::{Db, Log, Settings};
use esker_pmem::{Accept, Pool};
use std::path::Path;

fn settings(pool: &Path) -> Settings {
    let log = Log::Pmem { pool: pool.to_owned(), emulated: true };
    Settings::default().log(log).memory_bytes(8 << 30)
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    Rng::new(number).fill(&mut key);
    key
}

/// Writes, says so, and dies.
fn write(dir: &Path, pool: &Path, puts: u64, value_bytes: usize) -> esker_base::Result<()> {
    let db = Db::open(dir, settings(pool))?;
    let keyspace = db.default_keyspace();
    let value = vec![5; value_bytes];
    for number in 0..puts {
        db.put(&keyspace, key(number), &value)?;
    }
    let stats = db.stats();
    println!("{} flushes, {} MemTables, {puts} puts", stats.flushes, stats.memtables);
    std::process::abort();
}

fn main() -> esker_base::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| {
        arguments.get(at).map_or(default, |text| text.parse().expect("a number"))
    };
    let (puts, value_bytes, pool_mib) = (number(0, 2_000_000), number(1, 100), number(2, 1024));
    if let [_, _, _, dir, pool] = &arguments[..] {
        return write(Path::new(dir), Path::new(pool), puts, value_bytes as usize);
    }
    let memory = tempfile::Builder::new().tempdir_in("/dev/shm").expect("tmpfs");
    let tables = tempfile::tempdir().expect("a directory");
    let (dir, pool) = (tables.path().join("db"), memory.path().join("pool"));
    drop(Pool::create(&pool, pool_mib << 20, Accept::Emulated)?);
    let program = std::env::current_exe().expect("this program");
    let status = std::process::Command::new(program)
        .args([puts.to_string(), value_bytes.to_string(), pool_mib.to_string()])
        .args([&dir, &pool])
        .status();
    println!("the writer ended: {}", status.expect("it was started"));
    let clock = SystemClock::new();
    for what in ["after the crash", "after a clean close"] {
        let started = clock.now();
        let db = Db::open(&dir, settings(&pool))?;
        let opened = clock.now() - started;
        assert!(db.get(&db.default_keyspace(), key(puts - 1))?.is_some(), "the last put is there");
        let read = clock.now() - started;
        let stats = db.stats();
        let (tables, table_mb) = (stats.tables, stats.table_bytes / 1_000_000);
        let recovered = stats.visible_seqno - stats.flushed_seqno;
        let rate = recovered as f64 / opened.as_secs_f64() / 1e6;
        println!(
            "{what}: open {opened:?}, first read at {read:?}; {recovered} recovered, {rate:.2} M/s; \
             {tables} tables of {table_mb} MB"
        );
        db.close()?;
    }
    Ok(())
}
