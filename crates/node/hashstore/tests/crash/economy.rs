//! What a store costs: bytes of the device, of memory, and of recovery.

use crate::disk::{Disk, SimDevice};
use esker_base::Rng;
use esker_hashstore::partition::{
    Answer, Io, IoKind, Item, Partition, Reply, Request, StoreCondition,
};
use esker_hashstore::store_file::{self, CreateSettings};
use esker_uring::Buffer;

const VALUE_BYTES: usize = 32 << 10;

fn store(partition: &mut Partition, device: &SimDevice, key: &[u8], value_bytes: usize) -> Reply {
    let item = Item::new(key, value_bytes, 512);
    partition.request(0, Request::Store(item, StoreCondition::Always));
    store_file::drive(partition, device);
    partition.take_reply().unwrap()
}

fn new_store(bytes: usize) -> (SimDevice, Partition) {
    let device = SimDevice::new(Disk::new(bytes));
    let settings = CreateSettings::default().partitions(1);
    store_file::create(&device, &settings, &mut Rng::new(1)).unwrap();
    let (_, mut partitions, _) = store_file::open(&device).unwrap();
    (device, partitions.remove(0))
}

/// At 90% of all there is, after each value was overwritten five times: what the device has written for a byte that
/// was stored, and what it has in use for a byte that is stored.
#[test]
fn a_stored_byte_takes_at_most_1_05_bytes_of_the_device() {
    let bytes = 96 << 20;
    let (device, mut partition) = new_store(bytes);
    let keys = bytes as u64 * 9 / 10 / VALUE_BYTES as u64;
    let mut rng = Rng::new(2);
    for turn in 0..6 * keys {
        let number = if turn < keys { turn } else { rng.below(keys) };
        let reply = store(&mut partition, &device, &number.to_be_bytes(), VALUE_BYTES);
        assert!(matches!(reply.result, Ok(Answer::Done { .. })), "{:?}", reply.result);
    }
    let stats = partition.stats();
    let written = stats.written_a_stored_byte();
    let used = (stats.data_bytes - stats.unused_bytes) as f64;
    let in_use = used / (keys as f64 * (VALUE_BYTES + 8) as f64);
    let journal = bytes as f64 / stats.data_bytes as f64;
    println!("written {written:.4}, in use {in_use:.4}, device for data {journal:.4}");
    assert!(written <= 1.05, "{written}");
    assert!(in_use * journal <= 1.05, "{in_use} x {journal}");
    assert!(stats.checkpoints > 10);
}

const MANY_KEYS: u32 = 20_000;

/// What was written of a partition with many keys while they were stored and overwritten.
#[derive(Default)]
struct Written {
    stores: u32,
    /// Writes that are pieces of a snapshot.
    pieces: u32,
    longest: usize,
}

/// Stores and overwrites keys with so much at their ends, one after the other, until `is_enough`.
fn overwrite(
    key_end: &[u8],
    is_enough: impl Fn(&Written, &Partition) -> bool,
) -> (SimDevice, Partition, Written) {
    let device = SimDevice::new(Disk::new(32 << 20));
    let settings = CreateSettings::default().bytes_a_key(1024).partitions(1);
    store_file::create(&device, &settings, &mut Rng::new(1)).unwrap();
    let mut partition = store_file::open(&device).unwrap().1.remove(0);
    let mut written = Written::default();
    while !is_enough(&written, &partition) {
        let key = [&(written.stores % MANY_KEYS).to_be_bytes(), key_end].concat();
        partition.request(0, Request::Store(Item::new(&key, 0, 512), StoreCondition::Always));
        written.stores += 1;
        while let Some(Io { tag, what }) = partition.take_io() {
            let (done, slice) = match what {
                IoKind::Write { offset, from } | IoKind::WriteDurably { offset, from } => {
                    device.0.borrow_mut().write(offset, &from);
                    written.longest = written.longest.max(from.len());
                    // No changes are that many at a time.
                    written.pieces += u32::from(from.len() > 60_000);
                    (from.len(), Some(from))
                }
                IoKind::Sync => (0, None),
                IoKind::Read { .. } => unreachable!("nothing is read"),
            };
            partition.report(tag, Ok(done), slice);
        }
        let reply = partition.take_reply().expect("no store waits for a snapshot");
        reply.result.unwrap();
    }
    (device, partition, written)
}

