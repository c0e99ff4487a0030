//! Compares what a database says of its memory with what the operating system says of the process, after each
//! step of a load: writes, gets, scans, updates while cursors are open.
//!
//! ```text
//! memory_use DIR [MEMORY_MIB [RECORDS [VALUE_BYTES]]]
//! ```

use esker_base::Rng;
use esker_lsm::{Db, Settings};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.first().ok_or("usage: memory_use DIR [MEMORY_MIB [RECORDS [VALUE]]]")?;
    let number =
        |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse::<u64>());
    let (memory, records, value) = (number(1, 256)?, number(2, 1_000_000)?, number(3, 1_000)?);
    let idle = resident();
    println!("{:24}{}", "MiB", HEADS.map(|head| format!("{head:>11}")).concat());
    let settings = Settings::default()
        .memory_bytes((memory as usize) << 20)
        .segment_bytes(((memory as usize) << 20) / 16);
    let db = Db::open(Path::new(dir), settings)?;
    let keyspace = db.default_keyspace();
    let mut rng = Rng::new(1);
    let mut bytes = vec![0; value as usize];
    let mut put = |n: u64| -> Result<(), Box<dyn Error>> {
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        Ok(keyspace.put(key(n), &bytes)?)
    };
    report(&db, idle, "open");
    for n in 0..records {
        put(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % records)?;
        if n == records / 2 {
            report(&db, idle, "half of the writes");
        }
    }
    report(&db, idle, "all writes");
    db.wait_for_compactions()?;
    report(&db, idle, "compacted");
    for _ in 0..records {
        keyspace.get(key(rng.below(records)))?;
    }
    report(&db, idle, "gets");
    for _ in 0..records / 100 {
        keyspace.range(key(rng.below(records))..).take(100).try_for_each(|it| it.map(|_| ()))?;
    }
    report(&db, idle, "scans");
    let mut cursors = Vec::new();
    for _ in 0..1_000 {
        let mut range = keyspace.range(key(rng.below(records))..);
        range.next().transpose()?;
        cursors.push(range);
    }
    report(&db, idle, "1,000 open iterators");
    for _ in 0..records / 2 {
        put(rng.below(records))?;
    }
    report(&db, idle, "updates beside them");
    drop(cursors);
    db.wait_for_compactions()?;
    report(&db, idle, "compacted");
    Ok(db.close()?)
}

const HEADS: [&str; 9] = [
    "memtables",
    "tables",
    "cache",
    "dram table",
    "buffers",
    "transient",
    "sum",
    "resident",
    "ratio",
];

fn key(n: u64) -> [u8; 16] {
    let mut key = *b"user000000000000";
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

fn report(db: &Db, idle: u64, step: &str) {
    let stats = db.stats();
    let parts = stats.memory_use;
    let sum = parts.sum();
    let shown = [
        parts.memtables,
        parts.tables,
        parts.cache,
        parts.dram_table,
        parts.read_buffers,
        parts.transient,
        sum,
        resident() - idle,
    ];
    let shown = shown.map(|bytes| format!("{:>11.1}", bytes as f64 / 1_048_576.0)).concat();
    let ratio = (resident() - idle) as f64 / sum as f64;
    println!("{step:24}{shown}{ratio:>11.2}");
}

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this system has /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("and VmRSS");
    let kib = line.split_whitespace().next().and_then(|text| text.parse::<u64>().ok());
    kib.expect("in KiB") << 10
}
