//! What a MemTable refuses, and what it does at its ends.
#![cfg(not(loom))]

use crate::common::*;
use esker_base::{EntryCursor, KeyspaceId, Kind, MAX_SEQNO};
use esker_memtable::{FrameMode, HeapMemory, MemTable};
use std::sync::Arc;

#[test]
fn a_full_segment_reserves_no_more() {
    let memtable = memtable(4096, 8);
    let mut tail = memtable.activate(1);
    let batch = [Write::put(0, b"key", &[1; 200])];
    let fitting = (4096 - 64) / (32 + 212usize).next_multiple_of(8);
    for _ in 0..fitting {
        assert!(write(&memtable, &mut tail, &batch).is_some());
    }
    let before = tail.next_seqno();
    assert!(write(&memtable, &mut tail, &batch).is_none());
    assert_eq!(tail.next_seqno(), before, "a refused reservation takes no seqno");
}

#[test]
fn the_entry_cap_seals_a_segment_of_tiny_entries() {
    let memtable = memtable(4096, 8);
    let mut tail = memtable.activate(1);
    let batch: Vec<_> = (0..32).map(|n| Write::put(0, &[n], b"")).collect();
    assert!(write(&memtable, &mut tail, &batch).is_some());
    assert!(write(&memtable, &mut tail, &batch).is_some());
    assert!(write(&memtable, &mut tail, &batch[..1]).is_none());
    assert_eq!(memtable.entries(), 64);
}

#[test]
fn an_index_has_room_for_the_like_of_what_came_before() {
    let before = memtable(65_536, 8);
    let mut tail = before.activate(1);
    assert_eq!(before.expected_entries(65_536), None, "nothing to go by");
    while write(&before, &mut tail, &[Write::put(0, b"key", &[1; 200])]).is_some() {}
    let entries = before.entries() as usize;
    let wanted = before.expected_entries(65_536).unwrap();
    assert!((entries..2 * entries).contains(&wanted), "{wanted} for {entries}");

    let full = before.memory_bytes();
    let (memory, arrays) = Arc::into_inner(before).unwrap().into_parts();
    let header = header(65_536, 8, 2);
    let next = MemTable::with_room_for(wanted, memory, header, FrameMode::Logged, Some(arrays));
    assert!(next.memory_bytes() < full, "{} and {full}", next.memory_bytes());
    let mut tail = next.activate(1);
    while write(&next, &mut tail, &[Write::put(0, b"key", &[1; 200])]).is_some() {}
    assert_eq!(next.entries() as usize, entries);
}

#[test]
fn an_index_has_room_for_the_largest_batch_whatever_was_expected() {
    let header = header(4096, 8, 1);
    let memtable =
        MemTable::with_room_for(0, HeapMemory::new(4096), header, FrameMode::Logged, None);
    let batch: Vec<_> = (0..16).map(|n| Write::put(0, &[n], b"")).collect();
    let mut tail = memtable.activate(1);
    assert!(write(&memtable, &mut tail, &batch).is_some());
    assert!(write(&memtable, &mut tail, &batch[..1]).is_none(), "sealed by its entries");
    assert!(
        memtable.expected_entries(4096).unwrap() > 64,
        "the next one has room for all it can take"
    );
}

#[test]
fn the_largest_batch_makes_the_index_of_a_large_segment_no_larger() {
    const MIB: usize = 1 << 20;
    assert_eq!(MemTable::max_frame_entries(64 * MIB), 256 << 10);
    for mib in [128, 1024] {
        assert_eq!(MemTable::max_frame_entries(mib * MIB), 256 << 10);
        assert!(!MemTable::batch_fits(mib * MIB, 1024, (256 << 10) + 1));
    }
    let memory = HeapMemory::new(128 * MIB);
    let header = header(128 * MIB, 8, 1);
    let memtable = MemTable::with_room_for(0, memory, header, FrameMode::Logged, None);
    assert!(memtable.index_bytes() < 8 * MIB, "{}", memtable.index_bytes());
}

#[test]
fn a_batch_that_can_never_fit_is_known_beforehand() {
    assert!(MemTable::batch_fits(4096, 1024, 16));
    assert!(!MemTable::batch_fits(4096, 1025, 1));
    assert!(!MemTable::batch_fits(4096, 1024, 17));
}

