//! What the DRAMTable answers, one rule at a time.
#![cfg(not(loom))]

use esker_base::{KeyspaceId, Seqno, hash64};
use esker_memtable::{DramTable, Forwarding};

const KS: KeyspaceId = KeyspaceId(7);
const OTHER: KeyspaceId = KeyspaceId(8);

fn table() -> DramTable {
    DramTable::new(1 << 20, Forwarding::OnFlush)
}

fn get(table: &DramTable, key: &[u8], snapshot: Seqno) -> Option<(Seqno, Vec<u8>)> {
    let hit = table.get(KS, key, hash64(key), snapshot, <[u8]>::to_vec);
    hit.map(|hit| (hit.seqno, hit.value))
}

fn fill(table: &DramTable, key: &[u8], seqno: Seqno, snapshot: Seqno) -> bool {
    table.fill(KS, key, hash64(key), seqno, &seqno.to_le_bytes(), snapshot)
}

fn pass(table: &DramTable, key: &[u8], seqno: Seqno, through: Seqno) {
    table.pass(KS, key, hash64(key), seqno, Some(&seqno.to_le_bytes()), through);
}

fn forward(table: &DramTable, key: &[u8], seqno: Seqno) -> bool {
    table.forward(KS, key, hash64(key), seqno, Some(&seqno.to_le_bytes()))
}

fn version(seqno: Seqno) -> Option<(Seqno, Vec<u8>)> {
    Some((seqno, seqno.to_le_bytes().to_vec()))
}

#[test]
fn a_fill_is_found_again_by_its_key_in_its_keyspace() {
    let table = table();
    assert_eq!(get(&table, b"k", 9), None);
    assert!(fill(&table, b"k", 5, 9));
    assert_eq!(get(&table, b"k", 9), version(5));
    assert_eq!(get(&table, b"j", 9), None);
    assert!(table.get(OTHER, b"k", hash64(b"k"), 9, |_| ()).is_none());
    let stats = table.stats();
    assert_eq!((stats.hits, stats.misses, stats.fills, stats.entries), (1, 3, 1, 1));
}

#[test]
fn a_snapshot_older_than_the_entry_bypasses_it() {
    let table = table();
    fill(&table, b"k", 5, 9);
    assert_eq!(get(&table, b"k", 4), None);
    assert_eq!(get(&table, b"k", 5), version(5));
}

#[test]
fn a_copy_is_exact_or_it_is_none() {
    let table = table();
    fill(&table, b"k", 5, 9);
    let exact = |seqno| table.get_exact(KS, b"k", hash64(b"k"), seqno, <[u8]>::to_vec);
    assert_eq!((exact(4), exact(6)), (None, None));
    assert_eq!(exact(5), Some(5u64.to_le_bytes().to_vec()));
    assert_eq!(table.stats().exact_hits, 1);
}

#[test]
fn a_read_that_met_several_entries_before_its_own_missed_once() {
    for forwarding in [Forwarding::OnFlush, Forwarding::Always, Forwarding::Adaptive] {
        let table = DramTable::new(1 << 20, forwarding);
        let hash = hash64(b"k");
        for seqno in [9, 7, 5] {
            assert!(table.get_exact(KS, b"k", hash, seqno, |_| ()).is_none());
        }
        table.record_pmem_read(KS, b"k", hash, 5, b"value");
        assert_eq!(table.stats().exact_misses, 1, "{forwarding:?}");
    }
}

#[test]
fn a_fill_of_an_older_version_than_is_held_is_not_taken() {
    let table = table();
    assert!(fill(&table, b"k", 7, 9));
    assert!(!fill(&table, b"k", 5, 9));
    let stats = table.stats();
    assert_eq!((stats.fills, stats.fills_refused), (1, 1));
    assert_eq!(get(&table, b"k", 9), version(7));
}

