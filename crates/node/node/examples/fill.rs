//! What a fill costs: many threads store values of 32 KiB through few connections, in a hash store with a volatile cache and in one
//! without, next to direct writes of as many bytes with as many in progress, through a ring, by one thread that does nothing else.
//!
//! `cargo run --release -p esker-node --example fill -- DIRECTORY [ROUNDS] [THREADS] [CONNECTIONS]`

mod support;

use esker_base::{Background, Clock, Priority, Rng, SystemClock, SystemEntropy, Threads};
use esker_hashstore::device::FileDevice;
use esker_initiator::{KeyClient, Settings};
use esker_nvme::Nqn;
use esker_uring::{Buffer, Operation, Reactor};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::{Failure, NODE, busy, hash_store_with, percentiles, serve};

const VALUE_BYTES: usize = 32 << 10;
const FILE_BYTES: u64 = 1 << 30;
/// Values a thread stores in a turn.
const STORES: u64 = 400;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("give a directory to work in")?;
    let mut number = |or: usize| arguments.next().map_or(Ok(or), |number| number.parse());
    let (rounds, threads, connections) = (number(3)?, number(15)?, number(15)?);
    let directory = tempfile::tempdir_in(directory)?;
    let plain = directory.path().join("plain");
    drop(FileDevice::create(&plain, Some(FILE_BYTES))?);
    let volatile = hash_store_with(&directory.path().join("volatile"), FILE_BYTES, true)?;
    let safe = hash_store_with(&directory.path().join("safe"), FILE_BYTES, false)?;
    let target = serve(vec![Arc::new(volatile), Arc::new(safe)])?;
    for round in 1..=rounds {
        let mut times = written(&plain, threads, threads as u64 * STORES)?;
        say(round, "plain writes", &mut times);
        for (namespace, name) in [(1, "volatile cache"), (2, "power-safe")] {
            let nqn = |name| Nqn::new(name);
            let mut settings = Settings::new(target.address(), nqn("nqn.fill")?, nqn(NODE)?);
            (settings.namespace, settings.queues) = (namespace, connections as u16);
            let client = KeyClient::connect(
                settings,
                Arc::new(SystemClock::new()),
                Arc::new(SystemEntropy),
                Arc::new(Threads),
            )?;
            say(round, name, &mut stored(&Arc::new(client), threads)?);
        }
    }
    Ok(())
}

struct Times {
    each: Vec<Duration>,
    all: Duration,
    /// Of all processors, by this process.
    busy: Duration,
}

fn say(round: usize, name: &str, times: &mut Times) {
    let mean = times.each.iter().sum::<Duration>() / times.each.len() as u32;
    let rate = times.each.len() as f64 / times.all.as_secs_f64();
    let (p50, p99) = percentiles(&mut times.each);
    let busy = times.busy / times.each.len() as u32;
    println!(
        "{round}: {name:14} {rate:>6.0}/s  mean {mean:>8.1?}  p50 {p50:>8.1?}  p99 {p99:>8.1?}  busy {busy:.1?} each"
    );
}

fn written(path: &Path, depth: usize, count: u64) -> Result<Times, Failure> {
    let device = FileDevice::open(path)?;
    let (file, mut reactor) = (device.descriptor()?, Reactor::new(depth as u32, &Threads)?);
    let (clock, mut rng, before) = (SystemClock::new(), Rng::new(1), busy()[0]);
    let (mut began, mut each) = (vec![Duration::ZERO; depth], Vec::new());
    let (mut free, mut done): (Vec<usize>, _) = ((0..depth).collect(), Vec::new());
    while (each.len() as u64) < count {
        for place in free.drain(..) {
            began[place] = clock.now();
            let offset = rng.below(FILE_BYTES / VALUE_BYTES as u64) * VALUE_BYTES as u64;
            let from = Buffer::stale(VALUE_BYTES).whole();
            let write = Operation::WriteAt { file: file.clone(), offset, from };
            reactor.submit(place as u64, write).map_err(|_| "the ring is full")?;
        }
        reactor.wait(None, &mut done)?;
        for completion in done.drain(..) {
            completion.result?;
            let place = completion.token as usize;
            each.push(clock.now() - began[place]);
            free.push(place);
        }
    }
    Ok(Times { each, all: clock.now(), busy: busy()[0] - before })
}

fn stored(client: &Arc<KeyClient>, threads: usize) -> Result<Times, Failure> {
    let (clock, before) = (SystemClock::new(), busy()[0]);
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut running = Vec::new();
    for thread in 0..threads as u32 {
        let (client, sender) = (client.clone(), sender.clone());
        let fill = move || {
            let (clock, value) = (SystemClock::new(), vec![7; VALUE_BYTES]);
            let mut times = Vec::new();
            for number in 0..STORES as u32 {
                let began = clock.now();
                let key = (thread * STORES as u32 + number).to_be_bytes();
                client.store(&key, &value).expect("a store");
                times.push(clock.now() - began);
            }
            let _ = sender.send(times);
        };
        running.extend(Threads.spawn("fill", Priority::Normal, Box::new(fill))?);
    }
    drop(sender);
    let each = receiver.iter().flatten().collect();
    let all = clock.now();
    for thread in running {
        thread.join();
    }
    Ok(Times { each, all, busy: busy()[0] - before })
}