#[test]
fn a_snapshot_of_many_keys_is_written_in_pieces_while_stores_are_answered() {
    let (device, _, written) = overwrite(b"", |_, partition| partition.stats().snapshots == 3);
    let entries = MANY_KEYS as usize * 8;
    let Written { pieces, longest, .. } = written;
    assert!(longest < entries / 2 && pieces > 5, "{pieces} pieces, the longest of {longest} bytes");
    let (_, _, opened) = store_file::open(&device).unwrap();
    assert_eq!(opened.keys, u64::from(MANY_KEYS));
}

#[test]
fn a_partition_that_is_closed_during_a_snapshot_leaves_nothing_to_replay() {
    let (device, mut partition, written) = overwrite(b"", |written, _| written.pieces == 1);
    assert!(partition.is_idle() && written.stores > MANY_KEYS);
    partition.checkpoint();
    assert!(!partition.is_idle());
    store_file::drive(&mut partition, &device);
    assert!(partition.is_idle());
    let (_, _, opened) = store_file::open(&device).unwrap();
    assert_eq!((opened.keys, opened.replayed), (u64::from(MANY_KEYS), 0));
}

#[test]
fn changes_that_are_many_bytes_are_written_before_the_window_is_used_up() {
    let (_, _, written) = overwrite(&[b'.'; 400], |_, it| it.stats().checkpoints == 5);
    assert!((256 << 10..320 << 10).contains(&written.longest), "{} bytes", written.longest);
}

#[test]
fn what_a_read_under_way_needs_is_not_written_over() {
    let (device, mut partition) = new_store(2 << 20);
    store(&mut partition, &device, b"read", 3000).result.unwrap();
    partition.request(1, Request::Retrieve(b"read".to_vec()));
    let Some(Io { tag, what: IoKind::Read { offset, bytes } }) = partition.take_io() else {
        panic!("a value is read")
    };
    partition.request(2, Request::Delete(b"read".to_vec()));
    store_file::drive(&mut partition, &device);
    partition.take_reply().unwrap().result.unwrap();
    // Meanwhile all blocks would be used again and again.
    let mut others = (0..50u32).cycle().take(5000).map(u32::to_be_bytes);
    while others.next().is_some_and(|key| store(&mut partition, &device, &key, 3000).result.is_ok())
    {
    }
    let mut into = Buffer::stale(bytes).whole();
    device.0.borrow().read(offset, &mut into);
    partition.report(tag, Ok(bytes), Some(into));
    let answer = partition.take_reply().unwrap().result.unwrap();
    assert!(matches!(&answer, Answer::Value(value) if value.len() == 3000), "{answer:?}");
}

#[test]
fn recovery_reads_a_window_and_half_a_journal_at_the_most() {
    let (device, mut partition) = new_store(16 << 20);
    let window = partition.stats().data_bytes / 16;
    for number in 0..10_000u32 {
        let key = (number % 3000).to_be_bytes();
        store(&mut partition, &device, &key, 1000);
        if number % 499 == 0 {
            let disk = device.0.borrow().crash(0);
            let (_, _, opened) = store_file::open(&SimDevice::new(disk)).unwrap();
            // Headers of the window's last records are read twice, and the first block of each checkpoint.
            assert!(opened.read_bytes < window + window / 4 + (1 << 20), "{opened:?}");
            assert_eq!(opened.keys, u64::from(number.min(2999)) + 1);
        }
    }
}

