//! MemTables that grow as they fill.

use crate::common;
use crate::common::{Write, get, header, write};
use esker_base::Kind;
use esker_memtable::{FrameMode, HeapMemory, MemTable, Room};
use std::sync::Arc;

const CAPACITY: usize = 8 << 20;

fn growing() -> Arc<MemTable> {
    let memory = HeapMemory::reserve(CAPACITY);
    Arc::new(MemTable::growing(100_000, memory, header(CAPACITY, 8, 1), FrameMode::Logged))
}

#[test]
fn a_memtable_that_grows_takes_little_memory_at_first() {
    let memtable = growing();
    assert_eq!(memtable.room(), MemTable::first_room(CAPACITY));
    assert!(!memtable.is_whole());
    assert!(memtable.memory_bytes() < 512 << 10, "{} bytes", memtable.memory_bytes());
    let whole = memtable.whole_room();
    assert_eq!(whole, Room { bytes: CAPACITY as u32, entries: 100_000 });
    memtable.grow(whole);
    assert!(memtable.is_whole() && memtable.memory_bytes() > CAPACITY);
}

#[test]
fn no_frame_is_reserved_beyond_the_room_there_is() {
    let memtable = growing();
    let mut tail = memtable.activate(1);
    let batch = [Write::put(0, b"key", &[7; 1000])];
    let mut grown = 0;
    while !memtable.is_whole() {
        let room = memtable.room();
        while write(&memtable, &mut tail, &batch).is_some() {
            assert!(room.holds(memtable.used()), "{:?} in {room:?}", memtable.used());
        }
        let bytes = common::encode(&batch).len();
        let wanted = memtable.room_for(&tail, bytes, 1).expect("the segment is not full");
        assert!(!room.holds(wanted) && memtable.whole_room().holds(wanted));
        memtable.grow(
            Room { bytes: room.bytes * 2, entries: room.entries * 2 }
                .or(wanted)
                .and(memtable.whole_room()),
        );
        assert!(write(&memtable, &mut tail, &batch).is_some(), "there is room for it now");
        grown += 1;
    }
    assert!(grown > 3, "it grew {grown} times");
}

#[test]
fn every_version_is_found_across_the_parts_of_an_index_that_grew() {
    let memtable = growing();
    let mut tail = memtable.activate(1);
    // Two keys in turn with a few thousand others: their chains lie in all parts of the index.
    for number in 0..60_000u32 {
        let key = if number % 10 == 0 { [b'a', 0, 0, 0] } else { number.to_be_bytes() };
        let batch = [Write::put(0, &key, &number.to_le_bytes())];
        while write(&memtable, &mut tail, &batch).is_none() {
            let room = memtable.room();
            memtable.grow(
                Room { bytes: room.bytes * 2, entries: room.entries * 2 }
                    .and(memtable.whole_room()),
            );
        }
    }
    let version =
        |number: u32| Some((u64::from(number) + 1, Kind::Put, number.to_le_bytes().to_vec()));
    for number in 0..60_000u32 {
        let snapshot = u64::from(number) + 1;
        let newest = number / 10 * 10;
        if number % 997 == 0 || number % 10 == 0 && number % 50 == 0 {
            assert_eq!(get(&memtable, 0, &[b'a', 0, 0, 0], snapshot), version(newest), "{number}");
        }
        if number % 10 != 0 {
            let key = number.to_be_bytes();
            assert_eq!(get(&memtable, 0, &key, 60_000), version(number));
            assert_eq!(get(&memtable, 0, &key, snapshot - 1), None);
        }
    }
}

#[test]
fn memory_that_is_there_as_a_whole_counts_whole_while_its_log_is_prepared() {
    let header = header(CAPACITY, 8, 1);
    let memory = HeapMemory::new(CAPACITY);
    let memtable = MemTable::with_room_for(100_000, memory, header, FrameMode::Logged, None);
    memtable.begin_with(64 << 10);
    assert!(!memtable.is_whole() && memtable.memory_bytes() > CAPACITY);
    let mut tail = memtable.activate(1);
    let batch = [Write::put(0, b"key", &[7; 1000])];
    while write(&memtable, &mut tail, &batch).is_some() {}
    assert!(memtable.used().bytes <= 64 << 10, "{:?}", memtable.used());
    memtable.grow(memtable.whole_room());
    assert!(memtable.is_whole() && write(&memtable, &mut tail, &batch).is_some());
}

#[test]
fn a_memtable_that_is_lowered_takes_frames_below_and_keeps_its_memory() {
    let whole = MemTable::with_room_for(
        100_000,
        HeapMemory::new(CAPACITY),
        header(CAPACITY, 8, 1),
        FrameMode::Logged,
        None,
    );
    let grown = growing();
    grown.grow(grown.whole_room());
    for memtable in [Arc::new(whole), grown] {
        let mut tail = memtable.activate(1);
        let batch = [Write::put(0, b"key", &[7; 1000])];
        (0..100).for_each(|_| assert!(write(&memtable, &mut tail, &batch).is_some()));
        let (used, memory) = (memtable.used().bytes, memtable.memory_bytes());
        assert!(!memtable.lower(&tail, used - 1), "a frame is there");
        assert!(!memtable.lower(&tail, memtable.room().bytes), "that is no less");
        assert!(memtable.is_whole());
        assert!(memtable.lower(&tail, used + 10_000));
        assert!(!memtable.is_whole());
        let fitting = (0..100).take_while(|_| write(&memtable, &mut tail, &batch).is_some());
        assert_eq!(fitting.count(), 9);
        assert!(memtable.memory_bytes() >= memory);
        memtable.grow(memtable.whole_room());
        assert!(memtable.is_whole() && write(&memtable, &mut tail, &batch).is_some());
        assert_eq!(get(&memtable, 0, b"key", 110).map(|found| found.0), Some(110));
    }
}
