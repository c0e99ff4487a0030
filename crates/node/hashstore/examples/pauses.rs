//! How long a partition keeps the thread that owns it, a call at a time, with so many keys: what a reactor stalls
//! for. Nothing is written: each write and sync is reported as done.
//!
//! `cargo run --release -p esker-hashstore --example pauses -- DIRECTORY [KEYS]`

use esker_base::{Clock, Rng, SystemClock, hash64};
use esker_hashstore::device::FileDevice;
use esker_hashstore::partition::{IoKind, Item, Partition, Request, StoreCondition};
use esker_hashstore::{CreateSettings, store_file};
use std::path::Path;
use std::time::Duration;

/// Overwrites beyond this many a key begin two snapshots for sure.
const OVERWRITES_A_KEY: u64 = 16;

/// Calls that take longer are counted.
const BEYOND: [Duration; 4] = [
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(20),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("give a directory to work in")?;
    let keys: u64 = arguments.next().map_or(Ok(5_000_000), |number| number.parse())?;
    let directory = tempfile::tempdir_in(directory)?;
    let mut partition = open(&directory.path().join("store"), keys)?;
    let clock = SystemClock::new();
    let (mut calls, began) = (Calls::default(), clock.now());
    (0..keys).for_each(|number| calls.store(&mut partition, number));
    calls.report(&partition, "filled", clock.now() - began);
    let (mut calls, began) = (Calls::default(), clock.now());
    let snapshots = partition.stats().snapshots;
    for number in 0..keys * OVERWRITES_A_KEY {
        calls.store(&mut partition, number % keys);
        if partition.stats().snapshots > snapshots + 1 {
            break;
        }
    }
    calls.report(&partition, "overwritten", clock.now() - began);
    Ok(())
}

/// A store of one partition in a sparse file, with space for twice the keys.
fn open(path: &Path, keys: u64) -> Result<Partition, Box<dyn std::error::Error>> {
    let device = FileDevice::create(path, Some((keys * 1024).max(64 << 20)))?;
    let settings = CreateSettings::default().partitions(1).bytes_a_key(512);
    store_file::create(&device, &settings, &mut Rng::new(1))?;
    Ok(store_file::open(&device)?.1.remove(0))
}

/// Calls, and what the long ones took.
#[derive(Default)]
struct Calls {
    longest: Duration,
    beyond: [u64; BEYOND.len()],
    count: u64,
}

impl Calls {
    fn store(&mut self, partition: &mut Partition, number: u64) {
        let key = hash64(&number.to_le_bytes()).to_le_bytes();
        let item = Item::new(&[key, number.to_le_bytes()].concat(), 0, 512);
        self.time(|| partition.request(0, Request::Store(item, StoreCondition::Always)));
        loop {
            let mut taken = None;
            self.time(|| taken = partition.take_io());
            let Some(io) = taken else { break };
            let (done, slice) = match io.what {
                IoKind::Write { from, .. } | IoKind::WriteDurably { from, .. } => {
                    (from.len(), Some(from))
                }
                _ => (0, None),
            };
            self.time(|| partition.report(io.tag, Ok(done), slice));
        }
        while let Some(reply) = partition.take_reply() {
            reply.result.expect("there is space");
        }
    }

    fn time(&mut self, call: impl FnOnce()) {
        let clock = SystemClock::new();
        let began = clock.now();
        call();
        let took = clock.now() - began;
        self.longest = took.max(self.longest);
        for (count, limit) in self.beyond.iter_mut().zip(BEYOND) {
            *count += u64::from(took > limit);
        }
        self.count += 1;
    }

    fn report(&self, partition: &Partition, what: &str, took: Duration) {
        let stats = partition.stats();
        println!(
            "{what}: {} keys, {} snapshots, {} checkpoints, in {took:.1?}; longest call {:.2?}; {:?} longer than {BEYOND:?}, of {}",
            stats.keys, stats.snapshots, stats.checkpoints, self.longest, self.beyond, self.count
        );
    }
}
