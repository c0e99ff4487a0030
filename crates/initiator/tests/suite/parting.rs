//! What becomes of commands that were under way on an association that is given up.

use crate::clock::wait_until;
use crate::proxy::{Proxy, QUEUES};
use crate::{keys, serve, settings};
use esker_initiator::{RemoteError, Settings};
use esker_target::MemoryKeys;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Goes in a command's capsule, and not all of it into the proxy's buffer.
const CAPSULE_BYTES: usize = 60_000;

#[test]
fn a_store_that_was_given_up_does_not_come_after_the_next() {
    let target = serve(vec![Arc::new(MemoryKeys::new([1; 16], 1 << 30))]);
    let (proxy, address) = Proxy::start(target.address());
    let (keep_alive, deadline) = (Duration::ZERO, Duration::from_millis(500));
    let client = keys(Settings { keep_alive, deadline, ..settings(address) }).unwrap();
    client.store(b"k", b"first").unwrap();
    proxy.requests_wait.store(QUEUES, SeqCst);
    let given_up = client.store(b"k", &[7; CAPSULE_BYTES]);
    assert!(matches!(given_up, Err(RemoteError::Unknown { .. })), "{given_up:?}");
    client.store(b"k", b"next").unwrap();
    // The node has the controller still: the admin queue's end waits.
    proxy.requests_wait.store(1, SeqCst);
    let has_all = || target.totals().connections_closed == 1;
    wait_until("the node has all of the first I/O queue", has_all);
    assert!(client.retrieve(b"k").unwrap().unwrap() == b"next");
}
