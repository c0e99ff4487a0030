//! What a reactor does, on both engines: whatever holds for one holds for the other.

mod closing;
mod files;
mod sockets;
mod waking;

use esker_base::{Threads, skipped};
use esker_uring::{Completion, Descriptor, Engine, Reactor};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Runs `test` on a reactor of each engine, for at most 64 operations at a time. Where the system
/// forbids `io_uring`, the tests are of the other engine alone.
fn on_both(test: impl Fn(Reactor)) {
    match Reactor::with_engine(Engine::Ring, 64, &Threads) {
        Ok(reactor) => {
            assert_eq!(reactor.engine(), Engine::Ring);
            test(reactor);
        }
        Err(error) => {
            skipped("the half with io_uring", format_args!("there is none here: {error}"))
        }
    }
    let reactor = Reactor::with_engine(Engine::Blocking, 64, &Threads).unwrap();
    assert_eq!(reactor.engine(), Engine::Blocking);
    test(reactor);
}

/// A new file for direct I/O, or nothing if the file system has none.
fn direct_file(path: &Path) -> Option<Descriptor> {
    const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
    let mut options = File::options();
    options.read(true).write(true).create_new(true).custom_flags(O_DIRECT);
    let opened = options.open(path);
    opened
        .inspect_err(|error| {
            let why = format_args!("none for {}: {error}", path.display());
            skipped("direct I/O", why);
        })
        .ok()
        .map(Into::into)
}

/// Waits for `number` completions and gives them by token.
fn completions(reactor: &mut Reactor, number: usize) -> HashMap<u64, Completion> {
    let mut found = Vec::new();
    while found.len() < number {
        reactor.wait(None, &mut found).unwrap();
    }
    assert_eq!(found.len(), number);
    found.into_iter().map(|completion| (completion.token, completion)).collect()
}

/// Waits for the only operation in progress.
fn completion(reactor: &mut Reactor) -> Completion {
    completions(reactor, 1).into_values().next().unwrap()
}

/// The result of the only operation in progress, in bytes.
fn bytes(reactor: &mut Reactor) -> usize {
    completion(reactor).result.unwrap()
}

fn is_cancelled(completion: &Completion) -> bool {
    const ECANCELED: i32 = 125;
    matches!(&completion.result, Err(error) if error.raw_os_error() == Some(ECANCELED))
}
