//! The protocols of the MemTable under every interleaving and reordering that loom explores.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p esker-memtable --release --test suite loom::`
//!
//! Where writes race with a reader, the reader is a thread and the writes are the main thread's:
//! loom's search begins with the main thread running through, and then gives the reader every
//! stale view that the orderings allow. The other way round it misses some.
#![cfg(loom)]

use crate::common::{Version, Write, encode, get, memtable};
use esker_base::Kind;
use esker_memtable::{MemTable, SegmentWriter, WrittenFrame};
use loom::thread;

/// Small, so that loom has few atomics to follow: 8 entries.
const CAPACITY: usize = 512;

/// Fills `n` frames of one version of the key `k` each, with the seqno as value.
fn fill_versions(memtable: &MemTable, tail: &mut SegmentWriter, n: u8) -> Vec<WrittenFrame> {
    (1..=n)
        .map(|seqno| {
            let bytes = encode(&[Write::put(0, b"k", &[seqno])]);
            let reservation = memtable.reserve(tail, bytes.len(), 1).unwrap();
            memtable.fill(reservation, 0, &bytes).fence()
        })
        .collect()
}

fn version(seqno: u8) -> Option<Version> {
    Some((seqno.into(), Kind::Put, vec![seqno]))
}

/// Two writers insert versions of one key in either order, at once.
#[test]
fn versions_of_a_key_chain_by_seqno_whoever_comes_first() {
    loom::model(|| {
        let memtable = memtable(CAPACITY, 8);
        let mut tail = memtable.activate(1);
        let writers: Vec<_> = (1..=2u8)
            .map(|n| {
                let bytes = encode(&[Write::put(0, b"k", &[n])]);
                let reservation = memtable.reserve(&mut tail, bytes.len(), 1).unwrap();
                let memtable = memtable.clone();
                thread::spawn(move || {
                    let filled = memtable.fill(reservation, 0, &bytes).fence();
                    memtable.insert(&filled);
                })
            })
            .collect();
        // Nothing is published yet, so either, both or none may be seen, but never a wrong one.
        if let Some((seqno, kind, value)) = get(&memtable, 0, b"k", 2) {
            assert_eq!((kind, value), (Kind::Put, vec![seqno as u8]));
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        for seqno in 1..=2 {
            assert_eq!(get(&memtable, 0, b"k", seqno.into()), version(seqno));
        }
    });
}

/// Three writers, all of the orders in which two can meet below the third.
#[test]
fn older_versions_find_their_place_below_newer_ones() {
    loom::model(|| {
        let memtable = memtable(CAPACITY, 8);
        let mut tail = memtable.activate(1);
        let mut filled = fill_versions(&memtable, &mut tail, 3);
        memtable.insert(&filled.remove(2));
        let writers: Vec<_> = filled
            .into_iter()
            .map(|filled| {
                let memtable = memtable.clone();
                thread::spawn(move || memtable.insert(&filled))
            })
            .collect();
        assert_eq!(get(&memtable, 0, b"k", 3), version(3));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        for seqno in 1..=3 {
            assert_eq!(get(&memtable, 0, b"k", seqno.into()), version(seqno));
        }
    });
}

/// A version that is inserted stays visible to its snapshot while newer ones go in around it,
/// the newest first.
#[test]
fn a_snapshot_never_loses_its_version() {
    loom::model(|| {
        let memtable = memtable(CAPACITY, 8);
        let mut tail = memtable.activate(1);
        let filled = fill_versions(&memtable, &mut tail, 3);
        memtable.insert(&filled[0]);
        let reader = {
            let memtable = memtable.clone();
            thread::spawn(move || assert_eq!(get(&memtable, 0, b"k", 1), version(1)))
        };
        memtable.insert(&filled[2]);
        memtable.insert(&filled[1]);
        reader.join().unwrap();
        assert_eq!(get(&memtable, 0, b"k", 2), version(2));
    });
}

/// A thread that finds a frame completed sees all of its bytes; loom reports a race if not.
#[test]
fn a_completed_frame_is_seen_whole() {
    loom::model(|| {
        let memtable = memtable(CAPACITY, 8);
        let mut tail = memtable.activate(1);
        let bytes = encode(&[Write::put(0, b"a", b"1"), Write::put(0, b"b", b"2")]);
        let [first, second] = [0, 1].map(|_| memtable.reserve(&mut tail, bytes.len(), 2).unwrap());
        let leader = {
            let (memtable, bytes) = (memtable.clone(), bytes.clone());
            thread::spawn(move || {
                let start = memtable.start();
                let end = memtable.completed(start);
                for frame in memtable.bytes(start, end).chunks(48) {
                    assert_eq!(&frame[32..32 + bytes.len()], &bytes[..]);
                }
                memtable.verify("segment").unwrap();
            })
        };
        // The second frame first: until the first is there too, neither counts.
        let _ = memtable.fill(second, 0, &bytes).fence();
        let _ = memtable.fill(first, 0, &bytes).fence();
        leader.join().unwrap();
        assert_eq!(memtable.completed(memtable.start()).next_seqno(), 5);
    });
}

/// A thread that sees the MemTable sealed sees how many entries it has, though some may not be filled
/// yet.
#[test]
fn a_sealed_memtable_counts_what_was_reserved() {
    loom::model(|| {
        let memtable = memtable(CAPACITY, 8);
        let mut tail = memtable.activate(1);
        let bytes = encode(&[Write::put(0, b"k", b"v")]);
        let first = memtable.reserve(&mut tail, bytes.len(), 1).unwrap();
        let flusher = {
            let memtable = memtable.clone();
            thread::spawn(move || {
                if memtable.is_sealed() {
                    assert_eq!((memtable.entries(), memtable.last_seqno()), (2, 2));
                }
            })
        };
        let second = memtable.reserve(&mut tail, bytes.len(), 1).unwrap();
        memtable.seal(tail);
        for reservation in [second, first] {
            let filled = memtable.fill(reservation, 0, &bytes).fence();
            memtable.insert(&filled);
        }
        flusher.join().unwrap();
        let end = memtable.completed(memtable.start());
        assert_eq!((end.next_seqno(), end.offset()), (3, memtable.bytes_used()));
    });
}
