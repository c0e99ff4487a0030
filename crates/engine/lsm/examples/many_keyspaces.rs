//! Measures a database of many keyspaces with one entry each: the time to create them, to open the database and
//! read one entry, and to read all; its descriptors, and what it adds to the process's memory.
//!
//! ```text
//! many_keyspaces DIR [KEYSPACES]
//! ```

use esker_base::{Clock, Error, SystemClock};
use esker_lsm::{Db, KeyspaceSettings, Settings};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.first().ok_or("usage: many_keyspaces DIR [KEYSPACES]")?;
    let keyspaces = arguments.get(1).map_or(Ok(10_000), |text| text.parse::<u64>())?;
    let clock = SystemClock::new();
    let open = || Db::open(Path::new(dir), Settings::default());
    let name = |n: u64| format!("keyspace{n}");
    let create = || -> Result<(), Error> {
        let db = open()?;
        for n in 0..keyspaces {
            let keyspace = db.keyspace(&name(n), KeyspaceSettings::default())?;
            db.put(&keyspace, b"key", n.to_be_bytes())?;
        }
        db.close()
    };
    let get = |db: &Db, n: u64| -> Result<(), Error> {
        let value = db.get(&db.open_keyspace(&name(n))?, b"key")?;
        assert_eq!(value.as_deref(), Some(&n.to_be_bytes()[..]));
        Ok(())
    };
    let idle = resident_mib();
    let report = |what: &str, begin: std::time::Duration| {
        let took = (clock.now() - begin).as_secs_f64();
        let (memory, files) = (resident_mib() - idle, std::fs::read_dir("/proc/self/fd"));
        let files = files.map_or(0, |files| files.count());
        println!("{what}: {took:.3} s; then {memory:.0} MiB and {files} descriptors");
    };
    // Its memory is another process's.
    if arguments.get(2).is_none() {
        let begin = clock.now();
        create()?;
        report(&format!("create {keyspaces} keyspaces, put an entry to each, close"), begin);
        let again = [dir, &keyspaces.to_string(), "read"];
        std::process::Command::new(std::env::current_exe()?).args(again).status()?;
        return Ok(());
    }
    let begin = clock.now();
    let db = open()?;
    get(&db, keyspaces / 2)?;
    report("open, read one entry", begin);
    let begin = clock.now();
    (0..keyspaces).try_for_each(|n| get(&db, n))?;
    report("read all entries", begin);
    let begin = clock.now();
    db.drop_keyspace(&db.open_keyspace(&name(0))?)?;
    report("drop one", begin);
    Ok(db.close()?)
}

/// The memory of this process, where the system reports it.
fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
