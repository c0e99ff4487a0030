//! What a store of 32 KiB costs compared with one direct write of as many bytes and one fdatasync, on the same file
//! system, taking turns.
//!
//! `cargo run --release -p esker-hashstore --example store_latency -- DIRECTORY [STORES]`

use esker_base::{Clock, Rng, SystemClock, Threads, hash64};
use esker_hashstore::device::{Device, FileDevice};
use esker_hashstore::partition::{Item, Partition, Request, StoreCondition};
use esker_hashstore::{CreateSettings, HashStore, store_file};
use esker_uring::Buffer;
use std::path::Path;
use std::time::Duration;

const VALUE_BYTES: usize = 32 << 10;
const FILE_BYTES: u64 = 256 << 20;
/// Stores in a row, before it is another's turn.
const TURN: u64 = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("give a directory to work in")?;
    let stores: u64 = arguments.next().map_or(Ok(2000), |number| number.parse())?;
    let directory = tempfile::tempdir_in(directory)?;
    let path = |name: &str| directory.path().join(name);

    let plain = FileDevice::create(&path("plain"), Some(FILE_BYTES))?;
    let settings = CreateSettings::default().partitions(1);
    let device = create(&path("partition"), &settings)?;
    let mut partition = store_file::open(&device)?.1.remove(0);
    drop(create(&path("store"), &settings)?);
    let store = HashStore::open(&path("store"), &Threads)?;

    let clock = SystemClock::new();
    let mut times: [Vec<Duration>; 3] = Default::default();
    for number in 0..stores {
        for (which, times) in times.iter_mut().enumerate() {
            for number in number * TURN..(number + 1) * TURN {
                let began = clock.now();
                match which {
                    0 => write_and_sync(&plain, number)?,
                    1 => put(&mut partition, &device, &key(number))?,
                    _ => drop(store.store(
                        &key(number),
                        &[7; VALUE_BYTES],
                        StoreCondition::Always,
                    )?),
                }
                times.push(clock.now() - began);
            }
        }
        if (number + 1) * TURN >= stores {
            break;
        }
    }
    let base = median(&mut times[0]);
    let names = [
        "one write of 32 KiB, fdatasync",
        "a partition, driven by hand",
        "HashStore, from another thread",
    ];
    for (name, times) in names.iter().zip(&mut times) {
        let (p50, p99) = (median(times), times[times.len() * 99 / 100]);
        let ratio = p50.as_secs_f64() / base.as_secs_f64();
        println!("{name:32} p50 {p50:>8.1?}  p99 {p99:>8.1?}  {ratio:.2}x");
    }
    let began = clock.now();
    let (_, _, opened) = store_file::open(&device)?;
    let (took, read) = (clock.now() - began, opened.read_bytes >> 10);
    println!("opening without a close before: {took:.1?}, {read} KiB read, {opened:?}");
    let stats = store.stats()?;
    println!("device bytes written a stored byte: {:.4}", stats.written_a_stored_byte());
    println!("index bytes a key: {:.1}", stats.index_bytes_a_key());
    Ok(())
}

fn create(path: &Path, settings: &CreateSettings) -> esker_base::Result<FileDevice> {
    let device = FileDevice::create(path, Some(FILE_BYTES))?;
    store_file::create(&device, settings, &mut Rng::new(1))?;
    Ok(device)
}

/// 4,000 keys, about half of what fits: most stores replace one.
fn key(number: u64) -> [u8; 8] {
    (hash64(&number.to_le_bytes()) % 4000).to_le_bytes()
}

fn write_and_sync(device: &FileDevice, number: u64) -> std::io::Result<()> {
    let places = FILE_BYTES / VALUE_BYTES as u64;
    let offset = hash64(&number.to_le_bytes()) % places * VALUE_BYTES as u64;
    device.write_at(offset, &Buffer::from_slice(&[7; VALUE_BYTES]))?;
    device.sync()
}

fn put(partition: &mut Partition, device: &FileDevice, key: &[u8]) -> esker_base::Result<()> {
    let mut item = Item::new(key, VALUE_BYTES, device.block_bytes());
    item.value_mut().fill(7);
    partition.request(0, Request::Store(item, StoreCondition::Always));
    store_file::drive(partition, device);
    partition.take_reply().expect("all was done").result.map(drop)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}
