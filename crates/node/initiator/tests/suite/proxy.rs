//! What is between client and node, and does harm when the test says so.

use crate::clock::HandClock;
use esker_base::{Background, Clock, Priority, SystemClock, Threads};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Queues of a client that asks for one I/O queue, with the admin queue: each a connection.
pub const QUEUES: usize = 2;

/// Between client and node.
#[derive(Default)]
pub struct Proxy {
    /// Connections that the client ended.
    pub ended: AtomicUsize,
    /// The client's ends of all connections, in the order of their beginning.
    clients: Mutex<Vec<TcpStream>>,
    /// Whether the node's answers on the first connections are lost, and their end, too.
    pub answers_are_lost: AtomicBool,
    /// On how many of the first connections what the client sends waits, and their end, too.
    pub requests_wait: AtomicUsize,
    /// How often something that the client sent began to wait.
    pub waiting: AtomicUsize,
    /// How long each answer takes, by a clock.
    pub slowness: Mutex<Option<(Arc<HandClock>, Duration)>>,
    /// The one TLS identity that the node knows. A connection that begins with another is closed
    /// without an alert, as Linux does.
    pub identity: Mutex<Option<String>>,
    /// Whether the client is notified that I/O queues need no authentication.
    pub io_needs_no_proof: AtomicBool,
}

/// The least that the system gives: what waits is in the client's buffers.
const RECEIVE_BYTES: usize = 1;

/// In a PDU: what it is, and where AUTHREQ of Connect's answer is.
const RESPONSE: u8 = 5;
const AUTH_REQUIRED: (usize, u8) = (10, 2);

impl Proxy {
    pub fn start(node: SocketAddr) -> (Arc<Self>, SocketAddr) {
        let (proxy, listener) = (Arc::new(Proxy::default()), TcpListener::bind("127.0.0.1:0"));
        let listener = listener.unwrap();
        set_socket_recv_buffer_size(&listener, RECEIVE_BYTES).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = proxy.clone();
        run(move || {
            for client in listener.incoming() {
                shared.join(client.unwrap(), TcpStream::connect(node).unwrap());
            }
        });
        (proxy, address)
    }

    pub fn clients(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.clients.lock().unwrap()
    }

    fn join(self: &Arc<Self>, mut client: TcpStream, mut node: TcpStream) {
        let (mut to_client, mut from_node) =
            (client.try_clone().unwrap(), node.try_clone().unwrap());
        let number = self.clients().len();
        self.clients().push(client.try_clone().unwrap());
        let (proxy, shared) = (self.clone(), self.clone());
        let is_lost = move || number < QUEUES && proxy.answers_are_lost.load(SeqCst);
        run(move || {
            while let Some(mut bytes) = receive(&mut from_node) {
                if !number.is_multiple_of(QUEUES)
                    && shared.io_needs_no_proof.load(SeqCst)
                    && bytes[0] == RESPONSE
                {
                    bytes[AUTH_REQUIRED.0] &= !AUTH_REQUIRED.1;
                }
                if let Some((clock, time)) = &*shared.slowness.lock().unwrap() {
                    clock.sleep(*time);
                }
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
            let mut is_begin = true;
            while let Some(bytes) = receive(&mut client) {
                if is_begin && !proxy.knows_identity(&bytes) {
                    let _ = client.shutdown(Shutdown::Both);
                    break;
                }
                is_begin = false;
                proxy.wait_with_requests(number);
                let _ = node.write_all(&bytes);
            }
            proxy.wait_with_requests(number);
            let _ = node.shutdown(Shutdown::Write);
            proxy.ended.fetch_add(1, SeqCst);
        });
    }

    fn knows_identity(&self, hello: &[u8]) -> bool {
        let identity = self.identity.lock().unwrap();
        identity.as_ref().is_none_or(|identity| {
            hello.windows(identity.len()).any(|part| part == identity.as_bytes())
        })
    }

    fn wait_with_requests(&self, number: usize) {
        if number < self.requests_wait.load(SeqCst) {
            self.waiting.fetch_add(1, SeqCst);
        }
        while number < self.requests_wait.load(SeqCst) {
            SystemClock::new().sleep(Duration::from_millis(1));
        }
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
