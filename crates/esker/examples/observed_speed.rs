//! Gets and puts of a database that is observed, against one that is not, in turns:
//!
//! `cargo run --release -p esker --features metrics,tracing --example observed_speed -- DIR
//! [OPERATIONS] [ROUNDS]`
//!
//! Each round loads 200,000 records of 1,000 bytes and runs YCSB's workload A (half gets, half updates,
//! uniform keys), once without and once with each kind of observation:
//!
//! * `metrics`: a thread hands the statistics to a recorder and renders the page of Prometheus every
//!   second, and a subscriber takes all spans and events;
//! * `calls`: in addition, calls of 10 ms or longer are events, so each call is timed.
//!
//! It prints operations a second, and the processor time of the calling thread for each, which other
//! processes disturb less; at the end the medians of the ratios to `none`. Processor time is read from
//! Linux's `schedstat`.

use esker::stats::metrics::MetricsPublisher;
use esker::stats::prometheus;
use esker::{Db, Settings};
use esker_base::{Clock, Rng, SystemClock};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

const KINDS: [&str; 3] = ["none", "metrics", "calls"];
const RECORDS: u64 = 200_000;
const VALUE_BYTES: usize = 1_000;
const SLOW_CALL: Duration = Duration::from_millis(10);

/// Takes spans and events while it is on, and counts them.
struct Counting;

static IS_ON: AtomicBool = AtomicBool::new(false);
static TAKEN: AtomicU64 = AtomicU64::new(0);

impl Subscriber for Counting {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        IS_ON.load(Ordering::Relaxed)
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(TAKEN.fetch_add(1, Ordering::Relaxed) + 1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {
        TAKEN.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The key of record `number`. Keys of numbers in a row are far from each other.
fn key(number: u64) -> [u8; 16] {
    let mut key = *b"user000000000000";
    key[4..12].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

/// What an observer does every second. Returns the bytes of the page.
fn publish(db: &Db, publisher: &mut MetricsPublisher) -> usize {
    publisher.publish(db);
    prometheus::page([("observed", &db.stats())]).len()
}

/// The time that this thread has run, in nanoseconds.
fn cpu_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// Operations a second, and the nanoseconds of processor time for each.
fn run(db: &Db, operations: u64) -> [f64; 2] {
    let (keyspace, mut rng, clock) = (db.default_keyspace(), Rng::new(9), SystemClock::new());
    let mut value = vec![0; VALUE_BYTES];
    let (begun, cpu_before) = (clock.now(), cpu_time());
    for number in 0..operations {
        let key = key(rng.below(RECORDS));
        if number % 2 == 0 {
            assert!(db.get(&keyspace, key).expect("a sound database").is_some());
        } else {
            value[..8].copy_from_slice(&number.to_le_bytes());
            db.put(&keyspace, key, &value[..]).expect("a sound database");
        }
    }
    let cpu = (cpu_time() - cpu_before) as f64 / operations as f64;
    [operations as f64 / (clock.now() - begun).as_secs_f64(), cpu]
}

fn measure(
    dir: &Path,
    kind: &str,
    operations: u64,
) -> Result<[f64; 2], Box<dyn std::error::Error>> {
    let mut settings = Settings::default();
    if kind == "calls" {
        settings = settings.slow_call(SLOW_CALL);
    }
    let db = Db::open(dir, settings)?;
    for number in 0..RECORDS {
        db.put(&db.default_keyspace(), key(number), [7; VALUE_BYTES])?;
    }
    db.wait_for_compactions()?;
    let is_observed = kind != "none";
    IS_ON.store(is_observed, Ordering::Relaxed);
    let is_done = AtomicBool::new(!is_observed);
    let speed = std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut publisher = MetricsPublisher::new("observed");
            while !is_done.load(Ordering::Relaxed) {
                assert!(publish(&db, &mut publisher) > 0);
                std::thread::park_timeout(Duration::from_secs(1));
            }
        });
        let speed = run(&db, operations);
        is_done.store(true, Ordering::Relaxed);
        speed
    });
    IS_ON.store(false, Ordering::Relaxed);
    db.close()?;
    std::fs::remove_dir_all(dir)?;
    Ok(speed)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: observed_speed DIR [OPERATIONS] [ROUNDS]";
    let dir = Path::new(arguments.first().ok_or(usage)?).join("observed");
    let operations: u64 = arguments.get(1).map_or(Ok(2_000_000), |text| text.parse())?;
    let rounds: usize = arguments.get(2).map_or(Ok(5), |text| text.parse())?;
    tracing::subscriber::set_global_default(Counting)?;
    metrics::set_global_recorder(metrics_util::debugging::DebuggingRecorder::new())?;
    let mut measured = Vec::new();
    for round in 0..rounds {
        let mut speeds = [[0.0; 2]; KINDS.len()];
        for at in 0..KINDS.len() {
            // The first kind of a round is another each time.
            let kind = (round + at) % KINDS.len();
            speeds[kind] = measure(&dir, KINDS[kind], operations)?;
        }
        let cells = KINDS.iter().zip(speeds);
        let cells = cells.map(|(kind, [speed, cpu])| format!("{kind} {speed:.0}/s {cpu:.0} ns  "));
        println!("round {round}: {}", cells.collect::<String>());
        measured.push(speeds);
    }
    for (kind, name) in KINDS.iter().enumerate() {
        let ratio = |what: usize| {
            let of = |speeds: &[[f64; 2]; KINDS.len()]| speeds[kind][what] / speeds[0][what];
            let mut ratios: Vec<f64> = measured.iter().map(of).collect();
            ratios.sort_by(f64::total_cmp);
            ratios[ratios.len() / 2]
        };
        let (speed, cpu) = (ratio(0), ratio(1));
        println!("{name:<8} {speed:.3} of the operations a second, {cpu:.3} of the processor time");
    }
    println!("{} spans and events were taken", TAKEN.load(Ordering::Relaxed));
    Ok(())
}
