//! Puts with and without readers of the change feed, in turn:
//!
//! `cargo run --release -p esker-lsm --example feed_speed -- [PUTS] [ROUNDS] [WRITERS] [always|os]`
//!
//! Each round writes as many puts into a fresh database once without a reader, once with a feed, and once
//! with a named consumer that acknowledges every second. It prints puts a second, and the CPU time of
//! writers for a put, which other processes disturb less. The feed must yield every put. At the end come the medians
//! of all rounds.

use esker_base::{Clock, SystemClock};
use esker_lsm::{ChangeConsumer, ChangeEvent, Changes, Db, Log, Settings, SyncPolicy};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const KINDS: [&str; 3] = ["none", "feed", "consumer"];
const VALUE_BYTES: usize = 100;

/// The time that this thread has run, in nanoseconds.
fn cpu_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// Keys in no order.
fn key(number: u64) -> [u8; 16] {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mut key = *b"0000000000000000";
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key
}

/// Reads all, and acknowledges every second.
fn consume(mut consumer: ChangeConsumer, puts: u64) {
    let clock = SystemClock::new();
    let mut acknowledged_at = clock.now();
    for from in (0..puts).step_by(100_000) {
        read(&mut consumer, from, puts.min(from + 100_000));
        if clock.now() - acknowledged_at > Duration::from_secs(1) {
            acknowledged_at = clock.now();
            consumer.acknowledge(consumer.next_seqno() - 1).expect("a sound manifest");
        }
    }
    consumer.acknowledge(puts).expect("a sound manifest");
}

/// Reads the puts after the seqno `seen` up to `until`.
fn read(changes: &mut Changes, mut seen: u64, until: u64) {
    let mut bytes = 0;
    while seen < until {
        let Some(ChangeEvent::Batch(batch)) =
            changes.next(Duration::from_secs(10)).expect("a sound feed")
        else {
            panic!("only batches come, and soon")
        };
        assert_eq!(batch.first_seqno(), seen + 1, "no gap");
        seen = batch.last_seqno();
        for change in batch.changes() {
            if let esker_lsm::Operation::Put { value, .. } = change.operation {
                bytes += value.len() as u64;
            }
        }
    }
    std::hint::black_box(bytes);
}

/// Puts a second, and nanoseconds of a writer's CPU time for a put.
fn run(kind: &str, puts: u64, writers: u64, sync: SyncPolicy) -> (f64, f64) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let settings = Settings::default().log(Log::File { dir: None, sync });
    let db = Db::open(dir.path(), settings).expect("a new database");
    let (changes, consumer) = match kind {
        "feed" => (Some(db.changes(1).expect("a log")), None),
        "consumer" => (None, Some(db.change_consumer("c", 1 << 40).expect("a log"))),
        _ => (None, None),
    };
    let clock = SystemClock::new();
    let started = clock.now();
    let cpu = AtomicU64::new(0);
    let mut written = Duration::ZERO;
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || match (changes, consumer) {
            (Some(mut changes), _) => read(&mut changes, 0, puts),
            (_, Some(consumer)) => consume(consumer, puts),
            _ => {}
        });
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let (db, cpu) = (&db, &cpu);
                scope.spawn(move || {
                    let keyspace = db.default_keyspace();
                    let before = cpu_time();
                    for number in (writer..puts).step_by(writers as usize) {
                        keyspace.put(key(number), [7; VALUE_BYTES]).expect("a put");
                    }
                    cpu.fetch_add(cpu_time() - before, Ordering::Relaxed);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a writer"));
        written = clock.now() - started;
        reader.join().expect("a reader");
    });
    db.close().expect("a close");
    (puts as f64 / written.as_secs_f64(), cpu.into_inner() as f64 / puts as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        |default: u64| arguments.next().map_or(default, |it| it.parse().expect("a number"));
    let (puts, rounds, writers) = (number(1_000_000), number(7), number(1));
    let sync = match arguments.next().as_deref() {
        Some("always") => SyncPolicy::Always,
        _ => SyncPolicy::Os,
    };
    let mut all = [const { Vec::new() }; KINDS.len()];
    for round in 0..rounds as usize {
        for turn in 0..KINDS.len() {
            let at = (round + turn) % KINDS.len();
            let (rate, cpu) = run(KINDS[at], puts, writers, sync);
            println!("{:8} {rate:9.0} puts/s {cpu:7.0} ns of CPU a put", KINDS[at]);
            all[at].push((rate, cpu));
        }
    }
    let rates = all.each_ref().map(|runs| median(runs.iter().map(|run| run.0).collect()));
    let times = all.each_ref().map(|runs| median(runs.iter().map(|run| run.1).collect()));
    for at in 0..KINDS.len() {
        println!(
            "median {:8} {:9.0} puts/s ({:.3} of none), {:6.0} ns of CPU a put ({:.3} of none)",
            KINDS[at],
            rates[at],
            rates[at] / rates[0],
            times[at],
            times[at] / times[0]
        );
    }
}