#[test]
fn an_entry_beyond_the_snapshot_is_not_seen() {
    let memtable = memtable(4096, 8);
    let mut tail = memtable.activate(10);
    write(&memtable, &mut tail, &[Write::put(0, b"k", b"old")]);
    write(&memtable, &mut tail, &[Write::put(0, b"k", b"new")]);
    assert_eq!(get(&memtable, 0, b"k", 9), None);
    assert_eq!(get(&memtable, 0, b"k", 10), Some((10, Kind::Put, b"old".to_vec())));
    assert_eq!(get(&memtable, 0, b"k", MAX_SEQNO), Some((11, Kind::Put, b"new".to_vec())));
}

#[test]
fn frames_inserted_out_of_order_read_in_order_of_seqno() {
    let memtable = memtable(4096, 8);
    let mut tail = memtable.activate(1);
    let bytes: Vec<_> = (0..4u8).map(|n| encode(&[Write::put(0, b"k", &[n])])).collect();
    let reservations: Vec<_> =
        bytes.iter().map(|bytes| memtable.reserve(&mut tail, bytes.len(), 1).unwrap()).collect();
    let filled: Vec<_> = reservations
        .into_iter()
        .zip(&bytes)
        .map(|(reservation, bytes)| memtable.fill(reservation, 0, bytes).fence())
        .collect();
    for at in [2, 0, 3, 1] {
        memtable.insert(&filled[at]);
        memtable.insert(&filled[at]);
    }
    for seqno in 1..=4 {
        assert_eq!(get(&memtable, 0, b"k", seqno), Some((seqno, Kind::Put, vec![seqno as u8 - 1])));
    }
}

#[test]
fn completion_stops_at_the_first_frame_that_is_not_filled() {
    let memtable = memtable(4096, 8);
    let mut tail = memtable.activate(1);
    let bytes = encode(&[Write::put(0, b"k", b"v"), Write::put(0, b"l", b"v")]);
    let first = memtable.reserve(&mut tail, bytes.len(), 2).unwrap();
    let second = memtable.reserve(&mut tail, bytes.len(), 2).unwrap();
    let _ = memtable.fill(second, 0, &bytes).fence();
    assert_eq!(memtable.completed(memtable.start()), memtable.start());
    let _ = memtable.fill(first, 0, &bytes).fence();
    let end = memtable.completed(tail.start());
    assert_eq!((end.next_seqno(), end.offset()), (5, memtable.bytes_used()));
    assert_eq!(memtable.completed(end), end);
}

#[test]
#[should_panic(expected = "another segment's")]
fn a_tail_of_another_memtable_is_refused() {
    let (one, other) = (memtable(4096, 8), memtable(4096, 8));
    let mut tail = one.activate(1);
    let _other_tail = other.activate(1);
    let _ = other.reserve(&mut tail, 20, 1);
}

#[test]
#[should_panic(expected = "another segment's")]
fn a_position_from_before_recycling_is_refused() {
    let table = memtable(4096, 8);
    let _tail = table.activate(1);
    let position = table.start();
    let recycled = Arc::into_inner(table).unwrap().recycle(header(4096, 8, 2));
    let _tail = recycled.activate(1);
    recycled.completed(position);
}

#[test]
#[should_panic(expected = "activated once")]
fn a_second_tail_is_refused() {
    let memtable = memtable(4096, 8);
    let _tail = memtable.activate(1);
    let _ = memtable.activate(1);
}

#[test]
fn an_empty_memtable_reads_as_empty() {
    let memtable = memtable(4096, 8);
    assert_eq!(get(&memtable, 0, b"k", MAX_SEQNO), None);
    let tail = memtable.activate(5);
    memtable.seal(tail);
    memtable.sort_through(4);
    assert_eq!((memtable.entries(), memtable.last_seqno()), (0, 4));
    let mut cursor = memtable.cursor(KeyspaceId(0), 4);
    cursor.seek_first().unwrap();
    assert!(!cursor.valid());
    cursor.seek_last().unwrap();
    assert!(!cursor.valid());
    assert!(memtable.keyspaces().is_empty() && !memtable.needs_sort(4));
    memtable.verify("segment").unwrap();
}

#[test]
fn each_keyspace_has_its_part_of_the_bytes() {
    let memtable = memtable(1 << 16, 8);
    let mut tail = memtable.activate(1);
    for n in 0..100u64 {
        let (key, value) = (n.to_be_bytes(), [7; 92]);
        write(&memtable, &mut tail, &[Write::put(3, &key, &value)]).unwrap();
        if n.is_multiple_of(4) {
            write(&memtable, &mut tail, &[Write::put(9, &key, &value)]).unwrap();
        }
    }
    memtable.seal(tail);
    assert_eq!(memtable.keyspace_sizes(), None, "nobody has weighed them");
    memtable.compute_keyspace_sizes();
    let [(KeyspaceId(3), more), (KeyspaceId(9), less)] = memtable.keyspace_sizes().unwrap() else {
        panic!("{:?}", memtable.keyspace_sizes())
    };
    assert!(more.abs_diff(4 * less) <= 4, "{more}, {less}");
    assert!((more + less).abs_diff(memtable.bytes_used()) <= 2);
}

