//! How long a put of one process takes to be seen by a follower in another:
//!
//! `cargo run --release -p esker-lsm --example follower_lag -- [PUTS A SECOND] [SECONDS] [INTERVAL IN MS]`
//!
//! A process writes puts of 100 bytes at a steady rate, each with the time at which it began. Another one
//! follows the database with a thread, reads each put as soon as a snapshot has it, and prints percentiles of
//! the time between. The writer flushes and compacts meanwhile.

mod common;

use common::key;
use esker_base::{Clock, SystemClock};
use esker_lsm::{Db, Settings};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

const VALUE_BYTES: usize = 100;
/// Puts come in groups, this long apart.
const GROUP: Duration = Duration::from_millis(1);
const LOOK: Duration = Duration::from_micros(200);

fn number(argument: Option<String>, default: u64) -> u64 {
    argument.map_or(default, |it| it.parse().expect("a number"))
}

fn value(clock: &SystemClock) -> Vec<u8> {
    let mut value = (clock.calendar().as_nanos() as u64).to_le_bytes().to_vec();
    value.resize(VALUE_BYTES, 7);
    value
}

/// Writes `rate` puts a second for `seconds`. Prints how many of them came late.
fn write(dir: &Path, rate: u64, seconds: u64) {
    let db = Db::open(dir, Settings::default()).expect("a database");
    let (keyspace, clock) = (db.default_keyspace(), SystemClock::new());
    let began = clock.now();
    let group = rate * GROUP.as_micros() as u64 / 1_000_000;
    let mut late = 0;
    for first in (0..rate * seconds).step_by(group as usize) {
        let due = began + Duration::from_nanos(first * 1_000_000_000 / rate);
        match due.checked_sub(clock.now()) {
            Some(early) => clock.sleep(early),
            None => late += group,
        }
        for at in first..first + group {
            keyspace.put(key(at), value(&clock)).expect("a put");
        }
    }
    let took = clock.now() - began;
    let stats = db.stats();
    let reached = (rate * seconds) as f64 / took.as_secs_f64();
    println!(
        "writer: {reached:.0} puts/s, {:.0}% of them later than planned; {} flushes, {} compactions",
        100.0 * late as f64 / (rate * seconds) as f64,
        stats.flushes,
        stats.compactions
    );
    db.close().expect("a close");
}

/// A process that ends with this one.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if_eq("write").is_some() {
        let dir = arguments.next().expect("a directory");
        let (rate, seconds) = (number(arguments.next(), 0), number(arguments.next(), 0));
        return write(Path::new(&dir), rate, seconds);
    }
    let (rate, seconds, interval) = (
        number(arguments.next(), 100_000),
        number(arguments.next(), 20),
        number(arguments.next(), 1),
    );
    let dir = tempfile::tempdir().expect("a temporary directory");
    Db::open(dir.path(), Settings::default()).expect("a database").close().expect("a close");
    let interval = Duration::from_millis(interval);
    let program = std::env::current_exe().expect("this program");
    let (at, rate_text, seconds_text) = (dir.path(), rate.to_string(), seconds.to_string());
    let child =
        Command::new(program).arg("write").arg(at).args([&rate_text, &seconds_text]).spawn();
    let mut writer = Writer(child.expect("a process"));
    let db = Db::open_follower(dir.path(), Settings::default(), interval).expect("a follower");
    let (keyspace, clock) = (db.default_keyspace(), SystemClock::new());
    let (mut seen, mut lags) = (0, Vec::new());
    while seen < rate * seconds {
        let snapshot = db.snapshot();
        let now = clock.calendar().as_nanos() as u64;
        for number in seen..snapshot.seqno() {
            let found = snapshot.get(&keyspace, key(number)).expect("a read").expect("a put");
            let began = u64::from_le_bytes(found[..8].try_into().expect("a time"));
            lags.push(now.saturating_sub(began));
        }
        seen = seen.max(snapshot.seqno());
        clock.sleep(LOOK);
    }
    let stats = db.follower_stats().expect("a follower");
    assert!(writer.0.wait().expect("an end").success());
    lags.sort_unstable();
    let percentile = |percent: f64| {
        let at = ((lags.len() - 1) as f64 * percent / 100.0) as usize;
        lags[at] as f64 / 1e6
    };
    println!(
        "follower: {} puts; lag in ms: p50 {:.2}, p90 {:.2}, p99 {:.2}, p99.9 {:.2}, max {:.2}; {} calls",
        lags.len(),
        percentile(50.0),
        percentile(90.0),
        percentile(99.0),
        percentile(99.9),
        percentile(100.0),
        stats.catch_ups
    );
    println!("processor: {}", processor());
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(": ")).map_or("unknown", |(_, model)| model);
    format!("{model}, {} threads", text.lines().filter(|it| it.starts_with("processor")).count())
}
