//! Prints what a MemTable of 64 MiB costs an operation: 16-byte random keys, 100-byte values, one
//! thread, no log.
//!
//! `cargo run --release -p esker-memtable --example memtable_speed [rounds]`

use esker_base::{Clock, Entry, EntryCursor, KeyspaceId, Kind, Rng, SystemClock, hash64};
use esker_memtable::{FrameMode, HeapMemory, MemTable, SegmentHeader};
use std::sync::Arc;

const SEGMENT_BYTES: usize = 64 << 20;
const ORDERED_PUTS: u64 = 200_000;

fn header(epoch: u32) -> SegmentHeader {
    SegmentHeader {
        epoch,
        capacity: SEGMENT_BYTES as u64,
        alignment: 8,
        key_id: 0,
        salt: 0,
        flags: 0,
    }
}

fn key_of(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    Rng::new(number).fill(&mut key);
    key
}

/// Prints the time since `start`, divided by `count`.
fn report(clock: &SystemClock, what: &str, start: std::time::Duration, count: u64) {
    let nanos = (clock.now() - start).as_nanos() as f64;
    println!("{what:<28} {:>8.1} ns each {:>9.1} ms", nanos / count as f64, nanos / 1e6);
}

/// Puts fresh keys until the MemTable is full. With `order_every`, opens a cursor that often.
fn fill(memtable: &Arc<MemTable>, order_every: Option<u64>, limit: u64) -> u64 {
    let mut tail = memtable.activate(1);
    let mut batch = Vec::new();
    let value = [7; 100];
    let mut count = 0;
    while count < limit {
        let key = key_of(count);
        batch.clear();
        Entry { keyspace: KeyspaceId::DEFAULT, kind: Kind::Put, key: &key, value: &value }
            .encode(&mut batch);
        let Some(reservation) = memtable.reserve(&mut tail, batch.len(), 1) else { break };
        let filled = memtable.fill(reservation, count, &batch).fence();
        memtable.insert(&filled);
        count += 1;
        if order_every.is_some_and(|every| count.is_multiple_of(every)) {
            let mut cursor = memtable.cursor(KeyspaceId::DEFAULT, count);
            cursor.seek(&key, count).unwrap();
            assert!(cursor.valid());
        }
    }
    memtable.seal(tail);
    count
}

fn scan(clock: &SystemClock, what: &str, memtable: &Arc<MemTable>, entries: u64) {
    let mut cursor = memtable.cursor(KeyspaceId::DEFAULT, entries);
    let start = clock.now();
    let mut bytes = 0;
    let mut count = 0;
    cursor.seek_first().unwrap();
    while cursor.valid() {
        bytes += cursor.key().len() + cursor.value().len();
        count += 1;
        cursor.next().unwrap();
    }
    report(clock, what, start, count);
    assert_eq!((count, bytes as u64), (entries, 116 * entries));
}

fn main() {
    let rounds: u32 = std::env::args().nth(1).map_or(3, |text| text.parse().expect("a number"));
    let clock = SystemClock::new();
    let start = clock.now();
    let mut memtable = MemTable::new(HeapMemory::new(SEGMENT_BYTES), header(1), FrameMode::Logged);
    report(&clock, "allocate", start, 1);
    for round in 0..rounds {
        println!("-- round {round}");
        let start = clock.now();
        memtable = memtable.recycle(header(round + 2));
        report(&clock, "recycle", start, 1);

        let shared = Arc::new(memtable);
        let start = clock.now();
        for number in 0..440_000 {
            std::hint::black_box(key_of(number));
        }
        report(&clock, "(making the keys)", start, 440_000);
        let start = clock.now();
        let count = fill(&shared, None, u64::MAX);
        report(&clock, "put", start, count);

        let mut rng = Rng::new(1);
        let mut found = 0;
        let start = clock.now();
        for _ in 0..count {
            let key = key_of(rng.below(count));
            let got = shared.get(KeyspaceId::DEFAULT, &key, hash64(&key), count);
            found += got.map_or(0, |got| u64::from(got.value[50]) / 7);
        }
        report(&clock, "get, present", start, count);
        assert_eq!(found, count);
        let start = clock.now();
        for number in count..2 * count {
            let key = key_of(number);
            assert!(shared.get(KeyspaceId::DEFAULT, &key, hash64(&key), count).is_none());
        }
        report(&clock, "get, absent", start, count);

        let start = clock.now();
        shared.sort_through(count);
        report(&clock, "build_order, all at once", start, count);
        scan(&clock, "next, one run", &shared, count);
        println!("{:<28} {:>8.1}", "index and order bytes an entry", {
            (shared.memory_bytes() - SEGMENT_BYTES) as f64 / count as f64
        });
        let start = clock.now();
        shared.verify("segment").unwrap();
        report(&clock, "verify", start, count);

        let again = Arc::new(Arc::into_inner(shared).expect("unshared").recycle(header(round + 2)));
        let start = clock.now();
        let ordered = fill(&again, Some(20), ORDERED_PUTS);
        report(&clock, "put, a cursor every 20", start, ordered);
        scan(&clock, "next, after collapsing", &again, ordered);
        memtable = Arc::into_inner(again).expect("unshared");
    }
}
