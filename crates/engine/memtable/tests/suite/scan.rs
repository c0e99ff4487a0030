//! Scanning damaged, torn, stale and forged segments: nothing wrong is ever accepted.
#![cfg(not(loom))]

use crate::common::*;
use esker_memtable::{FRAME_HEADER_BYTES, MemTable, ScanEnd, ScanResult, SegmentHeader, scan};

const CAPACITY: usize = 2048;

/// A segment of `frames` frames of two entries each, from seqno 100 on, and its file.
fn sample(frames: u64) -> (SegmentHeader, Vec<u8>) {
    let memtable = memtable(CAPACITY, 8);
    let mut tail = memtable.activate(100);
    for n in 0..frames {
        let batch = [Write::put(0, &[n as u8 + 1; 5], &[n as u8; 20]), Write::put(3, b"k", b"v")];
        write(&memtable, &mut tail, &batch).unwrap();
    }
    (*memtable.header(), file_of(&memtable))
}

fn stop_offset(scan: &ScanResult) -> Option<u64> {
    match scan.stop {
        ScanEnd::Bad { offset, .. } => Some(offset),
        ScanEnd::Full | ScanEnd::Blank => None,
    }
}

#[test]
fn an_undamaged_segment_scans_whole() {
    let (header, file) = sample(6);
    for expected in [None, Some(100)] {
        let found = scan(&file, &header, expected);
        assert_eq!((found.frames.len(), found.stop, found.later), (6, ScanEnd::Blank, None));
        assert_eq!(found.frames.last().unwrap().next_seqno(), 112);
    }
}

#[test]
fn a_full_segment_stops_as_full() {
    let memtable = memtable(CAPACITY, 8);
    let mut tail = memtable.activate(1);
    while write(&memtable, &mut tail, &[Write::put(0, b"key", &[5; 25])]).is_some() {}
    let found = scan(&file_of(&memtable), memtable.header(), Some(1));
    assert_eq!((found.stop, found.later), (ScanEnd::Full, None));
    assert_eq!(found.end, memtable.bytes_used());
}

#[test]
fn no_flipped_bit_makes_a_wrong_frame_pass() {
    let (header, file) = sample(6);
    let whole = scan(&file, &header, Some(100));
    for at in header_end()..file.len() {
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << bit;
            let found = scan(&damaged, &header, Some(100));
            let intact =
                whole.frames.iter().take_while(|f| f.offset + u64::from(f.bytes) <= at as u64);
            assert_eq!(found.frames, intact.copied().collect::<Vec<_>>(), "byte {at} bit {bit}");
            if (at as u64) < whole.end && found.frames.len() + 1 < whole.frames.len() {
                let next = whole.frames[found.frames.len() + 1];
                let later = found.later.expect("the frames after the damaged one are found");
                assert_eq!((later.offset, later.first_seqno), (next.offset, next.first_seqno));
                assert_eq!(later.durable_through, 109);
                assert_eq!(stop_offset(&found), Some(found.end));
            }
        }
    }
}

#[test]
fn every_truncation_keeps_the_frames_before_it() {
    let (header, file) = sample(6);
    let whole = scan(&file, &header, Some(100));
    for len in header_end()..file.len() {
        let found = scan(&file[..len], &header, Some(100));
        let intact =
            whole.frames.iter().take_while(|f| f.offset + u64::from(f.bytes) <= len as u64);
        assert_eq!(found.frames, intact.copied().collect::<Vec<_>>(), "{len} bytes");
        assert_eq!(found.later, None);
    }
}

#[test]
fn frames_of_an_earlier_epoch_are_blank() {
    let (header, file) = sample(6);
    let found = scan(&file, &SegmentHeader { epoch: 2, ..header }, Some(100));
    assert_eq!((found.frames.len(), found.stop), (0, ScanEnd::Blank));

    let mut mixed = file.clone();
    let renewed =
        Arc::into_inner(memtable(CAPACITY, 8)).unwrap().recycle(self::header(CAPACITY, 8, 2));
    let mut tail = renewed.activate(500);
    write(&renewed, &mut tail, &[Write::put(0, b"a", b"b")]).unwrap();
    let used = renewed.bytes_used() as usize;
    mixed[..used].copy_from_slice(&file_of(&renewed)[..used]);
    let found = scan(&mixed, renewed.header(), Some(500));
    assert_eq!((found.frames.len(), found.stop, found.later), (1, ScanEnd::Blank, None));
}

