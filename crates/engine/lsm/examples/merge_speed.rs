//! Merges into counters, and reads of them:
//!
//! `cargo run --release -p esker-lsm --example merge_speed -- [MERGES] [KEYS]`
//!
//! First merges into one key, and reads it between, by gets and by a scan. Prints the time of a merge, and
//! the median, the 99.9% quantile and the maximum of the reads. Then merges into random ones of KEYS keys,
//! and reads all of them.

use esker_base::{Clock, Rng, SystemClock};
use esker_lsm::{Db, KeyspaceSettings, Settings};

/// A get of the hot key for each so many merges.
const MERGES_PER_READ: u64 = 100;

fn quantiles(name: &str, mut took: Vec<u64>) {
    took.sort_unstable();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize] as f64 / 1e3;
    let (half, high, most) = (at(0.5), at(0.999), at(1.0));
    println!(
        "{name}: p50 {half:.2} us, p99.9 {high:.2} us, max {most:.2} us, {} reads",
        took.len()
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: u64| {
        arguments.next().map_or(default, |text| text.parse::<u64>().expect("a number"))
    };
    let (merges, keys) = (next(5_000_000), next(1_000_000));
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path(), Settings::default()).expect("a new database");
    let sums = db.keyspace("sums", KeyspaceSettings::default().merge("add_i64")).expect("created");
    let (clock, one) = (SystemClock::new(), 1_i64.to_le_bytes());
    let nanos = |since| (clock.now() - since).as_nanos() as u64;

    let (mut gets, mut scans, mut written) = (Vec::new(), Vec::new(), 0);
    for number in 1..=merges {
        let started = clock.now();
        sums.merge("hot", one).expect("a merge");
        written += nanos(started);
        if number.is_multiple_of(MERGES_PER_READ) {
            let started = clock.now();
            let value = sums.get("hot").expect("a get").expect("a value");
            gets.push(nanos(started));
            assert_eq!(value[..], number.to_le_bytes());
        }
        if number.is_multiple_of(100 * MERGES_PER_READ) {
            let started = clock.now();
            let first = sums.first().expect("a scan").expect("an entry");
            scans.push(nanos(started));
            assert_eq!(first.1[..], number.to_le_bytes());
        }
    }
    println!("merges into one key: {:.0} ns each", written as f64 / merges as f64);
    quantiles("gets of it", gets);
    quantiles("scans of it", scans);

    let mut rng = Rng::new(1);
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let started = clock.now();
    for _ in 0..merges {
        sums.merge(key(rng.below(keys)), one).expect("a merge");
    }
    println!("merges into {keys} keys: {:.0} ns each", nanos(started) as f64 / merges as f64);
    let started = clock.now();
    let sum: i64 = (0..keys)
        .filter_map(|number| sums.get(key(number)).expect("a get"))
        .map(|value| i64::from_le_bytes(value[..].try_into().expect("eight bytes")))
        .sum();
    assert_eq!(sum, merges as i64);
    println!("gets of all: {:.0} ns each", nanos(started) as f64 / keys as f64);
}
