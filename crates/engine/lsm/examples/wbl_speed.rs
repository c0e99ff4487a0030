//! What a durable put costs with the log in a pool, in a file, and nowhere.
//!
//! `cargo run --release -p esker-lsm --example wbl_speed -- [PUTS] [VALUE_BYTES] [ROUNDS] [POOL_MIB]`
//!
//! Every round runs each mode once, in turn, on fresh directories: random 16-byte keys that fit the
//! pool, one thread. It prints nanoseconds a put and the ratio to no log at all, by rounds. The pool
//! is on tmpfs: emulated.

use esker_base::{Clock, Rng, SystemClock};
use esker_lsm::{Db, Forwarding, Log, Settings, SyncPolicy};
use esker_pmem::{Accept, Pool};

fn main() -> esker_base::Result<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let mut next = |default| arguments.next().unwrap_or(default);
    let (puts, value_bytes, rounds, pool_mib) = (next(2_000_000), next(100), next(3), next(2048));
    for round in 0..rounds {
        let mut costs = Vec::new();
        let modes = std::env::var("MODES").unwrap_or("pool,file,none".into());
        for mode in modes.split(',') {
            let memory = tempfile::Builder::new().tempdir_in("/dev/shm").expect("tmpfs");
            let tables = tempfile::tempdir().expect("a directory");
            let path = memory.path().join("pool");
            let log = match mode {
                "pool" => {
                    drop(Pool::create(&path, pool_mib << 20, Accept::Emulated)?);
                    Log::Pmem { pool: path, emulated: true }
                }
                "file" => Log::File { dir: None, sync: SyncPolicy::Os },
                _ => Log::None,
            };
            let settings = Settings::default()
                .log(log)
                .segment_bytes((pool_mib << 20) as usize / 16)
                .sealed_segments(14)
                .memory_bytes(8 << 30)
                .forwarding(Forwarding::OnFlush);
            let db = Db::open(tables.path(), settings)?;
            let keyspace = db.default_keyspace();
            let (clock, mut rng) = (SystemClock::new(), Rng::new(7 + round));
            let value = vec![5; value_bytes as usize];
            let started = clock.now();
            for _ in 0..puts {
                let mut key = [0; 16];
                rng.fill(&mut key);
                db.put(&keyspace, key, &value)?;
            }
            costs.push((mode.to_owned(), (clock.now() - started).as_nanos() as f64 / puts as f64));
            let stats = db.stats();
            if std::env::var("NOCLOSE").is_ok() {
                println!("{costs:?}");
                std::process::exit(0)
            }
            eprintln!("{mode}: {} flushes, {:?} stalled", stats.flushes, stats.stalled);
        }
        let none = costs.last().expect("a mode").1;
        for (mode, cost) in costs {
            println!("round {round}  {mode:5} {cost:7.0} ns a put  {:.2} of no log", none / cost);
        }
    }
    Ok(())
}
