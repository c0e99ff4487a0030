//! What becomes of commands that were in progress on an association that is dropped.

use crate::clock::{HandClock, wait_until};
use crate::proxy::{Proxy, QUEUES};
use crate::{keys_by, serve, settings};
use esker_base::Clock;
use esker_initiator::RemoteError;
use esker_target::{Description, MemoryKeys, Namespace, Reply, Request};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Goes in a command's capsule, and not all of it into the proxy's buffer.
const CAPSULE_BYTES: usize = 60_000;

#[test]
fn a_store_that_was_given_up_does_not_come_after_the_next() {
    let target = serve(vec![Arc::new(MemoryKeys::new([1; 16], 1 << 30))]);
    let (proxy, address) = Proxy::start(target.address());
    let clock = Arc::new(HandClock::default());
    let (keep_alive, deadline) = (Duration::ZERO, Duration::from_secs(3600));
    let settings = settings(address).keep_alive(keep_alive).deadline(deadline);
    let client = keys_by(clock.clone(), settings).unwrap();
    client.store(b"k", b"first").unwrap();
    proxy.requests_wait.store(QUEUES, SeqCst);
    let given_up = std::thread::scope(|scope| {
        let store = scope.spawn(|| client.store(b"k", &[7; CAPSULE_BYTES]));
        wait_until("its beginning waits", || proxy.waiting.load(SeqCst) > 0);
        clock.sleep(deadline);
        store.join().unwrap()
    });
    assert!(matches!(given_up, Err(RemoteError::Unknown { .. })), "{given_up:?}");
    std::thread::scope(|scope| {
        let next = scope.spawn(|| client.store(b"k", b"next"));
        // It waits for the end of what was before, for a part of its own time.
        wait_until("it connects anew", || {
            clock.sleep(Duration::from_secs(1));
            proxy.clients().len() > QUEUES || next.is_finished()
        });
        next.join().unwrap().unwrap();
    });
    // The node has the controller still: the admin queue's end waits.
    proxy.requests_wait.store(1, SeqCst);
    let has_all = || target.totals().connections_closed == 1;
    wait_until("the node has all of the first I/O queue", has_all);
    assert!(client.retrieve(b"k").unwrap().unwrap() == b"next");
}

/// Keys in memory, of which as many retrieves as there are queues are never answered.
struct Forgetful {
    keys: MemoryKeys,
    forgotten: Mutex<Vec<Reply>>,
}

impl Forgetful {
    fn count(&self) -> usize {
        self.forgotten.lock().unwrap().len()
    }
}

impl Namespace for Forgetful {
    fn guid(&self) -> [u8; 16] {
        self.keys.guid()
    }
    fn description(&self) -> Description {
        self.keys.description()
    }
    fn submit(&self, request: Request, reply: Reply) {
        if matches!(request, Request::Retrieve { .. }) && self.count() < QUEUES {
            return self.forgotten.lock().unwrap().push(reply);
        }
        self.keys.submit(request, reply);
    }
}

#[test]
fn a_retrieve_on_another_queue_than_one_that_was_not_answered_is_sent_again() {
    let keys = MemoryKeys::new([1; 16], 1 << 30);
    let namespace = Arc::new(Forgetful { keys, forgotten: Mutex::default() });
    let target = serve(vec![namespace.clone()]);
    let clock = Arc::new(HandClock::default());
    let deadline = Duration::from_secs(20);
    let settings = settings(target.address()).queues(QUEUES as u16).deadline(deadline);
    let client = keys_by(clock.clone(), settings).unwrap();
    client.store(b"a", b"1").unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| client.retrieve(b"a"));
        wait_until("the node has the first", || namespace.count() == 1);
        clock.sleep(deadline / 2);
        let second = scope.spawn(|| client.retrieve(b"a"));
        wait_until("the node has the second", || namespace.count() == 2);
        clock.sleep(deadline / 2);
        let first = first.join().unwrap();
        assert!(matches!(first, Err(RemoteError::Deadline)), "{first:?}");
        // Finds that the first queue has failed, and connects anew.
        assert!(client.exist(b"a").unwrap());
        assert_eq!(second.join().unwrap().unwrap().unwrap(), b"1");
    });
}
