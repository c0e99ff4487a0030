//! Opens 20 databases that share memory and threads, and puts 1,000 small entries into each. Prints what
//! that took.
//!
//! `cargo run --release -p esker --example many_databases [DIR]`

use esker::options::Resources;
use esker::{Db, Settings};
use esker_base::{Clock, SystemClock};

const DATABASES: usize = 20;
const PAIRS: u32 = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).map_or_else(|| scratch.path().join("dbs"), Into::into);
    let clock = SystemClock::new();
    let started = clock.now();
    let resources = Resources::new(1 << 30, 2)?;
    let settings = Settings::default().resources(resources.clone());
    let mut databases = Vec::new();
    for number in 0..DATABASES {
        let db = Db::open(dir.join(format!("db-{number}")), settings.clone())?;
        for key in 0..PAIRS {
            db.put(&db.default_keyspace(), key.to_be_bytes(), [7; 100])?;
        }
        databases.push(db);
    }
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    let stats = databases[0].stats();
    println!("{DATABASES} databases, {PAIRS} pairs each: {:?}", clock.now() - started);
    println!("{threads} threads, the main one included");
    println!(
        "{} bytes charged by all, {} by the first",
        stats.memory_charged_bytes, stats.memory_own_bytes
    );
    println!("{}", peak_memory()?);
    for db in databases {
        db.close()?;
    }
    println!(
        "closed: {} databases, {} bytes charged",
        resources.databases(),
        resources.charged_bytes()
    );
    Ok(())
}

/// The line of the most resident memory that the process has had.
fn peak_memory() -> std::io::Result<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    Ok(line.unwrap_or("no peak is known").to_owned())
}
