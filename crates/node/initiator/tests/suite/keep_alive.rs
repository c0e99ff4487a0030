//! An association that is not used: it is kept while the node answers, and made anew when the node does not.

use crate::clock::{HandClock, wait_until};
use crate::proxy::{Proxy, QUEUES};
use crate::{node, settings, start};
use esker_base::{Clock, SystemClock};
use esker_initiator::{KeyClient, Settings};
use esker_target::{MemoryKeys, Target};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

fn serve(clock: Arc<dyn Clock>) -> Target {
    start(node(vec![Arc::new(MemoryKeys::new([1; 16], 1 << 30))]), clock)
}

fn connect(settings: Settings) -> KeyClient {
    crate::keys(settings).unwrap()
}

#[test]
fn an_idle_client_keeps_its_connections() {
    let clock = Arc::new(HandClock::default());
    let target = serve(clock.clone());
    let keep_alive = Duration::from_millis(60);
    let client = connect(settings(target.address()).keep_alive(keep_alive));
    let real = SystemClock::new();
    let (mut last, mut shortest) = (Duration::ZERO, Duration::MAX);
    for _ in 0..10 {
        let before = target.totals().commands;
        wait_until("a Keep Alive came", || target.totals().commands > before);
        shortest = shortest.min(real.now() - last);
        last = real.now();
        clock.sleep(keep_alive * 5 / 6);
    }
    // Of ten times between, a machine that stalls may lengthen some.
    assert!(shortest < keep_alive, "{shortest:?}");
    client.store(b"k", b"v").unwrap();
    let totals = target.totals();
    assert_eq!((totals.connections_opened, totals.connections_closed), (QUEUES as u64, 0));
}

#[test]
fn a_client_that_the_node_gave_up_connects_again() {
    let clock = Arc::new(HandClock::default());
    let target = serve(clock.clone());
    let (proxy, address) = Proxy::start(target.address());
    let keep_alive = Duration::from_secs(60);
    let client = connect(settings(address).keep_alive(keep_alive));
    clock.sleep(keep_alive);
    wait_until("the client noticed", || proxy.ended.load(SeqCst) == QUEUES);
    client.store(b"k", b"after").unwrap();
    assert_eq!(client.retrieve(b"k").unwrap().unwrap(), b"after");
}

#[test]
fn a_node_that_stops_answering_is_noticed_before_the_next_call() {
    // The node itself gives nobody up.
    let target = serve(Arc::new(HandClock::default()));
    let (proxy, address) = Proxy::start(target.address());
    let (keep_alive, deadline) = (Duration::from_millis(60), Duration::from_secs(1));
    let client = connect(settings(address).keep_alive(keep_alive).deadline(deadline));
    client.store(b"k", b"before").unwrap();
    proxy.answers_are_lost.store(true, SeqCst);
    wait_until("the client gave up both connections", || proxy.ended.load(SeqCst) == QUEUES);
    client.store(b"k", b"after").unwrap();
    assert_eq!(client.retrieve(b"k").unwrap().unwrap(), b"after");
}

#[test]
fn a_node_that_ends_the_admin_queue_is_noticed_at_once() {
    let target = serve(Arc::new(SystemClock::new()));
    let (proxy, address) = Proxy::start(target.address());
    let client = connect(settings(address).keep_alive(Duration::ZERO));
    proxy.clients()[0].shutdown(Shutdown::Both).unwrap();
    wait_until("the client gave up both connections", || proxy.ended.load(SeqCst) == QUEUES);
    client.store(b"k", b"after").unwrap();
    assert_eq!(client.retrieve(b"k").unwrap().unwrap(), b"after");
}

#[test]
fn a_client_that_is_dropped_leaves_no_connection() {
    let target = serve(Arc::new(SystemClock::new()));
    drop(connect(settings(target.address())));
    let is_gone = || target.totals().connections_closed == QUEUES as u64;
    wait_until("the node sees both connections end", is_gone);
}
