//! What the DRAMTable keeps, and in how many bytes.
#![cfg(not(loom))]

use esker_base::{KeyspaceId, Rng, hash64};
use esker_memtable::{DramTable, Forwarding};
use proptest::prelude::*;

const KS: KeyspaceId = KeyspaceId(1);

/// A shard takes so much before it holds anything, at most.
const SHARD_BYTES: u64 = 2 << 10;

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn fill(table: &DramTable, number: u64, value: &[u8], snapshot: u64) -> bool {
    table.fill(KS, &key(number), hash64(&key(number)), 1, value, snapshot)
}

fn holds(table: &DramTable, number: u64) -> bool {
    table.get(KS, &key(number), hash64(&key(number)), u64::MAX, |_| ()).is_some()
}

/// Reads a key as an engine does: what the table lacks comes from elsewhere, and is offered to it.
fn read(table: &DramTable, number: u64, value: &[u8]) -> bool {
    let hit = holds(table, number);
    if !hit {
        fill(table, number, value, 1);
    }
    hit
}

fn read_all(table: &DramTable, numbers: std::ops::Range<u64>, value: &[u8]) {
    for number in numbers {
        read(table, number, value);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Fill(u64, usize),
    Forward(u64, usize),
    Pass(u64, Option<usize>),
    Delete(u64),
    Read(u64),
    SetBytes(usize),
    RaiseFloor,
    Collect,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![0..40usize, 0..400usize, 0..20_000usize];
    prop_oneof![
        8 => (0..300u64, size.clone()).prop_map(|(key, size)| Step::Fill(key, size)),
        4 => (0..300u64, size.clone()).prop_map(|(key, size)| Step::Forward(key, size)),
        4 => (0..300u64, prop::option::of(size)).prop_map(|(key, size)| Step::Pass(key, size)),
        1 => (0..300u64).prop_map(Step::Delete),
        4 => (0..300u64).prop_map(Step::Read),
        1 => prop_oneof![Just(0), 1000..200_000usize].prop_map(Step::SetBytes),
        1 => Just(Step::RaiseFloor),
        1 => Just(Step::Collect),
    ]
}

#[test]
fn an_entry_that_is_evicted_as_it_is_refreshed_is_not_refreshed() {
    let table = DramTable::new(16 << 10, Forwarding::OnFlush);
    let value = [1; 200];
    // Until one has made room: the table is full, and the oldest is the next to go.
    let full = (0..).find(|&number| {
        assert!(fill(&table, number, &value, 1));
        table.stats().evictions > 0
    });
    let oldest = (0..=full.unwrap()).find(|&number| holds(&table, number)).unwrap();
    let evictions = table.stats().evictions;
    // Longer than before, and short enough for the table.
    table.pass(KS, &key(oldest), hash64(&key(oldest)), 2, Some(&[2; 1_500]), 2);
    assert!(!holds(&table, oldest));
    let stats = table.stats();
    assert!(stats.evictions > evictions, "{stats:?}");
    assert_eq!((stats.refreshes, stats.invalidations), (0, 0), "{stats:?}");
}

proptest! {
    #[test]
    fn after_every_step_the_bytes_are_within_the_bound_and_cover_what_is_held(
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut bytes = 100_000;
        let table = DramTable::new(bytes, Forwarding::OnFlush);
        let mut lens = std::collections::BTreeMap::new();
        for (at, step) in steps.into_iter().enumerate() {
            let seqno = at as u64 + 1;
            let at = |number: u64| (key(number), hash64(&key(number)));
            match step {
                Step::Fill(number, len) => {
                    let (key, hash) = at(number);
                    if table.fill(KS, &key, hash, seqno, &vec![1; len], seqno) {
                        lens.insert(number, len);
                    }
                }
                Step::Forward(number, len) => {
                    let (key, hash) = at(number);
                    if table.forward(KS, &key, hash, seqno, Some(&vec![2; len])) {
                        lens.insert(number, len);
                    }
                }
                Step::Pass(number, len) => {
                    let (key, hash) = at(number);
                    let value = len.map(|len| vec![3; len]);
                    table.pass(KS, &key, hash, seqno, value.as_deref(), seqno);
                    lens.insert(number, len.unwrap_or(0));
                }
                Step::Delete(number) => {
                    let (key, hash) = at(number);
                    table.forward(KS, &key, hash, seqno, None);
                }
                Step::Read(number) => {
                    holds(&table, number);
                }
                Step::SetBytes(to) => {
                    bytes = to;
                    table.set_bytes(bytes);
                }
                Step::RaiseFloor => table.raise_invalidation_floor(KS, seqno),
                Step::Collect => table.collect(),
            }
            let stats = table.stats();
            prop_assert!(stats.bytes <= (bytes as u64).max(SHARD_BYTES), "{stats:?} {bytes}");
        }
        // Nothing is lost and nothing counted twice: with everything gone, nothing is left over.
        let mut held = 0;
        let mut entries = 0;
        for (&number, &len) in &lens {
            let (key, hash) = (key(number), hash64(&key(number)));
            table.collect();
            if let Some(hit) = table.get(KS, &key, hash, u64::MAX, <[u8]>::len) {
                prop_assert_eq!(hit.value, len);
                held += 8 + len as u64;
                entries += 1;
            }
        }
        let stats = table.stats();
        prop_assert_eq!(stats.entries, entries);
        prop_assert!(stats.bytes >= held + 60 * entries, "{:?} {}", stats, held);
        table.drop_keyspace(KS);
        table.collect();
        table.set_bytes(0);
        prop_assert_eq!(table.stats().entries, 0);
        prop_assert_eq!(table.stats().bytes, DramTable::new(0, Forwarding::OnFlush).stats().bytes);
    }
}

/// How many of the hot keys are still there after a scan of ten times what the table holds.
#[test]
fn a_scan_does_not_drive_out_what_is_read_again_and_again() {
    let table = DramTable::new(1 << 20, Forwarding::OnFlush);
    let value = [1; 100];
    let mut rng = Rng::new(1);
    let hot = 2000;
    for _ in 0..20 * hot {
        read(&table, rng.below(hot), &value);
    }
    let entries = table.stats().entries;
    read_all(&table, 1_000_000..1_060_000, &value);
    assert!(table.stats().evictions > 10 * entries);
    let kept = (0..hot).filter(|&number| holds(&table, number)).count();
    assert!(kept as u64 > hot * 9 / 10, "{kept} of {hot}");
}

#[test]
fn what_comes_back_soon_after_its_eviction_stays() {
    let table = DramTable::new(64 << 10, Forwarding::OnFlush);
    let value = [1; 100];
    read_all(&table, 0..1000, &value);
    // Evicted lately, and back: straight into the main queue.
    let evicted = (0..1000).rev().filter(|&number| !holds(&table, number)).take(20);
    let back: Vec<u64> = evicted.collect();
    back.iter().for_each(|&number| assert!(!read(&table, number, &value)));
    read_all(&table, 2000..2400, &value);
    let kept = back.iter().filter(|&&number| holds(&table, number)).count();
    assert!(kept >= 18, "{kept} of 20");
    assert!(!holds(&table, 999), "who never came back went through");
}

#[test]
fn skewed_reads_mostly_hit_a_table_of_a_tenth_of_the_keys() {
    let value = [1; 100];
    let table = DramTable::new(1 << 20, Forwarding::OnFlush);
    let keys = 50_000f64;
    let mut rng = Rng::new(7);
    let (mut hits, reads) = (0, 400_000);
    for _ in 0..reads {
        // The ranks of a Zipf law with exponent 1.
        let number = keys.powf(rng.unit()) as u64;
        hits += u64::from(read(&table, number, &value));
    }
    // The most popular tenth of the keys gets 79% of such reads.
    assert!(hits > reads * 72 / 100, "{hits} of {reads}; {:?}", table.stats());
}

#[test]
fn a_value_too_large_for_its_share_is_refused_and_harms_nothing() {
    let table = DramTable::new(1 << 20, Forwarding::OnFlush);
    (0..100).for_each(|number| assert!(fill(&table, number, &[1; 100], 1)));
    assert!(!fill(&table, 100, &vec![1; 1 << 20], 1));
    table.pass(KS, &key(5), hash64(&key(5)), 9, Some(&vec![1; 1 << 20]), 9);
    assert!(!holds(&table, 5) && holds(&table, 6));
    let stats = table.stats();
    assert_eq!((stats.entries, stats.evictions, stats.invalidations), (99, 0, 1));
}

/// Whichever of the arrays can't grow within the bound, and when.
#[test]
fn a_table_that_evicts_leaves_little_of_its_bytes_unused() {
    for bytes in (0..12).map(|step| (700 << 10) + step * (100 << 10)) {
        for value_bytes in [10, 100, 1000] {
            let table = DramTable::new(bytes, Forwarding::OnFlush);
            let value = vec![1; value_bytes];
            read_all(&table, 0..40_000, &value);
            let stats = table.stats();
            assert!(stats.evictions > 0);
            assert!(stats.bytes * 100 > bytes as u64 * 94, "of {bytes}: {stats:?}");
        }
    }
}

#[test]
fn a_table_that_shrinks_keeps_what_fits_and_grows_again() {
    let table = DramTable::new(1 << 20, Forwarding::OnFlush);
    let value = [1; 100];
    (0..4000).for_each(|number| assert!(fill(&table, number, &value, 1)));
    table.set_bytes(100 << 10);
    let stats = table.stats();
    assert!(stats.bytes <= 100 << 10 && stats.bytes > 90 << 10, "{stats:?}");
    let held = (0..4000).filter(|&number| holds(&table, number)).count();
    assert_eq!(held as u64, stats.entries);
    table.set_bytes(1 << 20);
    read_all(&table, 0..4000, &value);
    assert_eq!(table.stats().entries, 4000);
}

#[test]
fn a_table_without_room_still_knows_what_was_passed() {
    let table = DramTable::new(0, Forwarding::OnFlush);
    assert!(!fill(&table, 1, b"value", 1));
    table.pass(KS, &key(1), hash64(&key(1)), 9, Some(b"new"), 9);
    table.set_bytes(1 << 20);
    assert!(!fill(&table, 1, b"value", 8) && fill(&table, 1, b"new", 9));
}
