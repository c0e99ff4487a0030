//! What a node gives of what the machine has: retrieves of 4 KiB at depth 64 over loopback, beside the same bytes exchanged over
//! a plain socket, and beside plain reads of the same file at the same depth; then how long they take at half of that load,
//! where they come by the clock, whether or not those before are answered.
//!
//! `cargo run --release -p esker-node --example load -- DIRECTORY [SECONDS]`

mod support;

use esker_base::{Background, Clock, Priority, Rng, SystemClock, Threads};
use esker_target::{MemoryKeys, Namespace};
use esker_uring::{Buffer, Descriptor, Operation, Reactor};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::{Failure, Queue, connected, hash_store, percentiles, serve};

const VALUE_BYTES: usize = 4096;
const DEPTH: u16 = 64;
/// A command, and its answer: data and a completion.
const REQUEST_BYTES: usize = 72;
const ANSWER_BYTES: usize = 24 + VALUE_BYTES + 24;
const KEYS: u64 = 50_000;
const FILE_BYTES: u64 = 512 << 20;
const ROUNDS: u32 = 3;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("give a directory to work in")?;
    let seconds: u64 = arguments.next().map_or(Ok(3), |number| number.parse())?;
    let time = Duration::from_secs(seconds);
    let directory = tempfile::tempdir_in(directory)?;
    let path = directory.path().join("store");

    let memory: Arc<dyn Namespace> = Arc::new(MemoryKeys::new([1; 16], 1 << 30));
    let target = serve(vec![memory, Arc::new(hash_store(&path, FILE_BYTES)?)])?;
    let (_admin, mut io) = Queue::pair(target.address())?;
    for namespace in [1, 2] {
        for number in 0..KEYS {
            io.store(namespace, &number.to_be_bytes(), &[7; VALUE_BYTES])?;
        }
    }
    let mut plain = plain_peer()?;
    for round in 1..=ROUNDS {
        let (exchanged, in_memory) = (exchanges(&mut plain, time)?, retrieves(&mut io, 1, time)?);
        let (read, on_disk) = (reads(&path, time)?, retrieves(&mut io, 2, time)?);
        println!(
            "{round}: memory {in_memory:.0}/s of {exchanged:.0} plain exchanges, {:.2}x;  disk {on_disk:.0}/s of {read:.0} plain reads, {:.2}x",
            in_memory / exchanged,
            on_disk / read
        );
        for (name, namespace, peak) in [("memory", 1, in_memory), ("disk", 2, on_disk)] {
            let (p50, p99) = percentiles(&mut by_the_clock(&mut io, namespace, peak / 2.0, time)?);
            let ratio = p99.as_secs_f64() / p50.as_secs_f64();
            println!("   {name} at half of that: p50 {p50:.1?}  p99 {p99:.1?}  {ratio:.1}x");
        }
    }
    Ok(())
}

fn key(rng: &mut Rng) -> [u8; 8] {
    rng.below(KEYS).to_be_bytes()
}

/// Retrieves a second, with as many under way as the depth has.
fn retrieves(io: &mut Queue, namespace: u32, time: Duration) -> Result<f64, Failure> {
    let (clock, mut rng, mut done) = (SystemClock::new(), Rng::new(1), 0u64);
    for id in 0..DEPTH {
        io.retrieve(namespace, id, &key(&mut rng), VALUE_BYTES as u32);
    }
    let mut free = Vec::new();
    while clock.now() < time {
        io.send()?;
        io.receive(|cqe| free.push(cqe.command_id()))?;
        done += free.len() as u64;
        for id in free.drain(..) {
            io.retrieve(namespace, id, &key(&mut rng), VALUE_BYTES as u32);
        }
    }
    io.send()?;
    let rate = done as f64 / clock.now().as_secs_f64();
    settle(io, usize::from(DEPTH))?;
    Ok(rate)
}

fn settle(io: &mut Queue, mut under_way: usize) -> Result<(), Failure> {
    while under_way > 0 {
        io.receive(|_| under_way -= 1)?;
    }
    Ok(())
}

