//! An association that nobody uses: it is kept while the node answers, and made anew when the node does not.

use crate::{node, settings, start};
use esker_base::{Background, Clock, Priority, SystemClock, Threads};
use esker_initiator::{KeyClient, Settings};
use esker_target::{MemoryKeys, Target};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Queues that the client has, with the admin queue: each a connection.
const QUEUES: usize = 2;

fn serve(clock: Arc<dyn Clock>) -> Target {
    start(node(vec![Arc::new(MemoryKeys::new([1; 16], 1 << 30))]), clock)
}

fn connect(settings: Settings) -> KeyClient {
    crate::keys(settings).unwrap()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let clock = SystemClock::new();
    while !is_so() {
        assert!(clock.now() < Duration::from_secs(20), "still not so: {what}");
        clock.sleep(Duration::from_millis(1));
    }
}

/// A clock that is set by hand, in milliseconds.
#[derive(Default)]
struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(SeqCst))
    }
    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_millis() as u64, SeqCst);
    }
}

#[test]
fn an_idle_client_keeps_its_connections() {
    let clock = Arc::new(HandClock::default());
    let target = serve(clock.clone());
    let keep_alive = Duration::from_millis(60);
    let client = connect(Settings { keep_alive, ..settings(target.address()) });
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

/// Between client and node.
#[derive(Default)]
struct Proxy {
    /// Connections that the client ended.
    ended: AtomicUsize,
    /// The client's ends of all connections, in the order of their beginning.
    clients: Mutex<Vec<TcpStream>>,
    /// Whether the node's answers on the first connections are lost, and their end, too.
    answers_are_lost: AtomicBool,
}

impl Proxy {
    fn start(node: SocketAddr) -> (Arc<Self>, SocketAddr) {
        let (proxy, listener) = (Arc::new(Proxy::default()), TcpListener::bind("127.0.0.1:0"));
        let listener = listener.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = proxy.clone();
        run(move || {
            for client in listener.incoming() {
                shared.join(client.unwrap(), TcpStream::connect(node).unwrap());
            }
        });
        (proxy, address)
    }

    fn clients(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.clients.lock().unwrap()
    }

    fn join(self: &Arc<Self>, mut client: TcpStream, mut node: TcpStream) {
        let (mut to_client, mut from_node) =
            (client.try_clone().unwrap(), node.try_clone().unwrap());
        let number = self.clients().len();
        self.clients().push(client.try_clone().unwrap());
        let proxy = self.clone();
        let is_lost = move || number < QUEUES && proxy.answers_are_lost.load(SeqCst);
        run(move || {
            while let Some(bytes) = receive(&mut from_node) {
                if !is_lost() && to_client.write_all(&bytes).is_err() {
                    break;
                }
            }
            if !is_lost() {
                let _ = to_client.shutdown(Shutdown::Write);
            }
        });
        let proxy = self.clone();
        run(move || {
            while let Some(bytes) = receive(&mut client) {
                let _ = node.write_all(&bytes);
            }
            proxy.ended.fetch_add(1, SeqCst);
        });
    }
}

fn run(body: impl FnOnce() + Send + 'static) {
    Threads.spawn("proxy", Priority::Normal, Box::new(body)).unwrap();
}

fn receive(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 1 << 16];
    let received = from.read(&mut bytes).ok().filter(|&received| received > 0)?;
    bytes.truncate(received);
    Some(bytes)
}

#[test]
fn a_client_that_the_node_gave_up_connects_again() {
    let clock = Arc::new(HandClock::default());
    let target = serve(clock.clone());
    let (proxy, address) = Proxy::start(target.address());
    let keep_alive = Duration::from_secs(60);
    let client = connect(Settings { keep_alive, ..settings(address) });
    clock.sleep(keep_alive);
    wait_until("the client noticed", || proxy.ended.load(SeqCst) == QUEUES);
    client.store(b"k", b"after").unwrap();
    assert_eq!(client.retrieve(b"k").unwrap().unwrap(), b"after");
}

#[test]
fn a_node_that_stops_answering_is_noticed_before_the_next_call() {
    let target = serve(Arc::new(SystemClock::new()));
    let (proxy, address) = Proxy::start(target.address());
    let (keep_alive, deadline) = (Duration::from_millis(60), Duration::from_secs(1));
    let client = connect(Settings { keep_alive, deadline, ..settings(address) });
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
    let client = connect(Settings { keep_alive: Duration::ZERO, ..settings(address) });
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
