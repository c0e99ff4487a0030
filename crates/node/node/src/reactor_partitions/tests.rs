//! A part without a reactor: the tests say when its operations are done, and how.

use super::*;
use esker_base::Rng;
use esker_hashstore::device::FileDevice;
use esker_hashstore::{CreateSettings, store_file};
use esker_nvme::command::kv::listed as listed_keys;
use std::fs::File;
use std::io::Seek;
use std::os::fd::AsFd;

struct Bench {
    part: ReactorPartitions,
    out: OperationSink,
    under_way: VecDeque<(u64, Operation)>,
    _device: FileDevice,
    _dir: tempfile::TempDir,
}

impl Bench {
    /// All partitions of a new store, in one part.
    fn new(partitions: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bytes = u64::from(partitions) << 20;
        let device = FileDevice::create(&dir.path().join("store"), Some(bytes)).unwrap();
        let settings = CreateSettings::default().partitions(partitions);
        store_file::create(&device, &settings, &mut Rng::new(1)).unwrap();
        let (layout, partitions, _) = store_file::open(&device).unwrap();
        let figures = partitions.iter().map(|_| Default::default()).collect();
        let store = Store {
            reactors: 1,
            layout,
            file: device.descriptor().unwrap(),
            durable: device.descriptor().unwrap(),
            has_volatile_cache: false,
            shared: Arc::new(Shared { figures, ..Shared::default() }),
        };
        let part = ReactorPartitions::new(partitions, store);
        Bench {
            part,
            out: OperationSink::default(),
            under_way: VecDeque::new(),
            _device: device,
            _dir: dir,
        }
    }

    /// Asks a partition to store a key of its own, without a client. Nothing else comes together with that.
    fn store(&mut self, place: usize, seed: u64) {
        self.ask_to_store(place, seed);
        self.end_round();
    }

    /// The same, next to others of this round.
    fn ask_to_store(&mut self, place: usize, seed: u64) {
        let is_its_own = |key: &[u8; 16]| self.part.place_of(&Key::new(key).unwrap()) == place;
        let mut rng = Rng::new(seed);
        let key = std::iter::repeat_with(|| {
            let mut key = [0; 16];
            rng.fill(&mut key);
            key
        });
        let key = { key }.take(10_000).find(is_its_own).expect("one in some has its key here");
        let item = Item::new(&key, 100, self.part.store.layout.block_bytes);
        self.part.callers.push(None);
        let token = self.part.callers.len() as u64 - 1;
        self.part.partitions[place]
            .request(token, partition::Request::Store(item, StoreCondition::Always));
        self.part.turn(place);
    }

    fn end_round(&mut self) {
        self.part.end_round(&mut self.out);
        self.under_way.extend(self.out.take_operations());
    }

    /// Reports the operation that was begun first, alone. Says which kind it was.
    fn complete(&mut self, result: io::Result<usize>) -> Kind {
        let kind = self.report(result);
        self.end_round();
        kind
    }

    /// The same, next to others of this round.
    fn report(&mut self, result: io::Result<usize>) -> Kind {
        let (tag, operation) = self.under_way.pop_front().expect("something is under way");
        let kind = Kind::of(&operation);
        self.part.completed(tag, result, operation, &mut self.out);
        kind
    }

    /// Reports all that is in progress and what follows, as done.
    fn settle(&mut self) -> Vec<Kind> {
        /// More than any test needs: broken code may never end.
        const OPERATIONS_MAX: usize = 1000;
        let mut kinds = Vec::new();
        while !self.under_way.is_empty() {
            kinds.push(self.complete(Ok(512)));
            assert!(kinds.len() < OPERATIONS_MAX, "it does not settle: {:?}", self.under_way());
        }
        kinds
    }

    fn under_way(&self) -> Vec<Kind> {
        self.under_way.iter().map(|(_, operation)| Kind::of(operation)).collect()
    }

    /// Stores that have taken effect.
    fn stored(&self) -> u64 {
        self.part.partitions.iter().map(|partition| partition.stats().changes).sum()
    }