#[test]
fn a_fill_of_what_is_held_is_no_other_fill() {
    let table = table();
    assert!(fill(&table, b"k", 5, 9) && fill(&table, b"k", 5, 10));
    let stats = table.stats();
    assert_eq!((stats.fills, stats.fills_refused), (1, 0));
}

#[test]
fn a_forward_of_an_older_version_than_is_held_is_not_taken() {
    let table = table();
    assert!(forward(&table, b"k", 25) && !forward(&table, b"k", 24));
    assert!(forward(&table, b"k", 25), "it is there");
    assert_eq!(table.stats().forwards, 1);
    assert_eq!(get(&table, b"k", 30), version(25));
}

#[test]
fn a_forwarded_version_that_is_too_large_drops_what_is_older() {
    let table = DramTable::new(64 << 10, Forwarding::OnFlush);
    fill(&table, b"k", 5, 9);
    assert!(!table.forward(KS, b"k", hash64(b"k"), 12, Some(&[0; 32 << 10])));
    assert_eq!(get(&table, b"k", 20), None);
    assert_eq!((table.stats().forwards, table.stats().invalidations), (0, 1));
}

#[test]
fn a_pass_refreshes_what_is_held_and_brings_in_nothing_else() {
    let table = table();
    fill(&table, b"k", 5, 9);
    pass(&table, b"k", 12, 20);
    pass(&table, b"j", 13, 20);
    assert_eq!(get(&table, b"k", 20), version(12));
    assert_eq!(get(&table, b"k", 11), None);
    assert_eq!(get(&table, b"j", 20), None);
    assert_eq!(table.stats().refreshes, 1);
}

#[test]
fn a_pass_of_a_delete_drops_the_entry() {
    let table = table();
    fill(&table, b"k", 5, 9);
    table.pass(KS, b"k", hash64(b"k"), 12, None, 20);
    assert_eq!(get(&table, b"k", 20), None);
    assert_eq!((table.stats().invalidations, table.stats().entries), (1, 0));
}

#[test]
fn a_pass_leaves_a_newer_entry_alone() {
    let table = table();
    assert!(forward(&table, b"k", 30));
    pass(&table, b"k", 12, 20);
    assert_eq!(get(&table, b"k", 30), version(30));
}

#[test]
fn a_fill_from_before_a_pass_is_refused() {
    let table = table();
    pass(&table, b"k", 12, 20);
    assert!(!fill(&table, b"k", 5, 11));
    assert_eq!(get(&table, b"k", 20), None);
    assert!(fill(&table, b"k", 12, 12));
    assert_eq!(table.stats().fills_refused, 1);
}

#[test]
fn a_late_forward_is_refused() {
    let table = table();
    pass(&table, b"k", 12, 20);
    assert!(!forward(&table, b"k", 11));
    assert!(forward(&table, b"k", 12));
    assert_eq!(get(&table, b"k", 30), version(12));
}

#[test]
fn a_forwarded_delete_drops_what_is_older() {
    let table = table();
    forward(&table, b"k", 10);
    table.forward(KS, b"k", hash64(b"k"), 9, None);
    assert_eq!(get(&table, b"k", 30), version(10));
    table.forward(KS, b"k", hash64(b"k"), 11, None);
    assert_eq!(get(&table, b"k", 30), None);
}

#[test]
fn entries_below_the_floor_miss_and_those_vouched_for_beyond_it_do_not() {
    let table = table();
    fill(&table, b"before", 5, 9);
    fill(&table, b"after", 5, 10);
    fill(&table, b"refreshed", 5, 9);
    table.raise_invalidation_floor(KS, 10);
    pass(&table, b"refreshed", 8, 12);
    assert_eq!(get(&table, b"before", 20), None);
    assert_eq!(get(&table, b"after", 20), version(5));
    assert_eq!(get(&table, b"refreshed", 20), version(8));
}

