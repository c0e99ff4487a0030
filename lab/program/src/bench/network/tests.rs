//! The relay on real sockets: what comes out is what went in. When it comes out is the wire's affair.

use super::*;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

/// Sends back what each of so many connections sends, until it ends.
fn echo(listener: TcpListener, connections: usize) {
    std::thread::scope(|scope| {
        for _ in 0..connections {
            let (mut socket, _) = listener.accept().unwrap();
            scope.spawn(move || {
                let mut buffer = vec![0; 100_000];
                loop {
                    match socket.read(&mut buffer).unwrap() {
                        0 => break socket.shutdown(Shutdown::Write).unwrap(),
                        read => socket.write_all(&buffer[..read]).unwrap(),
                    }
                }
            });
        }
    });
}

/// Bytes that show their place and their connection.
fn pattern(connection: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251 + connection * 7) as u8).collect()
}

#[test]
fn what_goes_in_comes_out_in_order_both_ways_and_so_does_the_end() {
    for network in [Network::Relay, Network::TenGigabit] {
        let node = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = node.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| echo(node, 8));
            let relay = Relay::start(network, address).unwrap().unwrap();
            let clients: Vec<_> = (0..8)
                .map(|connection| {
                    let socket = TcpStream::connect(relay.address()).unwrap();
                    let sent = pattern(connection, 3_000_000 + connection);
                    scope.spawn(move || {
                        std::thread::scope(|scope| {
                            scope.spawn(|| {
                                (&socket).write_all(&sent).unwrap();
                                socket.shutdown(Shutdown::Write).unwrap();
                            });
                            let mut back = Vec::new();
                            (&socket).read_to_end(&mut back).unwrap();
                            assert!(back == sent, "{} of {} bytes", back.len(), sent.len());
                        });
                    })
                })
                .collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            assert!(relay.cpu_time() > Duration::ZERO);
        });
    }
}

#[test]
fn a_node_that_goes_takes_its_clients_connections_with_it() {
    let node = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let relay = Relay::start(Network::Relay, node.local_addr().unwrap()).unwrap().unwrap();
    let mut client = TcpStream::connect(relay.address()).unwrap();
    drop(node.accept().unwrap());
    drop(node);
    let mut byte = [0];
    assert!(matches!(client.read(&mut byte), Ok(0) | Err(_)));
    let mut other = TcpStream::connect(relay.address()).unwrap();
    assert!(matches!(other.read(&mut byte), Ok(0) | Err(_)), "there is nobody behind it");
}

#[test]
fn a_relay_that_goes_closes_what_it_has() {
    let node = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let relay = Relay::start(Network::Relay, node.local_addr().unwrap()).unwrap().unwrap();
    let mut client = TcpStream::connect(relay.address()).unwrap();
    let (mut served, _) = node.accept().unwrap();
    drop(relay);
    let mut byte = [0];
    assert!(matches!(client.read(&mut byte), Ok(0) | Err(_)));
    assert!(matches!(served.read(&mut byte), Ok(0) | Err(_)));
}

#[test]
fn nothing_stands_before_a_node_on_loopback() {
    assert!(Relay::start(Network::Loopback, ([127, 0, 0, 1], 1).into()).unwrap().is_none());
}