    fn failed(&self) -> Vec<usize> {
        let places = self.part.partitions.iter().enumerate();
        places.filter(|(_, partition)| partition.outcome().is_err()).map(|(at, _)| at).collect()
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Read,
    Write,
    WriteDurably,
    WriteGathered,
    Sync,
}

impl Kind {
    fn of(operation: &Operation) -> Self {
        match operation {
            Operation::ReadAt { .. } => Kind::Read,
            Operation::WriteAt { .. } => Kind::Write,
            Operation::WriteDurablyAt { .. } => Kind::WriteDurably,
            Operation::WriteGatheredAt { .. } => Kind::WriteGathered,
            Operation::SyncData { .. } => Kind::Sync,
            other => panic!("{other:?}"),
        }
    }
}

use Kind::{Sync, Write, WriteDurably, WriteGathered};

fn failure() -> io::Result<usize> {
    Err(io::Error::other("a bad sector"))
}

#[test]
fn a_store_that_is_alone_is_written_durably() {
    let mut bench = Bench::new(2);
    for (place, seed) in [(0, 1), (1, 2), (0, 3)] {
        bench.store(place, seed);
        assert_eq!(bench.settle(), [WriteDurably]);
    }
    assert_eq!(bench.stored(), 3);
}

#[test]
fn stores_that_come_while_their_neighbours_are_written_are_written_together() {
    let mut bench = Bench::new(2);
    (1..=6).for_each(|seed| bench.store(0, seed));
    assert_eq!(bench.under_way(), [WriteDurably, Write]);
    assert_eq!([bench.complete(Ok(512)), bench.complete(Ok(512))], [WriteDurably, Write]);
    assert_eq!(bench.under_way(), [WriteGathered, Sync]);
    assert_eq!(bench.stored(), 1, "the others wait for a sync");
    assert_eq!(bench.complete(Ok(512)), WriteGathered);
    assert_eq!(bench.stored(), 1, "the sync began before they were written");
    assert_eq!(bench.settle(), [Sync, Sync]);
    assert_eq!(bench.stored(), 6);
}

#[test]
fn writes_that_fail_together_fail_their_partition_alone() {
    let mut bench = Bench::new(2);
    (1..=6).for_each(|seed| bench.store(0, seed));
    bench.store(1, 1);
    assert_eq!(bench.under_way(), [WriteDurably, Write, Write]);
    assert_eq!([bench.complete(Ok(512)), bench.complete(Ok(512))], [WriteDurably, Write]);
    let gathered = bench.under_way().iter().position(|kind| *kind == WriteGathered);
    bench.under_way.swap(0, gathered.expect("four waited"));
    assert_eq!(bench.complete(failure()), WriteGathered);
    assert_eq!((bench.failed(), bench.stored()), (vec![0], 1));
    bench.settle();
    assert_eq!((bench.failed(), bench.stored()), (vec![0], 2));
}

#[test]
fn stores_in_as_many_partitions_share_syncs() {
    let mut bench = Bench::new(16);
    for round in 0..3 {
        (0..16).for_each(|place| bench.store(place, round));
        let begun = bench.under_way();
        assert_eq!((begun[0], &begun[1..]), (WriteDurably, &[Write; 15][..]));
        for _ in begun {
            bench.complete(Ok(512));
        }
        assert_eq!(bench.under_way(), [Sync], "for the first that was written");
        assert_eq!(bench.stored(), round * 16 + 1, "the others wait for a sync");
        assert_eq!(bench.settle(), [Sync, Sync]);
        assert_eq!(bench.stored(), round * 16 + 16);
    }
}

#[test]
fn stores_of_a_partition_that_come_together_are_one_write_and_share_a_sync() {
    let mut bench = Bench::new(2);
    (1..=6).for_each(|seed| bench.ask_to_store(0, seed));
    bench.end_round();
    assert_eq!(bench.under_way(), [WriteGathered]);
    assert_eq!(bench.settle(), [WriteGathered, Sync]);
    assert_eq!(bench.stored(), 6);
}

#[test]
fn stores_of_several_partitions_that_come_together_share_a_sync() {
    let mut bench = Bench::new(4);
    (0..4).for_each(|place| bench.ask_to_store(place, 1));
    bench.end_round();
    assert_eq!(bench.under_way(), [Write; 4], "none is alone");
    (0..4).for_each(|_| assert_eq!(bench.report(Ok(512)), Write));
    bench.end_round();
    assert_eq!(bench.settle(), [Sync]);
    assert_eq!(bench.stored(), 4);
}

/// Whatever their partitions know of each other.
#[test]
fn a_store_beside_a_write_of_the_same_round_is_not_written_durably() {
    for durable_first in [false, true] {
        let mut bench = Bench::new(2);
        let mut wants = [(0, false), (1, true)];
        if durable_first {
            wants.reverse();
        }
        for (place, durably) in wants {
            let (tag, from) = (99 << TAG_SHIFT | place, Buffer::zeroed(512).whole());
            bench.part.wanted.push(Wanted { tag, offset: place << 20, from, durably });
        }
        bench.end_round();
        assert_eq!(bench.under_way(), [Write, Write]);
    }
}

#[test]
fn a_store_during_a_sync_waits_for_the_next() {
    let mut bench = Bench::new(4);
    (0..2).for_each(|place| bench.store(place, 1));
    assert_eq!([bench.complete(Ok(512)), bench.complete(Ok(512))], [WriteDurably, Write]);
    bench.store(2, 1);
    assert_eq!(bench.under_way(), [Sync, Write]);
    bench.under_way.swap(0, 1);
    bench.complete(Ok(512));
    bench.complete(Ok(0));
    assert_eq!(bench.stored(), 2, "the sync began before the last was written");
    assert_eq!(bench.settle(), [Sync]);
    assert_eq!(bench.stored(), 3);
}

#[test]
fn a_write_that_failed_is_told_to_its_partition_at_once() {
    let mut bench = Bench::new(4);
    (0..2).for_each(|place| bench.store(place, 1));
    bench.complete(Ok(512));
    assert_eq!(bench.complete(failure()), Write);
    assert_eq!((bench.failed(), bench.stored()), (vec![1], 1));
    bench.store(2, 1);
    assert_eq!(bench.settle(), [WriteDurably], "nothing is left on its way");
}

/// Its blocks were there from the beginning: a device that has none for them is broken, and no store that is full.
#[test]
fn a_partition_that_finds_its_device_full_has_failed() {
    let mut bench = Bench::new(4);
    bench.store(3, 1);
    bench.complete(Err(io::ErrorKind::StorageFull.into()));
    assert_eq!(bench.failed(), [3]);
    assert_eq!(bench.part.store.shared.failures.reasons().len(), 1);
}

/// Who looks after the node is informed which keys it is about.
#[test]
fn a_partition_that_failed_is_told_with_what_goes_on() {
    let mut bench = Bench::new(4);
    bench.store(3, 1);
    bench.complete(failure());
    let failures = &bench.part.store.shared.failures;
    assert!(!failures.has_stopped(), "three partitions go on for now");
    let [reason] = &failures.reasons()[..] else { panic!("{failures:?}") };
    assert!(reason.starts_with("writes of keys in partition 3 (of 4, from 0) fail"), "{reason}");
    let others =
        "reads go on, and writes of other keys until a sync they share finds the device failed";
    assert!(reason.contains(others) && reason.ends_with("a bad sector"), "{reason}");

    bench.store(0, 1);
    assert_eq!(bench.settle(), [WriteDurably]);
    assert_eq!((bench.failed(), bench.stored()), (vec![3], 1), "alone it needs no sync");
    (1..3).for_each(|place| bench.store(place, 1));
    assert_eq!(bench.settle(), [WriteDurably, Write, Sync]);
    assert_eq!((bench.failed(), bench.stored()), (vec![2, 3], 2), "the second waits for one");
    let [reason] = &bench.part.store.shared.failures.reasons()[..] else { panic!("one line") };
    assert!(reason.starts_with("writes of keys in partitions 2, 3 (of 4, from 0)"), "{reason}");
}

#[test]
fn a_sync_that_failed_fails_every_store_that_it_was_for() {
    let mut bench = Bench::new(4);
    (0..4).for_each(|place| bench.store(place, 1));
    for _ in 0..4 {
        bench.complete(Ok(512));
    }
    assert_eq!(bench.complete(failure()), Sync);
    assert_eq!(bench.settle(), [Sync]);
    assert_eq!((bench.failed(), bench.stored()), (vec![1, 2, 3], 1));
}

/// Another descriptor of the same opening.
fn opening(operation: &Operation) -> File {
    let (Operation::WriteAt { file, .. }
    | Operation::WriteDurablyAt { file, .. }
    | Operation::SyncData { file }) = operation
    else {
        panic!("{operation:?}")
    };
    file.as_fd().try_clone_to_owned().unwrap().into()
}

/// The system reports an error to each opening once: a durable write must not take what a sync is to report.
#[test]
fn durable_writes_have_an_opening_of_their_own() {
    let mut bench = Bench::new(2);
    (0..2).for_each(|place| bench.store(place, 1));
    assert_eq!(bench.under_way(), [WriteDurably, Write]);
    let [mut durable, mut plain] = [0, 1].map(|at| opening(&bench.under_way[at].1));
    (0..2).for_each(|_| assert_ne!(bench.complete(Ok(512)), Sync));
    let mut sync = opening(&bench.under_way[0].1);
    // An offset belongs to an opening.
    durable.seek(io::SeekFrom::Start(7)).unwrap();
    plain.seek(io::SeekFrom::Start(8)).unwrap();
    assert_eq!((durable.stream_position().unwrap(), sync.stream_position().unwrap()), (7, 8));
}

#[test]
fn a_durable_write_that_failed_fails_every_store_that_waits_for_a_sync() {
    let mut bench = Bench::new(4);
    (0..3).for_each(|place| bench.store(place, 1));
    bench.under_way.rotate_left(1);
    assert_eq!([bench.complete(Ok(512)), bench.complete(Ok(512))], [Write, Write]);
    assert_eq!(bench.complete(failure()), WriteDurably);
    assert_eq!(bench.settle(), [Sync, Sync], "the device takes them, and may have lost the writes");
    assert_eq!((bench.failed(), bench.stored()), (vec![0, 1, 2], 0));
}

#[test]
fn reads_beyond_the_memory_for_them_wait_in_their_order() {
    let mut bench = Bench::new(1);
    let (key, block_bytes) = (b"key", bench.part.store.layout.block_bytes);
    let value = bench.part.partitions[0].value_bytes_max();
    bench.part.callers.push(None);
    let item = Item::new(key, value, block_bytes);
    let store = partition::Request::Store(item, StoreCondition::Always);
    bench.part.partitions[0].request(0, store);
    bench.part.turn(0);
    bench.end_round();
    bench.settle();

    let reads = 2 * READ_BYTES / value;
    for _ in 0..reads {
        let request = partition::Request::Retrieve(key.to_vec());
        bench.part.partitions[0].request(0, request);
        bench.part.turn(0);
    }
    bench.end_round();
    let begun = bench.under_way().len();
    assert!(begun < reads && (begun + 1) * bench.part.reading_bytes / begun > READ_BYTES);
    let mut done = 0;
    while !bench.under_way.is_empty() {
        assert!(done < reads, "more reads than were asked for");
        assert!(bench.part.reading_bytes <= READ_BYTES);
        assert_eq!(bench.complete(failure()), Kind::Read);
        done += 1;
    }
    assert_eq!((done, bench.part.reading_bytes), (reads, 0));
    assert_eq!(bench.part.store.shared.failures.faults(), reads as u64);
}

/// Parts of values that are here count until their values are whole: or those would wait for each other in any amount of memory.
#[test]
fn parts_of_values_that_are_not_whole_take_memory() {
    let mut bench = Bench::new(1);
    let block_bytes = bench.part.store.layout.block_bytes;
    let partition = &mut bench.part.partitions[0];
    let mut done = |request| {
        partition.request(0, request);
        store_file::drive(partition, &bench._device);
        partition.take_reply().expect("it is done").result.is_ok()
    };
    let mut store = |key: &[u8], bytes| {
        done(partition::Request::Store(Item::new(key, bytes, block_bytes), StoreCondition::Always))
    };
    // All space in pieces, of which every second is free again.
    let full = (0..1000u32).take_while(|number| store(&number.to_be_bytes(), 2000)).count() as u32;
    for number in (0..full).step_by(2) {
        assert!(done(partition::Request::Delete(number.to_be_bytes().to_vec())));
    }
    let key = b"in pieces";
    assert!(done(partition::Request::Store(
        Item::new(key, 8000, block_bytes),
        StoreCondition::Always
    )));

    bench.part.callers.push(None);
    let ask = |bench: &mut Bench| {
        bench.part.partitions[0].request(0, partition::Request::Retrieve(key.to_vec()));
        bench.part.turn(0);
        bench.end_round();
    };
    let bytes = |operation: &Operation| match operation {
        Operation::ReadAt { into, .. } => into.len(),
        other => panic!("{other:?}"),
    };
    ask(&mut bench);
    let parts = bench.under_way.len();
    assert!(parts > 1, "the value lies in one piece");
    let value: usize = bench.under_way.iter().map(|(_, operation)| bytes(operation)).sum();
    for _ in 1..2 * READ_BYTES / value {
        ask(&mut bench);
    }
    // Of each value the last part does not come. What was begun takes memory, whether it came or not.
    let (mut begun, mut come, mut number) = (0, 0, 0);
    let mut late = Vec::new();
    begun += bench.under_way.iter().map(|(_, operation)| bytes(operation)).sum::<usize>();
    while let Some((tag, operation)) = bench.under_way.pop_front() {
        assert!(begun <= READ_BYTES, "{begun} bytes were begun, and none is sent");
        number += 1;
        if number % parts == 0 {
            late.push((tag, operation));
            continue;
        }
        let read = bytes(&operation);
        come += read;
        bench.part.completed(tag, Ok(read), operation, &mut bench.out);
        bench.part.end_round(&mut bench.out);
        for (tag, operation) in bench.out.take_operations() {
            begun += bytes(&operation);
            bench.under_way.push_back((tag, operation));
        }
    }
    assert_eq!(bench.part.held_bytes, come);
    // They come: all goes on.
    bench.under_way.extend(late);
    while let Some((tag, operation)) = bench.under_way.pop_front() {
        let read = bytes(&operation);
        bench.part.completed(tag, Ok(read), operation, &mut bench.out);
        bench.end_round();
    }
    assert_eq!((bench.part.held_bytes, bench.part.reading_bytes), (0, 0));
    assert!(bench.part.reads_waiting.is_empty());
}

/// Keys that a list has no space for, and some that it has; and what the latter are, in their order.
fn store_long_keys_and_short_ones(bench: &mut Bench) -> Vec<Vec<u8>> {
    let block_bytes = bench.part.store.layout.block_bytes;
    let mut short = Vec::new();
    for number in 0..4000u32 {
        let mut key = number.to_be_bytes().to_vec();
        match number % 100 {
            0 => short.push(key.clone()),
            _ => key.resize(17, b'.'),
        }
        let place = bench.part.store.layout.partition_of(hash64(&key)) as usize;
        let store =
            partition::Request::Store(Item::new(&key, 0, block_bytes), StoreCondition::Always);
        bench.part.partitions[place].request(0, store);
    }
    for partition in &mut bench.part.partitions {
        store_file::drive(partition, &bench._device);
        std::iter::from_fn(|| partition.take_reply()).for_each(|reply| {
            reply.result.expect("there is space");
        });
    }
    short.sort_by_key(|key| hash64(key));
    short
}

/// Others have their turn between its steps, and may take away the key at which it goes on.
#[test]
fn a_list_looks_at_few_keys_at_a_time_and_lists_all() {
    let mut bench = Bench::new(4);
    let short = store_long_keys_and_short_ones(&mut bench);
    let list = ListBuilder::new(Vec::new(), 4096);
    let (mut listing, mut steps) = (Listing { number: 0, from: None, list }, 1);
    while listing.step(&bench.part.partitions, 1, 4) == Step::GoesOn {
        steps += 1;
        if let Some(key) = listing.from.clone().filter(|key| key.len() > 16) {
            let partition = &mut bench.part.partitions[listing.number as usize];
            partition.request(0, partition::Request::Delete(key));
            store_file::drive(partition, &bench._device);
        }
    }
    assert!(steps > 3, "{steps} steps");
    let listed = listing.list.finish();
    let listed: Vec<_> = listed_keys(&listed).map(|key| key.expect("whole").to_vec()).collect();
    assert_eq!(listed, short);
}

#[test]
fn a_list_ends_where_it_is_full() {
    let mut bench = Bench::new(4);
    let short = store_long_keys_and_short_ones(&mut bench);
    let list = ListBuilder::new(Vec::new(), 4 + 3 * 8);
    let mut listing = Listing { number: 0, from: None, list };
    while listing.step(&bench.part.partitions, 1, 4) == Step::GoesOn {}
    let listed = listing.list.finish();
    assert!(listed_keys(&listed).eq(short[..3].iter().map(|key| Some(&key[..]))));
}
