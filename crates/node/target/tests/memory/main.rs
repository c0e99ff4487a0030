//! What connections that never get anywhere cost, and what those leave that end badly: measured in a process of its own.

#[path = "../served/wire.rs"]
#[allow(dead_code, reason = "it serves the other tests, too")]
mod wire;

use esker_base::{Background, Rng, SystemClock, SystemEntropy, Threads};
use esker_nvme::Nqn;
use esker_target::{MemoryKeys, Settings, Subsystem, Target, limits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use wire::{Wire, by_transport, in_capsule, key_command};

const NODE: &str = "nqn.2024-01.io.esker:node";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:7c1b5b0a-0000-4000-8000-000000000001";

const CONNECTIONS: u64 = 1000;

/// Of the process: the kernel's own memory for sockets is not in it.
const BYTES_EACH: u64 = 8 << 10;

fn target() -> Target {
    let subsystem = Subsystem::new(
        Nqn::new(NODE).unwrap(),
        "ESKER-TEST",
        vec![Arc::new(MemoryKeys::new([1; 16], 1 << 20))],
    );
    let settings = Settings::new("127.0.0.1:0".parse().unwrap())
        .reactors(2)
        .drain_time(Duration::from_secs(1))
        .memory_bytes(limits::MEMORY_BYTES)
        .subsystems(vec![subsystem]);
    let background: Arc<dyn Background> = Arc::new(Threads);
    let clock = Arc::new(SystemClock::new());
    Target::start(settings, clock, Arc::new(SystemEntropy), &background).unwrap()
}

/// Memory of this process that is not files, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Opens connections, of which some say nothing, and others begin to say something.
fn half_open(target: &Target) -> Vec<TcpStream> {
    let before = target.totals().connections_opened;
    let open = |number| {
        let mut stream = TcpStream::connect(target.address()).unwrap();
        stream.write_all(&[0, 0, 128, 0, 128, 0, 0][..number as usize % 8]).unwrap();
        stream
    };
    let streams = (0..CONNECTIONS).map(open).collect();
    while target.totals().connections_opened < before + CONNECTIONS {
        std::thread::yield_now();
    }
    streams
}

/// Hosts that end badly, each in a way of its own.
const BAD_HOSTS: u32 = 300;

/// What memory may be more by, after rounds of as many: less than they would leave if each left two pages.
const LEFT_BYTES: u64 = 2 << 20;

/// Connects, and ends in the middle of something.
fn end_badly(target: &Target, number: u32, rng: &mut Rng) {
    let address = target.address();
    if number.is_multiple_of(5) {
        let mut garbage = [0; 200];
        rng.fill(&mut garbage);
        let mut raw = Wire::raw(address);
        let _ = raw.stream.write_all(&garbage);
        return;
    }
    let (_admin, mut io) = Wire::queues(address, (number % 4) as u8);
    let mut sqe = key_command(0x01, b"key", 64 << 10, 0);
    match number % 5 {
        // The data that was asked for comes in part.
        1 => {
            by_transport(&mut sqe, 64 << 10);
            let id = io.send(&mut sqe, &[]);
            let ready = io.read();
            let tag = u16::from_le_bytes([ready[10], ready[11]]);
            let piece = io.host_data(id, tag, 0, &[1; 16 << 10], false);
            io.stream.write_all(&piece).unwrap();
        }
        // So does a capsule.
        2 => {
            in_capsule(&mut sqe, 4096);
            let pdu = io.capsule(&sqe, &[1; 4096]);
            io.stream.write_all(&pdu[..pdu.len() / 2]).unwrap();
        }
        // Some bytes are others than they should be.
        3 => {
            let mut pdu = io.capsule(&sqe, &[]);
            for _ in 0..3 {
                let at = rng.below(pdu.len() as u64) as usize;
                pdu[at] = rng.next_u64() as u8;
            }
            io.stream.write_all(&pdu).unwrap();
        }
        // Answers are not read.
        _ => {
            assert_eq!(io.store_by_transfer(b"long", &[2; 64 << 10], 32 << 10).status, 0);
            for _ in 0..20 {
                let mut sqe = key_command(0x02, b"long", 64 << 10, 0);
                by_transport(&mut sqe, 64 << 10);
                io.send(&mut sqe, &[]);
            }
        }
    }
}

fn wait_until_closed(target: &Target) {
    let is_open = || {
        let totals = target.totals();
        totals.connections_closed < totals.connections_opened
    };
    while is_open() {
        std::thread::yield_now();
    }
}

fn hosts_that_end_badly_leave_nothing(target: &Target) {
    let (mut rng, mut rounds) = (Rng::new(1), Vec::new());
    for _ in 0..5 {
        (0..BAD_HOSTS).for_each(|number| end_badly(target, number, &mut rng));
        wait_until_closed(target);
        rounds.push(memory());
    }
    println!("bytes after {BAD_HOSTS} hosts that ended badly, round by round: {rounds:?}");
    // Until the second round buffers and tables find their sizes.
    assert!(rounds[2..].iter().all(|&after| after < rounds[1] + LEFT_BYTES), "{rounds:?}");
}

/// What half-sent stores may take in addition to the budget: both ends' sockets and small buffers, of all
/// connections.
const BESIDE_BYTES: u64 = 48 << 20;

/// What may stay when they are gone.
const STAYS_BYTES: u64 = 32 << 20;

fn half_sent_stores_take_the_budget_at_most_and_give_it_back(target: &Target) {
    const HOSTS: usize = 100;
    let before = memory();
    let hosts: Vec<_> = (0..HOSTS)
        .map(|number| {
            // Connections go to reactors in turn: so both have I/O queues.
            let _idle = (number % 2 == 0).then(|| Wire::raw(target.address()));
            let (admin, mut io) = Wire::queues(target.address(), 0);
            for _ in 0..8 {
                let mut sqe = key_command(0x01, b"key", 1 << 20, 0);
                by_transport(&mut sqe, 1 << 20);
                io.send(&mut sqe, &[]);
            }
            (admin, io)
        })
        .collect();
    while target.totals().held_bytes < (limits::MEMORY_BYTES / 2 - (1 << 20)) as u64 {
        std::thread::yield_now();
    }
    // Those that were asked send all but the end, so that the memory is in use.
    for (_, io) in &hosts {
        let mut ready = [0; 8 * 24];
        io.stream.set_nonblocking(true).unwrap();
        let come = io.stream.peek(&mut ready).unwrap_or(0);
        io.stream.set_nonblocking(false).unwrap();
        for ready in ready[..come].chunks_exact(24) {
            let number = |at| u16::from_le_bytes([ready[at], ready[at + 1]]);
            for offset in (0..7 << 17).step_by(1 << 17) {
                let pdu = io.host_data(number(8), number(10), offset, &[1; 1 << 17], false);
                (&io.stream).write_all(&pdu).unwrap();
            }
        }
    }
    let held = memory().saturating_sub(before);
    drop(hosts);
    wait_until_closed(target);
    let stays = memory().saturating_sub(before);
    println!(
        "bytes held by half-sent stores of {HOSTS} hosts: {held}, and when they are gone: {stays}"
    );
    assert!(held < limits::MEMORY_BYTES as u64 + BESIDE_BYTES, "{held}");
    assert!(stays < STAYS_BYTES, "{stays}");
}

/// One after the other: what is measured is the process.
#[test]
fn half_open_connections_take_a_few_megabytes_and_give_them_back_and_bad_ones_leave_nothing() {
    // Both ends are in this process.
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: Some(4096), ..limit };
    setrlimit(Resource::Nofile, raised).expect("the hard limit is above that");
    let target = target();
    let before = memory();
    let mut rounds = Vec::new();
    for round in 1..=4 {
        let streams = half_open(&target);
        rounds.push(memory().saturating_sub(before));
        drop(streams);
        while target.totals().connections_closed < round * CONNECTIONS {
            std::thread::yield_now();
        }
    }
    println!("bytes held by {CONNECTIONS} connections, round by round: {rounds:?}");
    let most = CONNECTIONS * BYTES_EACH;
    assert!(rounds.iter().all(|&held| held < most), "{rounds:?}");
    half_sent_stores_take_the_budget_at_most_and_give_it_back(&target);
    hosts_that_end_badly_leave_nothing(&target);
}
