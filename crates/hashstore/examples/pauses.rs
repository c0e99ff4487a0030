//! How long a partition keeps the thread that owns it, a call at a time, with so many keys: what a reactor stands still
//! for. Nothing is written: each write and sync is reported as done.
//!
//! `cargo run --release -p esker-hashstore --example pauses -- DIRECTORY [KEYS]`

use esker_base::{Clock, Rng, SystemClock, hash64};
use esker_hashstore::device::FileDevice;
use esker_hashstore::partition::{IoKind, Item, Only, Partition, Request};
use esker_hashstore::{CreateSettings, volume};
use std::path::Path;
use std::time::Duration;

/// Overwrites beyond this many a key begin a snapshot for sure.
const OVERWRITES_A_KEY: u64 = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("give a directory to work in")?;
    let keys: u64 = arguments.next().map_or(Ok(5_000_000), |number| number.parse())?;
    let directory = tempfile::tempdir_in(directory)?;
    let mut partition = open(&directory.path().join("store"), keys)?;
    let mut longest = Longest::default();
    (0..keys).for_each(|number| longest.store(&mut partition, number));
    longest.report(&partition, "filled");
    let mut longest = Longest::default();
    let snapshots = partition.stats().snapshots;
    for number in 0..keys * OVERWRITES_A_KEY {
        longest.store(&mut partition, number % keys);
        if partition.stats().snapshots > snapshots {
            break;
        }
    }
    longest.report(&partition, "overwritten");
    Ok(())
}

/// A store of one partition in a sparse file, with room for twice the keys.
fn open(path: &Path, keys: u64) -> Result<Partition, Box<dyn std::error::Error>> {
    let device = FileDevice::create(path, Some((keys * 1024).max(64 << 20)))?;
    let settings = CreateSettings { partitions: Some(1), bytes_a_key: 512 };
    volume::create(&device, &settings, &mut Rng::new(1))?;
    Ok(volume::open(&device)?.1.remove(0))
}

/// The longest call that had to do with a snapshot, and of all others.
#[derive(Default)]
struct Longest {
    with_snapshot: Duration,
    without: Duration,
    calls: u64,
}

impl Longest {
    fn store(&mut self, partition: &mut Partition, number: u64) {
        let key = hash64(&number.to_le_bytes()).to_le_bytes();
        let item = Item::new(&[key, number.to_le_bytes()].concat(), 0, 512);
        self.time(partition, |partition| {
            partition.request(0, Request::Store(item, Only::Always));
        });
        loop {
            let mut taken = None;
            self.time(partition, |partition| taken = partition.take_io());
            let Some(io) = taken else { break };
            let (done, slice) = match io.what {
                IoKind::Write { from, .. } | IoKind::WriteDurably { from, .. } => {
                    (from.len(), Some(from))
                }
                _ => (0, None),
            };
            self.time(partition, |partition| partition.report(io.tag, Ok(done), slice));
        }
        while let Some(reply) = partition.take_reply() {
            reply.result.expect("there is room");
        }
    }

    fn time(&mut self, partition: &mut Partition, call: impl FnOnce(&mut Partition)) {
        let clock = SystemClock::new();
        let snapshots = partition.stats().snapshots;
        let began = clock.now();
        call(partition);
        let took = clock.now() - began;
        let longest = match partition.stats().snapshots == snapshots {
            true => &mut self.without,
            false => &mut self.with_snapshot,
        };
        *longest = took.max(*longest);
        self.calls += 1;
    }

    fn report(&self, partition: &Partition, what: &str) {
        let stats = partition.stats();
        println!(
            "{what}: {} keys, {} snapshots, {} checkpoints; longest call with a snapshot {:.1?}, without {:.1?}, of {}",
            stats.keys,
            stats.snapshots,
            stats.checkpoints,
            self.with_snapshot,
            self.without,
            self.calls
        );
    }
}
