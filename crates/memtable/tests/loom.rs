//! The protocols of the MemTable under every interleaving and reordering that loom explores.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p esker-memtable --release --test loom`
#![cfg(loom)]

mod common;

use common::{Write, encode, get, memtable};
use esker_base::Kind;
use loom::thread;

/// Small, so that loom has few atomics to follow: 8 entries.
const CAPACITY: usize = 512;

/// Two writers insert versions of one key in either order, while a reader looks: whoever knows that
/// both are inserted sees the newer one, and a snapshot at the older one sees just that.
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
                    let filled = memtable.fill(reservation, 0, &bytes);
                    memtable.insert(&filled);
                })
            })
            .collect();
        // Nothing is published yet, so either, both or none may be seen, but never a wrong one.
        if let Some((seqno, kind, value)) = get(&memtable, 0, b"k", 2) {
            assert_eq!((kind, value), (Kind::Put, vec![seqno as u8]));
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(get(&memtable, 0, b"k", 2), Some((2, Kind::Put, vec![2])));
        assert_eq!(get(&memtable, 0, b"k", 1), Some((1, Kind::Put, vec![1])));
        assert_eq!(get(&memtable, 0, b"k", 0), None);
    });
}

/// An older version that is already inserted stays visible to its snapshot while two newer ones go
/// in out of order around it.
#[test]
fn a_snapshot_never_loses_its_version() {
    loom::model(|| {
        let memtable = memtable(CAPACITY, 8);
        let mut tail = memtable.activate(1);
        let batches: Vec<_> = (1..=3u8).map(|n| encode(&[Write::put(0, b"k", &[n])])).collect();
        let mut filled: Vec<_> = batches
            .iter()
            .map(|bytes| {
                let reservation = memtable.reserve(&mut tail, bytes.len(), 1).unwrap();
                memtable.fill(reservation, 0, bytes)
            })
            .collect();
        memtable.insert(&filled.remove(0));
        let writers: Vec<_> = filled
            .into_iter()
            .map(|filled| {
                let memtable = memtable.clone();
                thread::spawn(move || memtable.insert(&filled))
            })
            .collect();
        assert_eq!(get(&memtable, 0, b"k", 1), Some((1, Kind::Put, vec![1])));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        for seqno in 1..=3 {
            assert_eq!(get(&memtable, 0, b"k", seqno), Some((seqno, Kind::Put, vec![seqno as u8])));
        }
    });
}

/// Whoever finds a frame completed sees all of its bytes; loom reports a race if not.
#[test]
fn a_completed_frame_is_seen_whole() {
    loom::model(|| {
        let memtable = memtable(CAPACITY, 8);
        let mut tail = memtable.activate(1);
        let batch = [Write::put(0, b"a", b"1"), Write::put(0, b"b", b"2")];
        let bytes = encode(&batch);
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let reservation = memtable.reserve(&mut tail, bytes.len(), 2).unwrap();
                let (memtable, bytes) = (memtable.clone(), bytes.clone());
                thread::spawn(move || {
                    let _ = memtable.fill(reservation, 0, &bytes);
                })
            })
            .collect();
        let start = memtable.start();
        let end = memtable.completed(start);
        let seen = memtable.bytes(start, end);
        for frame in seen.chunks(48) {
            assert_eq!(&frame[32..32 + bytes.len()], &bytes[..]);
        }
        memtable.verify("segment").unwrap();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(memtable.completed(end).next_seqno(), 5);
    });
}

/// A reader that sees the MemTable sealed sees how many entries it has, though one may still be
/// filled, and finds all of them completed once the writer is done.
#[test]
fn a_sealed_memtable_counts_what_was_reserved() {
    loom::model(|| {
        let memtable = memtable(CAPACITY, 8);
        let mut tail = memtable.activate(1);
        let bytes = encode(&[Write::put(0, b"k", b"v")]);
        let reservation = memtable.reserve(&mut tail, bytes.len(), 1).unwrap();
        let writer = {
            let memtable = memtable.clone();
            thread::spawn(move || {
                let filled = memtable.fill(reservation, 0, &bytes);
                memtable.insert(&filled);
            })
        };
        let sealer = {
            let memtable = memtable.clone();
            thread::spawn(move || {
                let bytes = encode(&[Write::put(0, b"l", b"v")]);
                let last = memtable.reserve(&mut tail, bytes.len(), 1).unwrap();
                memtable.seal(tail);
                let filled = memtable.fill(last, 0, &bytes);
                memtable.insert(&filled);
            })
        };
        if memtable.is_sealed() {
            assert_eq!((memtable.entries(), memtable.last_seqno()), (2, 2));
        }
        writer.join().unwrap();
        sealer.join().unwrap();
        let end = memtable.completed(memtable.start());
        assert_eq!((end.next_seqno(), end.offset()), (3, memtable.bytes_used()));
        assert!(get(&memtable, 0, b"k", 2).is_some() && get(&memtable, 0, b"l", 2).is_some());
    });
}
