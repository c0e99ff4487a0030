//! Prints what a hit in the DRAMTable costs compared with plain hash tables in memory that copy the value
//! out, in alternating rounds: a sharded `RwLock<HashMap<Box<[u8]>, Box<[u8]>>>` (on several
//! threads), and a bare `HashMap` (on one). All are asked by the same hash, computed in the timed
//! part. 16-byte keys in random order; medians of the rounds. Then what writes cost.
//!
//! `cargo run --release -p esker-memtable --example dram_table_speed [entries] [rounds]`

use esker_base::{Clock, KeyspaceId, Rng, Seqno, SystemClock, hash64};
use esker_memtable::{DramTable, Forwarding};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;

const KS: KeyspaceId = KeyspaceId(1);
const SHARDS: usize = 64;
/// Reads a round and thread: short rounds, so that what else the machine does strikes all alike.
const READS: u64 = 50_000;

/// The engine's hash as the peers' hasher.
#[derive(Default, Clone)]
struct Xxh3(u64);

impl Hasher for Xxh3 {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash64(bytes);
    }
    fn write_usize(&mut self, _len: usize) {}
    fn finish(&self) -> u64 {
        self.0
    }
}

type Bare = HashMap<Box<[u8]>, Box<[u8]>, BuildHasherDefault<Xxh3>>;

struct Sharded(Vec<RwLock<Bare>>);

impl Sharded {
    fn shard(&self, key: &[u8]) -> &RwLock<Bare> {
        // Another part of the hash than the table's own. It is computed twice, which is cheap.
        &self.0[(hash64(key) >> 40) as usize % SHARDS]
    }
}

fn key_of(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    Rng::new(number).fill(&mut key);
    key
}

/// Nanoseconds a call, of `READS` calls a thread with random keys.
fn time(
    clock: &SystemClock,
    threads: u64,
    entries: u64,
    get: impl Fn(&[u8]) -> usize + Sync,
) -> f64 {
    let start = clock.now();
    let run = |thread: u64| {
        let mut rng = Rng::new(clock.now().as_nanos() as u64 ^ thread << 56);
        let mut bytes = 0;
        for _ in 0..READS {
            bytes += get(&key_of(rng.below(entries)));
        }
        assert!(bytes > 0);
    };
    std::thread::scope(|scope| {
        let run = &run;
        (1..threads).for_each(|thread| drop(scope.spawn(move || run(thread))));
        run(0);
    });
    (clock.now() - start).as_nanos() as f64 / READS as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn hits(clock: &SystemClock, entries: u64, value_bytes: usize, rounds: u32) {
    let value = vec![7; value_bytes];
    let table = DramTable::new(entries as usize * (value_bytes + 400), Forwarding::OnFlush);
    let sharded = Sharded((0..SHARDS).map(|_| RwLock::default()).collect());
    let mut bare = Bare::default();
    for number in 0..entries {
        let key = key_of(number);
        assert!(table.fill(KS, &key, hash64(&key), 1, &value, 1));
    }
    for number in 0..entries {
        let key = key_of(number);
        sharded.shard(&key).write().insert(key.into(), value.as_slice().into());
    }
    for number in 0..entries {
        bare.insert(key_of(number).into(), value.as_slice().into());
    }
    let stats = table.stats();
    assert_eq!(stats.entries, entries, "all of it fits");
    println!("values of {value_bytes} B: {} bytes an entry", stats.bytes / entries);

    // A copy of which nothing but the length is asked is not made at all, as the compiler sees fit.
    let copy = |value: &[u8]| black_box(value.to_vec());
    let own = |key: &[u8]| table.get(KS, key, hash64(key), 9, copy).unwrap().value.len();
    let locked = |key: &[u8]| copy(sharded.shard(key).read().get(key).unwrap()).len();
    let plain = |key: &[u8]| copy(bare.get(key).unwrap()).len();
    for threads in [1, 2] {
        let (mut own_ns, mut locked_ns, mut bare_ns) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            own_ns.push(time(clock, threads, entries, own));
            locked_ns.push(time(clock, threads, entries, locked));
            if threads == 1 {
                bare_ns.push(time(clock, threads, entries, plain));
            }
        }
        let (own_ns, locked_ns) = (median(own_ns), median(locked_ns));
        print!("  {threads} threads: hit {own_ns:.0} ns, sharded map {locked_ns:.0} ns: ");
        print!("{:.2}x", own_ns / locked_ns);
        if threads == 1 {
            let bare_ns = median(bare_ns);
            print!("; bare map {bare_ns:.0} ns: {:.2}x", own_ns / bare_ns);
        }
        println!();
    }
}

/// Prints the time that `calls` calls took, each.
fn report(clock: &SystemClock, what: &str, calls: u64, mut call: impl FnMut(u64)) {
    let start = clock.now();
    (0..calls).for_each(&mut call);
    println!("  {what:<44} {:>6.0} ns", (clock.now() - start).as_nanos() as f64 / calls as f64);
}

/// What reaches the table from writes and flushes, with `entries` keys of which a quarter fits.
fn writes(clock: &SystemClock, entries: u64, value_bytes: usize) {
    let value = vec![7; value_bytes];
    let bytes = entries as usize * (value_bytes + 120) / 4;
    println!("values of {value_bytes} B, a quarter of the keys fits:");
    for forwarding in [Forwarding::OnFlush, Forwarding::Adaptive, Forwarding::Always] {
        let table = DramTable::new(bytes, forwarding);
        let mut seqno: Seqno = 1;
        let hash_of = |number: u64| (key_of(number), hash64(&key_of(number)));
        if forwarding == Forwarding::OnFlush {
            report(clock, "fill, evicting", entries, |number| {
                let (key, hash) = hash_of(number);
                table.fill(KS, &key, hash, 1, &value, 1);
            });
            report(clock, "pass", entries, |number| {
                let (key, hash) = hash_of(number);
                seqno += 1;
                table.pass(KS, &key, hash, seqno, Some(&value), seqno);
            });
        } else {
            let name = format!("{forwarding:?}: a put nobody reads");
            report(clock, &name, entries, |number| {
                let (key, hash) = hash_of(number);
                seqno += 1;
                table.put(KS, &key, hash, seqno, Some(&value));
            });
        }
    }
    report(clock, "(making a key and its hash)", entries, |number| {
        std::hint::black_box(hash64(&key_of(number)));
    });
}

fn main() {
    let number = |at: usize| std::env::args().nth(at).map(|text| text.parse().expect("a number"));
    let entries = number(1).unwrap_or(1_000_000);
    let rounds = number(2).unwrap_or(31) as u32;
    let clock = SystemClock::new();
    for value_bytes in [100, 1000] {
        hits(&clock, entries, value_bytes, rounds);
        writes(&clock, entries, value_bytes);
    }
}
