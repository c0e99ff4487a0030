//! What bad peers cost the good: one host stores and retrieves 4 KiB at depth 1, in turns alone and next to a thousand
//! connections that never get anywhere, others that send their commands byte by byte, and others that send damaged PDUs and come
//! again when they are thrown out.
//!
//! `cargo run --release -p esker-node --example hostile -- [SECONDS]`

mod support;

use esker_base::background::Running;
use esker_base::{Background, Clock, Priority, Rng, SystemClock, Threads};
use esker_target::MemoryKeys;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use support::{Failure, Queue, percentiles, serve};

const HALF_OPEN: usize = 1000;
const ROUNDS: usize = 3;
const VALUE_BYTES: usize = 4096;

fn main() -> Result<(), Failure> {
    let seconds: u64 = std::env::args().nth(1).map_or(Ok(3), |number| number.parse())?;
    let time = Duration::from_secs(seconds);
    let target = serve(vec![Arc::new(MemoryKeys::new([1; 16], 1 << 30))])?;
    let (_admin, mut good) = Queue::pair(target.address())?;
    for round in 1..=ROUNDS {
        let alone = latencies(&mut good, time)?;
        let bad = Bad::start(target.address())?;
        let beside = latencies(&mut good, time)?;
        let (bytes, thrown_out) = bad.end();
        println!(
            "{round}: alone p50 {:.1?} p99 {:.1?};  beside {HALF_OPEN} half-open connections, {bytes} single bytes and {thrown_out} damaged connections p50 {:.1?} p99 {:.1?}",
            alone.0, alone.1, beside.0, beside.1
        );
    }
    Ok(())
}

fn latencies(good: &mut Queue, time: Duration) -> Result<(Duration, Duration), Failure> {
    let (clock, mut times) = (SystemClock::new(), Vec::new());
    while clock.now() < time {
        let began = clock.now();
        good.store(1, b"good", &[7; VALUE_BYTES])?;
        let mut is_done = false;
        good.retrieve(1, 1, b"good", VALUE_BYTES as u32);
        good.send()?;
        while !is_done {
            good.receive(|_| is_done = true)?;
        }
        times.push((clock.now() - began) / 2);
    }
    Ok(percentiles(&mut times))
}

/// Peers that are up to no good, until they are ended.
struct Bad {
    is_over: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    thrown_out: Arc<AtomicU64>,
    threads: Vec<Box<dyn Running>>,
    _half_open: Vec<TcpStream>,
}

impl Bad {
    fn start(address: SocketAddr) -> Result<Self, Failure> {
        let open = |number: usize| -> std::io::Result<TcpStream> {
            let mut socket = TcpStream::connect(address)?;
            socket.write_all(&[0, 0, 128, 0, 128, 0, 0][..number % 8])?;
            Ok(socket)
        };
        let half_open = (0..HALF_OPEN).map(open).collect::<std::io::Result<_>>()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (bytes, thrown_out) = <(Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let mut threads = Vec::new();
        let (over, count) = (is_over.clone(), bytes.clone());
        let slow =
            move || while !over.load(Relaxed) && send_slowly(address, &over, &count).is_ok() {};
        threads.extend(Threads.spawn("slow", Priority::Normal, Box::new(slow))?);
        let (over, count) = (is_over.clone(), thrown_out.clone());
        let damaged = move || {
            let mut rng = Rng::new(1);
            while !over.load(Relaxed) && send_damaged(address, &mut rng).is_ok() {
                count.fetch_add(1, Relaxed);
            }
        };
        threads.extend(Threads.spawn("damaged", Priority::Normal, Box::new(damaged))?);
        Ok(Bad { is_over, bytes, thrown_out, threads, _half_open: half_open })
    }

    fn end(self) -> (u64, u64) {
        self.is_over.store(true, Relaxed);
        for thread in self.threads {
            thread.join();
        }
        (self.bytes.load(Relaxed), self.thrown_out.load(Relaxed))
    }
}

/// A store, whose bytes come one by one.
fn send_slowly(address: SocketAddr, over: &AtomicBool, count: &AtomicU64) -> Result<(), Failure> {
    let (_admin, mut io) = Queue::pair(address)?;
    while !over.load(Relaxed) {
        io.retrieve(1, 1, b"slow", 64);
        for byte in io.take_unsent() {
            io.socket.write_all(&[byte])?;
            count.fetch_add(1, Relaxed);
            // As fast as it can be and still be single bytes.
            std::thread::yield_now();
        }
        let mut answer = [0; 24];
        io.socket.read_exact(&mut answer)?;
    }
    Ok(())
}

/// A command with some bytes changed, and whatever the node says to it.
fn send_damaged(address: SocketAddr, rng: &mut Rng) -> Result<(), Failure> {
    let (_admin, mut io) = Queue::pair(address)?;
    io.retrieve(1, 1, b"other", 64);
    let mut bytes = io.take_unsent();
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len() as u64) as usize;
        bytes[at] = rng.next_u64() as u8;
    }
    // The node may have closed it by then.
    let _ = io.socket.write_all(&bytes);
    let _ = io.socket.shutdown(std::net::Shutdown::Write);
    let _ = io.socket.read_to_end(&mut Vec::new());
    Ok(())
}