#[test]
fn a_keyspace_that_is_alone_has_all_of_the_bytes() {
    let memtable = memtable(1 << 16, 8);
    let mut tail = memtable.activate(1);
    write(&memtable, &mut tail, &[Write::put(3, b"k", b"v")]).unwrap();
    memtable.seal(tail);
    memtable.compute_keyspace_sizes();
    let all = [(KeyspaceId(3), memtable.bytes_used())];
    assert_eq!(memtable.keyspace_sizes(), Some(&all[..]));
}

#[test]
fn a_closed_chunk_wants_sorting_once() {
    let memtable = memtable(1 << 20, 8);
    let mut tail = memtable.activate(1);
    let mut last = 0u64;
    while last < 4095 {
        last = write(&memtable, &mut tail, &[Write::put(0, &last.to_be_bytes(), b"")]).unwrap();
    }
    assert!(!memtable.needs_sort(last));
    last = write(&memtable, &mut tail, &[Write::put(0, &last.to_be_bytes(), b"")]).unwrap();
    assert!(!memtable.needs_sort(last - 1), "what nobody sees is not sorted");
    assert!(memtable.needs_sort(last));
    let before = memtable.memory_bytes();
    memtable.sort_through(last);
    assert!(!memtable.needs_sort(last) && memtable.memory_bytes() > before);
}

#[test]
fn large_runs_that_cursors_leave_are_merged_by_a_sort() {
    let memtable = memtable(16 << 20, 8);
    let mut tail = memtable.activate(1);
    let mut last = 0u64;
    for cursor_at in [100_000, 140_000] {
        while last < cursor_at {
            let key = (last as u32).to_be_bytes();
            last = write(&memtable, &mut tail, &[Write::put(0, &key, b"")]).unwrap();
        }
        memtable.cursor(KeyspaceId(0), last);
        // The second run is a quarter of the first or more, and both are too large for a cursor.
        assert_eq!(memtable.needs_sort(last), last == 140_000);
    }
    memtable.sort_through(last);
    assert!(!memtable.needs_sort(last));
    let mut cursor = memtable.cursor(KeyspaceId(0), last);
    assert_eq!(forward(&mut cursor).len(), 140_000);
}

/// Old snapshots of a hot key: the chain is long, and after some steps the order answers.
#[test]
fn an_old_snapshot_of_a_hot_key_reads_right_with_and_without_an_order() {
    let memtable = memtable(1 << 20, 8);
    let mut tail = memtable.activate(1);
    for n in 0..5000u64 {
        write(&memtable, &mut tail, &[Write::put(0, b"hot", &n.to_le_bytes())]).unwrap();
    }
    for build in [false, true] {
        if build {
            memtable.sort_through(5000);
        }
        for snapshot in (1..=5000u64).step_by(61) {
            let expected = (snapshot, Kind::Put, (snapshot - 1).to_le_bytes().to_vec());
            assert_eq!(get(&memtable, 0, b"hot", snapshot), Some(expected));
        }
    }
}

#[test]
fn lengths_of_any_number_of_bytes_are_read_back() {
    let memtable = memtable(4 << 20, 8);
    let mut tail = memtable.activate(1);
    let mut model = Model::default();
    // Where the length takes one byte more.
    let lengths = || [127, 128, 16_383, 16_384, 2_097_151].into_iter();
    for (space, len) in [0, 127, 128].into_iter().flat_map(|it| lengths().map(move |len| (it, len)))
    {
        // One of two megabytes is enough.
        if len > 16_384 && space > 0 {
            continue;
        }
        let batch = [
            Write::put(space, &len.to_string().into_bytes(), &vec![7; len]),
            Write::put(space, &vec![b'k'; len.min(16_384)], &vec![8; len.min(200)]),
        ];
        let seqno = write(&memtable, &mut tail, &batch).expect("it has room");
        model.apply(&batch, seqno - 1);
    }
    memtable.seal(tail);
    assert_agrees(&memtable, &model, MAX_SEQNO);
}
