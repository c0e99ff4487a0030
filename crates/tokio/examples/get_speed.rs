//! What a future costs: gets of entries in memory by two threads, direct and on a runtime with two.
//!
//! ```text
//! cargo run --release -p esker-tokio --example get_speed -- [GETS [ROUNDS]]
//! ```
//!
//! The two take turns. Prints the medians, in nanoseconds of a thread for each get.

use esker::env::{Clock, SystemClock};
use esker::{Db, KeyspaceSettings, Result, Settings};
use esker_tokio::{AsyncDb, AsyncKeyspace};

const ENTRIES: u64 = 200_000;
const THREADS: u64 = 2;

fn key(number: u64) -> [u8; 8] {
    (number % ENTRIES).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// The keys that a thread reads, in no order.
fn keys(thread: u64, gets: u64) -> impl Iterator<Item = [u8; 8]> {
    (0..gets).map(move |get| key((get + thread) * 7_368_787))
}

fn direct(keyspace: &AsyncKeyspace, gets: u64) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let keyspace = keyspace.keyspace().clone();
            scope.spawn(move || {
                for key in keys(thread, gets) {
                    assert!(keyspace.get(key).expect("a get").is_some());
                }
            });
        }
    });
}

async fn on_the_runtime(keyspace: &AsyncKeyspace, gets: u64) {
    let tasks: Vec<_> = (0..THREADS)
        .map(|thread| {
            let keyspace = keyspace.clone();
            tokio::spawn(async move {
                for key in keys(thread, gets) {
                    assert!(keyspace.get(key).await.expect("a get").is_some());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let (gets, rounds) = (numbers.next().unwrap_or(2_000_000), numbers.next().unwrap_or(9));
    let dir = tempfile::tempdir().expect("a directory");
    let db = AsyncDb::new(Db::open(dir.path(), Settings::default())?);
    let keyspace = db.keyspace("k", KeyspaceSettings::default()).await?;
    for number in 0..ENTRIES {
        keyspace.keyspace().put(key(number), [7; 100])?;
    }
    db.blocking(Db::compact).await?;
    let clock = SystemClock::new();
    let (mut direct_times, mut async_times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let started = clock.now();
        direct(&keyspace, gets);
        direct_times.push((clock.now() - started).as_nanos() as f64 / gets as f64);
        let started = clock.now();
        on_the_runtime(&keyspace, gets).await;
        async_times.push((clock.now() - started).as_nanos() as f64 / gets as f64);
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (direct, futures) = (median(direct_times), median(async_times));
    let part = direct / futures;
    println!("direct {direct:.0} ns, futures {futures:.0} ns: {part:.2}x of the throughput");
    db.close().await
}