#[test]
fn a_version_that_is_vouched_for_again_stays_through_a_floor_in_between() {
    let table = table();
    forward(&table, b"passed", 5);
    pass(&table, b"passed", 5, 12);
    for snapshot in [6, 12, 7] {
        assert!(fill(&table, b"read again", 5, snapshot));
    }
    fill(&table, b"read before", 5, 6);
    table.raise_invalidation_floor(KS, 10);
    assert_eq!(get(&table, b"passed", 20), version(5));
    assert_eq!(get(&table, b"read again", 20), version(5));
    assert_eq!(get(&table, b"read before", 20), None);
}

#[test]
fn no_fill_from_below_a_floor_comes_in_even_after_the_floor_is_forgotten() {
    let table = table();
    fill(&table, b"j", 5, 10);
    table.raise_invalidation_floor(KS, 10);
    table.collect();
    assert!(!fill(&table, b"k", 5, 9));
    assert!(!forward(&table, b"k", 9));
    assert!(fill(&table, b"k", 5, 10));
}

#[test]
fn a_floor_is_not_forgotten_before_every_older_entry_was_seen() {
    let table = table();
    fill(&table, b"a", 1, 1);
    table.raise_invalidation_floor(OTHER, 2);
    // The collector is past the first slot now, and the table grows while it goes round again.
    table.collect();
    fill(&table, b"b", 3, 3);
    table.raise_invalidation_floor(KS, 4);
    fill(&table, b"c", 5, 5);
    assert_eq!(get(&table, b"a", 6), None);
}

#[test]
fn a_floor_is_its_keyspaces_alone() {
    let table = table();
    fill(&table, b"k", 5, 9);
    table.raise_invalidation_floor(OTHER, 10);
    assert_eq!(get(&table, b"k", 20), version(5));
    table.drop_keyspace(OTHER);
    assert_eq!(get(&table, b"k", 20), version(5));
    table.drop_keyspace(KS);
    assert_eq!(get(&table, b"k", 20), None);
}

#[test]
fn useless_entries_give_their_bytes_back_while_others_come_in() {
    let table = table();
    let key = |n: u32| n.to_le_bytes();
    (0..1000).for_each(|n| assert!(fill(&table, &key(n), 5, 9)));
    let held = table.stats().bytes;
    table.raise_invalidation_floor(KS, 10);
    (1000..1200).for_each(|n| assert!(fill(&table, &key(n), 5, 20)));
    let stats = table.stats();
    assert_eq!((stats.collected, stats.entries, stats.evictions), (1000, 200, 0));
    assert!(stats.bytes < held);
}

#[test]
fn always_forwards_every_put_and_on_flush_none() {
    for (forwarding, holds) in [(Forwarding::OnFlush, false), (Forwarding::Always, true)] {
        let table = DramTable::new(1 << 20, forwarding);
        table.put(KS, b"k", hash64(b"k"), 5, Some(b"value"));
        assert_eq!(get(&table, b"k", 9).is_some(), holds);
        assert_eq!(table.wants_puts(), holds);
    }
}

#[test]
fn adaptive_forwards_what_is_read_in_memtables() {
    let table = DramTable::new(1 << 20, Forwarding::Adaptive);
    let hash = hash64(b"k");
    let mut last = 0;
    let mut put = |table: &DramTable| {
        last += 1;
        table.put(KS, b"k", hash, last, Some(b"value"));
        last
    };
    for _ in 0..1000 {
        put(&table);
    }
    assert_eq!(table.stats().entries, 0, "nobody asked");
    for _ in 0..1000 {
        let seqno = put(&table);
        if table.get_exact(KS, b"k", hash, seqno, |_| ()).is_none() {
            table.record_pmem_read(KS, b"k", hash, seqno, b"value");
        }
    }
    let stats = table.stats();
    assert!(stats.exact_hits > 500, "{stats:?}");
    let before = table.stats().forwards;
    for _ in 0..1000 {
        put(&table);
    }
    assert!(table.stats().forwards < before + 600, "nobody asks any more");
}