#[test]
fn a_hole_is_told_by_what_follows_it() {
    let (header, file) = sample(6);
    let whole = scan(&file, &header, Some(100));
    let hole = whole.frames[2];
    let mut damaged = file;
    damaged[hole.offset as usize..][..hole.bytes as usize].fill(0);
    let found = scan(&damaged, &header, Some(100));
    assert_eq!(stop_offset(&found), Some(hole.offset));
    let later = found.later.unwrap();
    assert_eq!((later.first_seqno, later.durable_through), (106, 109));
}

#[test]
fn a_segment_that_starts_at_the_wrong_seqno_is_not_accepted() {
    let (header, file) = sample(3);
    let too_new = scan(&file, &header, Some(90));
    assert!(too_new.frames.is_empty());
    assert_eq!(too_new.later.unwrap().first_seqno, 100);
    let too_old = scan(&file, &header, Some(200));
    assert!(too_old.frames.is_empty() && too_old.later.is_none());
    assert_eq!(stop_offset(&too_old), Some(64));
}

/// A value may hold a whole valid frame of the right epoch. While the frame around it is sound it is
/// never inspected; past the end it can only be found as later, never accepted.
#[test]
fn a_forged_frame_inside_a_value_is_never_accepted() {
    let (_, forgery) = sample(1);
    let frame = &forgery[64..64 + FRAME_HEADER_BYTES + 48];
    let memtable = memtable(CAPACITY, 8);
    let mut tail = memtable.activate(90);
    write(&memtable, &mut tail, &[Write::put(0, b"innocent", b"bytes")]).unwrap();
    // 32 bytes of header, 4 of lengths, 4 of key: so the value starts at a multiple of 8.
    let carrier = Write::put(0, b"keys", frame);
    write(&memtable, &mut tail, std::slice::from_ref(&carrier)).unwrap();
    let file = file_of(&memtable);
    let found = scan(&file, memtable.header(), Some(90));
    assert_eq!((found.frames.len(), found.stop, found.later), (2, ScanEnd::Blank, None));

    let mut torn = file;
    let last = found.frames[1];
    torn[last.offset as usize + 9] ^= 1;
    let found = scan(&torn, memtable.header(), Some(90));
    assert_eq!(found.frames.len(), 1);
    let later = found.later.expect("the forgery is met");
    assert_eq!((later.first_seqno, later.durable_through), (100, 99));
}

#[test]
fn arbitrary_bytes_never_panic_a_scan() {
    let mut rng = esker_base::Rng::new(1);
    for _ in 0..300 {
        let (header, mut file) = sample(4);
        for _ in 0..rng.below(40) + 1 {
            let at = rng.below(file.len() as u64) as usize;
            // Small words make headers whose lengths are nearly right.
            file[at] = rng.below(4) as u8;
        }
        let found = scan(&file, &header, None);
        let recovered = MemTable::recover(memory_with(&file), header, &found);
        recovered.verify("segment").unwrap();
    }
}

#[test]
fn verify_names_the_damaged_frame() {
    let (header, file) = sample(3);
    let found = scan(&file, &header, Some(100));
    let mut damaged = file;
    let second = found.frames[1];
    damaged[second.offset as usize + FRAME_HEADER_BYTES + 10] ^= 1;
    let memtable = MemTable::recover(memory_with(&damaged), header, &found);
    match memtable.verify("0001.log").unwrap_err() {
        esker_base::Error::Corruption { file, offset, what } => {
            assert_eq!((&file[..], offset), ("0001.log", second.offset));
            assert!(what.contains("checksum"), "{what}");
        }
        other => panic!("{other}"),
    }
}

fn header_end() -> usize {
    64
}

use std::sync::Arc;