/// The times of retrieves that are due at a rate, from when they were due.
fn by_the_clock(
    io: &mut Queue,
    namespace: u32,
    rate: f64,
    time: Duration,
) -> Result<Vec<Duration>, Failure> {
    let (clock, mut rng, mut times) = (SystemClock::new(), Rng::new(2), Vec::new());
    let interval = Duration::from_secs_f64(1.0 / rate);
    let mut due = vec![Duration::ZERO; 127];
    let mut free: Vec<u16> = (0..127).collect();
    let mut next = clock.now();
    io.socket.set_nonblocking(true)?;
    while clock.now() < time {
        while next <= clock.now()
            && let Some(id) = free.pop()
        {
            due[usize::from(id)] = next;
            next += interval;
            io.retrieve(namespace, id, &key(&mut rng), VALUE_BYTES as u32);
        }
        io.send()?;
        io.receive(|cqe| {
            times.push(clock.now() - due[usize::from(cqe.command_id())]);
            free.push(cqe.command_id());
        })?;
        // The node has a thread, too, and may have no processor of its own.
        std::thread::yield_now();
    }
    io.socket.set_nonblocking(false)?;
    settle(io, 127 - free.len())?;
    Ok(times)
}

/// A socket whose peer answers each request.
fn plain_peer() -> Result<TcpStream, Failure> {
    let [socket, mut peer] = connected()?;
    let serve = move || {
        let answers = vec![7; usize::from(DEPTH) * ANSWER_BYTES];
        let (mut requests, mut begun) = (vec![0; usize::from(DEPTH) * REQUEST_BYTES], 0);
        while let Ok(bytes @ 1..) = peer.read(&mut requests) {
            let whole = (begun + bytes) / REQUEST_BYTES;
            begun = (begun + bytes) % REQUEST_BYTES;
            if peer.write_all(&answers[..whole * ANSWER_BYTES]).is_err() {
                return;
            }
        }
    };
    Threads.spawn("peer", Priority::Normal, Box::new(serve))?;
    Ok(socket)
}

/// Exchanges a second.
fn exchanges(socket: &mut TcpStream, time: Duration) -> Result<f64, Failure> {
    let (clock, mut done, mut begun) = (SystemClock::new(), 0u64, 0);
    let requests = vec![7; usize::from(DEPTH) * REQUEST_BYTES];
    let mut answers = vec![0; usize::from(DEPTH) * ANSWER_BYTES];
    socket.write_all(&requests)?;
    while clock.now() < time {
        let bytes = socket.read(&mut answers)?;
        let whole = (begun + bytes) / ANSWER_BYTES;
        begun = (begun + bytes) % ANSWER_BYTES;
        done += whole as u64;
        socket.write_all(&requests[..whole * REQUEST_BYTES])?;
    }
    let rate = done as f64 / clock.now().as_secs_f64();
    let left = usize::from(DEPTH) * ANSWER_BYTES - begun;
    socket.read_exact(&mut answers[..left])?;
    Ok(rate)
}

/// Direct reads of 4 KiB at random places of the file a second, through a ring.
fn reads(path: &Path, time: Duration) -> Result<f64, Failure> {
    const O_DIRECT: i32 = 0o40000;
    let file = File::options().read(true).custom_flags(O_DIRECT).open(path)?;
    let file = Descriptor::from(file);
    let (clock, mut rng, mut done) = (SystemClock::new(), Rng::new(3), 0u64);
    let mut reactor = Reactor::new(DEPTH.into(), &Threads)?;
    let mut read = |reactor: &mut Reactor, into| {
        let offset = rng.below(FILE_BYTES / VALUE_BYTES as u64) * VALUE_BYTES as u64;
        let read = Operation::ReadAt { file: file.clone(), offset, into };
        reactor.submit(0, read).map(drop).map_err(|_| "the ring is full")
    };
    for _ in 0..DEPTH {
        read(&mut reactor, Buffer::zeroed(VALUE_BYTES).whole())?;
    }
    let mut completions = Vec::new();
    while clock.now() < time {
        reactor.wait(None, &mut completions)?;
        for completion in completions.drain(..) {
            if completion.result? != VALUE_BYTES {
                return Err("a read was short".into());
            }
            done += 1;
            let buffer = completion.operation.into_buffer().ok_or("a read has a buffer")?;
            read(&mut reactor, buffer.whole())?;
        }
    }
    Ok(done as f64 / clock.now().as_secs_f64())
}
