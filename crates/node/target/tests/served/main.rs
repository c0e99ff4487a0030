//! A target behind a real socket, spoken to with bytes written by hand: nothing here uses the encoders under test.

mod aborts;
mod auth;
mod blocks;
mod budget;
mod controllers;
mod crowds;
mod devices;
mod digests;
mod failing;
mod held;
mod hostile;
mod keys;
mod long_keys;
mod ordered;
mod returning;
mod rounds;
mod tls;
mod transfers;
mod wire;

use esker_base::{Background, Clock, SystemClock, SystemEntropy, Threads};
use esker_nvme::Nqn;
use esker_target::{
    Access, MemoryBlocks, MemoryKeys, Namespace, Settings, Subsystem, Target, limits,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;
use std::time::Duration;

const NODE: &str = "nqn.2024-01.io.esker:node";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:7c1b5b0a-0000-4000-8000-000000000001";

/// Namespace 1 has keys, namespace 2 blocks of 512 bytes: 8 MiB.
fn subsystem(access: Access) -> Subsystem {
    let keys: Arc<dyn Namespace> = Arc::new(MemoryKeys::new([1; 16], 1 << 30));
    let blocks: Arc<dyn Namespace> = Arc::new(MemoryBlocks::new([2; 16], 16 << 10, 9));
    Subsystem::new(Nqn::new(NODE).unwrap(), "ESKER-TEST", vec![keys, blocks]).access(access)
}

fn start(subsystem: Subsystem) -> Target {
    start_by(subsystem, Arc::new(SystemClock::new()))
}

fn start_by(subsystem: Subsystem, clock: Arc<dyn Clock>) -> Target {
    start_reactors(2, subsystem, clock)
}

fn start_reactors(reactors: usize, subsystem: Subsystem, clock: Arc<dyn Clock>) -> Target {
    start_with(reactors, subsystem, clock, Arc::new(Threads))
}

fn start_with(
    reactors: usize,
    subsystem: Subsystem,
    clock: Arc<dyn Clock>,
    background: Arc<dyn Background>,
) -> Target {
    let settings = settings(reactors, subsystem);
    Target::start(settings, clock, Arc::new(SystemEntropy), &background).unwrap()
}

fn settings(reactors: usize, subsystem: Subsystem) -> Settings {
    Settings::new("127.0.0.1:0".parse().unwrap())
        .reactors(reactors)
        .drain_time(Duration::from_secs(10))
        .memory_bytes(limits::MEMORY_BYTES)
        .subsystems(vec![subsystem])
}

/// Allows the descriptors of several thousand connections, if the system does: both ends of all tests' are in this process. A test that
/// needs them is skipped otherwise, and says so.
fn allow_connections() -> bool {
    /// Two reactors' worth at both ends: those of the tests that run concurrently have space, too.
    const DESCRIPTORS: u64 = 4 * limits::CONNECTIONS as u64;
    let limit = getrlimit(Resource::Nofile);
    let is_allowed = limit.maximum.is_none_or(|maximum| maximum >= DESCRIPTORS);
    let is_less = limit.current.is_some_and(|current| current < DESCRIPTORS);
    if is_allowed && is_less {
        let raised = Rlimit { current: Some(DESCRIPTORS), ..limit };
        setrlimit(Resource::Nofile, raised).expect("it is no more than the hard limit");
    }
    if !is_allowed {
        let why = format_args!("it needs {DESCRIPTORS} descriptors; `ulimit -Hn` is less");
        esker_base::skipped("thousands of connections", why);
    }
    is_allowed
}

/// Waits for what comes soon. Where it never does, the test fails, and says what it waited for.
#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let clock = SystemClock::new();
    let deadline = clock.now() + Duration::from_secs(30);
    while !is_so() {
        assert!(clock.now() < deadline, "not within 30 s: {what}");
        std::thread::yield_now();
    }
}

fn open_target() -> Target {
    start(subsystem(Access::Anyone))
}
