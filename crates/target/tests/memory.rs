//! What connections that never get anywhere cost: measured in a process of its own.

use esker_base::{Background, SystemClock, SystemEntropy, Threads};
use esker_nvme::Nqn;
use esker_target::{Access, MemoryKeys, Settings, Subsystem, Target};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

const CONNECTIONS: u64 = 1000;

/// Of the process: the kernel's own memory for sockets is not in it.
const BYTES_EACH: u64 = 8 << 10;

fn target() -> Target {
    let subsystem = Subsystem {
        nqn: Nqn::new("nqn.test").unwrap(),
        serial: "ESKER-TEST".to_owned(),
        namespaces: vec![Arc::new(MemoryKeys::new([1; 16], 1 << 20))],
        access: Access::Anyone,
    };
    let settings = Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        reactors: 2,
        drain_time: Duration::from_secs(1),
        subsystems: vec![subsystem],
    };
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

#[test]
fn a_thousand_half_open_connections_take_a_few_megabytes_and_give_them_back() {
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
}
