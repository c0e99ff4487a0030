//! What a store of 32 KiB costs over loopback at depth 1, compared with what it can't do without: the same bytes there and 24
//! back over a plain socket, and for a file one direct write and one fdatasync as well. All take turns.
//!
//! `cargo run --release -p esker-node --example latency -- DIRECTORY [STORES]`

mod support;

use esker_base::{Background, Clock, SystemClock, SystemEntropy, Threads, hash64};
use esker_hashstore::device::{Device, FileDevice};
use esker_initiator::{KeyClient, Settings};
use esker_nvme::Nqn;
use esker_target::{MemoryKeys, Namespace, Target};
use esker_uring::Buffer;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use support::{Failure, NODE, connected, hash_store, percentiles, serve};

const VALUE_BYTES: usize = 32 << 10;
/// A capsule with such a value, and a completion.
const PING_BYTES: usize = VALUE_BYTES + 72;
const PONG_BYTES: usize = 24;
const FILE_BYTES: u64 = 512 << 20;
/// Stores in a row, before it is another's turn.
const TURN: u64 = 50;
const KEYS: u64 = 4000;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("give a directory to work in")?;
    let stores: u64 = arguments.next().map_or(Ok(2000), |number| number.parse())?;
    let directory = tempfile::tempdir_in(directory)?;

    let plain = FileDevice::create(&directory.path().join("plain"), Some(FILE_BYTES))?;
    let mut ping = pinged(None)?;
    let mut ping_and_write = pinged(Some(plain))?;
    let memory: Arc<dyn Namespace> = Arc::new(MemoryKeys::new([1; 16], 1 << 30));
    let hash: Arc<dyn Namespace> =
        Arc::new(hash_store(&directory.path().join("store"), FILE_BYTES)?);
    let target = serve(vec![memory, hash])?;
    let (in_memory, in_file) = (client(&target, 1)?, client(&target, 2)?);

    let (clock, value) = (SystemClock::new(), vec![7; VALUE_BYTES]);
    for number in 0..KEYS {
        in_memory.store(&key(number), &value)?;
        in_file.store(&key(number), &value)?;
    }
    let mut times: [Vec<Duration>; 4] = Default::default();
    for turn in 0..stores.div_ceil(TURN) {
        for (which, times) in times.iter_mut().enumerate() {
            for number in turn * TURN..(turn + 1) * TURN {
                let began = clock.now();
                match which {
                    0 => exchange(&mut ping)?,
                    1 => in_memory.store(&key(number), &value)?,
                    2 => exchange(&mut ping_and_write)?,
                    _ => in_file.store(&key(number), &value)?,
                }
                times.push(clock.now() - began);
            }
        }
    }
    let names = ["ping", "RAM namespace", "ping, write, fdatasync", "hash store in a file"];
    let bases = [0, 0, 2, 2].map(|base: usize| percentiles(&mut times[base]).0);
    for ((name, times), base) in names.iter().zip(&mut times).zip(bases) {
        let (p50, p99) = percentiles(times);
        let ratio = p50.as_secs_f64() / base.as_secs_f64();
        println!("{name:24} p50 {p50:>8.1?}  p99 {p99:>8.1?}  {ratio:.2}x");
    }
    Ok(())
}

/// A socket whose peer takes a ping, does what a store needs, and sends a pong.
fn pinged(device: Option<FileDevice>) -> Result<TcpStream, Failure> {
    let [socket, mut peer] = connected()?;
    let serve = move || {
        let (mut bytes, page) = (vec![0; PING_BYTES], Buffer::zeroed(VALUE_BYTES));
        for number in 0u64.. {
            if peer.read_exact(&mut bytes).is_err() {
                return;
            }
            if let Some(device) = &device {
                let places = FILE_BYTES / VALUE_BYTES as u64;
                let offset = hash64(&number.to_le_bytes()) % places * VALUE_BYTES as u64;
                device.write_at(offset, &page).expect("a write");
                device.sync().expect("a sync");
            }
            if peer.write_all(&bytes[..PONG_BYTES]).is_err() {
                return;
            }
        }
    };
    Threads.spawn("peer", esker_base::Priority::Normal, Box::new(serve))?;
    Ok(socket)
}

fn exchange(socket: &mut TcpStream) -> std::io::Result<()> {
    socket.write_all(&[7; PING_BYTES])?;
    socket.read_exact(&mut [0; PONG_BYTES])
}

fn client(target: &Target, namespace: u32) -> Result<KeyClient, Failure> {
    let mut settings = Settings::new(target.address(), Nqn::new("nqn.latency")?, Nqn::new(NODE)?);
    settings.namespace = namespace;
    Ok(KeyClient::connect(
        settings,
        Arc::new(SystemClock::new()),
        Arc::new(SystemEntropy),
        Arc::new(Threads),
    )?)
}

/// 4,000 keys, about a quarter of what fits. All are stored before time is taken: each store replaces one.
fn key(number: u64) -> [u8; 8] {
    (number.wrapping_mul(2_654_435_761) % KEYS).to_le_bytes()
}
