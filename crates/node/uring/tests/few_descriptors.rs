//! A process that may open few files, and the engine without a ring.

use esker_base::Threads;
use esker_uring::{Buffer, Descriptor, Engine, Operation, Reactor};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::Duration;

/// The limit is the process's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn reactor() -> Reactor {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(80), ..limit }).unwrap();
    Reactor::with_engine(Engine::Blocking, 256, &Threads).unwrap()
}

#[test]
fn more_operations_than_there_may_be_descriptors_are_waited_for() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut reactor = reactor();
    for number in 0..30 {
        let (one, other) = UnixStream::pair().unwrap();
        for socket in [one, other].map(Descriptor::from) {
            let into = Buffer::zeroed(1).whole();
            let receive = Operation::Receive { socket: socket.clone(), into, all: true };
            reactor.submit(number, receive).unwrap();
            let from = vec![Buffer::from_slice(b"x").whole()];
            reactor.submit(number, Operation::Send { socket, from }).unwrap();
        }
    }
    let mut done = Vec::new();
    while done.len() < 120 {
        reactor.wait(None, &mut done).unwrap();
    }
    assert!(done.iter().all(|completion| matches!(completion.result, Ok(1))));
}

#[test]
fn a_timeout_takes_no_descriptor() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut reactor = reactor();
    let open = || std::fs::File::open("/dev/null").ok();
    let held: Vec<_> = std::iter::from_fn(open).collect();
    reactor.submit(1, Operation::Timeout { after: Duration::from_millis(1) }).unwrap();
    let mut done = Vec::new();
    while done.is_empty() {
        reactor.wait(None, &mut done).unwrap();
    }
    drop(held);
    assert!(matches!(done[0].result, Ok(0)), "{:?}", done[0].result);
}
