//! A proxy between a follower and a primary that cuts connections, or changes bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// What becomes of the bytes of the primary, by the number of the connection.
pub type Fault = Box<dyn Fn(u64) -> Harm + Send + Sync>;

#[derive(Clone, Copy)]
pub enum Harm {
    None,
    /// The connection ends after so many bytes.
    Cut(u64),
    /// The byte at this place is another one.
    Flip(u64),
}

/// Forwards connections until it is dropped.
pub struct Proxy {
    pub address: SocketAddr,
    pub connections: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    pub fn to(target: SocketAddr, fault: Fault) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let (stop, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), connections.clone());
        let thread = std::thread::spawn(move || {
            std::thread::scope(|scope| {
                while !stopped.load(Ordering::SeqCst) {
                    let Ok((client, _)) = listener.accept() else {
                        std::thread::sleep(Duration::from_millis(1));
                        continue;
                    };
                    let Ok(server) = TcpStream::connect(target) else { continue };
                    let harm = fault(counted.fetch_add(1, Ordering::SeqCst));
                    for socket in [&client, &server] {
                        socket.set_nonblocking(false).unwrap();
                        socket.set_nodelay(true).unwrap();
                        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                    }
                    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                    let stop = &stopped;
                    scope.spawn(move || pump(from, to, Harm::None, stop));
                    scope.spawn(move || pump(server, client, harm, stop));
                }
            });
        });
        Proxy { address, connections, stop, thread: Some(thread) }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Forwards bytes until one side ends.
fn pump(mut from: TcpStream, mut to: TcpStream, harm: Harm, stop: &AtomicBool) {
    let (mut bytes, mut passed) = (vec![0; 16 << 10], 0u64);
    while !stop.load(Ordering::SeqCst) {
        use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        let count = match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), Interrupted | TimedOut | WouldBlock) => continue,
            Err(_) => break,
        };
        let mut part = bytes[..count].to_vec();
        match harm {
            Harm::Cut(at) => part.truncate(at.saturating_sub(passed) as usize),
            Harm::Flip(at) => {
                let here = at.checked_sub(passed).and_then(|at| part.get_mut(at as usize));
                here.into_iter().for_each(|byte| *byte ^= 0x20);
            }
            Harm::None => {}
        }
        passed += part.len() as u64;
        if to.write_all(&part).is_err() || part.len() < count {
            break;
        }
    }
    for socket in [from, to] {
        let _ = socket.shutdown(Shutdown::Both);
    }
}
