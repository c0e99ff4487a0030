//! What a node does with all that this machine has: retrieves of 4 KiB at depth 64 over loopback, compared with the same bytes exchanged over
//! a plain socket; then from a disk, compared with plain reads of the same file at the same depth, and compared with an exchange of the same bytes with a
//! peer that does such a read for each and no more. The plain reads have a processor for themselves, the other two share it with who asks.
//!
//! Next to each rate is the processor time that one takes: of who asks and of who answers.
//!
//! Then how long retrieves take at half of that load, where they come at a fixed rate, whether or not those before are answered. That is
//! shown of the plain exchanges, too, and how late this program asked: what is late there, is so by the machine.
//!
//! `cargo run --release -p esker-node --example load -- DIRECTORY [SECONDS]`

mod peer;
mod plain;
#[path = "../support/mod.rs"]
mod support;

use esker_base::{Clock, SystemClock};
use esker_target::{MemoryKeys, Namespace};
use peer::{Exchanges, Peer, Reads, Retrieves};
use std::sync::Arc;
use std::time::Duration;
use support::{Failure, Queue, busy, hash_store, percentiles, serve};

const VALUE_BYTES: usize = 4096;
const KEYS: u64 = 50_000;
const FILE_BYTES: u64 = 512 << 20;
const DEPTH: u16 = 64;
/// What comes at a fixed rate may find so many unanswered, and then waits: for as long, its time counts.
const DEPTH_BY_THE_CLOCK: u16 = 127;
const ROUNDS: u32 = 3;
/// The peers at half load take turns of this length.
const TURN: Duration = Duration::from_millis(200);

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
        io.store_all(namespace, (0..KEYS).map(u64::to_be_bytes), &[7; VALUE_BYTES])?;
    }
    let (mut plain, mut reads) = (Exchanges::of_memory()?, Reads::new(&path)?);
    let mut plain_reads = Exchanges::of_file(&path)?;
    for round in 1..=ROUNDS {
        let base = at_depth(&mut plain, time)?;
        let rate = at_depth(&mut Retrieves::new(&mut io, 1), time)?;
        println!("{round}: memory {rate}, {:.2}x of {base} plain exchanges", rate.per(&base));
        at_half(&mut plain, &mut Retrieves::new(&mut io, 1), rate.each_second / 2.0, time)?;

        let base = at_depth(&mut reads, time)?;
        let exchanged = at_depth(&mut plain_reads, time)?;
        let rate = at_depth(&mut Retrieves::new(&mut io, 2), time)?;
        let (ratio, of_exchanged) = (rate.per(&base), rate.per(&exchanged));
        println!(
            "{round}: disk {rate}, {ratio:.2}x of {base} plain reads, {of_exchanged:.2}x of {exchanged} plain reads and exchanges"
        );
        at_half(&mut plain_reads, &mut Retrieves::new(&mut io, 2), rate.each_second / 2.0, time)?;
    }
    Ok(())
}

/// Answers, and the processor time that one takes, of who asks and of who answers.
struct Rate {
    each_second: f64,
    asking: Duration,
    answering: Duration,
}

impl Rate {
    fn per(&self, base: &Rate) -> f64 {
        self.each_second / base.each_second
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Rate { each_second, asking, answering } = self;
        write!(out, "{each_second:.0}/s ({asking:.2?} + {answering:.2?})")
    }
}

/// With as many asked for at a time as the depth has.
fn at_depth(peer: &mut impl Peer, time: Duration) -> Result<Rate, Failure> {
    let (clock, mut done) = (SystemClock::new(), 0u32);
    let before = busy();
    let mut free: Vec<u16> = (0..DEPTH).collect();
    while clock.now() < time {
        for id in free.drain(..) {
            peer.ask(id)?;
        }
        peer.send()?;
        peer.receive(|id| free.push(id))?;
        done += free.len() as u32;
    }
    let each_second = f64::from(done) / clock.now().as_secs_f64();
    let [all, asking] = [0, 1].map(|which| (busy()[which] - before[which]) / done);
    let rate = Rate { each_second, asking, answering: all.saturating_sub(asking) };
    settle(peer, usize::from(DEPTH) - free.len())?;
    Ok(rate)
}

fn settle(peer: &mut impl Peer, mut asked: usize) -> Result<(), Failure> {
    while asked > 0 {
        peer.receive(|_| asked -= 1)?;
    }
    Ok(())
}

/// Times at a rate, of the plain peer and of the node, which take turns.
fn at_half(
    plain: &mut impl Peer,
    node: &mut impl Peer,
    rate: f64,
    time: Duration,
) -> Result<(), Failure> {
    let (mut of_plain, mut of_node) = (Times::default(), Times::default());
    for _ in 0..time.div_duration_f64(TURN).ceil() as u32 {
        by_the_clock(plain, rate, &mut of_plain)?;
        by_the_clock(node, rate, &mut of_node)?;
    }
    println!("   at {rate:.0}/s:");
    for (name, mut times) in [("plain", of_plain), ("node", of_node)] {
        let (p50, p99) = percentiles(&mut times.answered);
        let (_, late) = percentiles(&mut times.asked);
        let ratio = p99.as_secs_f64() / p50.as_secs_f64();
        println!(
            "   {name:5} p50 {p50:>8.1?}  p99 {p99:>8.1?}  {ratio:>5.1}x;  asked late p99 {late:.1?}"
        );
    }
    Ok(())
}

/// Times from when something was due.
#[derive(Default)]
struct Times {
    asked: Vec<Duration>,
    answered: Vec<Duration>,
}

/// Asks at a rate for a turn.
fn by_the_clock(peer: &mut impl Peer, rate: f64, times: &mut Times) -> Result<(), Failure> {
    let clock = SystemClock::new();
    let interval = Duration::from_secs_f64(1.0 / rate);
    let mut due = [Duration::ZERO; DEPTH_BY_THE_CLOCK as usize];
    let mut free: Vec<u16> = (0..DEPTH_BY_THE_CLOCK).collect();
    let mut next = clock.now();
    peer.set_waits(false)?;
    while clock.now() < TURN {
        while next <= clock.now()
            && let Some(id) = free.pop()
        {
            times.asked.push(clock.now() - next);
            due[usize::from(id)] = next;
            next += interval;
            peer.ask(id)?;
        }
        peer.send()?;
        peer.receive(|id| {
            times.answered.push(clock.now() - due[usize::from(id)]);
            free.push(id);
        })?;
        // The peer has a thread, too, and may have no processor of its own.
        std::thread::yield_now();
    }
    peer.set_waits(true)?;
    settle(peer, due.len() - free.len())
}