#[test]
fn a_store_that_is_full_says_so_and_can_be_emptied() {
    let (device, mut partition) = new_store(2 << 20);
    let key = |number: u32| number.to_be_bytes();
    let mut stored = 0;
    let full = loop {
        match store(&mut partition, &device, &key(stored), 5000).result {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(full.to_string().starts_with("capacity exceeded: the hash store disk has no space"));
    let stats = partition.stats();
    assert!(stats.unused_bytes < stats.data_bytes / 50, "{stats:?}");
    // All that was stored is there, and what was not is not.
    for number in 0..stored + 1 {
        partition.request(1, Request::Retrieve(key(number).to_vec()));
        store_file::drive(&mut partition, &device);
        let answer = partition.take_reply().unwrap().result.unwrap();
        assert_eq!(matches!(answer, Answer::Value(_)), number < stored, "{number}");
    }
    for number in 0..stored {
        partition.request(1, Request::Delete(key(number).to_vec()));
        store_file::drive(&mut partition, &device);
        let answer = partition.take_reply().unwrap().result.unwrap();
        assert!(matches!(answer, Answer::Done { was_present: true }));
    }
    for number in 0..stored {
        store(&mut partition, &device, &key(number), 5000).result.unwrap();
    }
}

/// Each needs a block, and there are no more than stores leave to deletes.
#[test]
fn a_full_store_takes_any_number_of_deletes_at_a_time() {
    let (device, mut partition) = new_store(4 << 20);
    let mut stored = 0u32;
    while store(&mut partition, &device, &stored.to_be_bytes(), 5000).result.is_ok() {
        stored += 1;
    }
    for number in 0..stored {
        partition.request(number.into(), Request::Delete(number.to_be_bytes().to_vec()));
    }
    store_file::drive(&mut partition, &device);
    for _ in 0..stored {
        let reply = partition.take_reply().expect("each is answered");
        let result = reply.result;
        assert!(matches!(result, Ok(Answer::Done { was_present: true })), "{result:?}");
    }
    assert_eq!(partition.keys(), 0);
}

#[test]
fn stores_that_wait_for_others_are_answered_when_there_is_no_room_for_them() {
    const STORES: u32 = 40_000;
    let (device, mut partition) = new_store(16 << 20);
    for number in 0..STORES {
        let item = Item::new(&number.to_be_bytes(), 400, 512);
        partition.request(number.into(), Request::Store(item, StoreCondition::Always));
    }
    store_file::drive(&mut partition, &device);
    let results: Vec<_> =
        std::iter::from_fn(|| partition.take_reply()).map(|reply| reply.result).collect();
    let stored = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(results.len(), STORES as usize);
    // More than are on their way at a time, and fewer than waited.
    assert!((1025..STORES as usize - 1024).contains(&stored), "{stored}");
}

#[test]
fn large_stores_that_wait_for_others_are_done_while_there_is_room() {
    const STORES: u64 = 16;
    let (device, mut partition) = new_store(8 << 20);
    let bytes = partition.value_bytes_max();
    for number in 0..STORES {
        let item = Item::new(&number.to_be_bytes(), bytes, 512);
        partition.request(number, Request::Store(item, StoreCondition::Always));
    }
    store_file::drive(&mut partition, &device);
    let replies: Vec<_> = std::iter::from_fn(|| partition.take_reply()).collect();
    let stored = replies.iter().filter(|reply| reply.result.is_ok()).count() as u64;
    assert_eq!(stored, STORES, "{:?}", partition.stats());
}

#[test]
fn in_a_store_in_pieces_values_lie_in_several_extents() {
    let (device, mut partition) = new_store(2 << 20);
    let mut number = 0u32;
    while store(&mut partition, &device, &number.to_be_bytes(), 400).result.is_ok() {
        number += 1;
    }
    for number in (0..number).step_by(2) {
        partition.request(1, Request::Delete(number.to_be_bytes().to_vec()));
        store_file::drive(&mut partition, &device);
        partition.take_reply().unwrap().result.unwrap();
    }
    // Every other block is free. The list of a value's blocks must fit into the first of them.
    for (bytes, fits) in [(20_000, true), (25_000, true), (30_000, false), (100_000, false)] {
        let result = store(&mut partition, &device, b"large", bytes).result;
        assert_eq!(result.is_ok(), fits, "{result:?}");
    }
    let (_, mut partitions, _) = store_file::open(&device).unwrap();
    partitions[0].request(1, Request::Retrieve(b"large".to_vec()));
    store_file::drive(&mut partitions[0], &device);
    let answer = partitions[0].take_reply().unwrap().result.unwrap();
    let Answer::Value(value) = answer else { panic!("{answer:?}") };
    assert_eq!(value.len(), 25_000);
}

#[test]
fn more_keys_than_the_journal_has_room_for_are_refused() {
    let device = SimDevice::new(Disk::new(4 << 20));
    let settings = CreateSettings::default().bytes_a_key(1 << 20).partitions(1);
    store_file::create(&device, &settings, &mut Rng::new(1)).unwrap();
    let (_, mut partitions, _) = store_file::open(&device).unwrap();
    let partition = &mut partitions[0];
    let mut number = 0u32;
    let refused = loop {
        let reply = store(partition, &device, &number.to_be_bytes(), 0);
        match reply.result {
            Ok(_) => number += 1,
            Err(error) => break error.to_string(),
        }
    };
    assert!(refused.contains("as many keys as its journal has space for"), "{refused}");
    assert!(number > 2000);
    // Those that are there can be replaced, several at a time, wherever the new ones lie.
    for turn in 0..4 {
        let replaced: Vec<_> = (turn..number).step_by(4).collect();
        for key in &replaced {
            let item = Item::new(&key.to_be_bytes(), 0, 512);
            partition.request(1, Request::Store(item, StoreCondition::Always));
        }
        store_file::drive(partition, &device);
        for key in replaced {
            let result = partition.take_reply().unwrap().result;
            assert!(matches!(result, Ok(Answer::Done { was_present: true })), "{key}: {result:?}");
        }
    }
    let (_, _, opened) = store_file::open(&device).unwrap();
    assert_eq!(opened.keys, u64::from(number));
}

/// With a volatile cache a crash may take deletes back and keep what was stored in their place.
#[test]
fn deletes_that_a_crash_may_take_back_make_no_room_for_other_keys() {
    let device = SimDevice::new(Disk::new(4 << 20));
    let settings = CreateSettings::default().bytes_a_key(8192).partitions(1);
    store_file::create(&device, &settings, &mut Rng::new(1)).unwrap();
    let (_, mut partitions, _) = store_file::open(&device).unwrap();
    let mut partition = partitions.remove(0).with_volatile_cache();
    // Long keys, so that few of them fill the journal.
    let key = |number: u32| [vec![b'k'; 396], number.to_be_bytes().to_vec()].concat();
    let fill = |partition: &mut Partition, from: u32| {
        let is_stored = |number: &u32| store(partition, &device, &key(*number), 0).result.is_ok();
        (from..).take_while(is_stored).count() as u32
    };
    let count = fill(&mut partition, 0);
    partition.checkpoint();
    store_file::drive(&mut partition, &device);
    device.0.borrow_mut().sync(|_| true);
    for number in 0..count {
        partition.request(1, Request::Delete(key(number)));
        store_file::drive(&mut partition, &device);
        let answer = partition.take_reply().unwrap().result.unwrap();
        assert!(matches!(answer, Answer::Done { was_present: true }));
    }
    let deletes = device.0.borrow().last_write();
    let others = fill(&mut partition, count);
    assert!(others > count / 2, "the deletes made room: {others} for {count}");
    device.0.borrow_mut().sync(|write| write > deletes);
    let left = device.0.borrow().crash(0);
    let (_, _, opened) = store_file::open(&SimDevice::new(left)).unwrap();
    assert!(opened.keys >= u64::from(others), "{opened:?}");
}

#[test]
fn records_whose_writes_are_reported_together_share_a_sync() {
    let (_device, mut partition) = new_store(2 << 20);
    for number in 0..3u64 {
        let item = Item::new(&number.to_be_bytes(), 100, 512);
        partition.request(number, Request::Store(item, StoreCondition::Always));
    }
    // The first was alone when it came.
    let writes: Vec<_> = std::iter::from_fn(|| partition.take_io()).collect();
    assert!(matches!(writes[1..], [Io { what: IoKind::Write { .. }, .. }, _]), "{writes:?}");
    for Io { tag, .. } in &writes[1..] {
        partition.report(*tag, Ok(512), None);
    }
    let syncs: Vec<_> = std::iter::from_fn(|| partition.take_io()).collect();
    let [Io { tag, what: IoKind::Sync }] = syncs[..] else { panic!("{syncs:?}") };
    assert!(!partition.is_idle() && partition.take_reply().is_none());
    partition.report(tag, Ok(0), None);
    let done: Vec<_> = std::iter::from_fn(|| Some(partition.take_reply()?.token)).collect();
    assert_eq!(done, [1, 2]);
}

#[test]
fn a_partition_whose_record_waits_for_a_sync_is_not_idle() {
    let (_device, mut partition) = new_store(2 << 20);
    for number in 0..2u64 {
        let item = Item::new(&number.to_be_bytes(), 100, 512);
        partition.request(number, Request::Store(item, StoreCondition::Always));
    }
    assert!(!partition.is_idle());
    for Io { tag, .. } in std::iter::from_fn(|| partition.take_io()).collect::<Vec<_>>() {
        partition.report(tag, Ok(512), None);
    }
    assert!(!partition.is_idle(), "nobody has taken the sync yet");
    let sync = partition.take_io().expect("a sync");
    partition.report(sync.tag, Ok(0), None);
    assert!(partition.is_idle());
}
